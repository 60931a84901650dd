"""Compares what two wheels say of themselves: DirectML, native module, requirements, operators, Python API.

Pure, so that a changelog can be redone from the journal. It must not know how the facts were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tracker.model import WheelFacts


@dataclass(frozen=True, slots=True)
class WheelChange:
    """One fact that differs. ``field`` is a stable slug; ``old`` and ``new`` are what stood there, as text.

    Where a set differs, ``old`` and ``new`` are its sizes and ``names`` its members that came, went
    or changed.
    """

    field: str
    old: str
    new: str
    names: tuple[str, ...] = ()


_PLAIN: tuple[tuple[str, Callable[[WheelFacts], object]], ...] = (
    ("directml-version", lambda facts: facts.directml_version),
    ("directml-build", lambda facts: facts.directml_build),
    ("directml-size", lambda facts: facts.directml_size),
    ("native-size", lambda facts: facts.native_size),
    ("requires-python", lambda facts: facts.requires_python),
)
"""Facts with one value each, in the order in which a reader wants them."""


def wheel_changes(old: WheelFacts, new: WheelFacts) -> list[WheelChange]:
    """Return what differs between two wheels of the same platform; nothing for wheels of different ones.

    Operators are compared only where both native modules could be read: one that names none was not.
    """
    if old.platform != new.platform:
        return []
    changes = [
        WheelChange(slug, _text(value(old)), _text(value(new)))
        for slug, value in _PLAIN
        if value(old) != value(new)
    ]
    changes += _other_bytes(
        "directml", old.directml_size, new.directml_size, old.directml_sha256, new.directml_sha256
    )
    changes += _other_bytes("native", old.native_size, new.native_size, old.native_sha256, new.native_sha256)
    changes += _members("requires", old.requires, new.requires)
    if old.operators and new.operators:
        changes += _members("operators", old.operators, new.operators)
    return changes + _api_changes(old, new)


def _other_bytes(
    what: str, old_size: int | None, new_size: int | None, old_sha256: str | None, new_sha256: str | None
) -> list[WheelChange]:
    """Tell a library whose size stayed and whose bytes did not; another size tells that by itself."""
    if old_size != new_size or old_sha256 == new_sha256:
        return []
    return [WheelChange(f"{what}-bytes", _text(old_sha256)[:12], _text(new_sha256)[:12])]


def _api_changes(old: WheelFacts, new: WheelFacts) -> list[WheelChange]:
    before = {entry.name: entry.signature for entry in old.api}
    after = {entry.name: entry.signature for entry in new.api}
    changed = tuple(
        f"{name}{before[name]} -> {name}{after[name]}"
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    )
    changes = _members("api", before, after)
    if changed:
        changes.append(WheelChange("api-changed", str(len(before)), str(len(after)), changed))
    return changes


def _members(slug: str, old: Iterable[str], new: Iterable[str]) -> list[WheelChange]:
    before, after = set(old), set(new)
    sides = (("added", after - before), ("removed", before - after))
    return [
        WheelChange(f"{slug}-{side}", str(len(before)), str(len(after)), tuple(sorted(names)))
        for side, names in sides
        if names
    ]


def _text(value: object) -> str:
    return "" if value is None else str(value)
