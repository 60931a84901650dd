"""Find the Python interpreters of this host that environments can be made from.

``uv`` knows its own, those on PATH and those in the Windows registry (which is also what the py launcher
reads); pyenv's are looked for in its folders, because its shims answer only for the version chosen in the
current folder. An interpreter counts only when it has answered, so broken shims are passed over in silence.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tracker.files import rename

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


_HEARD: dict[str, str] = {}
"""What this process was told: a run asks once per build."""


class Answers:
    """What interpreters said of themselves, kept in a file: starting each one takes longer than all else here.

    An answer stands for the path, size and time of change of the interpreter. That one did not answer is not kept,
    as what it lacked may be there by now. A file that can not be read or written costs no more than the saving.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known = {**self._kept(), **_HEARD}
        self._said: dict[str, str] = {}

    def _kept(self) -> dict[str, str]:
        try:
            known = json.loads(self._file.read_text("utf-8")) if self._file else {}
        except (OSError, ValueError):
            return {}
        usable = isinstance(known, dict) and all(isinstance(said, str) for said in known.values())
        return known if usable else {}

    def ask(self, path: Path) -> Python | None:
        """Return the interpreter at a path when it is a 64-bit CPython that answers, or did before."""
        try:
            info = path.stat()
        except OSError:
            return None
        key = f"{path} {info.st_size} {info.st_mtime_ns}"
        if key in self._known:
            python: Python | None = Python(self._known[key], path)
        else:
            python = _ask(path)
        if python is not None:
            self._said[key] = _HEARD[key] = python.version
        return python

    def keep(self) -> None:
        """Write down what was said this time."""
        if self._file is None or self._said == self._known:
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(self._said), "utf-8")
            rename(part, self._file)


def find_pythons(configured: Sequence[str] = (), kept: Path | None = None) -> tuple[Python, ...]:
    """Return the interpreters of this host, the configured ones first, each version's best first.

    ``kept`` is a file for what they said, so that they need not be started another time.
    """
    answers = Answers(kept)
    given = [python for path in configured if (python := answers.ask(Path(path)))]
    found = tuple(_first_of_each([*given, *_from_uv(), *_from_pyenv(os.environ, answers.ask)]))
    answers.keep()
    return found


def _first_of_each(pythons: Iterable[Python]) -> list[Python]:
    seen: dict[Path, Python] = {}
    for python in pythons:
        seen.setdefault(python.path.resolve(), python)
    return list(seen.values())


@cache
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


def _from_pyenv(environ: Mapping[str, str], ask: Callable[[Path], Python | None]) -> list[Python]:
    usual = os.path.expanduser("~/.pyenv")  # noqa: PTH111 - it raises nothing where there is no home directory
    roots = [environ.get("PYENV_ROOT"), environ.get("PYENV"), usual]
    folders = {Path(root) / "versions" for root in roots if root and Path(root).is_absolute()}
    candidates = [
        path
        for folder in sorted(folders)
        for pattern in ("3.*/bin/python", "3.*/python.exe")
        for path in sorted(folder.glob(pattern))
    ]
    return [python for path in candidates if (python := ask(path))]


def _ask(path: Path) -> Python | None:
    """Return the interpreter at a path when it is a 64-bit CPython that answers."""
    try:
        answer = subprocess.run([path, "-I", "-c", _QUESTION], capture_output=True, timeout=20, check=False)
        implementation, version, bits = answer.stdout.decode("ascii", "replace").split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Python(version, path) if implementation == "CPython" and bits == "64" else None
