"""What the database and the registry say of reports: the lanes of a case, and the answers made of them.

Turns rows into the records of the pure modules; what they mean is decided there. No SQL stands here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tracker import reference
from tracker.bugs import Bug, matching
from tracker.errors import UsageError
from tracker.fixes import Answer, Claim, Lane, Seen, Word, answer, claims
from tracker.home import Home
from tracker.locate import locate
from tracker.matrix import load_bugs
from tracker.model import REFERENCE, Confidence, State
from tracker.own_bugs import own_bugs
from tracker.suite_files import SHIPPED
from tracker.trackfile import Track


def registry(home: Home) -> tuple[Bug, ...]:
    """Return every report that is known, and the reproducers of this home's own."""
    return (*load_bugs(SHIPPED / "bugs"), *(own.bug for own in own_bugs(home.bug_folders)))


def one_bug(text: str, bugs: Sequence[Bug]) -> Bug:
    """Return the report that a person means; UsageError lists several, or the nearest when there is none."""
    found = matching(text, bugs)
    if len(found) == 1:
        return found[0]
    if found:
        names = "; ".join(f"{bug.id} ({bug.title})" for bug in found)
        raise UsageError(f"'{text}' fits {len(found)} reports: {names}", hint="name one by its id")
    raise UsageError(
        f"no report is known as '{text}'",
        hint="an id, a number, a link or words of the title; 'dmltrack bugs' lists all",
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What one lane says of a bug, with the claims beside it. ``own``: it was measured on this machine."""

    answer: Answer
    claims: tuple[Claim, ...]
    own: bool


@dataclass(frozen=True, slots=True)
class BugAnswer:
    """The answer to one question: what each lane says, those that count first."""

    bug: Bug
    build: str
    told: tuple[Told, ...]
    source: str = ""
    """Where the reference was measured, in words; empty where there is none."""
    doubt: str = ""
    """Why the reference's result of this case may be the adapter's own fault; empty where nobody thinks so."""

    @property
    def counting(self) -> tuple[Told, ...]:
        """The lanes that decide: this machine's where they say anything, else every other."""
        own = tuple(item for item in self.told if item.own and item.answer.word is not Word.UNKNOWN)
        return own or tuple(item for item in self.told if not item.own) or self.told

    @property
    def word(self) -> Word:
        """The answer in a word: the worst of the lanes that decide."""
        found = {item.answer.word for item in self.counting}
        return next((word for word in _WORST_FIRST if word in found), Word.UNKNOWN)


_WORST_FIRST = (Word.AGAIN, Word.PRESENT, Word.UNKNOWN, Word.FIXED, Word.NEVER)


def bug_answer(home: Home, track: Track, bug: Bug, build: str = "", adapter: str = "") -> BugAnswer:
    """Return what is known of a bug at a build (or at the newest that was run), per adapter and machine."""
    listed = home.builds(track.name)
    at = locate(build, listed).version if build else ""
    builds = [item.version for item in listed]
    told = []
    for lane, seen in lanes(home, track, bug, adapter):
        order = builds or list(seen)
        told.append(
            Told(
                answer(bug, lane, order, seen, at),
                tuple(claims(bug, order, seen)),
                lane.machine == home.fingerprint,
            )
        )
    told.sort(key=lambda item: (not item.own, item.answer.lane.adapter, item.answer.lane.machine))
    known = reference.provenance()
    doubt = known.suspects.get(bug.case, "") if known else ""
    return BugAnswer(bug, at, tuple(told), known.words if known else "", doubt)


def lanes(home: Home, track: Track, bug: Bug, adapter: str = "") -> list[tuple[Lane, dict[str, Seen]]]:
    """Return each lane in which the bug's case was observed, with what was seen there by version.

    Of an adapter and machine only the latest state of the reproducer counts: what others gave is not comparable.
    """
    wanted = _pattern(adapter)
    found: dict[Lane, dict[str, Seen]] = {}
    for row in home.store.query("bug_evidence", track=track.name, case=bug.case) if bug.case else ():
        machine = row["machine"]
        lane = Lane(row["adapter"], machine, row["suite_digest"], reference=machine == REFERENCE)
        if machine not in home.hidden and wanted.search(lane.adapter):
            found.setdefault(lane, {})[row["version"]] = _seen(bug, row)
    latest: dict[tuple[str, str], Lane] = {}
    for lane, seen in found.items():
        place = (lane.adapter, lane.machine)
        if place not in latest or _last(found[latest[place]]) < _last(seen):
            latest[place] = lane
    return [(lane, found[lane]) for lane in latest.values()]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(text), re.IGNORECASE)


def _last(seen: dict[str, Seen]) -> datetime:
    return max(item.last_at for item in seen.values())


def _seen(bug: Bug, row: dict[str, object]) -> Seen:
    states = {State(state): int(times) for state, times in dict(row["states"]).items()}  # type: ignore[call-overload]
    good = sum(times for state, times in states.items() if state in bug.good)
    bad = sum(
        times
        for state, times in states.items()
        if state.conclusive and state not in {*bug.good, *bug.silent, *bug.partial}
    )
    return Seen(
        version=str(row["version"]),
        state=State(str(row["state"])),
        reason=str(row["reason"]),
        message=str(row["message"]),
        confidence=Confidence(str(row["confidence"])),
        good=good,
        bad=bad,
        first_at=row["first_at"],  # type: ignore[arg-type]
        last_at=row["last_at"],  # type: ignore[arg-type]
    )
