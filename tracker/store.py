"""Every question that is put to the database.

Owns how answers are asked for: named queries, a user's own SQL, and what a reader does when the database can
not be brought up to date just now. It must not know how the database files are made, nor how rows come about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tracker import reference
from tracker.engine import engine
from tracker.errors import StoreError, UsageError
from tracker.generations import Generations, open_to_read
from tracker.model import Build, WheelFacts
from tracker.refresh import DB

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FIRST_WAIT = 900.0
"""Seconds to wait for another process's refresh when there is nothing to read meanwhile."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a user's SQL: the names of its columns, which need not differ, and its rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Store:
    """The database of one home folder. Moments in its answers are aware, in UTC."""

    def __init__(self, home: Path, *, patience: float = 2.0) -> None:
        self._generations = Generations(home / "store", home / "journal", reference.put_beside(home))
        self._patience = patience
        self._open: tuple[Path, DuckDBPyConnection] | None = None
        self.stale_since: datetime | None = None
        """When the database in use was made, if it could not be refreshed; None when it is up to date."""
        self.stale_reason = ""

    def refresh(self, wait: float | None = None) -> None:
        """Bring the database up to the journal.

        Where that can not be done now, because another process is at it or the disk is full, what was is used
        further and ``stale_since`` says so; with nothing to use it is a StoreError. Who decides what to write by
        what the database says gives the seconds to ``wait`` for other processes: then it is always a StoreError.
        """
        self.stale_since, self.stale_reason = None, ""
        if self._up_to_date():
            return
        patience = self._patience if self._generations.newest() else _FIRST_WAIT
        try:
            self._make(patience if wait is None else wait, self._add)
        except StoreError as error:
            newest = self._generations.newest()
            if newest is None or wait is not None:
                raise
            self.stale_since = datetime.fromtimestamp(newest.stat().st_mtime, UTC)
            self.stale_reason = error.message

    def rebuild(self) -> None:
        """Make the database anew from nothing but the journal."""
        self.stale_since, self.stale_reason = None, ""
        self._make(_FIRST_WAIT, lambda: self._generations.make(None))

    def query(self, name: str, **parameters: object) -> list[Row]:
        """Return the rows of ``db/queries/<name>.sql``; a parameter not given is NULL, which means any."""
        answer = self.answer(name, **parameters)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def answer(self, name: str, **parameters: object) -> Answer:
        """Return the same as plain rows, which is much faster where there are tens of thousands."""
        path = DB / "queries" / f"{name}.sql"
        if not path.is_file():
            raise UsageError(f"there is no query named {name!r}")
        return self._ask(path.read_text("utf-8"), parameters)

    def sql(self, text: str) -> Answer:
        """Return the answer to a user's SQL; it sees the tables and no file, and what fails is a UsageError."""
        return self._ask(text, None)

    def known_builds(self, track: str) -> list[Build]:
        """Return the latest record of each build of a track, oldest first; one that is gone has no files."""
        builds: dict[str, Row] = {}
        for row in self.query("index_state", track=track):
            build = builds.setdefault(row["version"], {**row, "files": []})
            if row["filename"] is not None:
                build["files"].append({**row, "uploaded": row["file_uploaded"]})
        return [msgspec.convert(build, Build) for build in builds.values()]

    def known_wheels(self, track: str, version: str) -> list[WheelFacts]:
        """Return what the wheels of a build said of themselves when they were read."""
        rows = self.query("wheel_of", track=track, version=version)
        return [msgspec.convert(row, WheelFacts) for row in rows]

    def close(self) -> None:
        """Let go of the database file."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _up_to_date(self) -> bool:
        duckdb = engine()

        # What can not be read is not up to date; making the next one finds out what to do with it.
        with suppress(duckdb.Error, StoreError):
            newest = self._generations.newest()
            return newest is not None and self._generations.up_to_date(self._reader().cursor())
        return False

    def _add(self) -> None:
        # Whoever had the lock before may have done it.
        if not self._up_to_date():
            self.close()
            self._generations.add()

    def _make(self, wait: float, action: Callable[[], object]) -> None:
        duckdb = engine()

        try:
            with self._generations.lock(wait):
                self.close()
                action()
        except (duckdb.Error, OSError) as error:
            hint = "Look at the free space of that disk."
            raise StoreError(f"the database can not be made: {_first_line(error)}", hint=hint) from error

    def _reader(self) -> DuckDBPyConnection:
        """Return a connection to the newest generation; the first is made when there is none."""
        duckdb = engine()

        if self._generations.newest() is None:
            self.refresh()
        problem: Exception | None = None
        # Another process can put a newer one in its place between looking and opening, hence the tries.
        for _ in range(5):
            newest = self._generations.newest()
            if newest is None:
                break
            if self._open is not None and self._open[0] == newest:
                return self._open[1]
            self.close()
            try:
                self._open = newest, open_to_read(newest)
            except duckdb.Error as error:
                problem = error
        raise StoreError(f"no database can be opened: {problem}", hint=_REBUILD) from problem

    def _ask(self, sql: str, parameters: Mapping[str, object] | None) -> Answer:
        duckdb = engine()

        cursor = self._reader().cursor()
        try:
            return _answer(cursor, sql, parameters)
        except (duckdb.IOException, duckdb.FatalException, duckdb.InternalException) as error:
            raise StoreError(f"the database can not be read: {_first_line(error)}", hint=_REBUILD) from error
        except duckdb.Error as error:
            hint = "The tables are described in db/README.md; nothing can be changed, and no file opened."
            raise UsageError(f"the SQL does not work: {_first_line(error)}", hint=hint) from error
        finally:
            cursor.close()


_REBUILD = "Make it anew from the journal: dmltrack rebuild"


def _answer(cursor: DuckDBPyConnection, sql: str, parameters: Mapping[str, object] | None) -> Answer:
    statements = cursor.extract_statements(sql)
    if not statements:
        raise UsageError("the SQL is empty", hint="Try: SELECT version FROM build ORDER BY uploaded")
    try:
        for statement in statements:
            cursor.execute(
                statement, None if parameters is None else _given(parameters, statement.named_parameters)
            )
    except RuntimeError as error:
        # How the engine reports an interrupt of the person who waits.
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise
    described = cursor.description or ()
    columns, rows = tuple(column[0] for column in described), cursor.fetchall()
    # The database holds UTC without saying so: with a zone it would show the host's.
    moments = [place for place, column in enumerate(described) if str(column[1]).startswith("TIMESTAMP")]
    return Answer(columns, [_aware(row, moments) for row in rows] if moments else rows)


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names with a number behind each that was there before, so that no column hides another."""
    taken: list[str] = []
    for name in names:
        tries = chain([name], (f"{name}_{number}" for number in count(2)))
        taken.append(
            next(free for free in tries if free not in taken and (free == name or free not in names))
        )
    return taken


def _given(parameters: Mapping[str, object], names: set[str]) -> dict[str, object]:
    if unknown := sorted(parameters.keys() - names):
        raise UsageError(f"the query has no parameter {unknown[0]!r}", hint=f"It has: {sorted(names)}")
    return {name: parameters.get(name) for name in names}


def _aware(row: tuple[Any, ...], moments: Sequence[int]) -> tuple[Any, ...]:
    values = list(row)
    for place in moments:
        if values[place] is not None:
            values[place] = values[place].replace(tzinfo=UTC)
    return tuple(values)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
