"""Find the Python interpreters of this host that environments can be made from.

``uv`` knows its own, those on PATH and those in the Windows registry (which is also what the py launcher
reads); pyenv's are looked for in its folders, because its shims answer only for the version chosen in the
current folder. An interpreter counts only when it has answered, so broken shims are passed over in silence.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_QUESTION = (
    "import sys,platform,struct;"
    "print(platform.python_implementation(),'.'.join(map(str,sys.version_info[:3])),struct.calcsize('P')*8)"
)


@dataclass(frozen=True, slots=True)
class Python:
    """One interpreter: its full version such as ``3.12.1`` and its path."""

    version: str
    path: Path

    @property
    def minor(self) -> str:
        """The version as wheels name it, such as ``3.12``."""
        return ".".join(self.version.split(".")[:2])


def newest(pythons: Iterable[Python], wanted: Sequence[str]) -> Python | None:
    """Return the newest interpreter among the wanted minor versions; of equal ones the first."""
    fitting = [python for python in pythons if python.minor in wanted]
    return max(fitting, key=lambda python: _numbers(python.minor), default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def find_pythons(configured: Sequence[str] = ()) -> tuple[Python, ...]:
    """Return the interpreters of this host, the configured ones first, each version's best first."""
    given = [python for path in configured if (python := _ask(Path(path)))]
    return tuple(_first_of_each([*given, *_found()]))


@cache
def _found() -> tuple[Python, ...]:
    return (*_from_uv(), *_from_pyenv(os.environ))


def _first_of_each(pythons: Iterable[Python]) -> list[Python]:
    seen: dict[Path, Python] = {}
    for python in pythons:
        seen.setdefault(python.path.resolve(), python)
    return list(seen.values())


def _from_uv() -> list[Python]:
    from uv import find_uv_bin

    command = [find_uv_bin(), "--no-config", "python", "list", "--only-installed", "--output-format", "json"]
    environ = {**os.environ, "PATH": without_shims(os.environ.get("PATH", ""))}
    try:
        answer = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environ)
        rows = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return [Python(row["version"], Path(row["path"])) for row in rows if _usable(row)]


def without_shims(path: str) -> str:
    """Return PATH without pyenv's shims: each takes a moment to say that it is not the chosen version."""
    return os.pathsep.join(part for part in path.split(os.pathsep) if Path(part).name != "shims")


def _usable(row: Mapping[str, str]) -> bool:
    return (
        row.get("implementation") == "cpython"
        and row.get("variant", "default") == "default"
        and row.get("arch") == "x86_64"
    )


def _from_pyenv(environ: Mapping[str, str]) -> list[Python]:
    usual = os.path.expanduser("~/.pyenv")  # noqa: PTH111 - it raises nothing where there is no home directory
    roots = [environ.get("PYENV_ROOT"), environ.get("PYENV"), usual]
    folders = {Path(root) / "versions" for root in roots if root and Path(root).is_absolute()}
    candidates = [
        path
        for folder in sorted(folders)
        for pattern in ("3.*/bin/python", "3.*/python.exe")
        for path in sorted(folder.glob(pattern))
    ]
    return [python for path in candidates if (python := _ask(path))]


def _ask(path: Path) -> Python | None:
    """Return the interpreter at a path when it is a 64-bit CPython that answers."""
    try:
        answer = subprocess.run([path, "-I", "-c", _QUESTION], capture_output=True, timeout=20, check=False)
        implementation, version, bits = answer.stdout.decode("ascii", "replace").split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Python(version, path) if implementation == "CPython" and bits == "64" else None
