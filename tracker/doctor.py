"""Look at everything that a run needs, and say of each part whether it is there: PASS, FAIL or UNKNOWN."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tracker.config import DEFAULT
from tracker.errors import Stopped, TrackerError
from tracker.home import Home
from tracker.pythons import find_pythons
from tracker.tools import tool_runner
from tracker.trackfile import Track

GB = 1 << 30
PATH_BUDGET = 40
"""Characters of a home folder that leave room for the longest names inside of torch on Windows."""


class Health(StrEnum):
    """How one part is."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, and what to do about it."""

    name: str
    health: Health
    detail: str
    hint: str = ""


def examine(home: Home, track: Track) -> Iterator[Check]:
    """Yield one check after the other; none of them raises or changes anything but caches."""
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("home folder", lambda: _home(home)),
        ("uv", lambda: _uv(home)),
        ("settings", lambda: _settings(home)),
        ("disk", lambda: _disk(home)),
        ("Pythons", lambda: _pythons(home, track)),
        ("index", lambda: _index(home, track)),
        ("DirectX 12", lambda: _directx(home)),
        ("journal", lambda: _journal(home)),
        ("database", lambda: _database(home)),
    ]
    for name, check in checks:
        try:
            yield check()
        except Stopped:
            raise
        except TrackerError as error:
            yield Check(name, Health.FAIL, error.message, error.hint or "")
            if name == "settings":
                return  # nearly all that follows would only say the same again
        except OSError as error:
            yield Check(name, Health.FAIL, str(error))


def _home(home: Home) -> Check:
    home.folder.mkdir(parents=True, exist_ok=True)
    trial = home.folder / ".doctor"
    trial.write_bytes(b"")
    trial.unlink()
    long = sys.platform == "win32" and len(str(home.folder)) > PATH_BUDGET and not long_paths()
    hint = "a shorter DMLTRACK_HOME leaves room under Windows' limit of 260 characters" if long else ""
    return Check("home folder", Health.PASS, str(home.folder), hint)


def _settings(home: Home) -> Check:
    given = sum(source != DEFAULT for _, _, source in home.loaded.rows())
    return Check(
        "settings", Health.PASS, f"{given} given, the others as usual ('dmltrack config' shows them)"
    )


def long_paths() -> bool:
    """Whether Windows lets programs that ask for it use paths of more than 260 characters."""
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(
                winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\FileSystem"
            ) as key:
                return bool(winreg.QueryValueEx(key, "LongPathsEnabled")[0] == 1)
        except OSError:
            return False
    return True


def _disk(home: Home) -> Check:
    free, least = shutil.disk_usage(home.folder).free / GB, home.loaded.settings.environments.min_free_gb
    health = Health.PASS if free >= least else Health.FAIL
    return Check("disk", health, f"{free:.1f} GB free, {least:g} GB are kept free")


def _uv(home: Home) -> Check:
    from uv import find_uv_bin

    code, output = tool_runner(home.folder, home.stop)([find_uv_bin(), "--version"], 60)
    return Check("uv", Health.PASS if code == 0 else Health.FAIL, output.strip() or "does not start")


def _pythons(home: Home, track: Track) -> Check:
    found = {python.minor for python in find_pythons(home.loaded.settings.environments.pythons)}
    useful = [minor for minor in track.pythons if minor in found]
    hint = "install one, for instance with 'uv python install 3.10 3.12'"
    if not useful:
        return Check("Pythons", Health.FAIL, f"none of {', '.join(track.pythons)} is here", hint)
    missing = [minor for minor in track.pythons if minor not in found]
    detail = f"{', '.join(useful)} here" + (f"; not here: {', '.join(missing)}" if missing else "")
    return Check("Pythons", Health.PASS, detail)


def _index(home: Home, track: Track) -> Check:
    answer = home.index.builds(track.name, track.package)
    return Check("index", Health.PASS, f"{len(answer.builds)} builds of {track.package} at {answer.url}")


def _directx(home: Home) -> Check:
    if sys.platform == "win32":
        detail = "Windows has it; whether this machine's GPU computes with it, only a run can tell"
        return Check("DirectX 12", Health.UNKNOWN, detail)
    if home.machine.directx == "real":
        return Check("DirectX 12", Health.PASS, "its libraries are here")
    return Check(
        "DirectX 12",
        Health.UNKNOWN,
        "not here: builds can be read and their kernels counted, but nothing computes",
        "on WSL its libraries are in /usr/lib/wsl/lib; elsewhere name their folder in LD_LIBRARY_PATH of "
        "[worker.environment]",
    )


def _journal(home: Home) -> Check:
    rows = home.store.query("segments")
    damaged = sum(row["damaged"] for row in rows)
    detail = f"{len(rows)} files, {sum(row['lines'] for row in rows)} lines, {damaged} damaged"
    return Check("journal", Health.FAIL if damaged else Health.PASS, detail)


def _database(home: Home) -> Check:
    [row] = home.store.query("totals")
    return Check("database", Health.PASS, f"{row['observations']} observations of {row['builds']} builds")
