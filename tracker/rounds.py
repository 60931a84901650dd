"""Take the times of two builds in turns, each round in fresh processes, and compare them case by case.

Runs over environments that are there, in the order A B B A. Every round is an observation like any other, with a
number from ``judge.ROUNDS`` on as its attempt, so that it is evidence and moves no verdict.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from tracker.environments import Environment, read_marker
from tracker.errors import UsageError
from tracker.execute import spec_of
from tracker.files import remove_tree
from tracker.home import FRESH_WAIT, Home
from tracker.installs import Installed, Installer
from tracker.job import Job, Reporter, observe
from tracker.judge import ROUNDS
from tracker.locate import locate
from tracker.machine import boot_id
from tracker.matrix import Case
from tracker.model import Build, Cell, Ending, Observation, RunFinished, RunStarted
from tracker.plan import RIGHT, cell_of
from tracker.running import Wish, options_of, prepare
from tracker.speed import Comparison, compare, seconds_of, times_as_fast, turns
from tracker.takeover import Kept, keep
from tracker.workers import WorkerSpec, limits_from, run_cases

USUAL_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class SpeedWish:
    """What a command line asks of a comparison. The same build twice shows how far it differs from itself."""

    old: str
    new: str
    cases: tuple[str, ...] = ()
    rounds: int = USUAL_ROUNDS
    track: str = "torch-directml"
    size: str = ""
    device: str = ""
    adapter: str = ""

    def command(self, of: str = "") -> str:
        """Return the command line of this comparison, or of a run of ``of`` under the same options."""
        options = options_of(self.cases, self.track, self.size, self.device, self.adapter)
        if of:
            return " ".join(["dmltrack run", of, *options])
        rounds = [f"--rounds {self.rounds}"] if self.rounds != USUAL_ROUNDS else []
        return " ".join(["dmltrack speed", self.old, self.new, *options, *rounds])


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two builds, ready to run."""

    build: Build
    recipe: str
    spec: WorkerSpec
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Duel:
    """Two builds and the cases that both send times of."""

    job: Job
    sides: tuple[Side, Side]
    cases: tuple[Case, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Round:
    """What one process of one build gave for a case. ``seconds`` is None where the case did not come out right."""

    side: int
    case: str
    word: str
    seconds: float | None
    cpu_seconds: float | None


@dataclass(frozen=True, slots=True)
class CaseSpeed:
    """One case of two builds. ``failed`` counts rounds that gave no time, by what became of them.

    ``times_cpu``: how many times as fast as the CPU the new build is, by rounds of the same processes; None for
    torch on the CPU itself.
    ``times_cuda``: likewise of torch's last run on CUDA on this machine, in ``cuda_version``; None without one.
    """

    case: str
    compared: Comparison
    failed: tuple[tuple[str, int], ...]
    times_cpu: float | None
    times_cuda: float | None
    cuda_version: str


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """A comparison of two builds."""

    run: str
    track: str
    old: str
    new: str
    adapter: str
    rounds: int
    interrupted: bool
    cases: tuple[CaseSpeed, ...]


def prepare_duel(home: Home, wish: SpeedWish, reporter: Reporter) -> Duel:
    """Return what is to be run; the caller holds the home's lock. Raises UsageError where nothing can be."""
    known = home.builds(home.track(wish.track).name)
    builds = (locate(wish.old, known), locate(wish.new, known))
    prepared = prepare(home, _matrix_wish(wish, builds), reporter)
    timed, environments = _timed(home, prepared.job, builds)
    planned = [{case.id: case for case in (*work.cases, *work.alone)} for work in prepared.plan.work]
    cases = tuple(
        case for name, case in (planned[0] if planned else {}).items()
        if name in timed and all(name in each for each in planned)
    )  # fmt: skip
    if not cases:
        names = " and ".join(dict.fromkeys(build.version for build in builds))
        raise UsageError(
            f"no case is known to send times of {names} on this machine",
            hint=f"measure them first: {wish.command(of=' '.join(dict.fromkeys(build.version for build in builds)))}",
        )
    installer = Installer(home, prepared.job, reporter)
    sides = []
    for build in builds:
        recipe = environments[build.version]
        installed = _installed(installer, recipe, wish.command(of=build.version))
        spec = spec_of(prepared.job, build, installed, asdict(home.loaded.settings.suites))
        cells = {case.id: cell_of(build, case, prepared.job.host, prepared.job.digests) for case in cases}
        sides.append(Side(build, recipe, spec, cells))
    return Duel(prepared.job, (sides[0], sides[1]), cases, wish.rounds)


def _matrix_wish(wish: SpeedWish, builds: Sequence[Build]) -> Wish:
    """Return the wish of a run that would take in every case, whatever is known of it, and ask no index."""
    return Wish(
        builds=tuple(dict.fromkeys(build.version for build in builds)),
        track=wish.track,
        again_before=datetime.now(UTC),
        offline=True,
        cases=wish.cases,
        size=wish.size,
        device=wish.device,
        adapter=wish.adapter,
    )


def _timed(home: Home, job: Job, builds: Sequence[Build]) -> tuple[set[str], dict[str, str]]:
    """Return the cases that both builds sent times of, and the environment of each build in which most did."""
    old, new = (build.version for build in builds)
    rows = home.store.query("timed_cases", track=job.track.name, machine=job.host.machine, old=old, new=new)
    cases = [{row["case_id"] for row in rows if row["version"] == version} for version in (old, new)]
    used = {
        version: Counter(row["environment"] for row in rows if row["version"] == version)
        for version in (old, new)
    }
    return cases[0] & cases[1], {
        version: counts.most_common(1)[0][0] for version, counts in used.items() if counts
    }


def _installed(installer: Installer, recipe: str, command: str) -> Installed:
    """Return an environment that must be there; ``command`` would make it again."""
    folder = installer.environments.folder / recipe
    facts = read_marker(folder)
    if facts is None or not facts.ready:
        raise UsageError(f"the environment {recipe} is not there any more", hint=f"make it again: {command}")
    environment = Environment(folder, facts)
    return Installed(environment, installer.worker_environment(environment))


class Fight:
    """Runs the rounds of a duel, each into the journal."""

    def __init__(self, home: Home, duel: Duel, reporter: Reporter, command: str) -> None:
        self._home = home
        self._duel = duel
        self._reporter = reporter
        self._command = command
        self._halted = False
        self.rounds: list[Round] = []

    def run(self) -> None:
        """Run to the end, or until it is asked to stop; what was observed until then stands."""
        journal, job = self._home.journal, self._duel.job
        counts: Counter[str] = Counter()
        journal.append(self._home.machine)
        journal.append(RunStarted(job.run, self._command, 2 * self._duel.rounds * len(self._duel.cases)))
        for done, (side, number) in enumerate(turns(self._duel.rounds), start=1):
            if self._stop():
                break
            started = time.monotonic()
            for seen in self._round(side, ROUNDS + 2 * number + side):
                counts[seen.finding.state] += 1
                self.rounds.append(round_of(side, seen))
            left = (2 * self._duel.rounds - done) * (time.monotonic() - started)
            version = self._duel.sides[side].build.version
            self._reporter.note(f"round {number} of {self._duel.rounds}, {version}: about {left:.0f} s left")
        journal.append(RunFinished(job.run, dict(counts), interrupted=self._home.stop()))
        remove_tree(self._home.folder / "runs")
        self._home.store.refresh(FRESH_WAIT)

    def _stop(self) -> bool:
        return self._home.stop() or self._halted

    def _round(self, at: int, attempt: int) -> Iterator[Observation]:
        """Run every case of one build once: those that may share a process in a fresh one, the others alone."""
        side, job = self._duel.sides[at], self._duel.job
        folder = self._home.folder / "runs" / job.run / side.build.version / str(attempt)
        keep(folder, Kept(job.run, side.recipe, tuple(side.cells.values()), attempt, boot_id()))
        limits = limits_from(self._home.loaded.settings.worker)
        for isolate in (False, True):
            cases = [case for case in self._duel.cases if case.isolate is isolate]
            spec = replace(side.spec, folder=folder)
            for result in run_cases(spec, cases, limits, stop=self._stop, isolate=isolate):
                if result.outcome.ending is Ending.CANCELLED:
                    return
                self._halted |= bool(result.undead)
                seen = observe(job.run, side.cells[result.case], side.recipe, result, attempt)
                self._home.journal.append(seen)
                yield seen


def round_of(side: int, seen: Observation) -> Round:
    """Return what an observation says of speed; only what came out right has times."""
    right = seen.finding.state in RIGHT
    times = [seconds_of(seen.measures, key) if right else None for key in ("each", "cpu_each")]
    word = seen.finding.state if right else f"{seen.finding.state}: {seen.finding.reason}"
    return Round(side, seen.cell.case, str(word) if times[0] or not right else "no times", times[0], times[1])


def report(home: Home, duel: Duel, rounds: Sequence[Round]) -> SpeedReport:
    """Return the comparison of the rounds that were run."""
    cuda = {
        row["case_id"]: (row["version"], json.loads(row["seconds"]))
        for row in home.store.query("baseline_times", machine=duel.job.host.machine, kind="cuda")
    }
    adapter, job = duel.job.host.adapter, duel.job
    cases = tuple(
        _case(case.id, rounds, job.host.device, *cuda.get(case.id, ("", []))) for case in duel.cases
    )
    old, new = (side.build.version for side in duel.sides)
    return SpeedReport(job.run, job.track.name, old, new, adapter, duel.rounds, home.stop(), cases)


def _case(case: str, rounds: Iterable[Round], device: str, cuda_version: str, cuda: list[float]) -> CaseSpeed:
    own = [item for item in rounds if item.case == case]
    old, new = ([item.seconds for item in own if item.side == at and item.seconds] for at in (0, 1))
    cpu = [item.cpu_seconds for item in own if item.side == 1 and item.cpu_seconds]
    failed = Counter(item.word for item in own if not item.seconds)
    baseline = seconds_of({"timing": {"each": cuda}})
    return CaseSpeed(
        case,
        compare(old, new),
        tuple(sorted(failed.items())),
        times_as_fast(cpu, new) if device != "cpu" else None,
        times_as_fast([baseline] if baseline else [], new),
        cuda_version,
    )
