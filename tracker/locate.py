"""Find the build a person means: a version, the tail of one, a date, or a word such as ``newest``.

Pure: it is given the builds and answers, or raises a UsageError that lists what was possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracker.errors import UsageError
from tracker.model import Build
from tracker.versions import parse, sort_key


def ordered(builds: Iterable[Build]) -> list[Build]:
    """Return builds oldest first: by version, then upload time, never by text."""
    return sorted(builds, key=lambda build: sort_key(build.version, build.uploaded))


def locate(text: str, builds: Sequence[Build]) -> Build:
    """Return the one build that a text names.

    Accepts a whole version in any spelling of PEP 440, the end of one (``dev240914``, ``240914``), or
    ``newest``/``oldest``. A date in a version is not its upload date: the first is what is matched.
    """
    if not builds:
        raise UsageError("no build is known yet", hint="run 'dmltrack poll' first")
    ends = {"newest": -1, "latest": -1, "oldest": 0}
    if text.lower() in ends:
        return ordered(builds)[ends[text.lower()]]
    wanted = parse(text)
    written = [build for build in builds if build.version == text]
    exact = written or [build for build in builds if wanted and parse(build.version) == wanted]
    hits = exact or [build for build in builds if text and build.version.endswith(text)]
    if len(hits) == 1:
        return hits[0]
    if hits:
        raise UsageError(f"'{text}' fits {len(hits)} builds: {', '.join(b.version for b in ordered(hits))}")
    raise UsageError(f"there is no build '{text}'", hint=f"known: {_few(ordered(builds))}")


def _few(builds: Sequence[Build]) -> str:
    names = [build.version for build in builds]
    return ", ".join(names if len(names) <= 20 else [*names[:3], "...", *names[-12:]])


def select(texts: Sequence[str], builds: Sequence[Build], *, withdrawn: bool = False) -> list[Build]:
    """Return the builds that a command line asks for, oldest first and each once.

    Nothing asked for means the newest build and the one before. ``all`` means every build. Withdrawn
    (yanked) builds count only when ``withdrawn`` is set or when they are named.
    """
    known = [build for build in ordered(builds) if withdrawn or not build.yanked]
    if not texts:
        return known[-2:]
    chosen: list[Build] = []
    for text in texts:
        chosen += known if text.lower() == "all" else [locate(text, builds)]
    return ordered({build.version: build for build in chosen}.values())


def predecessor(build: Build, builds: Iterable[Build]) -> Build | None:
    """Return the build before one in version order, or None for the first."""
    row = ordered(builds)
    place = [other.version for other in row].index(build.version)
    return row[place - 1] if place else None
