"""How long the rest of a run will take: what its cases took before, scaled by how this run goes.

Pure. Cases differ a thousandfold, so counting them says nothing: the first of a matrix take minutes, the last
milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from tracker.matrix import Case
from tracker.plan import Plan

_SHARE = 60.0
"""A case nobody has timed is taken to need this part of its time limit."""


class Forecast:
    """The work of a plan in expected seconds. ``known``: what each case took on this machine, of any build."""

    def __init__(self, plan: Plan, known: Mapping[str, float], case_timeout: float = 120.0) -> None:
        timed: dict[str, list[float]] = {}
        for name, seconds in known.items():
            timed.setdefault(name.partition("/")[0], []).append(seconds)
        usual = {suite: median(each) for suite, each in timed.items()}

        def expected(case: Case) -> float:
            guess = usual.get(case.suite, (case.timeout or case_timeout) / _SHARE)
            return known.get(case.id, guess)

        self._expected: dict[str, float] = {}
        self._of_build: dict[str, float] = {}
        for work in plan.work:
            cases = [*work.cases, *work.alone]
            self._expected.update((case.id, expected(case)) for case in cases)
            self._of_build[work.build.version] = sum(map(expected, cases))
        self._total = sum(self._of_build.values())
        self._ended = self._current = 0.0
        self._build = ""

    def begin(self, version: str) -> None:
        """Go on to the next build."""
        self._build, self._current = version, 0.0

    def count(self, case: str) -> None:
        """Note that a case of the present build is over."""
        self._current += self._expected.get(case, 0.0)

    def end(self) -> None:
        """Note that the present build is over; what could not be run of it is no work any more."""
        self._ended += self._of_build.get(self._build, 0.0)
        self._current = 0.0

    def left(self, spent: float) -> float | None:
        """Return the seconds that are left after ``spent``; None where nothing can be said, or nothing is left."""
        done = self._ended + self._current
        rest = self._total - done
        return spent / done * rest if done > 0 and rest > 0 else None
