"""The service: looks at the index now and then, does what waits in the queue, and ends in order when asked to.

APScheduler has its one home here. Its jobs only look and tell; the queue is worked in the main thread, one job after
the other, so that a machine never does two things at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from tracker.errors import HomeBusy, TrackerError
from tracker.home import Home
from tracker.job import Reporter
from tracker.model import JobEnded, JobEnding, JobQueued
from tracker.queue_work import command_of, read_queue, work_one
from tracker.serving import Told, look, tell

IDLE = 2.0
"""Seconds between two looks at a queue in which nothing waits."""
BEAT_SECONDS = 60


class Service:
    """One service on one home. ``say`` gets a line for whatever is worth one."""

    def __init__(self, home: Home, reporter: Reporter, say: Callable[[str], None]) -> None:
        self._folder = home.folder
        self._journal = home.journal
        self._stop = home.stop
        self._settings = home.loaded.settings.service
        self._reporter = reporter
        self._say = say
        self._lock = threading.Lock()
        now = datetime.now(UTC)
        self._told = Told(0, now, now)
        self._looked = threading.Event()
        self._rest_until = now

    def run(self, *, once: bool = False) -> None:
        """Serve until asked to stop; with ``once`` until nothing waits after the first look at the index."""
        # Its own complaints about a run that was missed would go to a log that nobody has set up.
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
        scheduler = self._scheduler()
        scheduler.start()
        try:
            while not self._stop():
                if self._work():
                    continue
                if once and self._looked.is_set() and not self._waits():
                    break
                self._pause()
        finally:
            scheduler.shutdown(wait=True)
            self._tell(doing="")
            self._journal.close()

    def _scheduler(self) -> BackgroundScheduler:
        seconds = self._settings.poll_hours * 3600
        scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(2)},
            # After sleep, or a clock that jumped, what was missed is done once.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        often = IntervalTrigger(
            seconds=max(1, round(seconds)), jitter=round(seconds / 10) or None, timezone=UTC
        )
        scheduler.add_job(self._look, often, next_run_time=datetime.now(UTC), id="look")
        scheduler.add_job(self._tell, IntervalTrigger(seconds=BEAT_SECONDS, timezone=UTC), id="beat")
        return scheduler

    def _home(self) -> Home:
        home = Home(self._folder, self._stop)
        home.journal = self._journal  # a segment for each job would be ten thousand files
        return home

    def _look(self) -> None:
        """Ask the index and put in what is due; whatever goes wrong is told and tried again next time."""
        home = self._home()
        try:
            added, trouble = look(home)
        except Exception as error:
            added, trouble = [], [f"{type(error).__name__}: {error}"]
        finally:
            home.close()
        for job in added:
            self._say(f"due ({job.cause}): {command_of(job)}")
        for text in trouble:
            self._say(f"trouble: {text}")
        polled = {} if trouble else {"last_poll": datetime.now(UTC)}
        self._tell(trouble="; ".join(trouble), **polled)
        self._looked.set()

    def _waits(self) -> bool:
        home = self._home()
        try:
            found = read_queue(home)
            return bool(found.waiting) and found.paused is None
        except TrackerError as error:
            self._say(f"trouble: {error.message}")
            return True
        finally:
            home.close()

    def _work(self) -> bool:
        """Do the first job that waits; return whether there was one."""
        if datetime.now(UTC) < self._rest_until:
            self._pause()
            return False
        home = self._home()
        try:
            found = read_queue(home)
            if found.paused is not None or not found.waiting:
                return False
            ended = work_one(home, found.waiting[0], self._reporter, self._heard)
        except HomeBusy as error:
            self._say(f"waiting: {error.message}")
            self._rest()
            return False
        except TrackerError as error:
            self._say(f"trouble: {error.message}")
            self._rest()
            return False
        finally:
            home.close()
        if ended.ending is JobEnding.POSTPONED:
            self._rest()
        if ended.ending is JobEnding.DONE:
            self._tell(last_done=datetime.now(UTC))
        return True

    def _rest(self) -> None:
        self._rest_until = datetime.now(UTC) + timedelta(minutes=self._settings.retry_minutes)

    def _pause(self) -> None:
        """Wait a moment; a request to stop ends it soon."""
        threading.Event().wait(IDLE)

    def _heard(self, job: JobQueued, ended: JobEnded | None) -> None:
        if ended is None:
            self._say(f"job {job.job} ({job.cause}): {command_of(job)}")
            self._tell(doing=command_of(job))
        else:
            self._say(f"job {job.job} {ended.ending}" + (f": {ended.message}" if ended.message else ""))
            self._tell(doing="")

    def _tell(self, **changed: object) -> None:
        with self._lock:
            self._told = replace(self._told, **changed)  # type: ignore[arg-type]
            tell(self._folder, self._told)
