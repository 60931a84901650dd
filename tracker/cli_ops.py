"""The ``ops`` command: what builds register of an operator, and what they computed with it."""

from __future__ import annotations

from tracker import console
from tracker.answers import OperatorHistory, sentence
from tracker.errors import Exit
from tracker.home import Home
from tracker.operator_runs import OperatorRun
from tracker.trackfile import Track
from tracker.views import operator_histories, operator_runs, whence


def ops_command(home: Home, track: Track, name: str, *, json: bool) -> Exit:
    """Print the histories of the operators that a name means; exit 5 where nothing is known of any."""
    histories, runs = operator_histories(home, track, name), operator_runs(home, track, name)
    if json:
        console.say(console.as_json([*map(_census, histories), *map(_run, runs)]))
    else:
        for history in histories:
            where = whence(home, history.machine)
            said = f"{history.operator} [{history.dispatch_key}]: {sentence(history)}"
            console.say(f"{said} ({where})" if where else said)
        _say_runs(home, runs)
    if histories or runs:
        return Exit.OK
    console.note(f"no measured build registers an operator like '{name}', and none was run")
    return Exit.INCONCLUSIVE


def _say_runs(home: Home, runs: list[OperatorRun]) -> None:
    for place in dict.fromkeys((run.adapter, run.machine) for run in runs):
        adapter, machine = place
        where = whence(home, machine)
        console.say(f"run on {adapter}{f' ({where})' if where else ''}:")
        rows = [run for run in runs if (run.adapter, run.machine) == place]
        console.table(
            ("operator", "dtype", "direction", "what came of it"),
            ((run.operator, run.dtype, run.direction, run.says) for run in rows),
        )


def _census(history: OperatorHistory) -> dict[str, object]:
    return {
        "operator": history.operator,
        "dispatch_key": history.dispatch_key,
        "machine": history.machine,
        "spans": history.spans,
        "since": history.since,
        "now": history.now,
        "says": sentence(history),
    }


def _run(run: OperatorRun) -> dict[str, object]:
    return {
        "operator": run.operator,
        "dtype": run.dtype,
        "direction": run.direction,
        "adapter": run.adapter,
        "machine": run.machine,
        "periods": run.periods,
        "says": run.says,
    }
