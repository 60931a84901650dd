"""Put work into this machine's queue, and do what waits there, one job after the other.

Every step is an event of the journal. A job is carried out by the same workflows as a command of a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from tracker.case_runs import TURNS
from tracker.changelog import Changelog
from tracker.confirm import ConfirmWish, confirm, prepare_trial
from tracker.errors import OutsideError, Stopped, TrackerError, UsageError
from tracker.home import FRESH_WAIT, Home
from tracker.job import Reporter
from tracker.model import (
    Cause,
    Confidence,
    JobEnded,
    JobEnding,
    JobKind,
    JobQueued,
    JobStarted,
    QueuePaused,
)
from tracker.queueing import Queue, QueueEvent, Waiting, named, queue
from tracker.running import Result, Wish, carry_out, locked, prepare
from tracker.standing import UNFINISHED

_KINDS: dict[str, type[QueueEvent]] = {
    "job_queued": JobQueued,
    "job_started": JobStarted,
    "job_ended": JobEnded,
    "queue_paused": QueuePaused,
}


def read_queue(home: Home) -> Queue:
    """Return this machine's queue as it is now."""
    home.store.refresh(FRESH_WAIT)
    rows = home.store.query("queue_events", machine=home.fingerprint)
    events = ((row["logged_at"], msgspec.json.decode(row["body"], type=_KINDS[row["kind"]])) for row in rows)
    ranks = {(track, version): rank for track, version, rank in home.store.answer("version_ranks").rows}
    return queue(events, ranks)


def put(home: Home, job: JobQueued) -> JobQueued | None:
    """Put a job into the queue and return it under its name; None where it waits already for as good a cause."""
    job = named(replace(job, machine=home.fingerprint))
    known = read_queue(home).job(job.job)
    if known is not None and known.asked.cause.rank <= job.cause.rank:
        return None
    home.journal.append(job)
    return job


def cancel(home: Home, name: str) -> list[JobQueued]:
    """Take a job out of the queue, or with 'all' every one; raises UsageError where there is none of that name."""
    waiting = read_queue(home).waiting
    chosen = [one.asked for one in waiting if name in ("all", one.asked.job)]
    if not chosen and name != "all":
        raise UsageError(
            f"no job '{name}' waits", hint="'dmltrack queue list' shows their names; 'all' is every job"
        )
    for job in chosen:
        home.journal.append(JobEnded(job.job, home.fingerprint, JobEnding.CANCELLED))
    return chosen


def pause(home: Home, paused: bool, reason: str = "") -> None:
    """Let nothing of the queue be begun any more, or go on with it."""
    home.journal.append(QueuePaused(home.fingerprint, paused, reason or "somebody asked for it"))


def command_of(job: JobQueued) -> str:
    """Return the command line that does the same as a job."""
    return _confirm_wish(job).command() if job.kind is JobKind.CONFIRM else _wish(job).command()


def queue_confirmations(home: Home, wish: Wish, logs: Sequence[Changelog]) -> list[JobQueued]:
    """Put a confirmation into the queue for each changelog with a regression or fix that was only seen once."""
    jobs = (
        JobQueued(
            *("", "", JobKind.CONFIRM, Cause.CONFIRMATION, wish.track, (log.old, log.new)),
            adapter=wish.adapter,
            device=wish.device,
            size=wish.size,
        )
        for log in logs
        if log.machine == home.fingerprint and _unconfirmed(log)
    )
    return [job for job in (put(home, one) for one in jobs) if job is not None]


def _unconfirmed(log: Changelog) -> bool:
    return any(change.kind in TURNS and change.confidence is Confidence.OBSERVED for change in log.verdicts)


# --- doing it --------------------------------------------------------------------------------------------


def work(home: Home, reporter: Reporter, tell: Callable[[JobQueued, JobEnded | None], None]) -> Counter[str]:
    """Do what waits, in its order, until nothing does; return how many jobs ended in each way.

    ``tell`` hears of each job when it begins (None) and when it ends. It ends early where it was asked to stop,
    where the queue is paused, and after a job that the host kept from its end: the next one would fare no better.
    """
    counts = Counter[str]()
    while not home.stop():
        waiting = read_queue(home)
        if waiting.paused is not None or not waiting.waiting:
            break
        ended = work_one(home, waiting.waiting[0], reporter, tell)
        counts[ended.ending] += 1
        if ended.ending in (JobEnding.POSTPONED, JobEnding.INTERRUPTED):
            break
    return counts


def work_one(
    home: Home, one: Waiting, reporter: Reporter, tell: Callable[[JobQueued, JobEnded | None], None]
) -> JobEnded:
    """Do one job and return how it ended. Raises HomeBusy, with nothing begun, where another run goes on."""
    with locked(home):
        tell(one.asked, None)
        ending, message = (JobEnding.FAILED, one.hopeless) if one.hopeless else _do(home, one.asked, reporter)
    ended = JobEnded(one.asked.job, home.fingerprint, ending, message)
    home.journal.append(ended)
    tell(one.asked, ended)
    return ended


def _do(home: Home, job: JobQueued, reporter: Reporter) -> tuple[JobEnding, str]:
    home.journal.append(JobStarted(job.job, home.fingerprint))
    try:
        message = (
            _confirmed(home, job, reporter) if job.kind is JobKind.CONFIRM else _run(home, job, reporter)
        )
    except (KeyboardInterrupt, Stopped):
        return JobEnding.INTERRUPTED, "it was asked to stop"
    except (OutsideError, OSError) as error:
        return JobEnding.POSTPONED, str(error)
    except TrackerError as error:
        return JobEnding.FAILED, error.message
    return JobEnding.DONE, message


def _run(home: Home, job: JobQueued, reporter: Reporter) -> str:
    wish = _wish(job)
    prepared = prepare(home, wish, reporter)
    result = carry_out(home, prepared, reporter)
    if result.interrupted:
        raise Stopped("interrupted")
    if result.halted:
        raise OutsideError("a process of a build would not die, so nothing more was started beside it")
    queue_confirmations(home, wish, result.changelogs)
    if ours := sum(result.counts.get(state, 0) for state in UNFINISHED):
        raise OutsideError(f"{ours} cells could not be run because of this host ({_counted(result)})")
    return _counted(result)


def _counted(result: Result) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(result.counts.items()))
    return counts or "nothing was left to run"


def _confirmed(home: Home, job: JobQueued, reporter: Reporter) -> str:
    trial = prepare_trial(home, _confirm_wish(job), reporter)
    told = Counter(str(one.step.action) for one in confirm(home, trial, reporter, lambda *_: None))
    return ", ".join(f"{count} {word}" for word, count in sorted(told.items())) or "nothing to confirm"


def _wish(job: JobQueued) -> Wish:
    return Wish(
        job.builds,
        job.suites,
        job.track,
        again_before=job.again_before,
        cases=job.cases,
        size=job.size,
        device=job.device,
        adapter=job.adapter,
        quiet=True,
    )


def _confirm_wish(job: JobQueued) -> ConfirmWish:
    return ConfirmWish(
        job.builds, job.cases, adapter=job.adapter, track=job.track, device=job.device, size=job.size
    )
