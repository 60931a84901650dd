"""One whole run: lock the home, take over what was left, poll, plan, execute, compare.

The order of steps can be read here; each step's work is done elsewhere. Nothing is printed here.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import secrets
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tracker import adapters, matrix
from tracker.changelog import Changelog, pairs
from tracker.changes import ChangeKind
from tracker.config import SuiteSettings
from tracker.errors import Exit, HomeBusy, IndexProblem, OutsideError, UsageError
from tracker.execute import Executor
from tracker.home import FRESH_WAIT, Home
from tracker.job import Job, Reporter, requirements_of
from tracker.locate import predecessor, select
from tracker.matrix import Case, Suite
from tracker.model import Build, Cell, State
from tracker.own_bugs import MODULE, own_bugs, with_own, with_own_digests
from tracker.plan import Host, Plan, make_plan, obstacle, runnable_cells, with_gates, withdrawn
from tracker.poll import poll
from tracker.standing import Demand, Next, next_step, quarantined
from tracker.suite_files import digests as digests_of
from tracker.suite_files import hand_out
from tracker.takeover import take_over
from tracker.trackfile import Track
from tracker.views import (
    Views,
    build_changes,
    cells_of_run,
    host_deaths,
    known_adapters,
    known_cells,
    outdated_environments,
    states_of,
)

DEFAULT_TRACK = "torch-directml"
ADAPTERS = "census/adapters"
"""The case that lists a machine's adapters."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a command line asks of a run. ``again_before``: run again what was observed before this moment."""

    builds: tuple[str, ...] = ()
    suites: tuple[str, ...] = ("all",)
    track: str = DEFAULT_TRACK
    retry: bool = False
    again_before: datetime | None = None
    offline: bool = False
    plan_only: bool = False
    json: bool = False
    cases: tuple[str, ...] = ()
    """Patterns for the names of cases, such as ``operators/add*``; none means every case of the suites."""
    size: str = ""
    device: str = ""
    adapter: str = ""
    quiet: bool = False
    """Print no changelogs: another answer follows."""

    def command(self) -> str:
        """Return the command line that goes on with this run when it was interrupted."""
        words = ["dmltrack run", *self.builds]
        words += [f"--suites {','.join(self.suites)}"] if self.suites != ("all",) else []
        words += options_of(self.cases, self.track, self.size, self.device, self.adapter)
        words += ["--retry"] if self.retry else []
        words += [f"--again-before {self.again_before:%Y-%m-%dT%H:%M:%SZ}"] if self.again_before else []
        words += ["--offline"] if self.offline else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with all that is needed to execute it."""

    plan: Plan
    job: Job
    builds: tuple[Build, ...]
    known: tuple[Build, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a run. ``changelogs`` are of the builds asked for, each against the one before it."""

    run: str
    counts: dict[str, int]
    interrupted: bool
    changelogs: tuple[Changelog, ...]
    exit_code: Exit
    halted: bool = False
    """Whether it ended early because a process would not die."""


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """Hold the home's run lock; raises HomeBusy that says which process holds it."""
    import filelock

    home.folder.mkdir(parents=True, exist_ok=True)
    holder = home.folder / "run.holder.json"
    try:
        with filelock.FileLock(home.folder / "run.lock", timeout=1):
            holder.write_text(
                json.dumps({"pid": os.getpid(), "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"})
            )
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except filelock.Timeout:
        raise HomeBusy(f"another run is going on in {home.folder}{_who(holder)}") from None


def _who(holder: Path) -> str:
    try:
        said = json.loads(holder.read_text("utf-8"))
        return f" (process {said['pid']}, since {said['since']})"
    except (OSError, ValueError, KeyError):
        return ""


def quoted(word: str, platform: str = sys.platform) -> str:
    """Return the word as a command line of this system needs it."""
    return subprocess.list2cmdline([word]) if platform == "win32" else shlex.quote(word)


def options_of(cases: Sequence[str], track: str, size: str, device: str, adapter: str) -> list[str]:
    """Return the options of a command line that say what is run, and where."""
    words = [f"--cases {quoted(pattern)}" for pattern in cases]
    words += [f"--track {track}"] if track != DEFAULT_TRACK else []
    words += [f"--size {size}"] if size else []
    words += [f"--device {device}"] if device else []
    words += [f"--adapter {quoted(adapter)}"] if adapter else []
    return words


def prepare(home: Home, wish: Wish, reporter: Reporter) -> Prepared:
    """Return what a run would do; the caller holds the lock."""
    track = on_device(home.track(wish.track), wish.device)
    if wish.adapter and track.device == "cpu":
        raise UsageError(
            f"'--adapter {wish.adapter}' chooses among GPUs, and this run computes on the CPU",
            hint="leave it out, or take another --device or --track",
        )
    home.store.refresh(FRESH_WAIT)
    suites_folder = hand_out(home.folder)
    size = wish.size or home.loaded.settings.suites.size
    shipped = matrix.load_suites(suites_folder / "suites", size)
    own = own_bugs(home.bug_folders)
    every = with_own(shipped, own)
    suites = chosen_suites(every, wish.suites)
    cases = chosen_cases(suites, every, wish.cases)
    notes = [f"took over {saved} results of an interrupted run"] if (saved := _salvage(home)) else []
    notes += _ask_index(home, track, wish)
    known = home.builds(track.name)
    listed, builds = _builds(known, track, wish)
    parts = [MODULE, *(part for suite in shipped for part in suite.parts)]
    digests = with_own_digests(digests_of(suites_folder, parts), own)
    digests = _with_options(home, track, every, digests)
    host = Host(home.fingerprint, home.machine.directx, device=track.device)
    job = Job(_run_id(), wish.command(), track, host, suites_folder, digests, _requirements(every, cases))
    if any(case.needs == "device" for case in cases):
        (asking,) = [case for suite in every for case in suite.cases if case.id == ADAPTERS]
        adapter, host = _adapter(home, job, builds[-1], asking, wish, reporter)
        job = replace(job, adapter=adapter, host=host)
    plan = make_plan(builds, cases, job.host, digests, *_steps(home, track, builds, wish))
    if not wish.builds or "all" in wish.builds:
        plan = replace(plan, left_out=(*withdrawn(listed, builds), *plan.left_out))
    cells = tuple(runnable_cells(builds, cases, job.host, digests))
    # Nothing is installed for a suite of which no case can run here.
    possible = [case for case in cases if obstacle(case, job.host) is None]
    job = replace(job, requirements=_requirements(every, possible))
    return Prepared(plan, job, tuple(builds), tuple(known), cells, tuple(notes))


def _with_options(
    home: Home, track: Track, suites: Sequence[Suite], digests: Mapping[str, str]
) -> dict[str, str]:
    """Return the digests, other ones where a suite's results rest on settings that are not the usual ones."""
    ours, usual = home.loaded.settings.suites, SuiteSettings()
    found = dict(digests)
    for suite in suites:
        changed: dict[str, object] = {
            name: getattr(ours, name) for name in suite.options if getattr(ours, name) != getattr(usual, name)
        }
        if not track.tiled_resources and any(case.needs == "device" for case in suite.cases):
            changed["tiled_resources"] = False
        if changed:
            for part in suite.parts:
                text = json.dumps([digests[part], changed], sort_keys=True)
                found[part] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _requirements(suites: Sequence[Suite], cases: Sequence[Case]) -> tuple[str, ...]:
    """Return what the suites of the cases need to be installed."""
    named = {case.suite for case in cases}
    return requirements_of(suite.requirements for suite in suites if suite.name in named)


def on_device(track: Track, device: str) -> Track:
    """Return the track with the kind of device that was asked for, which only torch itself has a choice of."""
    if not device or device == track.device:
        return track
    possible = ("cpu", "cuda") if track.package == "torch" else (track.device,)
    if device not in possible:
        raise UsageError(
            f"track {track.name} computes on {' or '.join(possible)}, not on '{device}'",
            hint="the baselines are in their own track: --track torch --device cpu",
        )
    return replace(track, device=device)


def _builds(known: Sequence[Build], track: Track, wish: Wish) -> tuple[list[Build], list[Build]]:
    """Return the builds on the index, and those of them that were asked for."""
    listed = [build for build in known if build.files]
    if not listed and wish.offline and not known:
        raise UsageError(
            f"no build of {track.name} is known yet",
            hint="ask the index once, without --offline: dmltrack poll",
        )
    if not listed:
        raise OutsideError(
            f"the index lists no build of {track.package}", hint="check index.url with 'dmltrack config'"
        )
    builds = select(wish.builds, listed, withdrawn=track.yanked)
    if not builds:
        raise UsageError(
            f"no build of {track.name} to run", hint="every build is withdrawn; name one to run it"
        )
    return listed, builds


def _adapter(
    home: Home, job: Job, build: Build, asking: Case, wish: Wish, reporter: Reporter
) -> tuple[str, Host]:
    """Return the name of the adapter that a run computes on, empty where there is none, and the host with it.

    A machine whose adapters are not known yet is asked through the newest build, which takes a moment.
    """
    host = job.host
    if host.device == "cpu":
        return "cpu", replace(host, adapter="cpu")
    names = None if obstacle(asking, host) else known_adapters(home, job.track)
    if names is None:
        if obstacle(asking, host) or wish.plan_only:
            return "", host
        said = Executor(home, job, reporter).ask(build, asking)
        home.store.refresh(FRESH_WAIT)
        names = known_adapters(home, job.track)
        if names is None:
            return "", replace(host, no_adapter=f"the adapters of this machine could not be listed ({said})")
    name = adapters.choose(names, wish.adapter or home.loaded.settings.worker.adapter)
    if name is None:
        return "", replace(host, no_adapter="the builds find no adapter that can compute on this machine")
    return name, replace(host, adapter=adapters.adapter(name).label)


def _steps(
    home: Home, track: Track, builds: Sequence[Build], wish: Wish
) -> tuple[Callable[[Cell, Case], Next], Callable[[Cell], State | None]]:
    """Return the functions that say what is to be done about a cell, and what state it is known to be in."""
    known, deaths = known_cells(home, track, home.fingerprint), host_deaths(home, track, home.fingerprint)
    outdated, changed = outdated_environments(home, track, builds), build_changes(home, track)
    demand = Demand(wish.retry, wish.again_before)

    def step(cell: Cell, case: Case) -> Next:
        if quarantined(deaths.get(cell, 0), case.isolate, demand):
            return Next.QUARANTINED
        return next_step(known.get(cell), outdated, changed.get(cell.version), demand)

    def state(cell: Cell) -> State | None:
        found = known.get(cell)
        return found.state if found is not None else None

    return step, state


def _salvage(home: Home) -> int:
    if not (home.folder / "runs").exists():
        return 0
    saved = take_over(home, cache(lambda run: cells_of_run(home, run)))
    home.store.refresh(FRESH_WAIT)
    return saved


def _ask_index(home: Home, track: Track, wish: Wish) -> list[str]:
    """Poll; an index that does not answer soon is no obstacle when builds are known already."""
    if wish.offline:
        return []
    known = bool(home.builds(track.name))
    try:
        polled = poll(home, track, patient=not known)
    except IndexProblem as problem:
        if not known:
            raise
        return [f"the index did not answer, going on with the builds known: {problem.message}"]
    return [f"warning: {text}" for text in polled.result.warnings]


def chosen_suites(suites: Sequence[Suite], names: Sequence[str]) -> list[Suite]:
    """Return the suites of these names; raises UsageError for one that does not exist."""
    known = {suite.name: suite for suite in suites}
    if "all" in names:
        return list(suites)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no suite '{name}'", hint=f"known suites: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def chosen_cases(suites: Sequence[Suite], every: Sequence[Suite], patterns: Sequence[str]) -> list[Case]:
    """Return the cases of these suites that fit one of the patterns, and those that they come after.

    Raises UsageError for a pattern that no case fits.
    """
    cases = [case for suite in suites for case in suite.cases]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(case.id, pattern) for case in cases):
            raise UsageError(
                f"no case of {', '.join(suite.name for suite in suites)} is named like '{pattern}'",
                hint='a pattern fits the whole name: "operators/add/*", "*resnet18*"',
            )
    chosen = [case for case in cases if any(fnmatch.fnmatchcase(case.id, pattern) for pattern in patterns)]
    return with_gates(chosen if patterns else cases, [case for suite in every for case in suite.cases])


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def carry_out(home: Home, prepared: Prepared, reporter: Reporter) -> Result:
    """Execute a plan and return what came of it."""
    counts, halted = Counter[str](), False
    if prepared.plan.cells:
        executor = Executor(home, prepared.job, reporter)
        counts = executor.execute(prepared.plan)
        halted = executor.halted
    logs = tuple(compare_neighbours(home, prepared))
    interrupted = home.stop()
    code = exit_code(home, prepared, counts, logs, interrupted)
    if halted and not interrupted:
        code = Exit.OUTSIDE
    return Result(prepared.job.run, dict(counts), interrupted, logs, code, halted)


def compare_neighbours(home: Home, prepared: Prepared) -> Iterator[Changelog]:
    """Yield the changelog of each build that was asked for against the one before it among them.

    A build that was asked for alone is compared with the one before it on the index.
    """
    versions = [build.version for build in prepared.builds]
    views = Views(home, prepared.job.track)
    before = predecessor(prepared.builds[0], prepared.known) if len(versions) == 1 else None
    for old, new in pairs([before.version, *versions] if before else versions):
        yield views.changelog(old, new)


def exit_code(
    home: Home, prepared: Prepared, counts: Mapping[str, int], logs: Sequence[Changelog], interrupted: bool
) -> Exit:
    """Return 130 when interrupted, 5 when nothing conclusive came of it, 1 on a regression, else 0.

    When nothing had to be executed, what is on record of the cells asked for decides.
    """
    if interrupted:
        return Exit.INTERRUPTED
    states = counts.keys() if prepared.plan.cells else states_of(home, prepared.cells)
    if not any(State(state).conclusive for state in states):
        return Exit.INCONCLUSIVE
    regressed = any(change.kind is ChangeKind.REGRESSED for log in logs for change in log.verdicts)
    return Exit.REGRESSION if regressed else Exit.OK
