"""What changed between two builds of a track: in the wheel, the kernels, the Python API and the verdicts.

Pure. What could not be compared is part of the answer: a changelog never passes silence off as "no change".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, product

from tracker.attribution import Attribution, Sides, attribute
from tracker.changes import ChangeKind, compare, obstacle
from tracker.model import REFERENCE, Cell, Confidence, Platform, State, Verdict, WheelFacts
from tracker.wheel_changes import WheelChange, wheel_changes


@dataclass(frozen=True, slots=True)
class Measured:
    """What one machine measured of a build. A part that was never measured is None, which is not empty."""

    kernels: Mapping[str, frozenset[str]] | None = None
    api: Mapping[str, str] | None = None
    verdicts: Mapping[tuple[str, str], tuple[Cell, Verdict]] = field(default_factory=dict)
    """By case and adapter."""


@dataclass(frozen=True, slots=True)
class BuildView:
    """All that is known of one build: what the index and its wheels say, and what each machine measured."""

    track: str
    version: str
    uploaded: datetime | None
    yanked: bool
    pythons: tuple[str, ...]
    torch: str | None
    wheels: Mapping[Platform, WheelFacts]
    measured: Mapping[str, Measured]
    """By the fingerprint of the machine."""


@dataclass(frozen=True, slots=True)
class FactChange:
    """One fact that differs, as text for people; ``None`` is "not known" or "none"."""

    what: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class NameChanges:
    """Names that came, went, or changed what stands behind them."""

    appeared: tuple[str, ...] = ()
    disappeared: tuple[str, ...] = ()
    changed: tuple[FactChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.appeared or self.disappeared or self.changed)


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """One case whose verdict differs between the builds, or that could not be compared (``why``)."""

    case: str
    adapter: str
    kind: ChangeKind
    old: Verdict | None
    new: Verdict | None
    why: str = ""
    attribution: Attribution | None = None
    """What it comes from; None where a side is missing or says nothing."""
    confidence: Confidence = Confidence.OBSERVED


@dataclass(frozen=True, slots=True)
class Changelog:
    """What changed from one build to the next. ``unknown`` says what could not be compared, and why.

    What was measured comes from ``machine`` on both sides; it is empty when no machine measured both.
    """

    track: str
    old: str
    new: str
    old_uploaded: datetime | None
    new_uploaded: datetime | None
    machine: str
    package: tuple[FactChange, ...]
    wheels: Mapping[Platform, tuple[WheelChange, ...]]
    kernels: Mapping[str, NameChanges]
    kernel_counts: Mapping[str, tuple[int | None, int | None]]
    api: NameChanges
    api_compared: bool
    verdicts: tuple[VerdictChange, ...]
    unknown: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing differs in what could be compared."""
        parts = (self.package, any(self.wheels.values()), any(self.kernels.values()), self.api, self.verdicts)
        return not any(parts)

    @property
    def conclusive(self) -> bool:
        """Whether anything could be compared: a wheel of both builds, or what one machine measured of both."""
        return bool(self.wheels or self.machine) or not self.empty


NOTHING = Measured()


Baseline = Mapping[str, tuple[Verdict | None, Verdict | None]]
"""By case: what it gave on the CPU of each build's torch."""


def changelog(
    old: BuildView,
    new: BuildView,
    own_machine: str = "",
    sides: Sides | None = None,
    baseline: Baseline | None = None,
) -> Changelog:
    """Return what changed from the old build to the new one, measured by one machine, if possible our own."""
    sides = sides or Sides((old.torch, new.torch))
    both = [platform for platform in Platform if platform in old.wheels and platform in new.wheels]
    machine = shared_machine(old, new, own_machine)
    before, after = old.measured.get(machine, NOTHING), new.measured.get(machine, NOTHING)
    return Changelog(
        track=new.track,
        old=old.version,
        new=new.version,
        old_uploaded=old.uploaded,
        new_uploaded=new.uploaded,
        machine=machine,
        package=tuple(_package(old, new)),
        wheels={
            platform: tuple(wheel_changes(old.wheels[platform], new.wheels[platform])) for platform in both
        },
        kernels=_kernels(before.kernels, after.kernels),
        kernel_counts=_counts(before.kernels, after.kernels),
        api=_names(before.api, after.api),
        api_compared=before.api is not None and after.api is not None,
        verdicts=tuple(_verdicts(before, after, sides, baseline or {})),
        unknown=tuple(_unknown(old, new, machine)),
    )


def shared_machine(old: BuildView, new: BuildView, own: str) -> str:
    """Return the machine whose measurements of both builds are compared: our own, else the first; "" for none.

    The reference that came with the program goes last.
    """
    shared = old.measured.keys() & new.measured.keys()
    return own if own in shared else min(shared, key=lambda name: (name == REFERENCE, name), default="")


def _package(old: BuildView, new: BuildView) -> list[FactChange]:
    facts = [
        FactChange("torch", old.torch, new.torch),
        FactChange("Pythons", ", ".join(old.pythons) or None, ", ".join(new.pythons) or None),
        FactChange("withdrawn", _yes(old.yanked), _yes(new.yanked)),
    ]
    return [fact for fact in facts if fact.old != fact.new]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


Kernels = Mapping[str, frozenset[str]]


def _kernels(old: Kernels | None, new: Kernels | None) -> dict[str, NameChanges]:
    """Compare per dispatch key. A key that torch does not have counts as one without kernels."""
    if old is None or new is None:
        return {}
    none: frozenset[str] = frozenset()
    return {key: _sets(old.get(key, none), new.get(key, none)) for key in sorted({*old, *new})}


def _sets(old: frozenset[str], new: frozenset[str]) -> NameChanges:
    return NameChanges(tuple(sorted(new - old)), tuple(sorted(old - new)))


def _counts(old: Kernels | None, new: Kernels | None) -> dict[str, tuple[int | None, int | None]]:
    """Return the number of kernels per key on both sides; None where the key does not exist."""

    def count(kernels: Kernels | None, key: str) -> int | None:
        return len(kernels[key]) if kernels is not None and key in kernels else None

    return {key: (count(old, key), count(new, key)) for key in sorted({*(old or {}), *(new or {})})}


def _names(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> NameChanges:
    if old is None or new is None:
        return NameChanges()
    changed = [FactChange(name, old[name], new[name]) for name in sorted(old.keys() & new.keys())]
    return NameChanges(
        tuple(name + new[name] for name in sorted(new.keys() - old.keys())),
        tuple(name + old[name] for name in sorted(old.keys() - new.keys())),
        tuple(change for change in changed if change.old != change.new),
    )


QUIET = (ChangeKind.STILL_PASSING, ChangeKind.STILL_FAILING)


def _says_nothing(state: State, confidence: Confidence) -> bool:
    same = Verdict(state, "", "", confidence, 1)
    # A case that applies to neither build is no news; any other word that says nothing of them is.
    return compare(same, same) in QUIET or state is State.SKIPPED


SAYS_NOTHING = tuple(pair for pair in product(State, Confidence) if _says_nothing(*pair))
"""The states and confidences that make no line of a changelog when both builds have the same of a case."""


def _verdicts(old: Measured, new: Measured, sides: Sides, baseline: Baseline) -> list[VerdictChange]:
    """Return the changes of verdicts, the worst kind first; what stayed as it was is left out."""
    changes = [_verdict(key, old, new, sides, baseline) for key in sorted({*old.verdicts, *new.verdicts})]
    order = list(ChangeKind)
    told = [change for change in changes if change.kind not in QUIET and not _skipped_by_both(change)]
    return sorted(told, key=lambda change: order.index(change.kind))


def _skipped_by_both(change: VerdictChange) -> bool:
    return all(verdict and verdict.state is State.SKIPPED for verdict in (change.old, change.new))


_WITHOUT_CAUSE = (ChangeKind.NEW, ChangeKind.GONE, ChangeKind.INCONCLUSIVE, *QUIET)


def _verdict(
    key: tuple[str, str], old: Measured, new: Measured, sides: Sides, baseline: Baseline
) -> VerdictChange:
    before, after = old.verdicts.get(key), new.verdicts.get(key)
    verdicts = (before[1] if before else None, after[1] if after else None)
    why = obstacle(before[0], after[0]) if before and after else None
    kind = ChangeKind.NOT_COMPARABLE if why else compare(*verdicts)
    cause = None
    if kind not in _WITHOUT_CAUSE and before and after:
        on_cpu = baseline.get(key[0], (None, None))
        cause = attribute(kind, (before[0], after[0]), verdicts, sides, on_cpu)
    sure = Confidence.FLAKY if kind is ChangeKind.FLAKY else Confidence.OBSERVED
    return VerdictChange(*key, kind, *verdicts, why or "", cause, sure)


def _unknown(old: BuildView, new: BuildView, machine: str) -> list[str]:
    """Say what could not be compared."""
    reasons: list[str] = []
    unmeasured = [view.version for view in (old, new) if not view.measured]
    if unmeasured:
        reasons.append(f"kernels, Python API, verdicts: never measured for {' and '.join(unmeasured)}")
    elif not machine:
        reasons.append("kernels, Python API, verdicts: no machine has measured both builds")
    for view in (old, new) if machine else ():
        reasons += [
            f"{part}: no census of {view.version} on record" for part in _missing(view.measured[machine])
        ]
    if not old.wheels.keys() & new.wheels.keys():
        unread = [view.version for view in (old, new) if not view.wheels]
        reasons.append(
            f"wheels: none was read of {' and '.join(unread)}" if unread else "wheels: of other systems"
        )
    return reasons


def _missing(measured: Measured) -> list[str]:
    parts = (("kernels", measured.kernels), ("Python API", measured.api))
    return [name for name, part in parts if part is None]


def pairs(versions: Sequence[str]) -> list[tuple[str, str]]:
    """Return neighbouring pairs of versions, oldest first."""
    return list(pairwise(versions))
