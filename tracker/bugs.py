"""The registry of public bug reports: what each claims, and which case reproduces it.

The metadata of the reports stands in ``suites/bugs/<topic>.toml``, beside the functions in ``<topic>.py``. It is
read by the tracker only and is in no digest: a better title does not make old results incomparable. Pure: texts go
in, records come out. A claim is what somebody said; nothing here takes it for true. Each table is::

    [[bug]]
    id = "microsoft/DirectML#364"    # repository and number, or commit, where it was reported
    function = "batch_norm_buffers"  # of <topic>.py; reports of one fault share it; "" where there is none
    title = "BatchNorm2d never updates its running statistics"
    links = ["https://github.com/microsoft/DirectML/issues/364"]
    category = "silent wrong result"
    affected = ["0.1.13.dev221206"]  # builds it is said to affect, in the words of the report
    basis = "stated"                 # or "inferred": nobody named a build, the date did
    fixed_in = "0.1.13.1.dev230119"  # the build said to have fixed it; "" where nobody says
    fixed_by = "maintainer"          # who says so
    claim = "A maintainer says on the issue that dev230119 has it."
    expected = { "0.1.13.dev221206" = "fail" }   # what each build should give, if the report says
    fault = "values"                 # what it is about; one of FAULTS
    good = ["pass", "slow"]          # states of the case in which the fault is not there
    timeout = 120.0                  # of its case, with needs and isolate as in a suite's manifest
    not_on_cpu = "torch_directml is not there"   # why it says nothing on the CPU, where it does not
    why_not = "needs a whole application"        # with function = "": why it has no reproducer
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tracker.errors import UsageError
from tracker.model import State

SUITE = "bugs"
FAULTS = (
    *("values", "gradient", "error", "crash", "hang", "fallback", "memory"),
    *("api", "speed", "install"),
)
GOOD = (State.PASS, State.SLOW)
_NEEDS = ("import", "directx", "device")
_FUNCTION = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Bug:
    """One public report. ``case`` is the id of its reproducer, empty where it has none and ``why_not`` says why."""

    id: str
    title: str
    function: str = ""
    links: tuple[str, ...] = ()
    category: str = ""
    operators: str = ""
    affected: tuple[str, ...] = ()
    basis: str = ""
    fixed_in: str = ""
    fixed_by: str = ""
    claim: str = ""
    hardware: str = ""
    state: str = ""
    duplicate_of: str = ""
    priority: int = 3
    expected: Mapping[str, str] = field(default_factory=dict, hash=False)
    fault: str = "values"
    good: tuple[State, ...] = GOOD
    needs: str = "device"
    timeout: float | None = None
    isolate: bool = False
    not_on_cpu: str = ""
    why_not: str = ""
    topic: str = ""
    """The file it stands in; not written there."""

    @property
    def case(self) -> str:
        """The id of the case that reproduces it."""
        return f"{SUITE}/{self.topic}/{self.function}" if self.function else ""

    @property
    def silent(self) -> frozenset[State]:
        """Conclusive states that say nothing of it: a build that can not be imported never came to it."""
        return frozenset() if self.fault == "install" else frozenset({State.IMPORT_FAILED}) - set(self.good)

    @property
    def partial(self) -> frozenset[State]:
        """States in which the fault is avoided and not mended: the CPU computed it, unless that is the fault."""
        return frozenset() if self.fault == "fallback" else frozenset({State.FALLBACK}) - set(self.good)


def parse_topic(text: str, topic: str, source: str) -> list[Bug]:
    """Return the reports of one topic's TOML text; raise UsageError that names ``source`` and the report."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not TOML: {error}") from None
    tables = data.pop("bug", [])
    if data or not isinstance(tables, list):
        raise UsageError(f"{source}: there is something else than [[bug]] tables in it")
    return [_bug(table, topic, source) for table in tables]


def _bug(table: Any, topic: str, source: str) -> Bug:
    name = table.get("id") if isinstance(table, dict) else None
    where = f"{source}: report {name!r}"
    if unknown := sorted(set(table) - (set(Bug.__dataclass_fields__) - {"topic"})):
        raise UsageError(f"{where}: unknown key '{unknown[0]}'")
    try:
        bug = replace(msgspec.convert(table, Bug), topic=topic)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    if problem := _problem(bug):
        raise UsageError(f"{where}: {problem}")
    return bug


def _problem(bug: Bug) -> str:
    """Return what is wrong with a report that has all its types right, or nothing."""
    if not bug.id or not bug.title:
        return "it has no id or no title"
    if bug.fault not in FAULTS:
        return f"there is no fault '{bug.fault}'; one of: {', '.join(FAULTS)}"
    if bug.needs not in _NEEDS:
        return f"it needs '{bug.needs}'; one of: {', '.join(_NEEDS)}"
    if State.PASS not in bug.good or not all(state.conclusive for state in bug.good):
        return "'good' is a list of conclusive states with 'pass' among them"
    if bug.function and not _FUNCTION.fullmatch(bug.function):
        return f"'{bug.function}' is not the name of a function"
    if bool(bug.function) == bool(bug.why_not):
        return "it has either a function or a reason in 'why_not' for having none"
    return ""


def check_registry(bugs: Sequence[Bug]) -> None:
    """Raise UsageError where two reports have one id, or reports of one case do not agree on how it is run."""
    seen: dict[str, Bug] = {}
    for bug in bugs:
        if bug.id in seen:
            raise UsageError(f"the report {bug.id} stands in {seen[bug.id].topic} and in {bug.topic}")
        seen[bug.id] = bug
    for bug in bugs:
        if bug.duplicate_of and bug.duplicate_of not in seen:
            raise UsageError(f"{bug.id} is called a duplicate of {bug.duplicate_of}, which is not there")
    for same in by_case(bugs).values():
        if len({(bug.needs, bug.not_on_cpu) for bug in same}) > 1:
            names = " and ".join(bug.id for bug in same)
            raise UsageError(f"{names} share {same[0].case} and differ in what it needs")


def by_case(bugs: Iterable[Bug]) -> dict[str, list[Bug]]:
    """Return the reports of each case, in their order; those without a case are left out."""
    found: dict[str, list[Bug]] = {}
    for bug in bugs:
        if bug.case:
            found.setdefault(bug.case, []).append(bug)
    return found


def matching(text: str, bugs: Sequence[Bug]) -> list[Bug]:
    """Return the reports that a person may mean: by id, number, link, or words of the title; the best kind only."""
    wanted = text.strip().casefold()
    if not wanted:
        return []
    number = wanted.lstrip("#")
    kinds: tuple[Callable[[Bug], bool], ...] = (
        lambda bug: bug.id.casefold() == wanted,
        lambda bug: any(link.casefold().rstrip("/") == wanted.rstrip("/") for link in bug.links),
        lambda bug: number.isdecimal() and bug.id.endswith(f"#{number}"),
        lambda bug: bug.id.casefold().endswith(wanted) and not number.isdecimal(),
        lambda bug: bug.case.casefold() == wanted,
        lambda bug: all(word in f"{bug.title} {bug.operators}".casefold() for word in wanted.split()),
    )
    for kind in kinds:
        if found := [bug for bug in bugs if kind(bug)]:
            return found
    return []
