"""One look at the index: what is there, what changed since the last look, all of it into the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracker.errors import IndexProblem
from tracker.home import Home
from tracker.index import index_changes
from tracker.model import Build, IndexChange, PollResult
from tracker.trackfile import Track


@dataclass(frozen=True, slots=True)
class Polled:
    """The end of a poll: its record, and each change it found."""

    result: PollResult
    changes: tuple[IndexChange, ...]


def poll(home: Home, track: Track) -> Polled:
    """Ask the index for a track's builds and record what is new.

    An index that gives no usable answer is recorded and raised as IndexProblem; what was known stays.
    """
    url = home.loaded.settings.index.url
    try:
        answer = home.index.builds(track.name, track.package)
    except IndexProblem as problem:
        home.journal.append(PollResult(track.name, url, 0, 0, error=problem.message))
        raise
    known = {build.version: build for build in home.store.known_builds(track.name)}
    listed = {version: build for version, build in known.items() if build.files}
    changes = tuple(index_changes(listed, answer.builds))
    for build in changed_builds(listed, answer.builds):
        home.journal.append(build)
    for change in changes:
        home.journal.append(change)
    result = PollResult(
        track.name, answer.url, len(answer.builds), len(changes), answer.not_modified, None, answer.warnings
    )
    home.journal.append(result)
    home.store.refresh()
    return Polled(result, changes)


def changed_builds(known: dict[str, Build], seen: Sequence[Build]) -> list[Build]:
    """Return the builds whose record differs from the one on file; one that is gone has no files any more."""
    gone = known.keys() - {build.version for build in seen}
    emptied = [replace(known[version], files=()) for version in sorted(gone)]
    return [*(build for build in seen if known.get(build.version) != build), *emptied]
