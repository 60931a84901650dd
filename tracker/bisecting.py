"""Find the adjacent pair of builds between which a case changes: what is known goes in, the next question comes out.

Pure and without memory: it is asked again after every run and finds its place from the evidence alone, so a
bisection that was broken off goes on where it was, and what was known before need not run again. All evidence is
of one lane (machine, adapter, driver, suite files). It must not know what a build is but a name in an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tracker.flakes import MOST_REPEATS, repeats_after

TRIES = 3
"""Inconclusive runs at which a build that is not yet decided can not be tested."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """How often a case passed, failed, and said nothing at one build.

    ``inconclusive`` is to count what would come out the same if it were run now: the tries of this bisection, and
    ``TRIES`` at once for a build that can not be installed; not a disk that was full last month.
    """

    good: int = 0
    bad: int = 0
    inconclusive: int = 0

    @property
    def flaky(self) -> bool:
        """Whether the build gave both outcomes."""
        return self.good > 0 and self.bad > 0

    @property
    def seen(self) -> bool | None:
        """What was seen of it at all: good, bad (both outcomes are bad), or None; not how sure that is."""
        return None if not (self.good or self.bad) else not self.bad


@dataclass(frozen=True, slots=True)
class Ask:
    """Run the case at ``version``. ``times``: runs it takes at least. ``left``: builds still to ask, at most.

    One run may be made at a time, or all of them at once; ``left`` holds where no build turns out to be a hole or
    flaky.
    """

    version: str
    why: str
    times: int
    left: int


@dataclass(frozen=True, slots=True)
class Found:
    """The case changes from ``before`` to ``after``; between them are only ``holes``, which can not be tested."""

    before: str
    after: str
    holes: tuple[str, ...]
    warnings: tuple[str, ...]
    fixed: bool
    """Whether it is good at ``after``."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """There is nothing to be found, and why."""

    why: str
    warnings: tuple[str, ...] = ()
    untestable: str = field(default="", compare=False)
    """The end of which nothing can be said; another one may do."""


@dataclass(frozen=True, slots=True)
class _Range:
    """The builds from start to end, and how many runs prove one ``clean`` or ``failing``."""

    versions: tuple[str, ...]
    known: Mapping[str, Evidence]
    clean: int
    failing: int

    def evidence(self, version: str) -> Evidence:
        return self.known.get(version, Evidence())

    def outcome(self, version: str) -> bool | None:
        """Return what is proven of a build: good, bad, or None. One that gives both outcomes has the fault."""
        evidence = self.evidence(version)
        proven = evidence.flaky or max(evidence.bad - self.failing, evidence.good - self.clean) >= 0
        return evidence.seen if proven else None

    def hole(self, version: str) -> bool:
        return self.outcome(version) is None and self.evidence(version).inconclusive >= TRIES

    def ask(self, version: str, why: str, left: int) -> Ask:
        evidence = self.evidence(version)
        times = self.clean - evidence.good if evidence.good else self.failing - evidence.bad
        return Ask(version, why, times, left)


def next_step(
    versions: Sequence[str], known: Mapping[str, Evidence], start: str, end: str, repeats: int
) -> Ask | Found | Impossible:
    """Return what to run next to find where a case changes between two builds, or what came of it.

    ``versions`` are in order, oldest first. An outcome is proven by ``repeats`` runs that agree. A build that gives
    both outcomes has the fault and needs no further run; from then on every build is good only after as many
    clean runs as the rate of the fault asks for (``flakes.repeats_after``, 100 at most), the ones before it too: by
    three runs, what fails at 20 % passes for good every second time.

    Both ends are proven first, and have to differ. The range between them is halved. A build which said nothing
    ``TRIES`` times is stepped round to its nearest neighbour. Where the case changes more than once, it is the last
    change among what is proven that is found, and the warnings say so.

    Where every build can be tested and none is flaky, ``2 + log2(n)`` builds, rounded up, are run ``repeats`` times
    each, n being the builds from start to end. Each hole that is met costs ``TRIES`` runs more. No build is asked
    for more conclusive runs than prove it good, nor more than ``TRIES`` inconclusive ones.
    """
    order = tuple(dict.fromkeys(versions))
    if refusal := _refusal(order, start, end):
        return Impossible(refusal)
    chosen = order[order.index(start) : order.index(end) + 1]
    failing = max(1, repeats)
    where = _Range(chosen, known, _clean_runs(chosen, known, failing), failing)
    return _unproven_end(where) or _halved(where)


def _refusal(order: Sequence[str], start: str, end: str) -> str:
    for version in (start, end):
        if version not in order:
            return f"{version} is not among the {len(order)} builds"
    return "" if order.index(start) < order.index(end) else f"{start} does not come before {end}"


def _clean_runs(versions: Sequence[str], known: Mapping[str, Evidence], repeats: int) -> int:
    """Return how many clean runs prove a build good, given how often the flaky ones fail."""
    flaky = [known[version] for version in versions if version in known and known[version].flaky]
    return max([repeats, *(repeats_after(seen.bad, seen.good) or MOST_REPEATS for seen in flaky)])


def _unproven_end(where: _Range) -> Ask | Impossible | None:
    """Return the question that proves an end, or why the ends will not do; None when they are proven to differ."""
    first, last = where.versions[0], where.versions[-1]
    unproven = [(n, v) for n, v in (("start", first), ("end", last)) if where.outcome(v) is None]
    for name, version in unproven:
        if where.hole(version):
            tries = where.evidence(version).inconclusive
            why = f"the {name}, {version}, can not be tested: {tries} runs were inconclusive"
            return Impossible(why, untestable=version)
    if unproven:
        name, version = unproven[0]
        inner = len(_testable(where, 0, len(where.versions) - 1)).bit_length()
        return where.ask(version, f"to prove the {name} of the range", len(unproven) + inner)
    if where.outcome(first) is where.outcome(last):
        return Impossible(_alike(where), tuple(_warnings(where)))
    return None


def _alike(where: _Range) -> str:
    """Say that both ends have one outcome, and where between them the other was seen."""
    start, end = where.versions[0], where.versions[-1]
    outcome = where.outcome(start)
    said = f"{_word(outcome)} at both ends, {start} and {end}"
    others = [version for version in where.versions if where.evidence(version).seen is (not outcome)]
    if others:
        return f"{said}; it {_word(not outcome)} at {others[0]} between them, which may be an end"
    return f"{said}, and no other outcome is known between them"


def _halved(where: _Range) -> Ask | Found:
    """Return the question that halves what is left of the range, or what was found."""
    versions, last = where.versions, len(where.versions) - 1
    outcome = where.outcome(versions[0])
    low = max(at for at in range(last) if where.outcome(versions[at]) is outcome)
    high = next(at for at in range(low + 1, last + 1) if where.outcome(versions[at]) is not None)
    before, after = versions[low], versions[high]
    open_places = _testable(where, low, high)
    if not open_places:
        holes = versions[low + 1 : high]
        return Found(before, after, holes, tuple(_warnings(where)), fixed=where.outcome(after) is True)
    # By count of what can be tested and not by place, so that many holes on one side do not make it slow.
    place = open_places[len(open_places) // 2]
    why = f"half-way between {before}, where it {_word(outcome)}, and {after}, where it {_word(not outcome)}"
    return where.ask(versions[place], why, len(open_places).bit_length())


def _testable(where: _Range, low: int, high: int) -> list[int]:
    return [at for at in range(low + 1, high) if not where.hole(where.versions[at])]


def _word(outcome: bool | None) -> str:
    return "passed" if outcome else "failed"


# --- what to be wary of ----------------------------------------------------------------------------------


def _warnings(where: _Range) -> Iterator[str]:
    flaky = [version for version in where.versions if where.evidence(version).flaky]
    for version in flaky:
        evidence = where.evidence(version)
        yield f"{version} failed in {evidence.bad} of {evidence.good + evidence.bad} runs: it counts as failing"
    rates = [(where.evidence(version).bad, where.evidence(version).good) for version in flaky]
    if any(repeats_after(*rate) is None for rate in rates):
        yield f"the failure is too rare to tell: a build that passed {where.clean} times may have it too"
    spans = list(_spans(where))
    if len(spans) > 2:
        told = ", ".join(f"{_word(outcome)} {_reach(row)}" for outcome, row in spans)
        yield f"it changes more than once: {told}"


def _spans(where: _Range) -> Iterator[tuple[bool, list[str]]]:
    """Yield neighbouring builds at which one outcome was seen, proven or not."""
    seen = [(where.evidence(version).seen, version) for version in where.versions]
    for outcome, row in groupby((pair for pair in seen if pair[0] is not None), key=lambda pair: pair[0]):
        yield bool(outcome), [version for _, version in row]


def _reach(row: Sequence[str]) -> str:
    return f"at {row[0]}" if len(row) == 1 else f"from {row[0]} to {row[-1]}"
