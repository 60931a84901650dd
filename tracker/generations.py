"""The database files of one home, ``store/<n>.duckdb``: which is the newest, and how the next one is made.

DuckDB lets nobody read while somebody writes, so a file is never written after it was given its name. The next
generation is a copy of the newest with what the journal has beyond it, made aside under a lock and renamed.
A reader never meets a lock, and a crash leaves the generation that was. This module must not know what is in
a database.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker.engine import engine
from tracker.errors import StoreError
from tracker.files import copy, rename
from tracker.refresh import create, fill, fits, pending

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NAME = re.compile(r"\d{8}\.duckdb")

# Extensions are never fetched: all that is used is built in, and a machine may have no network.
_CLOSED: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}

_LOCKED: dict[str, Any] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
    # A folder for temporary files would be one that a query may write to.
    "temp_directory": "",
}


class _Unfit(Exception):
    """The database can not be brought up to the journal: it is of another program, or knows more."""


class Generations:
    """The database files in one folder, over the journal and whatever folders of its form stand beside it."""

    def __init__(self, folder: Path, *journals: Path) -> None:
        self.folder = folder
        self.journals = journals

    def newest(self) -> Path | None:
        """Return the file to read, or None when there is none yet."""
        return max(self._all(), default=None)

    def up_to_date(self, connection: DuckDBPyConnection) -> bool:
        """Return whether an open generation has all that the journal has."""
        return fits(connection) and pending(connection, self.journals) == []

    @contextlib.contextmanager
    def lock(self, wait: float) -> Iterator[None]:
        """Hold the right to make the next generation; StoreError when another process has it for too long."""
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            held = FileLock(self.folder / "refresh.lock").acquire(timeout=wait)
        except Timeout as error:
            raise StoreError("another process is refreshing the database") from error
        with held:
            yield

    def add(self) -> None:
        """Make the next generation from the newest, or from nothing where that can not be. Needs the lock."""
        duckdb = engine()

        base = self.newest()
        if base is None:
            return self.make(None)
        try:
            self.make(base)
        except _Unfit:
            self.make(None)
        except duckdb.Error:
            # It may be damaged, which can show as late as when a damaged block is read; or the disk is full, and
            # then this fails too and leaves it where it is.
            self.make(None, suspect=base)

    def make(self, base: Path | None, *, suspect: Path | None = None) -> None:
        """Make the next generation from ``base``, or from nothing. Needs the lock.

        A ``suspect`` generation, that could not be read, is moved aside when the next one stands.
        """
        aside = self.folder / "making.duckdb"
        _discard(aside)
        number = max((int(path.stem) for path in self._all()), default=0) + 1
        try:
            if base is not None:
                copy(base, aside)
            self._write(aside, new=base is None)
            rename(aside, self.folder / f"{number:08d}.duckdb")
        finally:
            _discard(aside)
        if suspect is not None:
            _move_aside(suspect)
        for path in self._all():
            if int(path.stem) < number:
                _discard(path)

    def _write(self, path: Path, *, new: bool) -> None:
        with _open_to_write(path) as connection:
            if new:
                create(connection)
            parts = pending(connection, self.journals) if fits(connection) else None
            if parts is None:
                raise _Unfit
            fill(connection, parts, self.folder / "scratch")
            connection.execute("CHECKPOINT")
        # Without this a power cut can leave the new name with the old, or no, contents.
        with path.open("r+b") as file:
            os.fsync(file.fileno())

    def _all(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        return []


def _move_aside(path: Path) -> None:
    """Keep a file that can not be read, for whoever wants to look at it; only the last such file is kept."""
    for older in path.parent.glob("*.broken-*"):
        _discard(older)
    rename(path, path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"))


def _discard(path: Path) -> None:
    """Delete a database file and its log; what a reader holds on Windows is left for the next time."""
    for file in (path, path.with_name(path.name + ".wal")):
        with contextlib.suppress(OSError):
            file.unlink()


def open_to_read(path: Path) -> DuckDBPyConnection:
    """Open a generation for questions of any origin: no writing, no files, no network, no settings."""
    duckdb = engine()

    connection: DuckDBPyConnection = duckdb.connect(str(path), read_only=True, config=_CLOSED | _LOCKED)
    return connection


def _open_to_write(path: Path) -> DuckDBPyConnection:
    duckdb = engine()
    import psutil

    memory = psutil.virtual_memory().total // 4
    config: dict[str, Any] = {
        "memory_limit": f"{max(memory, 1 << 29)}B",
        "temp_directory": str(path.parent / "scratch.tmp"),
        # Order is said by every query; not keeping it lets big inserts run on all cores in bounded memory.
        "preserve_insertion_order": "false",
    }
    connection: DuckDBPyConnection = duckdb.connect(str(path), config=_CLOSED | config)
    return connection
