"""The command line: what can be asked for, and how errors and exit codes reach the shell.

Each command is a few lines: it opens the home folder, lets a workflow do the work, and prints the answer. What
a query does not need is not imported, because a question must be answered in a moment.
"""

from __future__ import annotations

import gc
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tracker import console
from tracker.config import home_folder
from tracker.errors import Exit, OutsideError, TrackerError, UsageError
from tracker.home import NO_REFERENCE, Home, check_text

app = typer.Typer(
    name="dmltrack",
    help="What changed between two torch-directml builds, and does build X fix bug Y?",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]
TrackName = Annotated[str, typer.Option("--track", help="The package to follow; see tracker/tracks.")]
DEFAULT_TRACK = "torch-directml"
TRACEBACK_LINES = 12


def _home() -> Home:
    return Home(home_folder())


@app.callback()
def options(
    home: Annotated[
        Path | None, typer.Option("--home", help="The home folder, instead of DMLTRACK_HOME or the default.")
    ] = None,
    no_reference: Annotated[
        bool,
        typer.Option("--no-reference", help="Leave out what was measured once and came with the program."),
    ] = False,
) -> None:
    """Look at every torch-directml build: measure it, compare it, answer for it."""
    if no_reference:
        os.environ[NO_REFERENCE] = "1"
    if home is not None:
        try:
            os.environ["DMLTRACK_HOME"] = str(home.expanduser().absolute())
        except RuntimeError as error:
            raise UsageError(f"--home: {error}") from None


@app.command()
def doctor(json: Json = False, track: TrackName = DEFAULT_TRACK) -> None:
    """Check that this machine has all that a run needs."""
    from tracker.doctor import Health, examine

    home = _home()
    checks = list(examine(home, home.track(track)))
    if json:
        console.say(console.as_json(checks))
    else:
        for check in checks:
            console.say(f"{check.health:<8} {check.name}: {check.detail}")
            if check.hint and check.health is not Health.PASS:
                console.say(f"{'':<8} hint: {check.hint}")
    if any(check.health is Health.FAIL for check in checks):
        raise typer.Exit(Exit.OUTSIDE)


@app.command()
def poll(json: Json = False, track: TrackName = DEFAULT_TRACK) -> None:
    """Ask the index what is new."""
    from tracker.poll import poll as ask

    home = _home()
    polled = ask(home, home.track(track))
    if json:
        return console.say(console.as_json(polled))
    for warning in polled.result.warnings:
        console.note(f"warning: {warning}")
    for change in polled.changes:
        console.say(f"{change.kind}: {change.version} {change.subject}".rstrip())
    console.note(f"{polled.result.builds} builds of {track} on the index, {len(polled.changes)} changes")
    return None


@app.command()
def builds(json: Json = False, track: TrackName = DEFAULT_TRACK) -> None:
    """List every build that is known, oldest first."""
    from tracker.model import REFERENCE
    from tracker.views import build_rows, whence

    home = _home()
    rows = build_rows(home, home.track(track))
    _note_age(home)
    if json:
        return console.say(console.as_json(rows))
    if not rows:
        console.note("no build is known yet; 'dmltrack poll' asks the index")
    heads = ("version", "uploaded", "pythons", "torch", "DirectML", "kernels", "status")
    console.table(heads, (row.cells() for row in rows))
    if shipped := sum(row.kernels_from == REFERENCE for row in rows):
        console.note(f"kernels of {shipped} builds: {whence(home, REFERENCE)}")
    return None


@app.command()
def inspect(
    build: Annotated[str, typer.Argument(help="A version, the end of one (240914), or 'newest'.")],
    other: Annotated[str | None, typer.Argument(help="A second build, to compare the first with.")] = None,
    platform: Annotated[str, typer.Option(help="win or linux: whose wheel to read.")] = "win",
    json: Json = False,
    track: TrackName = DEFAULT_TRACK,
) -> None:
    """Read a build's wheel without installing it, or say what differs between two."""
    from tracker.inspection import inspect_build, wanted_platform
    from tracker.publish.wheel_text import comparison_lines, facts_lines
    from tracker.wheel_changes import wheel_changes

    home = _home()
    where = wanted_platform(platform)
    first = inspect_build(home, home.track(track), build, where)
    if other is None:
        return _show(first, json, facts_lines(first))
    changes = wheel_changes(first, inspect_build(home, home.track(track), other, where))
    return _show(changes, json, comparison_lines(changes))


@app.command()
def run(
    builds: Annotated[list[str] | None, typer.Argument(help="Builds to run; none: the newest two.")] = None,
    all_builds: Annotated[str | None, typer.Option("--builds", help="'all', or builds by commas.")] = None,
    suites: Annotated[str, typer.Option(help="Suites by commas, or 'all'.")] = "all",
    cases: Annotated[
        list[str] | None, typer.Option(help="Only cases named like this: '*resnet18*'. May be repeated.")
    ] = None,
    size: Annotated[str, typer.Option(help="full, or small for a slow device (default: the setting).")] = "",
    track: TrackName = DEFAULT_TRACK,
    device: Annotated[str, typer.Option(help="Of track torch: cpu or cuda.")] = "",
    adapter: Annotated[str, typer.Option(help="A regular expression for the adapter's name.")] = "",
    retry: Annotated[bool, typer.Option("--retry", help="Also run again what was inconclusive.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Run again everything that is asked for.")] = False,
    again_before: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%dT%H:%M:%SZ"], help="Run again what was observed before this time (UTC)."
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the index what is new.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what would run, and stop.")] = False,
    json: Json = False,
) -> None:
    """Install builds, run the suites in each, and tell what changed. Goes on where it was interrupted."""
    from tracker.cli_run import run_command
    from tracker.running import Wish

    words = [*(builds or []), *(all_builds.split(",") if all_builds else [])]
    moment = again_before.replace(tzinfo=UTC) if again_before else datetime.now(UTC) if again else None
    if size not in ("", "full", "small"):
        raise UsageError(f"there is no size '{size}'", hint="full or small")
    wish = Wish(
        *(tuple(words), tuple(suites.split(",")), track, retry, moment, offline, plan_only, json),
        cases=tuple(cases or ()),
        size=size,
        device=device,
        adapter=adapter,
    )
    raise typer.Exit(run_command(_home(), wish))


@app.command()
def changelog(
    builds: Annotated[
        list[str] | None, typer.Argument(help="OLD NEW, or NEW against the one before it.")
    ] = None,
    all_builds: Annotated[bool, typer.Option("--all", help="Every build against the one before it.")] = False,
    form: Annotated[str, typer.Option("--format", help="text, md or json.")] = "text",
    json: Json = False,
    track: TrackName = DEFAULT_TRACK,
) -> None:
    """Tell what changed between builds: wheel, kernels, Python API, verdicts."""
    from tracker.publish.changelogs import FORMATS
    from tracker.views import changelogs

    form = "json" if json else form
    if form not in FORMATS:
        raise UsageError(f"there is no format '{form}'", hint=f"known formats: {', '.join(FORMATS)}")
    home = _home()
    logs = changelogs(home, home.track(track), builds or [], everything=all_builds)
    _note_age(home)
    console.say(FORMATS[form](logs).rstrip("\n"))
    if not any(log.conclusive for log in logs):
        raise typer.Exit(Exit.INCONCLUSIVE)


@app.command()
def ops(
    name: Annotated[str, typer.Argument(help="An operator: layer_norm, aten::add.out.")],
    json: Json = False,
    track: TrackName = DEFAULT_TRACK,
) -> None:
    """Tell since which build an operator is a native kernel, and what it gave at each build where it was run."""
    from tracker.cli_ops import ops_command

    home = _home()
    code = ops_command(home, home.track(track), name, json=json)
    _note_age(home)
    raise typer.Exit(code)


@app.command()
def explain(
    case: Annotated[str, typer.Argument(help="A case, such as census/import; a part of its name will do.")],
    build: Annotated[str | None, typer.Option("--build", help="Only this build.")] = None,
    json: Json = False,
    track: TrackName = DEFAULT_TRACK,
) -> None:
    """Show the evidence behind verdicts: every observation of a case."""
    from json import loads

    from tracker.views import evidence

    home = _home()
    rows = evidence(home, home.track(track), case, build)
    _note_age(home)
    outcomes = [loads(row.outcome) for row in rows]
    if json:
        told = [{**_fields(row), "outcome": outcome} for row, outcome in zip(rows, outcomes, strict=True)]
        console.say(console.as_json(told))
    for row, outcome in () if json else zip(rows, outcomes, strict=True):
        console.say("\n".join([*row.lines(), *_end_of(outcome["traceback"])]))
    if not rows:
        console.note(f"nothing was observed of a case like '{case}'")
        raise typer.Exit(Exit.INCONCLUSIVE)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="A query; db/README.md has the tables.")],
    json: Json = False,
) -> None:
    """Ask the database in SQL. It can not be changed by this."""
    from tracker.store import distinct

    home = _home()
    answer = home.store.sql(query)
    _note_age(home)
    if json:
        names = distinct(answer.columns)
        rows = [dict(zip(names, row, strict=True)) for row in answer.rows]
        return console.say(console.as_json(rows))
    console.table(answer.columns, answer.rows)
    return None


@app.command()
def config(json: Json = False) -> None:
    """Show every setting with the place its value came from."""
    home = _home()
    rows = home.loaded.rows()
    if json:
        named = [{"name": name, "value": value, "source": source} for name, value, source in rows]
        return console.say(console.as_json({"home": str(home.folder), "settings": named}))
    console.say(f"home folder: {home.folder}")
    console.table(("setting", "value", "from"), rows)
    return None


@app.command()
def rebuild(json: Json = False) -> None:
    """Make the database anew from the journal."""
    import time

    home = _home()
    started = time.monotonic()
    home.store.rebuild()
    [row] = home.store.query("totals")
    seconds = time.monotonic() - started
    if json:
        return console.say(console.as_json({"observations": row["observations"], "seconds": seconds}))
    return console.note(f"{row['observations']} observations in {console.duration(seconds)}")


@app.command()
def speed(
    old: Annotated[str, typer.Argument(help="The build to compare with.")],
    new: Annotated[str, typer.Argument(help="The build in question; the same one shows its own noise.")],
    cases: Annotated[
        list[str] | None, typer.Option(help="Only cases named like this. May be repeated.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=4, max=50, help="Fresh processes of each build.")] = 8,
    size: Annotated[str, typer.Option(help="full, or small for a slow device (default: the setting).")] = "",
    track: TrackName = DEFAULT_TRACK,
    device: Annotated[str, typer.Option(help="Of track torch: cpu or cuda.")] = "",
    adapter: Annotated[str, typer.Option(help="A regular expression for the adapter's name.")] = "",
    json: Json = False,
) -> None:
    """Run two measured builds in turns, and tell which one is faster."""
    from tracker.cli_speed import speed_command
    from tracker.rounds import SpeedWish

    wish = SpeedWish(old, new, tuple(cases or ()), rounds, track, size, device, adapter)
    raise typer.Exit(speed_command(_home(), wish, json=json))


@app.command()
def bisect(
    subject: Annotated[
        str,
        typer.Argument(help="A case (a part of its name will do), or a report: its id, number, link, words."),
    ],
    good: Annotated[str, typer.Option(help="A build at which it is known to be good.")] = "",
    bad: Annotated[str, typer.Option(help="A build at which it is known to be bad.")] = "",
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Runs that must agree on a build.")] = 3,
    adapter: Annotated[str, typer.Option(help="A regular expression for the adapter's name.")] = "",
    track: TrackName = DEFAULT_TRACK,
    device: Annotated[str, typer.Option(help="Of track torch: cpu or cuda.")] = "",
    size: Annotated[str, typer.Option(help="full, or small for a slow device (default: the setting).")] = "",
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what is known and what is next.")] = False,
    json: Json = False,
) -> None:
    """Find the two neighbouring builds between which a case or a bug changes, by running it. Exit 5: can not tell."""
    from tracker.bisection import BisectWish
    from tracker.cli_bisect import bisect_command

    _check_size(size)
    wish = BisectWish(subject, good, bad, repeats, adapter, track, device, size, plan_only)
    raise typer.Exit(bisect_command(_home(), wish, json=json))


@app.command()
def confirm(
    builds: Annotated[list[str], typer.Argument(help="OLD NEW, or NEW against the one before it.")],
    cases: Annotated[
        list[str] | None, typer.Option(help="Only cases named like this. May be repeated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Seven runs of each build: enough to see that nothing changed.")
    ] = False,
    each: Annotated[bool, typer.Option("--each", help="Every change, not one of each kind.")] = False,
    adapter: Annotated[str, typer.Option(help="A regular expression for the adapter's name.")] = "",
    track: TrackName = DEFAULT_TRACK,
    device: Annotated[str, typer.Option(help="Of track torch: cpu or cuda.")] = "",
    size: Annotated[str, typer.Option(help="full, or small for a slow device (default: the setting).")] = "",
    json: Json = False,
) -> None:
    """Run what regressed or was fixed again on both builds, in turns, and tell what is sure and what is flaky."""
    from tracker.cli_confirm import confirm_command
    from tracker.confirm import ConfirmWish

    _check_size(size)
    wish = ConfirmWish(tuple(builds), tuple(cases or ()), quick, each, adapter, track, device, size)
    raise typer.Exit(confirm_command(_home(), wish, json=json))


def _check_size(size: str) -> None:
    if size not in ("", "full", "small"):
        raise UsageError(f"there is no size '{size}'", hint="full or small")


@app.command()
def rejudge(
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    json: Json = False,
) -> None:
    """Judge old observations by today's rules, and tell which verdicts that changes. Runs nothing."""
    from tracker.cli_rejudge import rejudge_command

    rejudge_command(_home(), check=check, json=json)


@app.command()
def fixed(
    bug: Annotated[str, typer.Argument(help="A report: its id, number (364), link, or words of its title.")],
    build: Annotated[
        str, typer.Option("--in", help="The build asked about (default: the newest known).")
    ] = "",
    adapter: Annotated[str, typer.Option(help="Only adapters named like this (a regular expression).")] = "",
    run_first: Annotated[bool, typer.Option("--run", help="Run what is missing before.")] = False,
    json: Json = False,
    track: TrackName = DEFAULT_TRACK,
) -> None:
    """Say whether a build fixes a reported bug, with the evidence. Exit 0: it is not there, 1: it is, 5: unknown."""
    from tracker.cli_bugs import fixed_command

    home = _home()
    code = fixed_command(home, bug, build=build, adapter=adapter, track=track, run=run_first, json=json)
    _note_age(home)
    raise typer.Exit(code)


@app.command()
def recommend(
    bugs: Annotated[str, typer.Option(help="Reports that must not be there, by commas: 364,739.")] = "",
    ops: Annotated[str, typer.Option(help="Operators that must work, by commas.")] = "",
    suites: Annotated[str, typer.Option(help="Suites that must pass, by commas.")] = "",
    json: Json = False,
    track: TrackName = DEFAULT_TRACK,
) -> None:
    """Say which build to use on this machine for what you need, and what each would cost."""
    from tracker.cli_recommend import recommend_command

    home = _home()
    wanted = {
        name: [word for word in text.split(",") if word]
        for name, text in (("bugs", bugs), ("ops", ops), ("suites", suites))
    }
    code = recommend_command(home, home.track(track), **wanted, json=json)
    _note_age(home)
    raise typer.Exit(code)


@app.command()
def reference(
    make: Annotated[
        Path | None,
        typer.Option("--make", help="Write a bundle of this home's measurements into this folder."),
    ] = None,
    words: Annotated[
        str, typer.Option(help="Of --make: what every answer says of where it was measured.")
    ] = "",
    doubts: Annotated[
        Path | None,
        typer.Option(
            help="Of --make: a TOML file with a 'note', and a table 'suspects' of cases with reasons."
        ),
    ] = None,
    tracks: Annotated[str, typer.Option(help="Of --make: the tracks that go in, by commas.")] = DEFAULT_TRACK,
    json: Json = False,
) -> None:
    """Show where the measurements that come with the program are from, or make such a bundle anew."""
    from tracker.cli_bugs import reference_command

    raise typer.Exit(reference_command(_home(), make, words, doubts, tracks.split(","), json=json))


queue_app = typer.Typer(help="What waits to be run on this machine: see it, add to it, do it.")
app.add_typer(queue_app, name="queue")


@queue_app.command("list")
def queue_list(json: Json = False) -> None:
    """Show what waits, in the order in which it will be done, and what was done last."""
    from tracker.cli_queue import list_command

    raise typer.Exit(list_command(_home(), json=json))


@queue_app.command("add")
def queue_add(
    builds: Annotated[list[str] | None, typer.Argument(help="Builds to run; none: the newest two.")] = None,
    suites: Annotated[str, typer.Option(help="Suites by commas, or 'all'.")] = "all",
    cases: Annotated[
        list[str] | None, typer.Option(help="Only cases named like this. May be repeated.")
    ] = None,
    confirm_changes: Annotated[
        bool, typer.Option("--confirm", help="Confirm what changed between OLD NEW instead of a run.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run again everything that is asked for.")] = False,
    size: Annotated[str, typer.Option(help="full, or small for a slow device (default: the setting).")] = "",
    track: TrackName = DEFAULT_TRACK,
    device: Annotated[str, typer.Option(help="Of track torch: cpu or cuda.")] = "",
    adapter: Annotated[str, typer.Option(help="A regular expression for the adapter's name.")] = "",
    json: Json = False,
) -> None:
    """Put a run, or with --confirm a confirmation, into the queue, before all that nobody asked for."""
    from tracker.cli_queue import Order, add_command

    _check_size(size)
    order = Order(
        builds=tuple(builds or ()),
        suites=tuple(suites.split(",")),
        cases=tuple(cases or ()),
        track=track,
        adapter=adapter,
        device=device,
        size=size,
        confirm=confirm_changes,
        again=again,
    )
    raise typer.Exit(add_command(_home(), order, json=json))


@queue_app.command("cancel")
def queue_cancel(jobs: Annotated[list[str], typer.Argument(help="Names of jobs, or 'all'.")]) -> None:
    """Take jobs out of the queue. One that is being done is not broken off by this."""
    from tracker.cli_queue import cancel_command

    raise typer.Exit(cancel_command(_home(), jobs))


@queue_app.command("pause")
def queue_pause(reason: Annotated[str, typer.Option(help="Why, for whoever wonders.")] = "") -> None:
    """Begin no job any more until 'queue resume'."""
    from tracker.cli_queue import pause_command

    raise typer.Exit(pause_command(_home(), True, reason))


@queue_app.command("resume")
def queue_resume() -> None:
    """Go on after 'queue pause'."""
    from tracker.cli_queue import pause_command

    raise typer.Exit(pause_command(_home(), False, ""))


@queue_app.command("work")
def queue_work() -> None:
    """Do what waits, one job after the other, and end when nothing does. Goes on where it was interrupted."""
    from tracker.cli_queue import work_command

    raise typer.Exit(work_command(_home()))


@app.command()
def serve(
    once: Annotated[
        bool,
        typer.Option("--once", help="Look once, do what is due, and end: for a task that is started daily."),
    ] = False,
) -> None:
    """Look for new builds, run what is due, confirm what changed: until it is stopped."""
    from tracker.cli_serve import serve_command

    raise typer.Exit(serve_command(_home(), once=once))


@app.command()
def status(json: Json = False) -> None:
    """Say how the service is, for a person or a monitor. Exit 0: alive and well, 3: not."""
    from tracker.cli_serve import status_command

    raise typer.Exit(status_command(_home(), json=json))


bugs_app = typer.Typer(help="List the reports that are known, or add a reproducer of your own.")
app.add_typer(bugs_app, name="bugs", invoke_without_command=True)


@bugs_app.callback()
def bugs(
    context: typer.Context,
    like: Annotated[str, typer.Option(help="Only reports like this: a number, words of the title.")] = "",
    json: Json = False,
) -> None:
    """List the public reports that are known, with the cases that reproduce them; or 'bugs add FILE'."""
    from tracker.cli_bugs import bugs_command

    if context.invoked_subcommand is None:
        raise typer.Exit(bugs_command(_home(), like, json=json))


@bugs_app.command("add")
def add_bug(files: Annotated[list[Path], typer.Argument(help="Python files.")], json: Json = False) -> None:
    """Add your own reproducers: scripts (exit 0 good, 1 bad, 125 cannot tell), or files with reproduce(context)."""
    from tracker.cli_bugs import add_command

    raise typer.Exit(add_command(_home(), files, json=json))


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}  # type: ignore[attr-defined]


def _end_of(traceback: str) -> list[str]:
    return [f"  > {line}" for line in traceback.rstrip().splitlines()[-TRACEBACK_LINES:]]


def _show(data: object, json: bool, lines: list[str]) -> None:
    console.say(console.as_json(data) if json else "\n".join(lines))


def _note_age(home: Home) -> None:
    """Say that an answer may be old when the database could not be brought up to date."""
    if home.store.stale_since:
        console.note(f"note: the database is being refreshed; this is its state of {home.store.stale_since}")


def main() -> None:
    """Run the command line; every error ends in one line and an exit code of its class."""
    # A question makes many records and ends: looking for cycles among them every 700 takes longer than it spares.
    gc.set_threshold(50_000)
    console.prepare_streams()
    code = _run(sys.argv[1:])
    try:
        console.flush()
    except TrackerError as error:
        console.show_error(error)
        code = error.exit_code
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Carry out one command and return its exit code."""
    try:
        for argument in arguments:
            check_text(argument, "an argument")
        _invoke(arguments)
    except typer.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except typer.TyperException as error:
        return _usage(error)
    except TrackerError as error:
        console.show_error(error)
        return error.exit_code
    except BrokenPipeError:
        return Exit.INTERRUPTED  # who was to read of the progress is gone
    except OSError as error:
        # A full disk, a read-only home, a file where a folder should be: the host's trouble, not a fault of ours.
        trouble = OutsideError(
            str(error), hint="look at the home folder and the room on its disk: dmltrack doctor"
        )
        console.show_error(trouble)
        return trouble.exit_code
    except Exception as error:
        if isinstance(error, RuntimeError) and "interrupted" in str(error).lower():
            return Exit.INTERRUPTED  # how the database's engine passes on the second interrupt
        return _internal(error)
    return Exit.OK


def _invoke(arguments: list[str]) -> None:
    # Not by calling the app: that ends in exit code 1 on a closed pipe, and 1 means a regression here.
    command = typer.main.get_command(app)
    with command.make_context("dmltrack", arguments or ["--help"]) as context:
        command.invoke(context)


def _usage(error: typer.TyperException) -> int:
    """Show an error of the command line itself as one of ours."""
    context, near = getattr(error, "ctx", None), getattr(error, "possibilities", None)
    said = error.message if near else error.format_message()
    message, _, guess = said.partition(" Did you mean ")
    guess = ", ".join(near) + "?" if near else guess
    path = context.command_path if context is not None else "dmltrack"
    hint = f"did you mean {guess}" if guess else f"'{path} -h' tells what is possible"
    message = message.strip().rstrip(".")
    shown = UsageError(message[:1].lower() + message[1:], hint=hint)
    console.show_error(shown)
    return shown.exit_code


def _internal(error: Exception) -> int:
    """Say that the fault is ours, and keep the traceback where it can be sent from."""
    import traceback

    text = traceback.format_exc()
    try:
        path = home_folder() / "last-error.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", errors="backslashreplace")
        hint = f"the traceback is in {path}; please report it"
    except (OSError, TrackerError):
        console.note(text)
        hint = "please report the traceback above"
    console.show_error(TrackerError(f"{type(error).__name__}: {error}", hint=hint))
    return Exit.INTERNAL
