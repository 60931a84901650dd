"""The ``run`` command: says what will happen, shows how it goes, and ends with counts and changelogs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from tracker import console
from tracker.errors import Exit, Stopped
from tracker.forecast import Forecast
from tracker.home import Home
from tracker.model import EnvironmentFacts, Observation, State
from tracker.plan import Plan
from tracker.publish.changelogs import as_text
from tracker.queue_work import command_of, queue_confirmations
from tracker.running import Prepared, Result, Wish, carry_out, locked, prepare
from tracker.views import case_seconds


def run_command(home: Home, wish: Wish) -> Exit:
    """Do a run for a person (or a script, with ``wish.json``) and return its exit code."""
    home.stop = stop = Stop()
    try:
        with locked(home), interrupts(stop):
            prepared = prepare(home, wish, Lines(NOTHING))
            announce(prepared)
            if wish.plan_only:
                if wish.json:
                    console.say(console.as_json(_plan_data(prepared)))
                return Exit.OK
            forecast = Forecast(prepared.plan, case_seconds(home, prepared.job.track))
            result = carry_out(home, prepared, Lines(prepared.plan, forecast))
            queued = queue_confirmations(home, wish, result.changelogs) if result.counts else []
    except (KeyboardInterrupt, Stopped):
        console.note(f"interrupted; this goes on where it stopped: {wish.command()}")
        return Exit.INTERRUPTED
    conclude(prepared, result, wish)
    for job in queued:
        console.note(
            f"changes that were seen once wait to be confirmed: dmltrack queue work, or {command_of(job)}"
        )
    return result.exit_code


@contextmanager
def interrupts(stop: Stop) -> Iterator[None]:
    """Turn the first interrupt or request to end into a stop at the next moment; the second one ends at once."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if sys.platform == "win32":
        signals.append(signal.SIGBREAK)
    before = {number: signal.signal(number, stop.ask) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Stop:
    """Whether a run was asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # Written past Python's streams: the signal may have come in the middle of printing to them.
        with suppress(OSError):
            os.write(2, b"stopping: what was observed is kept (interrupt once more to stop at once)\n")


def announce(prepared: Prepared) -> None:
    """Say before anything runs what will run, and what is left out and why."""
    plan, job = prepared.plan, prepared.job
    for text in prepared.notes:
        console.note(text)
    for left in plan.left_out:
        console.note(f"left out: {left.what}: {left.why}")
    if not plan.cells:
        before = f"all {plan.done} cells were executed before (--again runs them again)"
        console.note(f"nothing to do: {before if plan.done else 'no case of these can run here'}")
        return
    builds = ", ".join(work.build.version for work in plan.work)
    suites = ", ".join(sorted({case.suite for work in plan.work for case in (*work.cases, *work.alone)}))
    console.note(
        f"will run {plan.cells} cells of {suites} on {len(plan.work)} builds of {job.track.name}: {builds}"
    )
    if plan.done:
        console.note(f"{plan.done} cells were executed before and stand")


def _plan_data(prepared: Prepared) -> dict[str, object]:
    plan = prepared.plan
    work = [{"build": item.build.version, "cases": [case.id for case in item.cases]} for item in plan.work]
    return {"cells": plan.cells, "done": plan.done, "work": work, "left_out": plan.left_out}


NOTHING = Plan((), (), 0)
SHOWN = 12
"""Most cases of a build that did not pass and have a line of their own; the rest is counted by its causes."""
EVERY = 60.0
"""Seconds after which a line says how far a long build is, where no terminal shows it."""
QUIET = frozenset({State.PASS, State.UNINSTALLABLE, State.SKIPPED})
"""States that have no line of their own."""


class Lines:
    """Tells how a run goes on, in lines on standard error: one for a build's environment, one for its cases."""

    def __init__(self, plan: Plan, forecast: Forecast | None = None) -> None:
        self._plan = plan
        self._forecast = forecast or Forecast(plan, {})
        self._started = self._said = time.monotonic()
        self._position = 0
        self._states: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._causes: Counter[tuple[str, str]] = Counter()
        self._lines = 0
        self._head = ""

    def build(self, version: str, cases: int) -> None:
        """Begin with a build."""
        self._position += 1
        self._forecast.begin(version)
        self._states.clear()
        self._seen.clear()
        self._causes.clear()
        self._lines = 0
        self._head = f"[{self._position}/{len(self._plan.work)}] {version}" if self._plan.work else version

    def build_done(self) -> None:
        """Say what came of the build's cases, and what is still to be done."""
        self._forecast.end()
        for (state, reason), times in self._causes.most_common():
            self._line(f"{self._head}: {times} more: {state}, {reason}")
        if self._states:
            counts = ", ".join(f"{count} {state}" for state, count in sorted(self._states.items()))
            self._line(f"{self._head}: {counts}{self._time_left()}")

    def step(self, text: str) -> None:
        """Show a step that takes a moment, on a terminal only: it is overwritten by what follows."""
        if sys.stderr.isatty():
            line = f"{self._head}: {text} ..."
            print(f"\r\x1b[K{console.clean(line)[:110]}", end="\r", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Show a line of its own."""
        self._line(text)

    def environment(self, facts: EnvironmentFacts, made: bool) -> None:
        """Say whether the environment was made."""
        if not facts.ready:
            self._line(f"{self._head}: no environment: {facts.message} ({facts.reason})")
        elif made:
            size = console.size(facts.size)
            self._line(
                f"{self._head}: environment made in {console.duration(facts.seconds)} (Python {facts.python}, {size})"
            )

    def observation(self, observation: Observation) -> None:
        """Count a case; of those that did not pass the first have a line of their own."""
        finding, case = observation.finding, observation.cell.case
        first = case not in self._seen
        self._seen.add(case)
        if first:
            self._forecast.count(case)
            self._states[finding.state] += 1
            self._progress(f"{case}: {finding.state}")
        if finding.state not in QUIET and self._room():
            again = "" if first else f" (attempt {observation.attempt})"
            said = finding.message or finding.reason
            self._line(f"{self._head}: {case}: {finding.state}{again}: {said}")
        elif finding.state not in QUIET and first:
            self._causes[finding.state, finding.reason] += 1

    def _room(self) -> bool:
        """Whether one more case may have a line of its own."""
        self._lines += 1
        return self._lines <= SHOWN

    def _progress(self, text: str) -> None:
        self.step(text)
        if not sys.stderr.isatty() and time.monotonic() - self._said > EVERY:
            self._line(f"{self._head}: {sum(self._states.values())} cases done{self._time_left()}")

    def _time_left(self) -> str:
        left = self._forecast.left(time.monotonic() - self._started)
        return "" if left is None else f"; about {console.duration(left)} left"

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        console.note(text)


def conclude(prepared: Prepared, result: Result, wish: Wish) -> None:
    """Print the counts and changelogs of a run, and how to resume it when it was interrupted."""
    if wish.json:
        console.say(console.as_json(result))
    elif not wish.quiet:
        for log in result.changelogs:
            console.say(as_text(log))
    if result.counts:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(result.counts.items()))
        console.note(f"{sum(result.counts.values())} observations: {counts}")
    if result.interrupted:
        console.note(f"interrupted; this goes on where it stopped: {prepared.job.command}")
    elif result.halted:
        console.note("stopped: a process of a build would not die, so nothing more was started beside it")
        console.note(f"end it, or start the machine anew; then go on with: {prepared.job.command}")
    elif result.exit_code is Exit.INCONCLUSIVE:
        console.note("nothing conclusive is known of these builds on this machine")
