"""The ``speed`` command: runs two builds in turns and says which is faster, case by case."""

from __future__ import annotations

from collections import Counter

from tracker import console
from tracker.cli_run import NOTHING, Lines, Stop, interrupts
from tracker.errors import Exit, Stopped
from tracker.home import Home
from tracker.rounds import CaseSpeed, Fight, SpeedReport, SpeedWish, prepare_duel, report
from tracker.running import locked
from tracker.speed import ALPHA, LEAST_EFFECT, NOISE_FACTOR, Pace


def speed_command(home: Home, wish: SpeedWish, *, json: bool) -> Exit:
    """Compare two builds for a person (or a script) and return the exit code."""
    home.stop = stop = Stop()
    reporter, command = Lines(NOTHING), wish.command()
    try:
        with locked(home), interrupts(stop):
            duel = prepare_duel(home, wish, reporter)
            versions = " and ".join(side.build.version for side in duel.sides)
            console.note(f"{len(duel.cases)} cases, {duel.rounds} rounds each of {versions}, in turns")
            fight = Fight(home, duel, reporter, command)
            fight.run()
            found = report(home, duel, fight.rounds)
    except (KeyboardInterrupt, Stopped):
        console.note(f"interrupted; it begins anew with: {command}")
        return Exit.INTERRUPTED
    show(found, json=json)
    return exit_code(found)


def exit_code(found: SpeedReport) -> Exit:
    """Return 130 when interrupted, 1 when anything is slower, 5 when nothing could be said, else 0."""
    paces = {case.compared.pace for case in found.cases}
    if found.interrupted:
        return Exit.INTERRUPTED
    if Pace.SLOWER in paces:
        return Exit.REGRESSION
    return Exit.INCONCLUSIVE if paces <= {Pace.INSUFFICIENT} else Exit.OK


def show(found: SpeedReport, *, json: bool) -> None:
    """Print a comparison; times are those of the median round."""
    if json:
        return console.say(console.as_json(found))
    console.say(f"{found.track} {found.old} -> {found.new} on {found.adapter or 'no adapter'}")
    heads = ("case", "old", "new", "new/old", "p", "verdict", "x CPU", "x CUDA")
    console.table(heads, (_row(case) for case in found.cases))
    for case in found.cases:
        for word, count in case.failed:
            console.note(f"{case.case}: {count} rounds without a time: {word}")
    counts = Counter(str(case.compared.pace) for case in found.cases)
    console.note(", ".join(f"{count} {pace}" for pace, count in sorted(counts.items())))
    return console.note(
        f"a difference counts at p < {ALPHA:g} and {LEAST_EFFECT:.0%}, or {NOISE_FACTOR:g} times a build's own noise;"
        " x CPU: how many times as fast as the CPU the new build is"
    )


def _row(case: CaseSpeed) -> tuple[object, ...]:
    found = case.compared
    return (
        case.case,
        *(None if seconds is None else milliseconds(seconds) for seconds in (found.old, found.new)),
        None if found.ratio is None else f"{found.ratio:.3f}",
        None if found.p is None else f"{found.p:.2g}",
        found.pace,
        *(None if times is None else f"{times:.2f}" for times in (case.times_cpu, case.times_cuda)),
    )


def milliseconds(seconds: float) -> str:
    """Return a time for a table, such as ``12.3 ms``."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
