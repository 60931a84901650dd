"""One look at the index: what is there, what changed since the last look, all of it into the journal.

Each change is recorded once: polls of one home follow each other (a lock), and each begins from what the last
one recorded. A poll writes its changes, then the builds as they are now, then its result. One that was killed
on the way is finished by the next: the builds not yet written still differ, and the changes of theirs that
stand behind the last result are known to be written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from tracker import versions
from tracker.config import without_login
from tracker.errors import HomeBusy, IndexProblem, StoreError
from tracker.home import Home
from tracker.index import UNKNOWN_UPLOAD, IndexAnswer, PackageIndex
from tracker.model import Build, BuildFile, IndexChange, IndexChangeKind, PollResult
from tracker.trackfile import Track

QUICK = 1.5
"""Seconds that an answer may take when there is no patience."""

LOCK_WAIT, QUICK_WAIT = 30.0, 0.5
"""Seconds to wait for another poll to end, with patience and without."""


class PollBusy(HomeBusy, IndexProblem):
    """Another poll of the same home is under way. Who can do without an answer may treat it as none."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The end of a poll: its record, and each change it found."""

    result: PollResult
    changes: tuple[IndexChange, ...]


def poll(home: Home, track: Track, *, patient: bool = True) -> Polled:
    """Ask the index for a track's builds and record what is new.

    An index that gives no usable answer is recorded and raised as IndexProblem; what was known stays. Without
    ``patient`` there is one quick try: for who can go on with the builds that are known.
    """
    with _alone(home, LOCK_WAIT if patient else QUICK_WAIT):
        try:
            answer = _answer(home, track) if patient else _quick_answer(home, track)
        except IndexProblem as problem:
            url = without_login(home.loaded.settings.index.url)
            home.journal.append(PollResult(track.name, url, 0, 0, error=problem.message))
            raise
        return _record(home, track, answer)


@contextmanager
def _alone(home: Home, wait: float) -> Iterator[None]:
    """Hold the home's poll lock, with a database that knows all that earlier polls recorded."""
    import filelock

    home.folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = filelock.FileLock(home.folder / "poll.lock").acquire(timeout=wait)
    except filelock.Timeout:
        raise PollBusy(f"another poll is under way in {home.folder}", hint="try again in a moment") from None
    with lock:
        _refresh(home, wait)
        yield


def _refresh(home: Home, wait: float) -> None:
    """Bring the database up to date; an old one would make known changes new again."""
    try:
        home.store.refresh(wait)
    except StoreError as error:
        raise PollBusy(f"what is known can not be brought up to date now: {error.message}") from None


def _answer(home: Home, track: Track) -> IndexAnswer:
    return home.index.builds(track.name, track.package)


def _quick_answer(home: Home, track: Track) -> IndexAnswer:
    """Ask once, and give up when no answer came in time, wherever the time went.

    A thread, because nothing else bounds a look-up of a name, or a host with many addresses.
    """
    settings = replace(home.loaded.settings.index, retries=0, timeout=QUICK, deadline=QUICK)
    index = PackageIndex(settings, home.folder / "cache", home.stop)
    found: list[IndexAnswer | BaseException] = []

    def ask() -> None:
        try:
            found.append(index.builds(track.name, track.package))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=ask, name="quick poll", daemon=True)
    thread.start()
    thread.join(QUICK)
    answer = found[0] if found else IndexProblem(f"no answer within {QUICK:g} s from {_indexes(home)}")
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _indexes(home: Home) -> str:
    settings = home.loaded.settings.index
    return ", ".join(map(without_login, (settings.url, *settings.mirrors)))


def _record(home: Home, track: Track, answer: IndexAnswer) -> Polled:
    known = {build.version: build for build in home.store.known_builds(track.name)}
    listed = {version: build for version, build in known.items() if build.files}
    seen = [completed(build, listed.get(build.version)) for build in answer.builds]
    if answer.mirror:
        # A mirror may lag behind, so what it lacks is not gone.
        named = {build.version for build in seen}
        seen += [build for version, build in listed.items() if version not in named]
    changes = tuple(index_changes(listed, seen))
    records = changed_builds(listed, seen)
    written = _unfinished(home, track.name)
    for change in changes:
        if change not in written:
            home.journal.append(change)
    for build in records:
        home.journal.append(build)
    result = PollResult(
        track.name, answer.url, len(answer.builds), len(changes), answer.not_modified, None, answer.warnings
    )
    home.journal.append(result)
    if records:
        home.store.refresh()
    return Polled(result, changes)


def _unfinished(home: Home, track: str) -> set[IndexChange]:
    """Return the changes that a poll recorded which was killed before its end."""
    rows = home.store.query("unfinished_changes", track=track)
    return {msgspec.convert(row, IndexChange) for row in rows}


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


def index_changes(known: Mapping[str, Build], seen: Sequence[Build]) -> list[IndexChange]:
    """Return what differs between the builds known by version and those seen now, in order of version. Pure.

    A new build is one change, whatever its files. A yank is told of the build when the build as a whole is
    withdrawn or comes back (the subject is the reason), and otherwise of the single file (the subject is its
    name). Upload times and sizes do not count: mirrors leave them out.
    """
    now = {build.version: build for build in seen}
    changes: list[IndexChange] = []
    for version in versions.in_order(known.keys() | now.keys()):
        changes += _build_changes(known.get(version), now.get(version))
    return changes


def _build_changes(old: Build | None, new: Build | None) -> list[IndexChange]:
    if old is None or new is None:
        build = new or old
        assert build is not None
        kind = IndexChangeKind.NEW_BUILD if old is None else IndexChangeKind.BUILD_GONE
        return [IndexChange(build.track, build.version, kind)]
    changes: list[IndexChange] = []
    if old.yanked != new.yanked:
        kind = IndexChangeKind.YANKED if new.yanked else IndexChangeKind.UNYANKED
        changes.append(IndexChange(new.track, new.version, kind, new.yank_reason or ""))
    before = {file.filename: file for file in old.files}
    after = {file.filename: file for file in new.files}
    for filename in sorted(before.keys() | after.keys()):
        for kind in _file_changes(before.get(filename), after.get(filename), old.yanked != new.yanked):
            changes.append(IndexChange(new.track, new.version, kind, filename))
    return changes


def _file_changes(old: BuildFile | None, new: BuildFile | None, told: bool) -> list[IndexChangeKind]:
    """Return what befell one file; ``told`` is True when the build's own yank says it already."""
    if old is None:
        return [IndexChangeKind.NEW_FILE]
    if new is None:
        return [IndexChangeKind.FILE_GONE]
    kinds: list[IndexChangeKind] = []
    if old.sha256 != new.sha256:
        kinds.append(IndexChangeKind.HASH_CHANGED)
    if not told and (old.yanked is None) != (new.yanked is None):
        kinds.append(IndexChangeKind.UNYANKED if new.yanked is None else IndexChangeKind.YANKED)
    return kinds
