"""The commands about reports: does a build fix one, and which are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracker import console
from tracker.bug_views import BugAnswer, bug_answer, one_bug, registry
from tracker.errors import Exit, UsageError
from tracker.fixes import Word
from tracker.home import Home
from tracker.publish.bug_text import answer_lines, bug_rows

EXITS = {Word.FIXED: Exit.OK, Word.NEVER: Exit.OK, Word.PRESENT: Exit.REGRESSION, Word.AGAIN: Exit.REGRESSION}


def fixed_command(
    home: Home, text: str, *, build: str, adapter: str, track: str, run: bool, json: bool
) -> Exit:
    """Answer whether a build fixes a report, after running what is missing where that was asked for."""
    bug, of = one_bug(text, registry(home)), home.track(track)
    if run:
        if not bug.case:
            raise UsageError(f"{bug.id} has no reproducer to run: {bug.why_not}")
        from tracker.cli_run import run_command
        from tracker.running import Wish

        wish = Wish((build or "all",), ("bugs",), track, cases=(bug.case,), adapter=adapter, quiet=True)
        if (code := run_command(home, wish)) not in (Exit.OK, Exit.REGRESSION, Exit.INCONCLUSIVE):
            return code
    found = bug_answer(home, of, bug, build, adapter)
    if json:
        console.say(console.as_json(_data(found)))
    else:
        console.say("\n".join(answer_lines(found)))
    return EXITS.get(found.word, Exit.INCONCLUSIVE)


def _data(found: BugAnswer) -> dict[str, object]:
    return {
        "bug": found.bug,
        "build": found.build,
        "word": found.word,
        "lanes": found.told,
        "reference": found.source,
        "doubt": found.doubt,
    }


def bugs_command(home: Home, text: str, *, json: bool) -> Exit:
    """List the reports that fit a text, or all of them."""
    from tracker.bugs import matching

    every = registry(home)
    shown = matching(text, every) if text else list(every)
    if json:
        console.say(console.as_json([{**_fields(bug), "case": bug.case} for bug in shown]))
    else:
        console.table(("report", "priority", "category", "case", "title"), bug_rows(shown))
        cases = len({bug.case for bug in shown if bug.case})
        console.note(
            f"{len(shown)} reports, {sum(bool(bug.case) for bug in shown)} with one of {cases} reproducers"
        )
    return Exit.OK if shown else Exit.INCONCLUSIVE


def add_command(home: Home, files: Sequence[Path], *, json: bool) -> Exit:
    """Add files to the home's own reproducers; all are looked at before the first is copied."""
    from tracker.own_bugs import add, own_bugs, read

    elsewhere = {own.name: own.path for own in own_bugs(home.bug_folders[1:])}
    for path in files:
        read(path)
        if path.stem in elsewhere:
            raise UsageError(f"{elsewhere[path.stem]} has that name already", hint="rename one of them")
        if same := [bug.id for bug in registry(home) if bug.id == path.stem and bug.topic != "own"]:
            raise UsageError(f"'{same[0]}' is a report of the program's; give the file another name")
    added = [add(home.folder, path) for path in files]
    if json:
        console.say(console.as_json([{"id": own.name, "case": own.bug.case} for own in added]))
    for own in () if json else added:
        kind = "function" if own.is_function else "script"
        console.say(f"{own.name} ({kind}): {own.title}")
        console.note(f"run it on every build and ask: dmltrack fixed {own.name} --run")
    return Exit.OK


def reference_command(
    home: Home, folder: Path | None, words: str, doubts: Path | None, tracks: Sequence[str], *, json: bool
) -> Exit:
    """Show the provenance of the reference, or make a bundle of what this machine measured of some tracks."""
    from tracker import reference

    if folder is not None:
        if not words.strip():
            raise UsageError(
                "a bundle needs words for where it was measured",
                hint="--words 'software adapter, Linux; not your GPU'",
            )
        known = reference.make(
            home.journal,
            folder,
            words.strip(),
            machine=home.fingerprint,
            tracks=tracks,
            doubts=reference.read_doubts(doubts) if doubts else None,
            hide={str(home.folder): "<home>", str(Path.home()): "~"},
        )
    else:
        found = reference.provenance()
        if found is None:
            console.note("no measurements come with this program")
            return Exit.INCONCLUSIVE
        known = found
    if json:
        console.say(console.as_json(known))
    else:
        told = {name: getattr(known, name) for name in known.__dataclass_fields__ if name != "suspects"}
        told["suites"] = ", ".join(known.suites)
        told["builds"] = ", ".join(known.builds)
        console.table(
            ("", ""), [*told.items(), *((f"doubt: {name}", why) for name, why in known.suspects.items())]
        )
    return Exit.OK


def _fields(bug: object) -> dict[str, object]:
    return {name: getattr(bug, name) for name in bug.__dataclass_fields__}  # type: ignore[attr-defined]
