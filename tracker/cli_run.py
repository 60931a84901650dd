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
from tracker.home import Home
from tracker.model import EnvironmentFacts, Observation, State
from tracker.plan import Plan
from tracker.publish.changelogs import as_text
from tracker.running import Prepared, Result, Wish, carry_out, locked, prepare


def run_command(home: Home, wish: Wish) -> Exit:
    """Do a run for a person (or a script, with ``wish.json``) and return its exit code."""
    home.stop = stop = Stop()
    try:
        with locked(home), _interrupts(stop):
            prepared = prepare(home, wish)
            announce(prepared)
            if wish.plan_only:
                if wish.json:
                    console.say(console.as_json(_plan_data(prepared)))
                return Exit.OK
            result = carry_out(home, prepared, Lines(prepared.plan))
    except (KeyboardInterrupt, Stopped):
        console.note(f"interrupted; this goes on where it stopped: {wish.command()}")
        return Exit.INTERRUPTED
    conclude(prepared, result, wish)
    return result.exit_code


@contextmanager
def _interrupts(stop: Stop) -> Iterator[None]:
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
        console.note(f"nothing to do: all {plan.done} cells were executed before (--again runs them again)")
        return
    builds = ", ".join(work.build.version for work in plan.work)
    suites = ", ".join(job.digests)
    console.note(
        f"will run {plan.cells} cells of {suites} on {len(plan.work)} builds of {job.track.name}: {builds}"
    )
    if plan.done:
        console.note(f"{plan.done} cells were executed before and stand")


def _plan_data(prepared: Prepared) -> dict[str, object]:
    plan = prepared.plan
    work = [{"build": item.build.version, "cases": [case.id for case in item.cases]} for item in plan.work]
    return {"cells": plan.cells, "done": plan.done, "work": work, "left_out": plan.left_out}


class Lines:
    """Tells how a run goes on, in lines on standard error: one for a build's environment, one for its cases."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._started = time.monotonic()
        self._position = 0
        self._cells = 0
        self._states: Counter[str] = Counter()
        self._left = 0
        self._head = ""

    def build(self, version: str, cases: int) -> None:
        """Begin with a build."""
        self._position += 1
        self._left = cases
        self._states.clear()
        self._head = f"[{self._position}/{len(self._plan.work)}] {version}"

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
        """Count a case; what did not pass has a line of its own, and the last case ends the build's."""
        state, case = observation.finding.state, observation.cell.case
        if observation.attempt == 1:
            self._cells += 1
            self._left -= 1
            self._states[state] += 1
            self.step(f"{case}: {state}")
        if state is not State.PASS and state is not State.UNINSTALLABLE:
            again = f" (attempt {observation.attempt})" if observation.attempt > 1 else ""
            said = observation.finding.message or observation.finding.reason
            self._line(f"{self._head}: {case}: {state}{again}: {said}")
        if observation.attempt == 1 and not self._left:
            counts = ", ".join(f"{count} {state}" for state, count in sorted(self._states.items()))
            self._line(f"{self._head}: {counts}{self._time_left()}")

    def _time_left(self) -> str:
        rest = self._plan.cells - self._cells
        if not rest:
            return ""
        spent = time.monotonic() - self._started
        return f"; about {console.duration(spent / self._cells * rest)} left"

    def _line(self, text: str) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        console.note(text)


def conclude(prepared: Prepared, result: Result, wish: Wish) -> None:
    """Print the counts and changelogs of a run, and how to resume it when it was interrupted."""
    if wish.json:
        console.say(console.as_json(result))
    else:
        for log in result.changelogs:
            console.say(as_text(log))
    if result.counts:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(result.counts.items()))
        console.note(f"{sum(result.counts.values())} observations: {counts}")
    if result.interrupted:
        console.note(f"interrupted; this goes on where it stopped: {prepared.job.command}")
    elif result.exit_code is Exit.INCONCLUSIVE:
        console.note("nothing conclusive is known of these builds on this machine")
