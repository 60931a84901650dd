"""What changed between two builds of a track: in the wheel, the kernels, the Python API and the verdicts.

Pure. What could not be compared is part of the answer: a changelog never passes silence off as "no change".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tracker.changes import ChangeKind, compare
from tracker.model import Platform, Verdict, WheelFacts
from tracker.wheel_changes import WheelChange, wheel_changes


@dataclass(frozen=True, slots=True)
class BuildView:
    """All that is known of one build. A part that was never measured is None, which is not the same as empty."""

    track: str
    version: str
    uploaded: datetime | None
    yanked: bool
    pythons: tuple[str, ...]
    torch: str | None
    wheels: Mapping[Platform, WheelFacts]
    kernels: Mapping[str, frozenset[str]] | None
    api: Mapping[str, str] | None
    verdicts: Mapping[tuple[str, str], Verdict]
    """By case and adapter."""


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
    """One case whose verdict differs between the builds (or that could not be compared)."""

    case: str
    adapter: str
    kind: ChangeKind
    old: Verdict | None
    new: Verdict | None


@dataclass(frozen=True, slots=True)
class Changelog:
    """What changed from one build to the next. ``unknown`` says what could not be compared, and why."""

    track: str
    old: str
    new: str
    old_uploaded: datetime | None
    new_uploaded: datetime | None
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


def changelog(old: BuildView, new: BuildView) -> Changelog:
    """Return what changed from the old build to the new one."""
    both = [platform for platform in Platform if platform in old.wheels and platform in new.wheels]
    return Changelog(
        track=new.track,
        old=old.version,
        new=new.version,
        old_uploaded=old.uploaded,
        new_uploaded=new.uploaded,
        package=tuple(_package(old, new)),
        wheels={
            platform: tuple(wheel_changes(old.wheels[platform], new.wheels[platform])) for platform in both
        },
        kernels=_kernels(old.kernels, new.kernels),
        kernel_counts=_counts(old.kernels, new.kernels),
        api=_names(old.api, new.api),
        api_compared=old.api is not None and new.api is not None,
        verdicts=tuple(_verdicts(old.verdicts, new.verdicts)),
        unknown=tuple(_unknown(old, new)),
    )


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


def _verdicts(
    old: Mapping[tuple[str, str], Verdict], new: Mapping[tuple[str, str], Verdict]
) -> list[VerdictChange]:
    """Return the changes of verdicts, the worst kind first; what stayed as it was is left out."""
    changes = [
        VerdictChange(
            case,
            adapter,
            compare(old.get((case, adapter)), new.get((case, adapter))),
            old.get((case, adapter)),
            new.get((case, adapter)),
        )
        for case, adapter in sorted({*old, *new})
    ]
    order = list(ChangeKind)
    return sorted((c for c in changes if c.kind not in QUIET), key=lambda c: order.index(c.kind))


def _unknown(old: BuildView, new: BuildView) -> list[str]:
    """Say what could not be compared."""
    reasons: list[str] = []
    for view in (old, new):
        if view.kernels is None:
            reasons.append(f"kernels: no census of {view.version} on record")
        if view.api is None:
            reasons.append(f"Python API: no census of {view.version} on record")
    if not old.wheels.keys() & new.wheels.keys():
        unread = [view.version for view in (old, new) if not view.wheels]
        reasons.append(
            f"wheels: none was read of {' and '.join(unread)}" if unread else "wheels: of other systems"
        )
    return reasons


def pairs(versions: Sequence[str]) -> list[tuple[str, str]]:
    """Return neighbouring pairs of versions, oldest first."""
    return list(pairwise(versions))
