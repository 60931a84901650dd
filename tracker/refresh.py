"""Bring a database up to the journal: read the new lines, judge what needs judging, remake what is derived.

Owns how journal lines become rows. It is handed an open connection and must not know where database files
live or who reads them. The rows depend on the lines only: not on the order in which segments arrive, on how
many steps they come in, or on the clock. No judging rule stands in SQL.
"""

from __future__ import annotations

import contextlib
import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tracker.engine import engine
from tracker.files import remove_tree
from tracker.journal import sizes
from tracker.judge import JUDGE, find, verdict
from tracker.lines import Part, Sifted, at_rest, repaired, sift, whole_lines
from tracker.model import Finding, Outcome, State
from tracker.versions import sort_key

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DB = Path(__file__).resolve().parent.parent / "db"

_BATCH = 512 * 1024 * 1024
"""Journal bytes per transaction: bounds the memory, and the room for copies."""

_OBSERVATION = """STRUCT(
    run VARCHAR, worker VARCHAR,
    cell STRUCT(track VARCHAR, version VARCHAR, suite VARCHAR, "case" VARCHAR,
                adapter VARCHAR, machine VARCHAR, suite_digest VARCHAR),
    environment VARCHAR, started TIMESTAMP, seconds DOUBLE, outcome JSON,
    finding STRUCT(state VARCHAR, reason VARCHAR, message VARCHAR, judge VARCHAR),
    measures JSON, log VARCHAR, attempt INTEGER)"""


def migrations() -> list[Path]:
    """Return the numbered files that make the tables, in order; their number is the version of the schema."""
    return sorted((DB / "migrations").glob("[0-9]*.sql"))


def create(connection: DuckDBPyConnection) -> None:
    """Make the tables of an empty database."""
    for path in migrations():
        connection.execute(path.read_text("utf-8"))
    connection.execute("INSERT INTO meta VALUES (?, ?)", [len(migrations()), JUDGE])


def fits(connection: DuckDBPyConnection) -> bool:
    """Return whether the database has the present tables, judged by the present judge."""
    return connection.execute("FROM meta").fetchall() == [(len(migrations()), JUDGE)]


def pending(connection: DuckDBPyConnection, journals: Sequence[Path]) -> list[Part] | None:
    """Return the parts of the journal folders that the database has not.

    None means that it has what the journal has no more, so that only a new database can agree with it.
    """
    known: dict[str, int] = dict(_rows(connection, "SELECT name, bytes FROM segment"))
    found = {name: (folder, size) for folder in journals for name, size in sizes(folder).items()}
    if any(name not in found or found[name][1] < size for name, size in known.items()):
        return None
    # Every question asks this and every process leaves a segment, so only those that have grown are opened.
    grown = sorted(name for name, (_, size) in found.items() if size > known.get(name, 0))
    starts = [(found[name][0] / f"{name}.jsonl", known.get(name, 0)) for name in grown]
    parts = [Part(path, start, whole_lines(path, start)) for path, start in starts]
    return [part for part in parts if part.size]


def fill(connection: DuckDBPyConnection, parts: Sequence[Part], scratch: Path) -> None:
    """Read the parts into the database and remake what depends on them, with ``scratch`` as a folder to make."""
    from concurrent.futures import ThreadPoolExecutor

    first, facts = _rows(connection, _EXTENT)[0]
    # Python looks through the lines on one core while the database reads them on the others.
    with _folder(scratch), ThreadPoolExecutor(1) as pool:
        for batch in _batches(parts):
            _read(connection, batch, pool.map(sift, batch), scratch)
        connection.begin()
        _rejudge(connection, scratch, first)
        new_facts = _rows(connection, _EXTENT)[0][1] > facts
        if new_facts:
            _run(connection, "facts")
        _measure(connection, first)
        _judge_cells(connection, scratch, first)
        if new_facts or _rows(connection, _UNRANKED, first):
            _rank_versions(connection, scratch)
        connection.commit()


_EXTENT = "SELECT (SELECT coalesce(max(rowid) + 1, 0) FROM observation), (SELECT count(*) FROM event)"
"""Where the next observation will stand, and how many facts there are."""
_NEW = "FROM observation WHERE rowid >= ?"
_UNRANKED = f"{_NEW} AND (track, version) NOT IN (SELECT (track, version) FROM version_rank) LIMIT 1"


# --- lines to rows ---------------------------------------------------------------------------------------


def _batches(parts: Iterable[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    for part in parts:
        batch.append(part)
        if sum(item.size for item in batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _read(
    connection: DuckDBPyConnection, batch: Sequence[Part], looked: Iterable[Sifted], scratch: Path
) -> None:
    duckdb = engine()

    (before, _) = _rows(connection, _EXTENT)[0]
    try:
        _insert(connection, [at_rest(part, scratch) for part in batch])
    except duckdb.InvalidInputException:
        # Not every kind of damage is passed over by the reader: a line beyond its limit is not.
        _insert(connection, [repaired(part, scratch) for part in batch])
    inserted = dict(_rows(connection, f"SELECT segment, count(*) {_NEW} GROUP BY ALL", before))
    sifted = list(looked)
    _append(connection, scratch, "event", [fact for item in sifted for fact in item.facts])
    _note(connection, scratch, sifted, inserted)
    for item in sifted:
        (scratch / item.part.path.name).unlink(missing_ok=True)


def _insert(connection: DuckDBPyConnection, files: Sequence[Path]) -> None:
    columns = {"seq": "BIGINT", "at": "TIMESTAMP", "observation": _OBSERVATION}
    fields = ", ".join(f"{_quote(name)}: {_quote(kind)}" for name, kind in columns.items())
    # A path in a list is a pattern, and a folder may well be called [x].
    paths = ", ".join(_quote(glob.escape(str(path))) for path in files)
    # What a column can not hold becomes NULL, and of a bad line everything does.
    source = (
        f"read_json([{paths}], format='newline_delimited', records=true, ignore_errors=true, filename=true,"
        f" columns={{{fields}}})"
    )
    connection.execute(_sql("observations").replace("journal_lines", source))


def _note(
    connection: DuckDBPyConnection, scratch: Path, sifted: Sequence[Sifted], inserted: Mapping[str, int]
) -> None:
    """Write down how far each segment was read, and the lines of it that could not be used."""
    known = {
        row[0]: row[1:] for row in _rows(connection, "SELECT name, lines, damaged, unknown FROM segment")
    }
    rows = []
    for item in sifted:
        name = item.part.path.stem
        lines, damaged, unknown = known.get(name, (0, 0, 0))
        lost = item.damaged + item.observations - inserted.get(name, 0)
        counts = {"lines": lines + item.lines, "damaged": damaged + lost, "unknown": unknown + item.unknown}
        rows.append({"name": name, "bytes": item.part.end, **counts})
    names = [row["name"] for row in rows if row["name"] in known]
    connection.execute("DELETE FROM segment WHERE list_contains(?, name)", [names])
    _append(connection, scratch, "segment", rows)


# --- rows to verdicts ------------------------------------------------------------------------------------

_CELL = "track, version, suite, case_id, adapter, machine, suite_digest"
_KNOWN = frozenset(State)
_STATES = ", ".join(f"'{state}'" for state in State)
_STALE = f"(o.judge <> '{JUDGE}' OR o.state NOT IN ({_STATES}))"


def _rejudge(connection: DuckDBPyConnection, scratch: Path, first: int) -> None:
    """Judge again what another judge judged, each distinct outcome once; before row ``first`` there is none."""
    found = _rows(connection, f"SELECT DISTINCT judge, state {_NEW}", first)
    if all(judge == JUDGE and state in _KNOWN for judge, state in found):
        return
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE stale AS SELECT outcome, measures, row_number() OVER () AS id"
        f" FROM (SELECT DISTINCT outcome, measures FROM observation AS o WHERE {_STALE})"
    )
    columns = {"id": "BIGINT", "state": "VARCHAR", "reason": "VARCHAR", "message": "VARCHAR"}
    judged = ({"id": key, **_judged(outcome, measures)} for key, outcome, measures in _stale(connection))
    _load(connection, scratch, "judged", columns, judged)
    connection.execute(
        "UPDATE observation AS o SET state = j.state, reason = j.reason, message = j.message,"
        f" judge = '{JUDGE}' FROM stale AS s JOIN judged AS j USING (id)"
        f" WHERE {_STALE} AND o.outcome = s.outcome AND o.measures = s.measures"
    )
    connection.execute("DROP TABLE stale; DROP TABLE judged")


def _stale(connection: DuckDBPyConnection) -> Iterator[tuple[int, str, str]]:
    connection.execute("SELECT id, outcome, measures FROM stale")
    while rows := connection.fetchmany(10_000):
        yield from rows


def _judged(outcome: str, measures: str) -> dict[str, Any]:
    try:
        known = msgspec.json.decode(outcome, type=Outcome)
    except msgspec.DecodeError as error:
        # A newer program may know more endings than this one.
        return {"state": State.INFRA, "reason": "outcome-unreadable", "message": str(error)}
    sent = msgspec.json.decode(measures)
    finding = find(known, sent if isinstance(sent, dict) else {})
    return {"state": finding.state, "reason": finding.reason, "message": finding.message}


def _measure(connection: DuckDBPyConnection, first: int) -> None:
    """Remake what the census measured, of each build and machine with an observation at or after row ``first``."""
    measured = f"SELECT DISTINCT track, version, machine {_NEW} AND suite = 'census'"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE measured AS {measured}", [first])
    if _rows(connection, "FROM measured LIMIT 1"):
        _run(connection, "census")
    connection.execute("DROP TABLE measured")


def _judge_cells(connection: DuckDBPyConnection, scratch: Path, first: int) -> None:
    """Give each cell with an observation at or after row ``first`` its verdict, each distinct list once."""
    # In a new database every cell is touched, and asking which ones are would double the work.
    narrow = f"SEMI JOIN touched USING ({_CELL})" if first else ""
    if first:
        touched = f"SELECT DISTINCT {_CELL} FROM observation WHERE rowid >= {first}"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE touched AS {touched}")
        for table in ("verdict", "known_cell"):
            connection.execute(f"DELETE FROM {table} WHERE ({_CELL}) IN (SELECT ({_CELL}) FROM touched)")
    connection.execute(_sql("findings").replace("/* narrow */", narrow))
    findings = {key: Finding(State(state), *said) for key, state, *said in _rows(connection, "FROM finding")}
    texts = _rows(connection, "SELECT DISTINCT findings FROM folded")
    columns = dict.fromkeys(("findings", "state", "reason", "message", "confidence"), "VARCHAR")
    decided = ({"findings": text, **_decided(text, findings)} for (text,) in texts)
    _load(connection, scratch, "decided", {**columns, "observations": "BIGINT"}, decided)
    connection.execute(
        "INSERT INTO verdict BY NAME SELECT * EXCLUDE (findings) FROM folded JOIN decided USING (findings)"
    )
    changed = "SELECT DISTINCT track, version FROM folded"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {changed}")
    _run(connection, "build_states")
    connection.execute("DROP TABLE folded; DROP TABLE finding; DROP TABLE decided; DROP TABLE changed")


def _decided(text: str, findings: Mapping[int, Finding]) -> dict[str, Any]:
    seen = [list(map(int, re.split("[x@]", item))) for item in text.split(" ")]
    keys, times, attempts = zip(*seen, strict=True)
    word = verdict([findings[key] for key in keys], times, attempts)
    return msgspec.to_builtins(word)  # type: ignore[no-any-return]


def _rank_versions(connection: DuckDBPyConnection, scratch: Path) -> None:
    """Number the versions of each track in the order of PEP 440, which SQL can not tell from their texts."""
    rows = _rows(
        connection,
        "SELECT DISTINCT track, version, b.uploaded FROM (SELECT track, version FROM build"
        " UNION SELECT track, version FROM verdict UNION SELECT track, version FROM wheel"
        " UNION SELECT track, version FROM environment) LEFT JOIN build AS b USING (track, version)",
    )
    rows.sort(key=lambda row: (row[0], sort_key(row[1], row[2] and row[2].replace(tzinfo=UTC))))
    places = enumerate(rows, start=1)
    ranked = [{"track": track, "version": version, "rank": place} for place, (track, version, _) in places]
    connection.execute("DELETE FROM version_rank")
    _append(connection, scratch, "version_rank", ranked)


# --- plumbing --------------------------------------------------------------------------------------------


def _rows(connection: DuckDBPyConnection, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    return connection.execute(sql, list(parameters)).fetchall()


def _sql(name: str) -> str:
    return (DB / "refresh" / f"{name}.sql").read_text("utf-8")


def _run(connection: DuckDBPyConnection, name: str) -> None:
    connection.execute(_sql(name))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _load(
    connection: DuckDBPyConnection,
    scratch: Path,
    table: str,
    columns: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
) -> None:
    """Make a temporary table of rows; by way of a file, which is a hundred times faster than one by one."""
    path = scratch / f"{table}.jsonl"
    with path.open("wb") as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
    fields = ", ".join(f"{_quote(name)}: {_quote(kind)}" for name, kind in columns.items())
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS FROM read_json([{_quote(glob.escape(str(path)))}],"
        f" format='newline_delimited', records=true, columns={{{fields}}})"
    )
    path.unlink()


def _append(
    connection: DuckDBPyConnection, scratch: Path, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Append rows to a table of the database."""
    if rows:
        described = _rows(connection, f"DESCRIBE {table}")
        _load(connection, scratch, "appended", {row[0]: row[1] for row in described}, rows)
        connection.execute(f"INSERT INTO {table} BY NAME FROM appended; DROP TABLE appended")


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    remove_tree(path)
    path.mkdir(parents=True)
    try:
        yield
    finally:
        remove_tree(path)
