"""What the service does besides the queue: look at the index and the host, put in what is due, say how it is.

Each step is done with a home of its own, whose database is let go of afterwards: the service runs for a year.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from tracker import adapters
from tracker.errors import HomeBusy, TrackerError
from tracker.files import rename
from tracker.home import FRESH_WAIT, Home
from tracker.model import HostSeen, JobQueued
from tracker.poll import poll
from tracker.queue_work import put, read_queue
from tracker.suite_files import SHIPPED, digest_of
from tracker.upkeep import differences, due, not_lately
from tracker.views import known_adapters

STATE = "service.json"
BEAT = timedelta(minutes=3)
"""A service that has not said anything for so long is not alive."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the service says of itself, in a file that is written anew each time. Moments are in UTC."""

    pid: int
    since: datetime
    beat: datetime
    doing: str = ""
    last_poll: datetime | None = None
    last_done: datetime | None = None
    trouble: str = ""


@contextmanager
def only_service(home: Home) -> Iterator[None]:
    """Hold the home's service lock; raises HomeBusy that says which process is its service already."""
    import filelock

    home.folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(home.folder / "service.lock", timeout=1):
            yield
    except filelock.Timeout:
        told = read_told(home.folder)
        who = f" (process {told.pid}, since {told.since:%Y-%m-%d %H:%M} UTC)" if told else ""
        raise HomeBusy(f"{home.folder} has a service already{who}") from None


def read_told(folder: Path) -> Told | None:
    """Return what the service of a home last said; None where there was none, or it can not be read."""
    try:
        return msgspec.json.decode((folder / STATE).read_bytes(), type=Told)
    except (OSError, msgspec.MsgspecError):
        return None


def tell(folder: Path, told: Told) -> None:
    """Write down how the service is. A disk that is full is no reason to end."""
    aside = folder / f".{STATE}"
    try:
        aside.write_bytes(msgspec.json.encode(replace(told, pid=os.getpid(), beat=datetime.now(UTC))))
        rename(aside, folder / STATE)
    except OSError:
        return


def look(home: Home) -> tuple[list[JobQueued], list[str]]:
    """Ask the index about every track, put what is due into the queue, and return that and what went wrong.

    Where the index gives no answer, what is known of it is gone by.
    """
    settings, trouble = home.loaded.settings.service, list[str]()
    changes = _host_changes(home)
    added: list[JobQueued] = []
    for name in settings.tracks:
        track = home.track(name)
        try:
            poll(home, track)
        except TrackerError as error:
            trouble.append(f"{name}: {error.message}")
        jobs = due(
            [build for build in home.builds(name) if not build.yanked or track.yanked],
            {row["version"] for row in home.store.query("run_here", track=name, machine=home.fingerprint)},
            bool(changes),
            machine=home.fingerprint,
            suites=settings.suites,
            stale_builds=settings.stale_builds,
            backfill=settings.backfill,
        )
        for job in not_lately(jobs, read_queue(home), datetime.now(UTC)):
            if put(home, job) is not None:
                added.append(job)
    return added, trouble


def _host_changes(home: Home) -> list[str]:
    """Write down what the results of this machine rest on where that changed, and return what did."""
    home.store.refresh(FRESH_WAIT)
    facts = {"suites": digest_of(SHIPPED)}
    for name in home.loaded.settings.service.tracks:
        names = known_adapters(home, home.track(name))
        if names is not None:
            facts[f"adapters of {name}"] = ", ".join(adapters.adapter(item).label for item in names)
    rows = home.store.query("host_facts", machine=home.fingerprint)
    before = json.loads(rows[0]["facts"]) if rows else None
    if before == facts:
        return []
    changes = differences(before, facts)
    home.journal.append(HostSeen(home.fingerprint, facts, tuple(changes)))
    return changes


@dataclass(frozen=True, slots=True)
class Health:
    """How the service is: ``alive`` and ``well``, or ``why`` not."""

    alive: bool
    well: bool
    why: str
    told: Told | None


def health(told: Told | None, now: datetime, silence: timedelta) -> Health:
    """Return how a service is that last said this. Pure."""
    if told is None:
        return Health(False, False, "no service was ever started on this home", None)
    if now - told.beat > BEAT:
        return Health(
            False, False, f"the service has said nothing since {told.beat:%Y-%m-%d %H:%M} UTC", told
        )
    last = max(filter(None, (told.last_poll, told.last_done)), default=told.since)
    if now - last > silence:
        return Health(True, False, f"nothing has come of anything since {last:%Y-%m-%d %H:%M} UTC", told)
    return Health(True, True, "", told)
