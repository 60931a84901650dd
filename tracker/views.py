"""What the database holds, as the records that answers are made of.

Turns rows into views of builds and views into changelogs, histories and evidence. The comparing itself is done
by the pure modules; no SQL stands here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

from tracker.answers import OperatorHistory, matching, operator_history
from tracker.attribution import Sides
from tracker.case_runs import with_confidence
from tracker.changelog import SAYS_NOTHING, BuildView, Changelog, Measured, changelog, pairs, shared_machine
from tracker.errors import UsageError
from tracker.home import Home
from tracker.locate import locate, predecessor
from tracker.model import REFERENCE, Build, Cell, Confidence, Platform, State, Verdict
from tracker.operator_runs import OperatorRun, nearest, operator_run, search_text
from tracker.reference import provenance
from tracker.standing import Known
from tracker.trackfile import Track

Verdicts = dict[tuple[str, str], tuple[Cell, Verdict]]
"""By case and adapter."""

_KEY = attrgetter(*(item.name for item in fields(Cell)))
_TORCH = re.compile(r"torch\s*==\s*([^\s;,]+)")


@dataclass(frozen=True, slots=True)
class BuildRow:
    """One build in a listing. ``kernels`` is how many the build itself registers, None when not measured."""

    version: str
    uploaded: datetime | None
    yanked: bool
    pythons: tuple[str, ...]
    torch: str | None
    directml: str | None
    kernels: int | None
    status: str
    verdicts: dict[str, int]
    files: int
    directml_sizes: dict[str, int]
    kernels_from: str = ""
    """The machine that counted the kernels."""

    def cells(self) -> tuple[object, ...]:
        """Return the row of a table for people."""
        day = f"{self.uploaded:%Y-%m-%d}" if self.uploaded else None
        pythons = (
            f"{self.pythons[0]}-{self.pythons[-1]}" if len(self.pythons) > 1 else ", ".join(self.pythons)
        )
        return (self.version, day, pythons, self.torch, self.directml, self.kernels, self.status)


def build_rows(home: Home, track: Track) -> list[BuildRow]:
    """Return every known build of a track, oldest first."""
    asked = {"track": track.name, "machine": home.fingerprint, "hidden": list(home.hidden)}
    rows = home.store.query("builds", **asked)
    return [_build_row(row, track) for row in rows]


def _build_row(row: dict[str, Any], track: Track) -> BuildRow:
    verdicts = {str(state): int(count) for state, count in row["verdicts"].items()}
    sizes = {"win": row["win_directml_size"], "linux": row["linux_directml_size"]}
    return BuildRow(
        version=row["version"],
        uploaded=row["uploaded"],
        yanked=row["yanked"],
        pythons=tuple(row["pythons"]),
        torch=torch_pin(track, row["version"], row["requires"]),
        directml=row["win_directml_version"] or row["linux_directml_version"],
        kernels=row["kernels"],
        kernels_from=row["kernels_from"] or "",
        status=status_of(row["gone"], row["yanked"], verdicts),
        verdicts=verdicts,
        files=row["files"],
        directml_sizes={name: size for name, size in sizes.items() if size is not None},
    )


def status_of(gone: bool, yanked: bool, verdicts: dict[str, int]) -> str:
    """Say in a word or two how far a build is known, the worst thing first."""
    if gone:
        return "gone from the index"
    worst = min((State(state) for state in verdicts), key=lambda state: state.rank, default=None)
    measured = "not run" if worst is None else str(worst)
    return f"withdrawn, {measured}" if yanked else measured


def torch_pin(track: Track, version: str, requires: Sequence[str] | None) -> str | None:
    """Return the torch that a build is used with: its own pin, else the track file's; None when not known.

    ``requires`` is None when no wheel of the build was read, which is not the same as a wheel without any.
    """
    if track.package == "torch":
        return version
    pinned = [] if requires is None else track.requires(version, tuple(requires))
    return next((match[1] for text in [*(requires or ()), *pinned] if (match := _TORCH.match(text))), None)


class Views:
    """The builds of one track as they are known now; each is read from the database once."""

    def __init__(self, home: Home, track: Track) -> None:
        self._store = home.store
        self._home = home
        self._track = track
        self._known: dict[str, BuildView] = {}

    def changelog(self, old: str, new: str) -> Changelog:
        """Return what changed between two builds; this machine's measurements go before another's."""
        before, after = self[old], self[new]
        machine = shared_machine(before, after, self._home.fingerprint)
        verdicts = self._differing(old, new, machine) if machine else {}
        cases = {case for seen in verdicts.values() for case, _ in seen}
        sides, baseline = Sides((before.torch, after.torch)), {}
        if cases:
            sides, baseline = (
                self._sides(before, after, machine),
                self._baseline(before, after, machine, cases),
            )
        first, second = (_with(view, machine, verdicts) for view in (before, after))
        found = changelog(first, second, self._home.fingerprint, sides, baseline)
        return with_confidence(self._store, found)

    def _sides(self, old: BuildView, new: BuildView, machine: str) -> Sides:
        """Return what is known of two builds on the system of the machine that measured them."""
        rows = self._store.query("machine_system", machine=machine)
        here = Platform.WINDOWS if rows and rows[0]["system"] == "Windows" else Platform.LINUX
        wheels = [view.wheels.get(here) for view in (old, new)]
        native = [(wheel.native_sha256 or "") if wheel else "" for wheel in wheels]
        sides = Sides((old.torch, new.torch), (native[0], native[1]))
        return (
            replace(sides, packages=self._packages(old.version, new.version)) if sides.one_binary else sides
        )

    def _packages(self, old: str, new: str) -> tuple[str, ...]:
        """Return the packages beside the build that differ between the environments of two builds."""
        rows = self._store.query("packages_of", track=self._track.name, old=old, new=new)
        sets = {row["version"]: {str(text) for text in row["packages"]} for row in rows}
        differ = sets.get(old, set()) ^ sets.get(new, set())
        names = {text.partition("==")[0].partition(" @")[0] for text in differ}
        return tuple(sorted(names - {self._track.package, self._track.module.replace("_", "-")}))

    def _baseline(
        self, old: BuildView, new: BuildView, machine: str, cases: Iterable[str]
    ) -> dict[str, tuple[Verdict | None, Verdict | None]]:
        """Return what cases gave on the CPU of each build's torch, where those differ."""
        versions = (old.torch, new.torch)
        if None in versions or versions[0] == versions[1]:
            return {}
        asked = {"machine": machine, "versions": list(versions), "cases": sorted(cases)}
        found: dict[str, dict[str, Verdict]] = {}
        for row in self._store.query("baseline_verdicts", **asked):
            verdict = Verdict(
                State(row["state"]),
                row["reason"],
                row["message"],
                Confidence(row["confidence"]),
                row["observations"],
            )
            found.setdefault(row["case_id"], {})[row["version"]] = verdict
        return {
            case: (seen.get(str(versions[0])), seen.get(str(versions[1]))) for case, seen in found.items()
        }

    def _differing(self, old: str, new: str, machine: str) -> dict[str, Verdicts]:
        """Return the verdicts of each of the two builds, without those that are alike and say nothing."""
        quiet = [f"{state} {confidence}" for state, confidence in SAYS_NOTHING]
        asked = {"track": self._track.name, "old": old, "new": new, "machine": machine, "quiet": quiet}
        found: dict[str, Verdicts] = {}
        # Thousands of rows: a look into a table takes a fifth of what the enumeration's own search does.
        states, words = {str(item): item for item in State}, {str(item): item for item in Confidence}
        for row in self._store.answer("verdicts_that_differ", **asked).rows:
            cell, (state, reason, message, confidence, count) = Cell(*row[:7]), row[7:]
            verdict = Verdict(states[state], reason, message, words[confidence], count)
            found.setdefault(cell.version, {})[cell.case, cell.adapter] = (cell, verdict)
        return found

    def __getitem__(self, version: str) -> BuildView:
        """Return all that is known of one build but its verdicts, which are only asked for in pairs."""
        if version not in self._known:
            self._known[version] = self._read(version)
        return self._known[version]

    @cached_property
    def _rows(self) -> dict[str, BuildRow]:
        return {row.version: row for row in build_rows(self._home, self._track)}

    @cached_property
    def _census(self) -> dict[str, dict[tuple[str, str], list[str]]]:
        """Per build, the dispatch keys that torch lacks, by machine and case of each census on record."""
        found: dict[str, dict[tuple[str, str], list[str]]] = {}
        for row in self._store.query("census_of", track=self._track.name):
            key = (row["machine"], row["case_id"])
            found.setdefault(row["version"], {})[key] = row["absent_keys"] or []
        return found

    def _read(self, version: str) -> BuildView:
        row = self._rows[version]
        wheels = self._store.known_wheels(self._track.name, version)
        return BuildView(
            track=self._track.name,
            version=version,
            uploaded=row.uploaded,
            yanked=row.yanked,
            pythons=row.pythons,
            torch=row.torch,
            wheels={wheel.platform: wheel for wheel in wheels},
            measured=self._measured(version),
        )

    def _measured(self, version: str) -> dict[str, Measured]:
        """Return what each machine measured of a build."""
        kernels, api = self._kernels(version), self._api(version)
        rows = self._store.query("machines_of", track=self._track.name, version=version)
        machines = sorted({*kernels, *api, *(row["machine"] for row in rows)} - set(self._home.hidden))
        return {machine: Measured(kernels.get(machine), api.get(machine)) for machine in machines}

    def _machines(self, version: str, case: str) -> list[str]:
        return [machine for machine, measured in self._census.get(version, {}) if measured == case]

    def _kernels(self, version: str) -> dict[str, dict[str, frozenset[str]]]:
        """Return the kernels per dispatch key. A key without any is empty, one that torch lacks is left out."""
        found: dict[str, dict[str, set[str]]] = {}
        for machine in self._machines(version, "census/kernels"):
            absent = self._census[version][machine, "census/kernels"]
            found[machine] = {key: set() for key in self._track.dispatch_keys if key not in absent}
        for row in self._store.query("kernels_of", track=self._track.name, version=version) if found else ():
            found[row["machine"]].setdefault(row["dispatch_key"], set()).add(row["operator"])
        return {
            machine: {key: frozenset(operators) for key, operators in keys.items()}
            for machine, keys in found.items()
        }

    def _api(self, version: str) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {machine: {} for machine in self._machines(version, "census/api")}
        for row in self._store.query("api_of", track=self._track.name, version=version) if found else ():
            found[row["machine"]][row["name"]] = row["signature"]
        return found


def _with(view: BuildView, machine: str, verdicts: Mapping[str, Verdicts]) -> BuildView:
    if machine not in view.measured:
        return view
    measured = replace(view.measured[machine], verdicts=verdicts.get(view.version, {}))
    return replace(view, measured={**view.measured, machine: measured})


def changelogs(home: Home, track: Track, texts: Sequence[str], *, everything: bool) -> list[Changelog]:
    """Return the changelogs that a command line asks for: OLD NEW, NEW alone, or every neighbouring pair."""
    builds, views = home.builds(track.name), Views(home, track)
    if everything:
        return [views.changelog(old, new) for old, new in pairs([build.version for build in builds])]
    if len(texts) not in (1, 2):
        raise UsageError(
            f"{len(texts)} builds were named, a changelog is between two",
            hint="dmltrack changelog OLD NEW, or NEW alone, or --all",
        )
    new = locate(texts[-1], builds)
    old = locate(texts[0], builds) if len(texts) == 2 else predecessor(new, builds)
    if old is None:
        raise UsageError(f"{new.version} is the first build, there is none before it")
    return [views.changelog(old.version, new.version)]


def operator_histories(home: Home, track: Track, name: str) -> list[OperatorHistory]:
    """Return the history of each operator that a person may mean, per dispatch key, each as one machine measured it.

    That is the machine which measured most builds, of equal ones our own: a kernel of another system's wheel
    must not count as native here. The reference speaks beside it where it measured more.
    """
    measured: dict[str, set[str]] = {}
    for row in home.store.query("census_of", track=track.name):
        if row["case_id"] == "census/kernels" and row["machine"] not in home.hidden:
            measured.setdefault(row["machine"], set()).add(row["version"])
    own, shipped = home.fingerprint, measured.pop(REFERENCE, set())
    chosen = sorted(measured, key=lambda where: (len(measured[where]), where == own, where))[-1:]
    if shipped - (measured[chosen[0]] if chosen else set()):
        measured[REFERENCE] = shipped
        chosen.append(REFERENCE)
    builds = [row["version"] for row in home.store.query("version_order", track=track.name)]
    return [
        history
        for machine in chosen
        for history in _histories(home, track, name, machine, builds, measured[machine])
    ]


def _histories(
    home: Home, track: Track, name: str, machine: str, builds: Sequence[str], measured: set[str]
) -> list[OperatorHistory]:
    rows = home.store.query("kernel_versions_by_machine", track=track.name, machine=machine)
    wanted = set(matching(name, sorted({row["operator"] for row in rows})))
    return [
        replace(
            operator_history(row["operator"], row["dispatch_key"], builds, measured, set(row["versions"])),
            machine=machine,
        )
        for row in rows
        if row["operator"] in wanted
    ]


def whence(home: Home, machine: str) -> str:
    """Say where something was measured, when that was not here: for the end of a line."""
    if not machine or machine == home.fingerprint:
        return ""
    if machine != REFERENCE:
        return f"measured on another machine, {machine}"
    known = provenance()
    return f"measured once for the program: {known.words}" if known else "measured once for the program"


def operator_runs(home: Home, track: Track, name: str) -> list[OperatorRun]:
    """Return what the operator's cases gave on each adapter that computed them, this machine's first."""
    text = search_text(name)
    rows = home.store.query("operator_verdicts", track=track.name, text=text)
    meant = nearest(text, {row["case_id"].split("/")[1] for row in rows})
    builds = [row["version"] for row in home.store.query("version_order", track=track.name)]
    states: dict[tuple[str, str, str], dict[str, State]] = {}
    for row in rows:
        if row["case_id"].split("/")[1] in meant and row["machine"] not in home.hidden:
            key = (row["case_id"], row["adapter"], row["machine"])
            states.setdefault(key, {})[row["version"]] = State(row["state"])
    found = (operator_run(*key, builds, seen) for key, seen in states.items())
    own = home.fingerprint
    return sorted(filter(None, found), key=lambda run: (run.machine != own, run.machine, run.adapter))


def known_cells(home: Home, track: Track, machine: str) -> dict[Cell, Known]:
    """Return what is known of each cell of a track on a machine."""
    answer = home.store.answer("known_cells", track=track.name, machine=machine)
    states = {state.value: state for state in State}
    return {
        Cell(*row[:7]): Known(states[state], reason, environment, attempts, last_at)
        for row in answer.rows
        for state, reason, environment, attempts, last_at in (row[7:],)
    }


def case_seconds(home: Home, track: Track) -> dict[str, float]:
    """Return what each case of a track takes on this machine, in seconds."""
    return dict(home.store.answer("case_seconds", track=track.name, machine=home.fingerprint).rows)


def host_deaths(home: Home, track: Track, machine: str) -> dict[Cell, int]:
    """Return how often the machine went down while a cell of the track was in flight."""
    rows = home.store.query("host_deaths", track=track.name, machine=machine)
    return {_cell(row): row["deaths"] for row in rows}


def known_adapters(home: Home, track: Track) -> list[str] | None:
    """Return the names of this machine's adapters as the track's builds listed them; None where that is not known."""
    rows = home.store.query("adapters_of", track=track.name, machine=home.fingerprint, kind=track.device)
    if not rows or rows[0]["adapters"] is None:
        return None
    return [str(item["name"]) for item in json.loads(rows[0]["adapters"])]


def outdated_environments(home: Home, track: Track, builds: Iterable[Build]) -> frozenset[str]:
    """Return the environments whose build has another wheel on the index now, or would get other pins."""
    wheels = {build.version: {file.sha256 for file in build.files} for build in builds}
    return frozenset(
        row["recipe"]
        for row in home.store.query("installed", track=track.name)
        if row["version"] in wheels and not _is_current(row, track, wheels[row["version"]])
    )


def _is_current(row: dict[str, Any], track: Track, wheels: set[str]) -> bool:
    """Whether an environment holds what would be installed now; suites' requirements stand after the track's."""
    possible = [track.requires(row["version"], declared) for declared in ((), ("something",))]
    pinned = any(tuple(row["requirements"][: len(pins)]) == pins for pins in possible)
    return pinned and (not row["wheel"] or row["wheel"] in wheels)


def build_changes(home: Home, track: Track) -> dict[str, datetime]:
    """Return when the index last changed the record of each build."""
    return {row["version"]: row["changed_at"] for row in home.store.query("build_changes", track=track.name)}


def cells_of_run(home: Home, run: str) -> frozenset[tuple[Cell, int]]:
    """Return the cells that a run observed, however they ended, each with the number of the attempt."""
    return frozenset((_cell(row), row["attempt"]) for row in home.store.query("cells_of_run", run=run))


def states_of(home: Home, cells: Iterable[Cell]) -> list[State]:
    """Return the states of those cells that have a verdict."""
    wanted = set(map(_KEY, cells))
    places = {(cell[0], cell[5]) for cell in wanted}
    answers = (home.store.answer("states_of", track=track, machine=machine) for track, machine in places)
    return [State(row[7]) for answer in answers for row in answer.rows if row[:7] in wanted]


def _cell(row: dict[str, Any]) -> Cell:
    names = ("track", "version", "suite", "case_id", "adapter", "machine", "suite_digest")
    return Cell(*(row[name] for name in names))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation of a case with the verdict that it counts towards."""

    version: str
    case: str
    adapter: str
    machine: str
    environment: str
    suite_digest: str
    run: str
    attempt: int
    started: datetime
    seconds: float
    state: str
    reason: str
    message: str
    verdict: str
    confidence: str
    outcome: str
    log: str

    def lines(self) -> list[str]:
        """Return it for a terminal, with the end of the log where the case did not pass."""
        head = f"{self.version}  {self.case}  {self.verdict} ({self.confidence})"
        said = f": {self.message}" if self.message else ""
        lines = [
            head,
            f"  attempt {self.attempt}: {self.state}, {self.reason}{said}",
            f"  {self.started:%Y-%m-%d %H:%M} UTC, {self.seconds:.1f} s, run {self.run}",
            f"  environment {self.environment or 'none'}, suite {self.suite_digest}, machine {self.machine}",
        ]
        tail = self.log.strip().splitlines()[-12:] if self.state != State.PASS else []
        return [*lines, *(f"  | {line}" for line in tail)]


def evidence(home: Home, track: Track, case: str, build: str | None) -> list[Evidence]:
    """Return the observations of the cases that a text names, oldest build first."""
    version = locate(build, home.builds(track.name)).version if build else None
    rows = home.store.query("case_evidence", track=track.name, text=case, version=version)
    return [Evidence(case=row.pop("case_id"), **row) for row in rows]
