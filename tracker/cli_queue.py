"""The ``queue`` commands: what waits, what is put in or taken out, and doing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tracker import console
from tracker.cli_run import NOTHING, Lines, Stop, interrupts
from tracker.confirm import pair_of
from tracker.errors import Exit, UsageError
from tracker.home import Home
from tracker.locate import select
from tracker.matrix import load_suites
from tracker.model import Build, Cause, JobEnded, JobEnding, JobKind, JobQueued
from tracker.own_bugs import own_bugs, with_own
from tracker.queue_work import cancel, command_of, pause, put, read_queue, work
from tracker.queueing import Queue
from tracker.running import chosen_cases, chosen_suites, on_device
from tracker.suite_files import SHIPPED
from tracker.trackfile import Track


@dataclass(frozen=True, slots=True)
class Order:
    """What a command line asks to be put into the queue."""

    builds: tuple[str, ...]
    suites: tuple[str, ...]
    cases: tuple[str, ...]
    track: str
    adapter: str
    device: str
    size: str
    confirm: bool
    again: bool


def list_command(home: Home, *, json: bool) -> Exit:
    """Show what waits, in the order in which it will be done, and what was done last."""
    found = read_queue(home)
    if json:
        console.say(console.as_json(_data(found)))
        return Exit.OK
    if found.paused is not None:
        console.note(f"paused: {found.paused} ('dmltrack queue resume' goes on)")
    rows = [(one.asked.job, one.asked.cause, f"{one.since:%Y-%m-%d %H:%M}", _said(one.asked, one.message))
            for one in found.waiting]  # fmt: skip
    console.table(("job", "why", "since (UTC)", "what"), rows)
    for ended in found.ended:
        console.note(
            f"{ended.at:%Y-%m-%d %H:%M} {ended.asked.job} {ended.ending}: {_said(ended.asked, ended.message)}"
        )
    if not found.waiting:
        console.note("nothing waits; 'dmltrack queue add' puts something in")
    return Exit.OK


def _said(job: JobQueued, message: str) -> str:
    return f"{command_of(job)}" + (f" ({message})" if message else "")


def _data(found: Queue) -> dict[str, object]:
    waiting = [
        {**_fields(one.asked), "since": one.since, "starts": one.starts, "message": one.message}
        for one in found.waiting
    ]
    ended = [
        {**_fields(one.asked), "ending": one.ending, "message": one.message, "at": one.at}
        for one in found.ended
    ]
    return {"paused": found.paused, "waiting": waiting, "ended": ended}


def _fields(job: JobQueued) -> dict[str, object]:
    return {name: getattr(job, name) for name in job.__dataclass_fields__} | {"command": command_of(job)}


def add_command(home: Home, order: Order, *, json: bool) -> Exit:
    """Put a run or a confirmation into the queue, where it goes before all that nobody asked for."""
    track = home.track(order.track)
    known = home.builds(track.name)
    kind = JobKind.CONFIRM if order.confirm else JobKind.RUN
    if order.confirm and (order.again or order.suites != ("all",)):
        raise UsageError("--suites and --again are for runs, and --confirm asks for no run")
    if order.confirm:
        builds = tuple(build.version for build in pair_of(order.builds, known))
    else:
        _check(home, order, track, known)
        builds = order.builds
    moment = datetime.now(UTC).replace(microsecond=0) if order.again else None
    job = JobQueued(
        *("", "", kind, Cause.ASKED, track.name, builds, order.suites, order.cases),
        *(order.adapter, order.device, order.size, moment),
    )
    added = put(home, job)
    if json:
        console.say(console.as_json(_fields(added) if added else None))
    elif added:
        console.say(f"{added.job}: {command_of(added)}")
    else:
        console.note("it waits already")
    return Exit.OK


def _check(home: Home, order: Order, track: Track, known: Sequence[Build]) -> None:
    """Raise UsageError where a run of this could not be done: that is to be known when it is asked for."""
    select(order.builds, [build for build in known if build.files], withdrawn=track.yanked)
    on_device(track, order.device)
    every = with_own(load_suites(SHIPPED, order.size or "full"), own_bugs(home.bug_folders))
    chosen_cases(chosen_suites(every, order.suites), every, order.cases)


def cancel_command(home: Home, names: Sequence[str]) -> Exit:
    """Take jobs out of the queue."""
    waiting = {one.asked.job for one in read_queue(home).waiting} | {"all"}
    if unknown := [name for name in names if name not in waiting]:
        raise UsageError(f"no job '{unknown[0]}' waits", hint="'dmltrack queue list' shows their names")
    for name in names:
        for job in cancel(home, name):
            console.say(f"{job.job} is not done any more: {command_of(job)}")
    return Exit.OK


def pause_command(home: Home, paused: bool, reason: str) -> Exit:
    """Let the queue stand still, or go on."""
    pause(home, paused, reason)
    console.note("nothing of the queue is begun from now on" if paused else "the queue goes on")
    return Exit.OK


def work_command(home: Home) -> Exit:
    """Do what waits, and end when nothing does."""
    home.stop = stop = Stop()
    with interrupts(stop):
        counts = work(home, Lines(NOTHING), _tell)
    told = ", ".join(f"{count} {ending}" for ending, count in sorted(counts.items()))
    console.note(told or "nothing waits, or the queue is paused ('dmltrack queue list')")
    if counts[JobEnding.INTERRUPTED] or stop():
        return Exit.INTERRUPTED
    if counts[JobEnding.POSTPONED] or counts[JobEnding.FAILED]:
        return Exit.OUTSIDE
    return Exit.OK


def _tell(job: JobQueued, ended: JobEnded | None) -> None:
    if ended is None:
        console.note(f"job {job.job} ({job.cause}): {command_of(job)}")
    else:
        console.note(f"job {job.job} {ended.ending}" + (f": {ended.message}" if ended.message else ""))
