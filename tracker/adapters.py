"""Which adapter a run computes on: chosen by its name, as a worker of a build has listed it.

An index means different things in different builds, so a name (and on Windows the driver's version beside it) is
what results are filed under. Only ``_registry_drivers`` needs Windows; what is made of it is pure.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tracker.errors import UsageError

_CLASS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
"""Where Windows keeps its display drivers, one numbered key for each."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One device under test. ``label`` is what cells are filed under: results of two drivers are never compared."""

    name: str
    driver: str = ""

    @property
    def label(self) -> str:
        """The name with the driver's version, where that is known."""
        return f"{self.name} (driver {self.driver})" if self.driver else self.name


def choose(names: Sequence[str], pattern: str) -> str | None:
    """Return the first name that has the pattern in it, as it stands or as a regular expression; any if it is empty.

    None where there is no adapter at all; UsageError where none of them fits: another one is never taken silently.
    """
    if not names:
        return None
    plain = next((name for name in names if pattern.casefold() in name.casefold()), None)
    if plain is not None:
        return plain
    try:
        found = next((name for name in names if re.search(pattern, name, re.IGNORECASE)), None)
    except re.error as error:
        raise UsageError(f"'{pattern}' is not a regular expression: {error}") from None
    if found is None:
        raise UsageError(f"no adapter is named like '{pattern}'", hint=f"there are: {', '.join(names)}")
    return found


def driver_of(name: str, drivers: Iterable[tuple[str, str]]) -> str:
    """Return the version of the adapter's driver, from (description, version) pairs; empty if not clear."""
    bare = re.sub(r" #\d+$", "", name)
    versions = {version for description, version in drivers if description == bare and version}
    return versions.pop() if len(versions) == 1 else ""


def adapter(name: str) -> Adapter:
    """Return the adapter of this name with what this host knows of its driver."""
    return Adapter(name, driver_of(name, _registry_drivers()))


def _registry_drivers() -> Iterator[tuple[str, str]]:
    if sys.platform == "win32":
        import contextlib
        import winreg
        from itertools import count

        with contextlib.suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _CLASS) as parent:
            for number in count():
                name = winreg.EnumKey(parent, number)  # ends in an OSError after the last
                with contextlib.suppress(OSError), winreg.OpenKey(parent, name) as key:
                    description, _ = winreg.QueryValueEx(key, "DriverDesc")
                    version, _ = winreg.QueryValueEx(key, "DriverVersion")
                    yield str(description), str(version)
    yield from ()
