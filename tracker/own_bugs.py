"""A user's own reproducers, the files of ``bugs`` in the home folder and of a folder of the settings: cases like any.

Owns what such a file must be. It is parsed and never imported or run here: only a worker does that.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracker.bugs import SUITE, Bug
from tracker.errors import OutsideError, UsageError
from tracker.matrix import Case, Suite
from tracker.model import State

TOPIC = "own"
MODULE = f"{SUITE}:{TOPIC}"
"""The part of the suites that runs these files."""
FUNCTION = "reproduce"
"""The function of a file that measures like the program's own reproducers; a file without it is a script."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class OwnBug:
    """One file. ``title`` is the first line of its docstring, or its name."""

    path: Path
    title: str
    is_function: bool
    digest: str

    @property
    def name(self) -> str:
        """The name it goes by."""
        return self.path.stem

    @property
    def bug(self) -> Bug:
        """The file as a report."""
        # Whoever writes a script means by its code what a report's rule says: only 0 is good.
        return Bug(self.name, self.title, self.name, topic=TOPIC, good=(State.PASS, State.SLOW))


def folder_of(home: Path) -> Path:
    """Return the folder for the files of one home."""
    return home / "bugs"


def read(path: Path) -> OwnBug:
    """Return what a file is; raise UsageError where it can not be a reproducer."""
    if path.suffix != ".py" or not _NAME.fullmatch(path.stem):
        raise UsageError(
            f"'{path.name}' is not a name for a reproducer", hint="letters, digits, _ and -, ending in .py"
        )
    try:
        data = path.read_bytes()
        if len(data) > _LIMIT:
            raise UsageError(f"{path} has {len(data)} bytes; a reproducer is small")
        tree = ast.parse(data, str(path))
    except OSError as error:
        raise UsageError(f"{path} can not be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{path}{where}: it is not Python: {error.args[0]}") from None
    if not tree.body:
        raise UsageError(f"{path} is empty")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION]
    if functions and len(functions[0].args.args) != 1:
        raise UsageError(f"{path}: {FUNCTION} takes one argument, the context")
    title = (ast.get_docstring(tree) or path.stem).strip().splitlines()[0][:200]
    text = data.replace(b"\r\n", b"\n")
    return OwnBug(path, title, bool(functions), hashlib.sha256(text).hexdigest()[:16])


def add(home: Path, path: Path) -> OwnBug:
    """Copy a file into the home after a look at it; one of the same name is replaced."""
    checked = read(path)
    target = folder_of(home) / path.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.resolve() != target.resolve():
            shutil.copyfile(path, target)
    except OSError as error:
        raise OutsideError(f"{path} can not be copied to {target}: {error}") from error
    return replace(checked, path=target)


def own_bugs(folders: Sequence[Path]) -> list[OwnBug]:
    """Return the files of some folders; raise UsageError for one that is wrong, and for two of one name."""
    found: dict[str, OwnBug] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.py"))):
        own = read(path)
        if other := found.get(own.name):
            raise UsageError(f"{own.path} and {other.path} have one name", hint="rename one of them")
        found[own.name] = own
    return list(found.values())


def with_own(suites: tuple[Suite, ...], own_files: Sequence[OwnBug]) -> tuple[Suite, ...]:
    """Return the suites with a case for each of the user's own files in ``bugs``."""
    cases = tuple(
        Case(
            id=own.bug.case,
            suite=SUITE,
            function=f"{TOPIC}:{'function' if own.is_function else 'script'}",
            params={"path": str(own.path.absolute())},
            needs="device",
            isolate=True,
            module=f"{TOPIC}/{own.name}",
        )
        for own in own_files
    )
    return tuple(
        replace(suite, cases=suite.cases + cases) if suite.name == SUITE else suite for suite in suites
    )


def with_own_digests(digests: Mapping[str, str], own_files: Sequence[OwnBug]) -> dict[str, str]:
    """Return the digests with those of the user's own files: each rests on its text, and on ``MODULE``'s."""
    found = dict(digests)
    for own in own_files:
        text = f"{digests[MODULE]} {own.digest} {own.is_function}"
        found[f"{SUITE}:{TOPIC}/{own.name}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found
