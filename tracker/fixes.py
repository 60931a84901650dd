"""Does build X fix bug Y: what the outcomes of a report's case at the builds of a track say together.

Pure. One *lane* is asked at a time: one adapter with its driver, one machine, one state of the reproducer. What was
not run, could not be told, or is right only because the CPU computed it is never taken for fixed; a history that
flips is told as it is; and claims stand beside the measurement, not in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tracker.bugs import Bug
from tracker.flakes import Tally, is_flaky, needed_repeats
from tracker.model import Confidence, State
from tracker.versions import parse


class Sight(StrEnum):
    """What is to be seen of a bug at one build."""

    BAD = "bad"
    GOOD = "good"
    PARTIAL = "partial"
    """Right, but computed on the CPU: the fault is avoided, not mended."""
    UNKNOWN = "unknown"


class Word(StrEnum):
    """The answer about one build."""

    FIXED = "fixed"
    PRESENT = "still present"
    AGAIN = "regressed again"
    NEVER = "never seen"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was observed of a case at one build: its verdict, and how often it came out good and bad."""

    version: str
    state: State
    reason: str
    message: str
    confidence: Confidence
    good: int
    bad: int
    first_at: datetime
    last_at: datetime

    @property
    def says(self) -> str:
        """The verdict in a word or two."""
        return str(self.state) if self.reason in ("", str(self.state)) else f"{self.state} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Lane:
    """Where outcomes come from that may be compared with each other. ``reference``: they came with the program."""

    adapter: str
    machine: str
    suite_digest: str
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring builds at which the same is to be seen, oldest first."""

    sight: Sight
    first: str
    last: str
    builds: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What one lane says of a bug at a build.

    ``low`` and ``high`` are the range of the change that led to it: the last build with the other outcome and the
    first with this one; ``between`` lists builds in it of which nothing is known. ``because`` says it in a sentence.
    """

    lane: Lane
    build: str
    word: Word
    because: str
    low: str = ""
    high: str = ""
    between: tuple[str, ...] = ()
    history: tuple[Stretch, ...] = ()
    first: Seen | None = None
    last: Seen | None = None


def sight(bug: Bug, seen: Seen | None) -> Sight:
    """Return what an outcome says of the bug. Once bad is bad, however often it was good."""
    if seen is None or not seen.state.conclusive or seen.state in bug.silent:
        return Sight.UNKNOWN
    if seen.state in bug.good:
        return Sight.GOOD
    return Sight.PARTIAL if seen.state in bug.partial else Sight.BAD


def history(bug: Bug, builds: Sequence[str], seen: Mapping[str, Seen]) -> tuple[Stretch, ...]:
    """Join neighbouring builds at which the same is to be seen; builds come oldest first."""
    joined: list[Stretch] = []
    for version in builds:
        here = sight(bug, seen.get(version))
        if joined and joined[-1].sight is here:
            last = joined.pop()
            joined.append(Stretch(here, last.first, version, last.builds + 1))
        else:
            joined.append(Stretch(here, version, version, 1))
    return tuple(joined)


def answer(bug: Bug, lane: Lane, builds: Sequence[str], seen: Mapping[str, Seen], build: str = "") -> Answer:
    """Return the answer of one lane about ``build``, or about the newest build that says anything.

    ``builds`` are all of the track, oldest first; ``seen`` what the lane observed, by version.
    """
    told = [version for version in builds if sight(bug, seen.get(version)) is not Sight.UNKNOWN]
    at = build or (told[-1] if told else "")
    before = builds[: builds.index(at)] if at in builds else []
    rows = history(bug, builds, seen)
    evidence = {"history": rows, "first": _first(told, seen), "last": seen.get(at)}
    if at not in told:
        return Answer(lane, at, Word.UNKNOWN, _nothing(at, seen.get(at), told), **evidence)  # type: ignore[arg-type]
    word, because, span = _word(bug, at, list(before), seen)
    return Answer(lane, at, word, because, *span, **evidence)  # type: ignore[arg-type]


def _first(told: Sequence[str], seen: Mapping[str, Seen]) -> Seen | None:
    return seen[told[0]] if told else None


def _nothing(at: str, here: Seen | None, told: Sequence[str]) -> str:
    if here is not None:
        return f"at {at} it came out as {here.state} ({here.reason}), which says nothing of the build"
    known = f"; known of {', '.join(told)}" if told else ""
    return f"it was not run at {at}{known}" if at else "it was not run at any build"


_Span = tuple[str, str, tuple[str, ...]]


def _word(bug: Bug, at: str, before: list[str], seen: Mapping[str, Seen]) -> tuple[Word, str, _Span]:
    """Return the word for a build of which something is known, why, and the range of the last change."""
    here = sight(bug, seen[at])
    past = [(version, sight(bug, seen.get(version))) for version in before]
    was = [found for _, found in past if found in (Sight.BAD, Sight.GOOD)]
    span = _span(at, here, past)
    if here is Sight.PARTIAL:
        return Word.UNKNOWN, f"at {at} the result is right, but the CPU computed it", span
    if here is Sight.BAD:
        return _present(at, seen[at], was, span)
    if Sight.BAD not in was:
        return Word.NEVER, f"at {at} it is not there, nor was it at any build before that was run", span
    failing = _failing(bug, before, seen)
    # What always failed and now does not is observed to be fixed; the repeats that confirm it come on top.
    wanted = needed_repeats(failing) if is_flaky(failing) else 1
    if wanted is None or seen[at].good < wanted:
        often = "more often than can be told apart" if wanted is None else f"{wanted} times"
        return (
            Word.UNKNOWN,
            f"at {at} it came out right {seen[at].good} times; it failed only now and then before, so that"
            f" it must do so {often}",
            span,
        )
    return Word.FIXED, f"it is there up to {span[0]} and not there from {span[1]} on", span


def _present(at: str, here: Seen, was: Sequence[Sight], span: _Span) -> tuple[Word, str, _Span]:
    how = here.says
    if here.good:
        how += f", {here.bad} of {here.bad + here.good} times"
    if Sight.GOOD not in was:
        return Word.PRESENT, f"at {at} it is {how}", span
    came = f"it is there since {span[1]}, after {span[0]} was without it"
    last_good = len(was) - 1 - was[::-1].index(Sight.GOOD)
    word = Word.AGAIN if Sight.BAD in was[:last_good] else Word.PRESENT
    return word, f"at {at} it is {how}: {came}", span


def _span(at: str, here: Sight, past: Sequence[tuple[str, Sight]]) -> _Span:
    """Return the last build with another outcome, the first with this one after it, and what is unknown between."""
    high, unknown = at, list[str]()
    for version, found in reversed(past):
        if found is here:
            high, unknown = version, []
        elif found is Sight.UNKNOWN:
            unknown.append(version)
        else:
            return version, high, tuple(reversed(unknown))
    return "", high, ()


def _failing(bug: Bug, before: Sequence[str], seen: Mapping[str, Seen]) -> Tally | None:
    """Return how often it failed at the last build that had it: what a fix must be told apart from."""
    bad = [seen[version] for version in before if sight(bug, seen.get(version)) is Sight.BAD]
    return Tally(bad[-1].bad, bad[-1].good, bad[-1].last_at) if bad else None


class Agreement(StrEnum):
    """Whether a claim and the measurement agree."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNTOLD = "not told"
    """The builds that would tell were not run, or the claim names none."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody said of a bug, and whether the measurement agrees."""

    says: str
    agreement: Agreement
    measured: str


def claims(bug: Bug, builds: Sequence[str], seen: Mapping[str, Seen]) -> list[Claim]:
    """Return each claim about a bug beside the measurement of one lane."""
    said = dict.fromkeys(bug.affected, "fail") | dict(bug.expected)
    words = {"fail": ("{} has it", Sight.BAD), "pass": ("{} is without it", Sight.GOOD)}
    found = [
        _claim(words[said[version]][0].format(version), words[said[version]][1], bug, seen.get(version))
        for version in builds
        if said.get(version) in words
    ]
    fixed = parse(bug.fixed_in)
    version = next((version for version in builds if fixed is not None and parse(version) == fixed), "")
    if version:
        who = f" ({bug.fixed_by})" if bug.fixed_by else ""
        found.append(_claim(f"{version} fixed it{who}", Sight.GOOD, bug, seen.get(version)))
    return found


def _claim(says: str, wanted: Sight, bug: Bug, here: Seen | None) -> Claim:
    found = sight(bug, here)
    measured = "not run" if here is None else here.says
    if found is Sight.UNKNOWN or found is Sight.PARTIAL:
        return Claim(says, Agreement.UNTOLD, measured)
    return Claim(says, Agreement.AGREES if found is wanted else Agreement.DISAGREES, measured)
