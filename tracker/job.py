"""What a run is about and who is told how it goes on: the records that its parts hand to each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tracker import judge
from tracker.model import Cell, EnvironmentFacts, Observation
from tracker.plan import Host
from tracker.trackfile import Track
from tracker.workers import CaseResult


class Reporter(Protocol):
    """Who is told how a run goes on; a terminal, as a rule."""

    def build(self, version: str, cases: int) -> None:
        """The work on a build begins."""

    def build_done(self) -> None:
        """The work on that build ends."""

    def step(self, text: str) -> None:
        """Something that takes a moment begins, such as the download of a wheel."""

    def environment(self, facts: EnvironmentFacts, made: bool) -> None:
        """The environment is there, was made, or (``facts.ready`` is False) can not be made."""

    def observation(self, observation: Observation) -> None:
        """A case was observed."""

    def note(self, text: str) -> None:
        """Something is worth a line, such as a wheel that could not be read."""


@dataclass(frozen=True)
class Job:
    """What a run is made of, beside the plan."""

    run: str
    command: str
    track: Track
    host: Host
    suites: Path
    digests: dict[str, str]
    requirements: tuple[str, ...]
    adapter: str = ""
    """The name of the adapter to compute on, as builds list it; empty where no case needs a device."""


def observe(run: str, cell: Cell, recipe: str, result: CaseResult, attempt: int) -> Observation:
    """Return the record of one attempt, with the judge's present word on it."""
    return Observation(
        run=run,
        worker=result.worker,
        cell=cell,
        environment=recipe,
        started=result.started,
        seconds=round(result.seconds, 6),
        outcome=result.outcome,
        finding=judge.find(result.outcome, result.measures),
        measures=result.measures,
        log=result.log,
        attempt=attempt,
        peak_memory=result.peak_memory,
    )


def requirements_of(suites: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the requirements of several suites, each once, in order."""
    return tuple(dict.fromkeys(requirement for suite in suites for requirement in suite))
