"""What today's rules make of old observations: which findings and verdicts are others than were recorded.

Nothing is run and nothing is written. The comparison is with the findings as they stand in the journal, so it does
not matter how often a database was made since the rules were changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from tracker.journal import Entry
from tracker.judge import JUDGE, ROUNDS, find, verdict
from tracker.model import Cell, Finding, Observation, Verdict


@dataclass(frozen=True, slots=True)
class Shift:
    """How many went from one meaning to another; ``old`` and ``new`` are a state and a reason."""

    old: str
    new: str
    count: int


@dataclass(frozen=True, slots=True)
class Turned:
    """A cell whose verdict is another one now."""

    cell: Cell
    old: Verdict
    new: Verdict


@dataclass(frozen=True, slots=True)
class Rejudged:
    """What today's rules (``judge``) make of a journal. ``foreign`` counts what was judged by other rules."""

    judge: str
    observations: int
    foreign: int
    cells: int
    findings: tuple[Shift, ...]
    verdicts: tuple[Shift, ...]
    turned: tuple[Turned, ...]

    @property
    def changed(self) -> int:
        """How many findings mean something else now."""
        return sum(shift.count for shift in self.findings)


class _Judged(NamedTuple):
    """One observation of a cell with both words on it; sorts by its place in time."""

    place: tuple[datetime, str, int]
    environment: str
    attempt: int
    old: Finding
    new: Finding


def rejudge(entries: Iterable[Entry]) -> Rejudged:
    """Return what became of the observations among the entries of a journal, in any order."""
    cells: dict[Cell, list[_Judged]] = {}
    foreign, shifts = 0, Counter[tuple[str, str]]()
    for entry in entries:
        if not isinstance(entry.record, Observation):
            continue
        judged = _judged(entry, entry.record)
        foreign += entry.record.finding.judge != JUDGE
        if _meaning(judged.old) != _meaning(judged.new):
            shifts[_meaning(judged.old), _meaning(judged.new)] += 1
        cells.setdefault(entry.record.cell, []).append(judged)
    turned = [turn for cell, seen in cells.items() if (turn := _turned(cell, seen))]
    turned.sort(key=lambda turn: (turn.cell.track, turn.cell.case, turn.cell.version, turn.cell.adapter))
    verdicts = Counter((_meaning(turn.old), _meaning(turn.new)) for turn in turned)
    count = sum(map(len, cells.values()))
    return Rejudged(JUDGE, count, foreign, len(cells), _shifts(shifts), _shifts(verdicts), tuple(turned))


def _judged(entry: Entry, record: Observation) -> _Judged:
    old = record.finding
    new = old if old.judge == JUDGE else find(record.outcome, record.measures)
    return _Judged((entry.at, entry.segment, entry.seq), record.environment, record.attempt, old, new)


def _turned(cell: Cell, seen: list[_Judged]) -> Turned | None:
    """Return the cell with its verdicts, when they differ; by its latest environment, as the database has it."""
    seen = sorted((judged for judged in seen if judged.attempt < ROUNDS), key=lambda judged: judged.place)
    latest = next((judged.environment for judged in reversed(seen) if judged.environment), "")
    seen = [judged for judged in seen if judged.environment == latest]
    attempts = [judged.attempt for judged in seen]
    old = verdict([judged.old for judged in seen], attempts=attempts)
    new = verdict([judged.new for judged in seen], attempts=attempts)
    same = (_meaning(old), old.confidence) == (_meaning(new), new.confidence)
    return None if same else Turned(cell, old, new)


def _meaning(word: Finding | Verdict) -> str:
    return str(word.state) if word.reason == word.state else f"{word.state}: {word.reason}"


def _shifts(counted: Mapping[tuple[str, str], int]) -> tuple[Shift, ...]:
    """Return the counts, the most frequent first."""
    rows = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Shift(old, new, count) for (old, new), count in rows)
