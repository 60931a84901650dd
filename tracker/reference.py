"""The reference: what the real builds gave when they were measured once on a named machine, shipped with the program.

Owns the bundle: a segment of the journal, compressed, and beside it who measured it, where and when. It is put beside
a home's own journal and never into it; its cells are of a machine of its own, so that they never mix with a user's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tracker.errors import OutsideError, UsageError
from tracker.files import rename
from tracker.journal import Entry, Journal, encode, line_of
from tracker.model import (
    EVENT_NAMES,
    REFERENCE,
    Build,
    EnvironmentFacts,
    Event,
    Machine,
    Observation,
    Outcome,
    WheelFacts,
)

FOLDER = Path(__file__).with_name("reference_data")
_BUNDLE, _PROVENANCE = "observations.jsonl.xz", "provenance.json"
_LOG = 2000
"""Most letters of a log, a traceback or a message that are kept."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who measured the reference. ``words`` is what every answer from it says of where it comes from."""

    words: str
    adapter: str
    system: str
    cpu: str
    measured_from: str
    measured_to: str
    builds: tuple[str, ...]
    observations: int
    segment: str
    sha256: str
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The digests of the files that the results of each suite rest on."""
    note: str = ""
    suspects: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Cases whose results the adapter itself may be to blame for, each with the reason."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """What whoever measured a reference says against it: of all of it, and of the results of single cases."""

    note: str = ""
    suspects: Mapping[str, str] = field(default_factory=dict)


@cache
def provenance(folder: Path = FOLDER) -> Provenance | None:
    """Return what is known of the reference that comes with this program; None where none does."""
    try:
        return msgspec.json.decode((folder / _PROVENANCE).read_bytes(), type=Provenance)
    except OSError:
        return None


def put_beside(home: Path, folder: Path = FOLDER) -> Path:
    """Return the folder of a home in which the reference stands as a segment, unpacking it when it is not there yet.

    What an older program put there is taken away. A bundle that can not be read is left out: it is a help, no need.
    """
    place = home / "reference"
    known = provenance(folder)
    if known is None:
        return place
    target = place / f"{known.segment}.jsonl"
    with contextlib.suppress(OSError, EOFError):
        if not target.is_file():
            _unpack(folder / _BUNDLE, target)
        for other in place.glob("*.jsonl"):
            if other != target:
                other.unlink(missing_ok=True)
    return place


def _unpack(bundle: Path, target: Path) -> None:
    import lzma

    try:
        data = lzma.decompress(bundle.read_bytes())
    except lzma.LZMAError as error:
        raise EOFError(str(error)) from error
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{secrets.token_hex(4)}")
    aside.write_bytes(data)
    rename(aside, target)


def make(
    journal: Journal,
    folder: Path,
    words: str,
    *,
    machine: str,
    tracks: Iterable[str],
    doubts: Doubts | None = None,
    hide: Mapping[str, str] | None = None,
) -> Provenance:
    """Write the bundle anew from what a machine observed of some tracks; raise UsageError where that is nothing.

    ``hide`` gives what stands in the place of folders of the machine, whose names are nobody's business.
    """
    entries = list(_chosen(journal, machine, frozenset(tracks)))
    doubts = doubts or Doubts()
    seen = [entry.record for entry in entries if isinstance(entry.record, Observation)]
    if not seen:
        raise UsageError(f"nothing was observed of {', '.join(sorted(tracks))} on machine {machine}")
    lines = [
        line_of(number, entry.at, EVENT_NAMES[type(entry.record)], encode(entry.record))
        for number, entry in enumerate(entries, start=1)
    ]
    data = _without(b"".join(lines), hide or {})
    digest = hashlib.sha256(data).hexdigest()
    host = next(entry.record for entry in reversed(entries) if isinstance(entry.record, Machine))
    known = Provenance(
        words=words,
        adapter=", ".join(sorted({item.cell.adapter for item in seen} - {"none"})),
        system=f"{host.system} {host.arch}",
        cpu=host.cpu,
        measured_from=f"{min(item.started for item in seen):%Y-%m-%d}",
        measured_to=f"{max(item.started for item in seen):%Y-%m-%d}",
        builds=tuple(sorted({item.cell.version for item in seen})),
        observations=len(seen),
        segment=f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{digest[:8]}",
        sha256=digest,
        suites=_digests(seen),
        note=doubts.note,
        suspects=doubts.suspects,
    )
    import lzma

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _BUNDLE).write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
        (folder / _PROVENANCE).write_text(json.dumps(asdict(known), indent=2) + "\n", "utf-8")
    except OSError as error:
        raise OutsideError(f"the bundle can not be written: {error}") from error
    provenance.cache_clear()
    return known


def _without(data: bytes, hide: Mapping[str, str]) -> bytes:
    """Return journal lines with other words for the folders, as JSON writes them, the longest first."""
    for folder in sorted(filter(None, hide), key=len, reverse=True):
        data = data.replace(json.dumps(folder)[1:-1].encode(), json.dumps(hide[folder])[1:-1].encode())
    return data


def _digests(seen: Iterable[Observation]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for item in seen:
        found.setdefault(item.cell.suite, set()).add(item.cell.suite_digest)
    return {suite: tuple(sorted(found[suite])) for suite in sorted(found)}


def read_doubts(path: Path) -> Doubts:
    """Read what is to be doubted from a TOML file: ``note``, and a table ``suspects`` of cases with the reasons."""
    import tomllib

    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Doubts)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can not be read: {error}") from None


def _chosen(journal: Journal, machine: str, tracks: frozenset[str]) -> Iterator[Entry]:
    """Yield the latest of each fact, then the observations of the machine, all as they go into the bundle."""
    facts: dict[tuple[Any, ...], Entry] = {}
    observations: list[Entry] = []
    for entry in journal.read((Build, WheelFacts, EnvironmentFacts, Machine, Observation)):
        record = entry.record
        if isinstance(record, Observation):
            if record.cell.machine == machine and record.cell.track in tracks:
                observations.append(entry._replace(record=_slim(record)))
        elif isinstance(record, Machine):
            if record.fingerprint == machine:
                facts[Machine,] = entry._replace(record=replace(record, fingerprint=REFERENCE))
        elif isinstance(record, Build | WheelFacts | EnvironmentFacts) and record.track in tracks:
            facts[_key(record)] = entry
    used = {entry.record.environment for entry in observations if isinstance(entry.record, Observation)}
    for key, entry in facts.items():
        if key[0] is not EnvironmentFacts or key[-1] in used:
            yield entry
    yield from observations


def _key(record: Build | WheelFacts | EnvironmentFacts) -> tuple[Any, ...]:
    last = {Build: "version", WheelFacts: "filename", EnvironmentFacts: "recipe"}[type(record)]
    return (type(record), record.track, record.version, getattr(record, last))


def _slim(record: Observation) -> Event:
    """Return an observation without what only helps on the machine it was made on."""
    outcome: Outcome = replace(
        record.outcome,
        traceback=record.outcome.traceback[-_LOG:],
        error_message=record.outcome.error_message[:_LOG],
    )
    log = "" if record.finding.state == "pass" else record.log[-_LOG:]
    return replace(record, cell=replace(record.cell, machine=REFERENCE), outcome=outcome, log=log)
