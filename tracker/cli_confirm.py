"""The ``confirm`` command: runs what changed between two builds again on both, and says what is sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tracker import console
from tracker.changelog import VerdictChange
from tracker.changes import ChangeKind
from tracker.cli_bisect import OneByOne, count_of
from tracker.cli_run import Stop, interrupts
from tracker.confirm import Confirmed, ConfirmWish, Group, Trial, confirm, prepare_trial
from tracker.confirming import THOROUGH, Action, Step
from tracker.errors import Exit, Stopped
from tracker.home import Home
from tracker.model import NO_ADAPTER, Verdict
from tracker.running import locked


def confirm_command(home: Home, wish: ConfirmWish, *, json: bool) -> Exit:
    """Confirm for a person (or a script) and return the exit code."""
    home.stop = stop = Stop()
    reporter = OneByOne()
    told: list[Confirmed] = []
    try:
        with locked(home), interrupts(stop):
            trial = prepare_trial(home, wish, reporter)
            announce(trial)
            for one in confirm(home, trial, reporter, _say):
                told.append(one)
                console.note(f"{one.group.change.case}: {one.step.action}")
    except (KeyboardInterrupt, Stopped):
        console.note(f"interrupted; this goes on where it stopped: {wish.command()}")
        return Exit.INTERRUPTED
    show(trial, told, json=json)
    return exit_code(told)


def exit_code(told: Sequence[Confirmed]) -> Exit:
    """Return 1 when a regression is confirmed, 5 when of nothing it could be told whether it is, else 0."""
    actions = {one.step.action for one in told}
    if any(_is_regression(one) for one in told if one.step.action is Action.CONFIRMED):
        return Exit.REGRESSION
    return Exit.INCONCLUSIVE if actions == {Action.CANNOT_TELL} else Exit.OK


def _is_regression(one: Confirmed) -> bool:
    return one.group.change.kind is ChangeKind.REGRESSED


def announce(trial: Trial) -> None:
    """Say before anything runs how much it will be."""
    changes = sum(1 + len(group.others) for group in trial.groups)
    between = f"from {trial.old.version} to {trial.new.version}"
    if not changes:
        return console.note(f"nothing that was asked for regressed or was fixed {between}")
    rule = trial.rule
    each = f"{rule.clean} runs of the build that passes and {rule.failing} of the one that fails"
    console.note(
        f"{count_of(changes, 'change')} {between}, {len(trial.groups)} to be confirmed, each by {each}"
    )
    if trial.job is not None:
        console.note(f"whenever it is broken off, this goes on with it: {trial.job.command}")
    return None


def _say(group: Group, step: Step, done: int) -> None:
    side = "old" if step.action is Action.RUN_OLD else "new"
    console.note(f"{group.change.case}, run {done + 1} on the {side} build: {step.why} ({step.left} to go)")


def show(trial: Trial, told: Sequence[Confirmed], *, json: bool) -> None:
    """Print what is sure and why."""
    if json:
        return console.say(console.as_json([_data(one) for one in told]))
    if told:
        console.say(f"{trial.old.track} {trial.old.version} -> {trial.new.version}")
    for one in told:
        console.say("\n".join(_lines(one)))
    counts = Counter(str(one.step.action) for one in told)
    if told:
        console.note(", ".join(f"{count} {action}" for action, count in sorted(counts.items())))
    if trial.rule != THOROUGH and counts[Action.CONFIRMED]:
        console.note(
            "a changelog calls a change confirmed after a thorough confirmation only, without --quick"
        )
    return None


def _lines(one: Confirmed) -> list[str]:
    change = one.group.change
    where = "" if change.adapter == NO_ADAPTER else f" on {change.adapter}"
    lines = [
        f"  {change.kind}, {one.step.action}: {change.case}{where}: {_verdict(change.old)} -> {_verdict(change.new)}",
        f"    {one.step.why}",
    ]
    if others := one.group.others:
        few = ", ".join(others[:8]) + (f" and {len(others) - 8} more" if len(others) > 8 else "")
        lines.append(f"    changed in the same way, and not run: {few}")
    return lines


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    return str(verdict.state) if verdict.reason == verdict.state else f"{verdict.state} ({verdict.reason})"


def _data(one: Confirmed) -> dict[str, object]:
    change: VerdictChange = one.group.change
    return {
        "case": change.case,
        "adapter": change.adapter,
        "kind": change.kind,
        "old": change.old,
        "new": change.new,
        "others": one.group.others,
        "word": one.step.action,
        "why": one.step.why,
        "runs": one.runs,
    }
