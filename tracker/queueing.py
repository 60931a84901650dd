"""The queue of work on one machine, as the events of its journal make it. Pure.

Nothing else is kept, so after a power cut the queue is what it was. A job is known by a digest of what it does:
whoever asks for what waits already moves it forward, and nothing is done twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from tracker.model import Cause, JobEnded, JobEnding, JobQueued, JobStarted, QueuePaused

MOST_STARTS = 3
"""A job that was begun so often and never came to an end, not even to an interruption, is given up."""
MOST_PUT_OFF = 5
"""A job that the host kept from its end so often in a row is given up: what is behind it has waited long enough."""
KEPT = 20
"""How many jobs that ended a queue remembers."""
WAITS_ON = frozenset({JobEnding.INTERRUPTED, JobEnding.POSTPONED})

QueueEvent = JobQueued | JobStarted | JobEnded | QueuePaused


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that is to be done. ``starts``: how often it was begun since it last ended in any way."""

    asked: JobQueued
    since: datetime
    starts: int = 0
    put_off: int = 0
    """How often in a row the host kept it from its end."""
    message: str = ""
    """Why its last try did not come to its end."""

    @property
    def hopeless(self) -> str:
        """Why it is not to be tried once more; empty where it is."""
        if self.starts >= MOST_STARTS:
            return f"it was begun {self.starts} times and the program ended each time before it did"
        return (
            f"put off {self.put_off} times, at last: {self.message}" if self.put_off >= MOST_PUT_OFF else ""
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that was done, or is not to be done any more."""

    asked: JobQueued
    ending: JobEnding
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Queue:
    """What is to be done, the first job first, and what was done last, the latest first.

    ``paused`` says why nothing of it is begun; None when it is.
    """

    waiting: tuple[Waiting, ...] = ()
    ended: tuple[Ended, ...] = ()
    paused: str | None = None
    last: Mapping[str, Ended] = field(default_factory=dict)
    """How each job that does not wait ended when it last did."""

    def job(self, name: str) -> Waiting | None:
        """Return the waiting job of this name, or None."""
        return next((one for one in self.waiting if one.asked.job == name), None)


def named(job: JobQueued) -> JobQueued:
    """Return a job with the name that follows from what it does, not from why."""
    said = {**asdict(job), "job": "", "cause": ""}
    text = json.dumps(said, sort_keys=True, default=str)
    return replace(job, job=hashlib.sha256(text.encode()).hexdigest()[:8])


def queue(events: Iterable[tuple[datetime, QueueEvent]], ranks: Mapping[tuple[str, str], int]) -> Queue:
    """Return the queue that the events, oldest first, leave.

    ``ranks`` grows with the version of each (track, version): back-filling begins with the newest build.
    """
    made = _Made()
    for at, event in events:
        made.take(at, event)
    order = sorted(made.waiting.values(), key=lambda one: _place(one, ranks))
    last = {one.asked.job: one for one in made.ended if one.asked.job not in made.waiting}
    return Queue(tuple(order), tuple(made.ended[: -KEPT - 1 : -1]), made.paused, last)


def _place(one: Waiting, ranks: Mapping[tuple[str, str], int]) -> tuple[int, int, datetime, str]:
    job = one.asked
    newest = max((ranks.get((job.track, build), 0) for build in job.builds), default=0)
    return job.cause.rank, -newest if job.cause is Cause.BACKFILL else 0, one.since, job.job


@dataclass
class _Made:
    waiting: dict[str, Waiting] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    paused: str | None = None

    def take(self, at: datetime, event: QueueEvent) -> None:
        """Let one event change the queue; one about a job that does not wait changes nothing."""
        if isinstance(event, JobQueued):
            self._queued(at, event)
        elif isinstance(event, QueuePaused):
            self.paused = event.reason if event.paused else None
        elif (known := self.waiting.get(event.job)) is not None:
            if isinstance(event, JobStarted):
                self.waiting[event.job] = replace(known, starts=known.starts + 1)
            elif event.ending in WAITS_ON:
                put_off = known.put_off + 1 if event.ending is JobEnding.POSTPONED else known.put_off
                self.waiting[event.job] = replace(known, starts=0, put_off=put_off, message=event.message)
            else:
                self.ended.append(Ended(known.asked, event.ending, event.message, at))
                del self.waiting[event.job]

    def _queued(self, at: datetime, event: JobQueued) -> None:
        known = self.waiting.get(event.job)
        if known is None:
            self.waiting[event.job] = Waiting(event, at)
        elif event.cause.rank < known.asked.cause.rank:
            self.waiting[event.job] = replace(known, asked=event)
