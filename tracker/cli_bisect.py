"""The ``bisect`` command: finds the neighbouring builds between which a case changes, and what they differ in."""

from __future__ import annotations

from tracker import console
from tracker.bisecting import Ask, Evidence, Found, Impossible
from tracker.bisection import Bisected, BisectWish, Search, bisect, look, prepare_search
from tracker.changelog import Changelog
from tracker.cli_run import NOTHING, Lines, Stop, interrupts
from tracker.errors import Exit, Stopped
from tracker.home import Home
from tracker.model import NO_ADAPTER, Observation
from tracker.plan import cell_of
from tracker.publish.changelogs import as_text
from tracker.running import locked
from tracker.views import Views


class OneByOne(Lines):
    """Tells how runs of one case each go on: a line for what each came to."""

    def __init__(self) -> None:
        super().__init__(NOTHING)

    def build_done(self) -> None:
        """Say nothing: the one case has had its line."""

    def observation(self, observation: Observation) -> None:
        """Say what the case came to."""
        found = observation.finding
        reason = f" ({found.reason})" if found.reason != found.state else ""
        message = f": {found.message}" if found.message else ""
        self.note(f"  {found.state}{reason}{message}")


def bisect_command(home: Home, wish: BisectWish, *, json: bool) -> Exit:
    """Bisect for a person (or a script) and return the exit code."""
    home.stop = stop = Stop()
    reporter = OneByOne()
    try:
        with locked(home), interrupts(stop):
            search = prepare_search(home, wish, reporter)
            announce(search)
            done = look(home, search) if wish.plan_only else bisect(home, search, reporter, _say)
    except (KeyboardInterrupt, Stopped):
        console.note(f"interrupted; this goes on where it stopped: {wish.command()}")
        return Exit.INTERRUPTED
    step = done.step
    log = (
        Views(home, search.job.track).changelog(step.before, step.after) if isinstance(step, Found) else None
    )
    if json:
        console.say(console.as_json(_data(search, done, log)))
    else:
        console.say("\n".join(_lines(search, done)))
        if log is not None:
            console.say("\n" + as_text(log).rstrip("\n"))
    if isinstance(step, Impossible):
        return Exit.INCONCLUSIVE
    return Exit.OK


def announce(search: Search) -> None:
    """Say before anything runs what is searched, and where."""
    for text in search.notes:
        console.note(text)
    case, bug, ends = search.subject.case, search.subject.bug, search.ends
    about = f"{case.id} ({bug.id}: {bug.title})" if bug else case.id
    versions = list(search.builds)
    count = versions.index(ends.end) - versions.index(ends.start) + 1
    console.note(f"bisecting {about}{_where(search)}")
    console.note(f"{count} builds of {search.job.track.name}, from {ends.start} to {ends.end}")
    console.note(f"whenever it is broken off, this goes on with it: {search.job.command}")


def _where(search: Search) -> str:
    case, job = search.subject.case, search.job
    adapter = cell_of(next(iter(search.builds.values())), case, job.host, job.digests).adapter
    return "" if adapter == NO_ADAPTER else f" on {adapter}"


def _say(step: Ask, runs: int) -> None:
    console.note(f"run {runs + 1}: {_ask(step)}")


def _ask(step: Ask) -> str:
    runs, builds = count_of(step.times, "run"), count_of(step.left, "build")
    return f"{step.version}, {step.why} ({runs} to go here, {builds} at most)"


def count_of(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _lines(search: Search, done: Bisected) -> list[str]:
    """Return what came of it for a terminal."""
    step, name = done.step, search.subject.case.id
    lines = [f"{version} can not be tested, so the next build is the end" for version in done.skipped]
    if isinstance(step, Ask):
        return [*lines, *_record(done), f"next: {_ask(step)}"]
    lines += _record(done)
    lines += [f"warning: {text}" for text in step.warnings]
    if isinstance(step, Impossible):
        return [*lines, f"{name}: it can not be told: {step.why}"]
    became = "passes from there on" if step.fixed else "fails from there on"
    lines.append(f"{name}: {step.before} -> {step.after}: it {became}")
    if step.holes:
        lines.append(f"between them, and not to be tested: {', '.join(step.holes)}")
    return lines


def _record(done: Bisected) -> list[str]:
    return [f"  {version:<24} {_told(seen)}" for version, seen in done.known.evidence.items()]


def _told(seen: Evidence) -> str:
    parts = (
        f"{count} {word}"
        for count, word in ((seen.good, "passed"), (seen.bad, "failed"), (seen.inconclusive, "inconclusive"))
        if count
    )
    return ", ".join(parts) or "nothing that counts"


def _data(search: Search, done: Bisected, log: Changelog | None) -> dict[str, object]:
    step, bug = done.step, search.subject.bug
    words = {Ask: "next", Found: "found", Impossible: "impossible"}
    return {
        "case": search.subject.case.id,
        "bug": bug.id if bug else None,
        "track": search.job.track.name,
        "adapter": search.job.host.adapter,
        "word": words[type(step)],
        "step": step,
        "skipped": done.skipped,
        "runs": done.runs,
        "evidence": done.known.evidence,
        "changelog": log,
    }
