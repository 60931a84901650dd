"""One look at the index: what is there, what changed since the last look, all of it into the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracker.errors import IndexProblem
from tracker.home import Home
from tracker.index import UNKNOWN_UPLOAD, index_changes
from tracker.model import Build, BuildFile, IndexChange, PollResult
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
    seen = [completed(build, listed.get(build.version)) for build in answer.builds]
    if not answer.url.startswith(url.rstrip("/")):
        # A mirror may lag behind, so what it lacks is not gone.
        named = {build.version for build in seen}
        seen += [build for version, build in listed.items() if version not in named]
    changes = tuple(index_changes(listed, seen))
    records = changed_builds(listed, seen)
    for build in records:
        home.journal.append(build)
    for change in changes:
        home.journal.append(change)
    result = PollResult(
        track.name, answer.url, len(answer.builds), len(changes), answer.not_modified, None, answer.warnings
    )
    home.journal.append(result)
    if records:
        home.store.refresh()
    return Polled(result, changes)


def completed(build: Build, known: Build | None) -> Build:
    """Return a build with the times and sizes on record where the index (a mirror) left them out.

    A file is the same when its hash is.
    """
    record = {file.sha256: file for file in known.files} if known else {}
    files = tuple(_completed_file(file, record.get(file.sha256, file)) for file in build.files)
    dated = [file.uploaded for file in files if file.uploaded != UNKNOWN_UPLOAD]
    return replace(build, files=files, uploaded=min(dated, default=build.uploaded))


def _completed_file(file: BuildFile, known: BuildFile) -> BuildFile:
    uploaded = known.uploaded if file.uploaded == UNKNOWN_UPLOAD else file.uploaded
    return replace(file, uploaded=uploaded, size=file.size or known.size)


def changed_builds(known: dict[str, Build], seen: Sequence[Build]) -> list[Build]:
    """Return the builds whose record differs from the one on file; one that is gone has no files any more."""
    gone = known.keys() - {build.version for build in seen}
    emptied = [replace(known[version], files=()) for version in sorted(gone)]
    return [*(build for build in seen if known.get(build.version) != build), *emptied]
