"""What a wheel says of itself, and what differs between two, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.model import WheelFacts
from tracker.publish.changelogs import Line, text_rows, wheel_lines
from tracker.wheel_changes import WheelChange


def facts_lines(facts: WheelFacts) -> list[str]:
    """Return the facts of a wheel, one a line."""
    rows = [
        ("file", facts.filename),
        ("sha256", facts.sha256),
        ("tags", f"{facts.python}-{facts.abi}-{', '.join(facts.platform_tags)}"),
        ("size", f"{_bytes(facts.size)}, unpacked {_bytes(facts.unpacked_size)}"),
        ("requires Python", facts.requires_python or "not said"),
        ("requires", ", ".join(facts.requires) or "nothing (its metadata declares no dependency)"),
        ("DirectML", _library(facts.directml_name, facts.directml_size, _version(facts))),
        ("native module", _library(facts.native_name, facts.native_size, f"sha256 {facts.native_sha256}")),
        ("operators named", str(len(facts.operators))),
        ("Python API", f"{len(facts.api)} names"),
    ]
    lines = [row for label, text in rows for row in text_rows(Line(label, text))]
    return [
        f"{facts.track} {facts.version}",
        *lines,
        *text_rows(Line("operators", names=facts.operators or ("none could be read",))),
        *text_rows(Line("Python API", names=tuple(e.name + e.signature for e in facts.api) or ("none",))),
    ]


def _version(facts: WheelFacts) -> str:
    return f"version {facts.directml_version}" if facts.directml_version else "names no version of itself"


def _library(name: str | None, size: int | None, more: str) -> str:
    return f"{name}, {_bytes(size or 0)}, {more}" if name else "none in this wheel"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB"


def comparison_lines(changes: Sequence[WheelChange]) -> list[str]:
    """Return what differs between two wheels, one fact a line."""
    lines = [row for line in wheel_lines(changes) for row in text_rows(line)]
    return lines or ["nothing differs"]
