"""Changelogs as text for a terminal, as Markdown, and as JSON: one list of sections, three renderers.

Every name and text here may come from a wheel, so Markdown gets it only inside code spans or escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from tracker.changelog import Changelog, FactChange, NameChanges, VerdictChange
from tracker.model import REFERENCE, Confidence, Platform, State, Verdict
from tracker.reference import provenance
from tracker.wheel_changes import WheelChange

WIDTH = 100
PLATFORM_NAMES: Mapping[Platform, str] = {
    Platform.WINDOWS: "Windows",
    Platform.LINUX: "Linux",
    Platform.ANY: "any",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section: a fact that went from old to new, or a list of names that came or went."""

    label: str
    text: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a changelog."""

    title: str
    lines: tuple[Line, ...]


def sections(log: Changelog) -> list[Section]:
    """Return the parts of a changelog that have something to say."""
    shared = _shared(log.wheels)
    package = [*(_fact(change) for change in log.package), *wheel_lines(shared, _measured(log))]
    parts = [
        Section("Package", tuple(package)),
        *(
            Section(
                f"{PLATFORM_NAMES[platform]} wheel",
                tuple(wheel_lines([change for change in changes if change not in shared], _measured(log))),
            )
            for platform, changes in sorted(log.wheels.items(), reverse=True)
        ),
        Section("Kernels", tuple(_kernel_lines(log))),
        Section("Python API", tuple(_name_lines(log.api))),
        Section("Verdicts", tuple(_verdict_lines(log.verdicts))),
        Section("Causes", tuple(_cause_lines(log.verdicts))),
        Section("Not compared", tuple(Line("", reason) for reason in log.unknown)),
    ]
    return [part for part in parts if part.lines]


def _shared(wheels: Mapping[Platform, Sequence[WheelChange]]) -> list[WheelChange]:
    """Return what differs in the same way in the wheels of several platforms, such as the torch pin."""
    if len(wheels) < 2:
        return []
    first, *rest = wheels.values()
    return [change for change in first if all(change in others for others in rest)]


def _fact(change: FactChange) -> Line:
    return Line(change.what, _step(change.old, change.new))


def _step(old: str | None, new: str | None) -> str:
    return f"{old or 'unknown'} -> {new or 'unknown'}"


WHEEL_LABELS: Mapping[str, str] = {
    "directml-version": "DirectML",
    "directml-build": "DirectML's own text",
    "directml-size": "DirectML size",
    "native-size": "native module size",
    "directml-bytes": "DirectML, same size",
    "native-bytes": "native, same size",
    "requires-python": "requires Python",
    "requires-added": "requires now",
    "requires-removed": "required before",
    "operators-added": "operators named now",
    "operators-removed": "operators named before",
    "api-added": "Python API now",
    "api-removed": "Python API before",
    "api-changed": "Python API changed",
}


def wheel_lines(changes: Sequence[WheelChange], left_out: Sequence[str] = ()) -> Iterator[Line]:
    """Say what differs in a wheel; fields that begin with a text of ``left_out`` are told elsewhere."""
    for change in changes:
        if change.field.startswith(tuple(left_out)):
            continue
        label = WHEEL_LABELS.get(change.field, change.field)
        if change.names:
            yield Line(label, names=change.names)
        elif change.field.endswith("-size"):
            yield Line(label, _sizes(change.old, change.new))
        elif change.field.endswith("-bytes"):
            yield Line(label, f"sha256 {change.old}... -> {change.new}...")
        else:
            yield Line(label, _step(change.old, change.new))


def _measured(log: Changelog) -> list[str]:
    """Return the fields of a wheel that a census measured better, and which have sections of their own."""
    return [
        slug for slug, better in (("operators-", bool(log.kernels)), ("api-", log.api_compared)) if better
    ]


def _sizes(old: str, new: str) -> str:
    """Say how a size in bytes went, with its growth when both sides are known."""
    if not (old.isdigit() and new.isdigit()):
        return _step(old, new)
    before, after = int(old), int(new)
    growth = f" ({(after - before) / before * 100:+.1f} %)" if before else ""
    return f"{before / 1e6:.2f} MB -> {after / 1e6:.2f} MB{growth}"


def _kernel_lines(log: Changelog) -> Iterator[Line]:
    for key, names in log.kernels.items():
        old, new = log.kernel_counts[key]
        if not names and old == new:
            continue
        yield Line(key, f"{_count(old)} -> {_count(new)} (+{len(names.appeared)}, -{len(names.disappeared)})")
        yield from _name_lines(names)


def _count(count: int | None) -> str:
    return "no such key" if count is None else str(count)


def _name_lines(names: NameChanges) -> Iterator[Line]:
    if names.appeared:
        yield Line("+", names=names.appeared)
    if names.disappeared:
        yield Line("-", names=names.disappeared)
    for change in names.changed:
        yield Line("~", names=(f"{change.what}{change.old} is now {change.what}{change.new}",))


ALONE = 3
"""Up to so many cases with one change and one cause have a line each; more of them are told together."""
NAMED = 24
"""Most cases that are named of those told together."""


def _verdict_lines(changes: Sequence[VerdictChange]) -> Iterator[Line]:
    """Say what became of cases, in the order given; many with the same cause in one line."""
    groups: dict[tuple[str, ...], list[VerdictChange]] = {}
    for change in changes:
        key = (_kind(change), change.adapter, _say(change.old), _say(change.new), change.why, _cause(change))
        groups.setdefault(key, []).append(change)
    for group in groups.values():
        if len(group) <= ALONE:
            yield from map(_verdict, group)
        else:
            yield _together(group)


def _verdict(change: VerdictChange) -> Line:
    said = next((v.message for v in (change.new, change.old) if v and v.state is not State.PASS), "")
    return Line(_kind(change), f"{change.case}{_became(change)}{f': {said}' if said else ''}{_cause(change)}")


def _kind(change: VerdictChange) -> str:
    """Say what kind a change is, and how sure that is where it was looked into."""
    if change.confidence in (Confidence.OBSERVED, change.kind):
        return str(change.kind)
    return f"{change.kind}, {change.confidence}"


def _together(group: Sequence[VerdictChange]) -> Line:
    names = [change.case for change in group]
    more = (f"and {len(names) - NAMED} more",) if len(names) > NAMED else ()
    text = f"{len(names)} cases{_became(group[0])}{_cause(group[0])}"
    return Line(_kind(group[0]), text, (*names[:NAMED], *more))


def _cause(change: VerdictChange) -> str:
    """Say what a change comes from, in brackets behind it; why stands in a section of its own."""
    return f" [{change.attribution.cause}]" if change.attribution else ""


def _cause_lines(changes: Sequence[VerdictChange]) -> Iterator[Line]:
    """Say once why changes are put down to what they are, where that is not plain."""
    told = {(found.cause, found.why) for change in changes if (found := change.attribution) and found.why}
    yield from (Line(cause, why) for cause, why in sorted(told))


def _became(change: VerdictChange) -> str:
    where = "" if change.adapter == "none" else f" on {change.adapter}"
    why = f" ({change.why})" if change.why else ""
    return f"{where}: {_say(change.old)} -> {_say(change.new)}{why}"


def _say(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    reason = f" ({verdict.reason})" if verdict.reason and verdict.reason != verdict.state else ""
    return f"{verdict.state}{reason}"


def _day(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d") if moment and moment.year > 1970 else "unknown date"


def _shipped(log: Changelog) -> list[str]:
    """Say of what was not measured by the user's own machines that it was not."""
    if log.machine != REFERENCE:
        return []
    known = provenance()
    return [f"Measured once for the program, not on your machine{f': {known.words}' if known else ''}"]


def _nothing(log: Changelog) -> str:
    return "Nothing differs in what could be compared." if log.conclusive else "Nothing could be compared."


def as_text(log: Changelog) -> str:
    """Return a changelog for a terminal."""
    head = f"{log.track} {log.old} ({_day(log.old_uploaded)}) -> {log.new} ({_day(log.new_uploaded)})"
    lines = [head, "=" * len(head), *_shipped(log)]
    if log.empty:
        lines += ["", _nothing(log)]
    for part in sections(log):
        lines += ["", part.title]
        lines += [row for line in part.lines for row in text_rows(line)]
    return "\n".join(lines) + "\n"


def text_rows(line: Line) -> list[str]:
    """Return a line for a terminal, long lists of names wrapped."""
    if not line.names:
        return [f"  {line.label:<22} {line.text}".rstrip() if line.label else f"  {line.text}"]
    if line.text:
        return [f"  {line.label:<22} {line.text}", *text_rows(Line(" ", names=line.names))]
    mark = f"    {line.label} " if len(line.label) == 1 else f"  {line.label}: "
    return textwrap.wrap(
        ", ".join(line.names),
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_markdown(log: Changelog) -> str:
    """Return a changelog as Markdown."""
    dates = f"{_day(log.old_uploaded)} → {_day(log.new_uploaded)}"
    lines = [f"## {escape(log.track)} {escape(log.new)}", "", f"Since {escape(log.old)} ({dates})."]
    lines += [f"{escape(text)}." for text in _shipped(log)]
    if log.empty:
        lines += ["", _nothing(log)]
    for part in sections(log):
        lines += ["", f"### {part.title}", ""]
        lines += [_markdown_row(line) for line in part.lines]
    return "\n".join(lines) + "\n"


def _markdown_row(line: Line) -> str:
    if line.names:
        names = ", ".join(code(name) for name in line.names)
        words = {"+": "new", "-": "gone", "~": "changed"}
        label = escape(words.get(line.label, line.label))
        return f"- **{label}**: {_arrows(line.text)}: {names}" if line.text else f"- {label}: {names}"
    text = _arrows(line.text)
    return f"- **{escape(line.label)}**: {text}" if line.label else f"- {text}"


def _arrows(text: str) -> str:
    return escape(text).replace(" -\\> ", " → ")


_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~])")


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return a text as a Markdown code span, whatever backticks it holds."""
    flat = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def as_json(logs: Sequence[Changelog]) -> str:
    """Return changelogs as a JSON list."""
    return msgspec.json.format(msgspec.json.encode(list(logs)), indent=2).decode() + "\n"


def _join(render: Callable[[Changelog], str]) -> Callable[[Sequence[Changelog]], str]:
    return lambda logs: "\n".join(render(log) for log in logs)


FORMATS: Mapping[str, Callable[[Sequence[Changelog]], str]] = {
    "text": _join(as_text),
    "md": _join(as_markdown),
    "json": as_json,
}
