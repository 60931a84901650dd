"""Which build to use: those that do most of what a person needs on one adapter, with what each would cost.

Pure. A need is a report that must not be there, an operator, or a suite. What is not known of a build counts against
it, but less than what is known to be bad: a build that was never run is no recommendation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracker.fixes import Sight


@dataclass(frozen=True, slots=True)
class Need:
    """Something a person needs: how it is called, and by build what is to be seen of each of its cases."""

    name: str
    cases: Mapping[str, Mapping[str, Sight]]
    """By build and case. A case of a need that a build has no outcome of is unknown there."""

    @property
    def all_cases(self) -> frozenset[str]:
        """Every case of the need that is known of any build."""
        return frozenset(case for seen in self.cases.values() for case in seen)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a build costs of one need: how many of its cases are bad, computed on the CPU, or not known."""

    need: str
    cases: int
    bad: tuple[str, ...]
    partial: tuple[str, ...]
    unknown: int

    @property
    def free(self) -> bool:
        """Whether the need is met."""
        return self.cases > 0 and not (self.bad or self.partial or self.unknown)


@dataclass(frozen=True, slots=True)
class Choice:
    """One build with what it meets and what it costs."""

    version: str
    met: tuple[str, ...]
    costs: tuple[Cost, ...]

    @property
    def known(self) -> bool:
        """Whether anything that was asked for is known of the build."""
        return bool(self.met) or any(cost.unknown < cost.cases for cost in self.costs)


def recommend(builds: Sequence[str], needs: Sequence[Need]) -> list[Choice]:
    """Return the builds, the best first: fewest bad needs, then fewest bad cases, unknown ones, the newest.

    ``builds`` come oldest first.
    """
    choices = [_choice(version, needs) for version in builds]
    places = {version: place for place, version in enumerate(builds)}
    return sorted(choices, key=lambda choice: (*_burden(choice), -places[choice.version]))


def _choice(version: str, needs: Sequence[Need]) -> Choice:
    costs = [_cost(version, need) for need in needs]
    met = tuple(cost.need for cost in costs if cost.free)
    return Choice(version, met, tuple(cost for cost in costs if not cost.free))


def _cost(version: str, need: Need) -> Cost:
    every, seen = need.all_cases, need.cases.get(version, {})
    by: dict[Sight, list[str]] = {found: [] for found in Sight}
    for case in sorted(every):
        by[seen.get(case, Sight.UNKNOWN)].append(case)
    counts = Counter({found: len(cases) for found, cases in by.items()})
    return Cost(need.name, len(every), tuple(by[Sight.BAD]), tuple(by[Sight.PARTIAL]), counts[Sight.UNKNOWN])


def _burden(choice: Choice) -> tuple[bool, int, float, float, float]:
    """Return what makes a build worse, the weightiest first; by shares, or a large suite would outweigh a bug."""

    def share(count: int, cost: Cost) -> float:
        return count / cost.cases if cost.cases else 1.0

    bad = [cost for cost in choice.costs if cost.bad]
    return (
        not choice.known,
        len(bad),
        sum(share(len(cost.bad), cost) for cost in bad),
        sum(share(cost.unknown, cost) for cost in choice.costs),
        sum(share(len(cost.partial), cost) for cost in choice.costs),
    )
