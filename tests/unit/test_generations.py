"""The files of the database: a crash, a full disk or a damaged file never leaves a home without one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from tests.unit.store_records import (
    EVENTS,
    SEGV,
    append,
    dump,
    home_with,
    observation,
    value,
)
from tracker import generations, refresh
from tracker.engine import engine
from tracker.errors import StoreError
from tracker.journal import Journal, segments
from tracker.store import Store


def files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "store").iterdir() if path.name != "refresh.lock")


def test_a_refresh_leaves_one_file_with_the_next_number(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())
    store.refresh()
    assert files(tmp_path) == ["00000002.duckdb"]


def test_a_refresh_with_nothing_new_makes_nothing(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    with Journal(tmp_path / "journal") as journal:
        journal.close()
    segments(tmp_path / "journal")[0].open("ab").write(b'{"seq":')
    store.refresh()
    assert files(tmp_path) == ["00000001.duckdb"]


def test_a_reader_works_while_another_process_refreshes_and_is_told(tmp_path: Path) -> None:
    home_with(tmp_path, observation()).close()
    append(tmp_path, observation(SEGV))
    reader = Store(tmp_path, patience=0.1)
    with FileLock(tmp_path / "store" / "refresh.lock"):
        reader.refresh()
    assert reader.stale_since is not None
    assert value(reader, "SELECT count(*) FROM observation") == 1
    reader.refresh()
    assert not reader.stale_reason
    assert value(reader, "SELECT count(*) FROM observation") == 2


def test_a_writer_waits_and_is_refused_what_is_not_up_to_date(tmp_path: Path) -> None:
    home_with(tmp_path, observation()).close()
    append(tmp_path, observation(SEGV))
    writer = Store(tmp_path)
    with FileLock(tmp_path / "store" / "refresh.lock"), pytest.raises(StoreError, match="another process"):
        writer.refresh(wait=0.1)
    writer.refresh(wait=60)
    assert value(writer, "SELECT count(*) FROM observation") == 2


def test_a_question_with_nothing_new_opens_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())
    store.refresh()
    monkeypatch.setattr(refresh, "whole_lines", lambda path, start: pytest.fail(f"{path} was opened"))
    store.refresh()
    assert not store.stale_reason


def test_an_open_reader_sees_what_another_process_added(tmp_path: Path) -> None:
    reader = home_with(tmp_path, observation())
    append(tmp_path, observation(SEGV))
    Store(tmp_path).refresh()
    assert value(reader, "SELECT count(*) FROM observation") == 2


@pytest.mark.parametrize("damage", [b"", b"not a database" * 1000])
def test_a_file_that_can_not_be_opened_is_moved_aside_and_made_anew(tmp_path: Path, damage: bytes) -> None:
    home_with(tmp_path, observation()).close()
    (tmp_path / "store" / "00000001.duckdb").write_bytes(damage)
    store = Store(tmp_path)
    store.refresh()
    assert value(store, "SELECT count(*) FROM observation") == 1
    assert len([name for name in files(tmp_path) if ".broken-" in name]) == 1


def test_a_file_with_a_damaged_block_is_made_anew(tmp_path: Path) -> None:
    home_with(tmp_path, *EVENTS * 50).close()
    path = tmp_path / "store" / "00000001.duckdb"
    data = bytearray(path.read_bytes())
    for place in range(20_000, len(data), 5_000):
        data[place : place + 8] = b"\xff" * 8
    path.write_bytes(data)
    append(tmp_path, observation(case="after"))
    store = Store(tmp_path)
    store.refresh()
    assert value(store, "SELECT count(*) FROM observation WHERE case_id = 'after'") == 1


def test_a_file_with_another_schema_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home_with(tmp_path, observation()).close()
    more = [*refresh.migrations(), tmp_path / "0002_more.sql"]
    more[-1].write_text("CREATE TABLE more (x INTEGER)")
    monkeypatch.setattr(refresh, "migrations", lambda: more)
    store = Store(tmp_path)
    store.refresh()
    assert value(store, "SELECT count(*) FROM more") == 0
    assert value(store, "SELECT count(*) FROM observation") == 1


def test_a_full_disk_leaves_what_was_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(generations, "copy", full)
    store.refresh()
    assert "No space left" in store.stale_reason
    assert value(store, "SELECT count(*) FROM observation") == 1
    assert files(tmp_path) == ["00000001.duckdb"]


def test_without_any_database_a_failure_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(generations, "fill", full)
    with pytest.raises(StoreError, match="No space left"):
        Store(tmp_path).refresh()


def test_a_disk_that_fills_in_the_database_leaves_the_one_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())

    def full(*_: object) -> None:
        raise engine().IOException("Could not write: No space left on device")

    monkeypatch.setattr(generations, "fill", full)
    store.refresh()
    assert "No space left" in store.stale_reason
    assert files(tmp_path) == ["00000001.duckdb"]


def test_killing_a_refresh_leaves_a_database_that_can_be_read(tmp_path: Path) -> None:
    home_with(tmp_path, *EVENTS * 20).close()
    code = (
        f"from pathlib import Path; from tracker.store import Store; Store(Path({str(tmp_path)!r})).refresh()"
    )
    draw = random.Random(1)
    for _ in range(4):
        append(tmp_path, *EVENTS)
        process = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(draw.uniform(0.15, 0.8))
        process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()
        assert value(Store(tmp_path), "SELECT count(*) FROM observation") > 0
    store = Store(tmp_path)
    store.refresh()
    stepwise = dump(store)
    store.rebuild()
    assert dump(store) == stepwise
