"""Answers about reports as lines for a terminal. Texts of a build may stand in them; the console cleans them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from tracker.bug_views import BugAnswer, Told
from tracker.bugs import Bug
from tracker.fixes import Agreement, Answer, Seen, Sight, Stretch, Word

_WIDTH = 100


def answer_lines(found: BugAnswer) -> list[str]:
    """Return an answer with its evidence, and what was claimed beside what was measured."""
    bug = found.bug
    lines = [f"{bug.id}: {bug.title}", *bug.links[:1]]
    if not bug.case:
        return [*lines, "", f"unknown: it has no reproducer: {bug.why_not}", *_claimed(bug)]
    if not found.told:
        return [*lines, "", "unknown: its case was not run anywhere yet", *_claimed(bug)]
    for item in found.told:
        lines += ["", *_told(item, found.source, counts=item in found.counting)]
        if found.doubt and item.answer.lane.reference:
            lines += _row("doubt", found.doubt)
    return lines


def _told(item: Told, source: str, *, counts: bool) -> Iterator[str]:
    said, lane = item.answer, item.answer.lane
    where = "" if item.own else _elsewhere(item, source)
    at = f" in {said.build}" if said.build and said.word is not Word.UNKNOWN else ""
    adapter = "no adapter (an import is enough)" if lane.adapter == "none" else lane.adapter
    yield f"{said.word}{at} on {adapter}{where}{'' if counts else ' (your own measurement goes before this)'}"
    yield from _row("", said.because)
    if said.low:
        yield from _row("range", _range(said))
    for label, seen in (("first seen", said.first), ("last seen", said.last)):
        if seen is not None:
            yield from _row(label, _evidence(seen))
    if len(said.history) > 1:
        yield from _row("history", ", ".join(_stretch(row) for row in said.history))
    for claim in item.claims:
        yield from _row("claimed", f"{claim.says}; {_AGREEMENT[claim.agreement]} ({claim.measured})")


_AGREEMENT = {
    Agreement.AGREES: "the measurement agrees",
    Agreement.DISAGREES: "the measurement says otherwise",
    Agreement.UNTOLD: "not told by a measurement",
}


def _elsewhere(item: Told, source: str) -> str:
    if item.answer.lane.reference:
        return f", as measured once for the program ({source})"
    return f", measured on another machine ({item.answer.lane.machine})"


def _range(said: Answer) -> str:
    between = f"; not known: {', '.join(said.between)}" if said.between else ""
    return f"> {said.low}, <= {said.high}{between}"


def _evidence(seen: Seen) -> str:
    times = f"{seen.good + seen.bad} times" if seen.good + seen.bad != 1 else "once"
    flaky = f", of that {seen.bad} bad" if seen.good and seen.bad else ""
    return f"{seen.version}: {seen.says}, {times}{flaky}, {seen.last_at:%Y-%m-%d}"


_SIGHTS = {
    Sight.BAD: "there",
    Sight.GOOD: "not there",
    Sight.PARTIAL: "computed on the CPU",
    Sight.UNKNOWN: "not known",
}


def _stretch(row: Stretch) -> str:
    span = f"in {row.first}" if row.builds == 1 else f"from {row.first} to {row.last}"
    return f"{_SIGHTS[row.sight]} {span}"


def _claimed(bug: Bug) -> Iterator[str]:
    for version in bug.affected:
        yield from _row("claimed", f"{version} has it")
    if bug.fixed_in:
        yield from _row(
            "claimed", f"fixed in {bug.fixed_in}" + (f" ({bug.fixed_by})" if bug.fixed_by else "")
        )


def _row(label: str, text: str) -> Iterator[str]:
    first, *rest = wrap(text, _WIDTH - 16, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"  {label:<13} {first}" if label else f"  {first}"
    yield from (f"  {'':<13} {line}" if label else f"  {line}" for line in rest)


def bug_rows(bugs: Sequence[Bug]) -> list[tuple[object, ...]]:
    """Return a table of reports: id, priority, category, case, title."""
    return [(bug.id, bug.priority, bug.category, bug.case or "-", bug.title) for bug in bugs]
