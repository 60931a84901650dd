"""Which results stand, so that a case need not run again, and which do not.

Pure. A result stands for the installation that gave it: a wheel that was replaced on the index, or other pins,
make it history.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tracker.model import State


class Next(StrEnum):
    """What is to be done about a cell."""

    NOTHING = "nothing"
    RUN = "run"
    RUN_ALONE = "run-alone"
    """It did not pass, and was not yet run a second time alone in a fresh process."""
    QUARANTINED = "quarantined"
    """The machine went down while it ran, too often to try it again unasked."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a cell: its last observation, and how often it was observed in that environment."""

    state: State
    reason: str
    environment: str
    attempts: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Demand:
    """What a command line asks beyond the usual.

    ``retry``: also what was inconclusive. ``before``: also whatever was observed before this moment.
    """

    retry: bool = False
    before: datetime | None = None


HOST_REASONS = frozenset({"missing-library", "no-python", "no-adapter", "no-directx", "missing-module"})
"""Reasons of inconclusive states that lie with this host and may be mended at any time."""

UNFINISHED = frozenset({State.INFRA, State.NOT_RUN})
BROKEN_OFF = frozenset({"cancelled", "console-closed"})
"""Reasons of ``skipped`` that lie with us; any other is the suite's word that the case does not apply."""

HOST_DEATHS = 2
"""How often a machine may go down under a case before it is left alone; a case of its own process has one try."""


def next_step(
    known: Known | None, outdated: Collection[str], changed_at: datetime | None, demand: Demand
) -> Next:
    """Return what is to be done about a cell.

    ``outdated`` names environments that hold something else than would be installed now; ``changed_at`` is when
    the index last changed the build's record.
    """
    if known is None or _unfinished(known) or known.environment in outdated:
        return Next.RUN
    if demand.before is not None and known.last_at < demand.before:
        return Next.RUN
    if not known.state.conclusive and (demand.retry or not _stays_so(known, changed_at)):
        return Next.RUN
    if known.state.conclusive and known.state is not State.PASS and known.attempts < 2:
        return Next.RUN_ALONE
    return Next.NOTHING


def quarantined(host_deaths: int, isolate: bool, demand: Demand) -> bool:
    """Whether a cell is left alone because the machine went down under it; a person who asks can have it."""
    return not demand.retry and host_deaths >= (1 if isolate else HOST_DEATHS)


def _unfinished(known: Known) -> bool:
    return known.state in UNFINISHED or (known.state is State.SKIPPED and known.reason in BROKEN_OFF)


def _stays_so(known: Known, changed_at: datetime | None) -> bool:
    """Whether an inconclusive result would come out the same: neither this host nor the index has changed."""
    if known.reason in HOST_REASONS:
        return False
    return changed_at is None or changed_at <= known.last_at
