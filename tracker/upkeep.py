"""What belongs in the queue without anybody asking for it: new and old builds, what changed here. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from tracker.model import Build, Cause, JobKind, JobQueued
from tracker.queueing import Queue, named

PATIENCE = timedelta(days=1)
"""What ended does not come back by itself sooner: a build that gives nothing must not keep a machine busy."""


def due(
    builds: Sequence[Build],
    run_here: Collection[str],
    changed: bool,
    *,
    machine: str,
    suites: tuple[str, ...] = ("all",),
    stale_builds: int = 2,
    backfill: bool = True,
) -> Iterator[JobQueued]:
    """Yield the jobs that are due, one per build, so that each can be told and cancelled by itself.

    ``builds`` are those on the index, oldest first; ``run_here`` the versions that have any result of this machine.
    A build newer than all of those is new; where nothing was run yet, only the newest is. The other builds without a
    result are back-fill. ``changed``: the driver, the system or the suites are not what they were, so the newest
    ``stale_builds`` that were run before are run again.
    """
    usable = [build for build in builds if build.files and not build.yanked]
    places = {build.version: place for place, build in enumerate(usable)}
    last_run = max((places[version] for version in run_here if version in places), default=len(usable) - 2)
    again = [build for build in usable if build.version in run_here][-stale_builds:] if stale_builds else []
    for place, build in enumerate(usable):
        if build.version not in run_here and place > last_run:
            yield _job(build, Cause.NEW_BUILD, machine, suites)
        elif build.version not in run_here and backfill:
            yield _job(build, Cause.BACKFILL, machine, suites)
        elif changed and build in again:
            yield _job(build, Cause.STALE, machine, suites)


def _job(build: Build, cause: Cause, machine: str, suites: tuple[str, ...]) -> JobQueued:
    return named(JobQueued("", machine, JobKind.RUN, cause, build.track, (build.version,), suites))


def not_lately(jobs: Iterator[JobQueued], queue: Queue, now: datetime) -> list[JobQueued]:
    """Return the jobs that neither wait already nor ended a short time ago, for whatever reason.

    What is stale is due all the same: something changed since.
    """
    waiting = {one.asked.job for one in queue.waiting}
    return [
        job
        for job in jobs
        if job.job not in waiting
        and (job.cause is Cause.STALE or job.job not in queue.last or now - queue.last[job.job].at > PATIENCE)
    ]


def differences(before: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    """Return what changed of a host's facts, in words; nothing where it was never looked at."""
    if before is None:
        return []
    return [
        f"{name}: {before.get(name, 'nothing')} -> {now.get(name, 'nothing')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
