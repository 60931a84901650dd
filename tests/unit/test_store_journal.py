"""The database is a function of the journal: no order, step or damaged line makes another one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.store_records import (
    EVENTS,
    NOW,
    SEGV,
    append,
    dump,
    home_with,
    observation,
    value,
)
from tracker import lines
from tracker.journal import Journal, encode, line_of, segments
from tracker.model import (
    EVENT_NAMES,
    Event,
)
from tracker.store import Store

JUNK = [b"", b"{", b"\0" * 9, b"[1]", b'{"seq":7,"at":"2026-12-01T09:00:00.000000Z","dream":1}', b"\xff{}"]
JUNK += [b'{"seq":8,"at":"2026-12-01T09:00:00.000000Z","observation":{"run":"r"}}', b'{"seq":1} {"seq":2}']


def line(seq: int, event: Event) -> bytes:
    return line_of(seq, NOW + timedelta(seconds=seq % 3), EVENT_NAMES[type(event)], encode(event))


journals = st.lists(
    st.lists(st.sampled_from(EVENTS) | st.sampled_from(JUNK), max_size=12), min_size=1, max_size=4
)


def segment_bytes(content: Sequence[Event | bytes]) -> bytes:
    return b"".join(
        item + b"\n" if isinstance(item, bytes) else line(seq, item) for seq, item in enumerate(content, 1)
    )


def segment_path(home: Path, number: int) -> Path:
    (home / "journal").mkdir(exist_ok=True)
    return home / "journal" / f"20261201T090000Z-{number:08x}.jsonl"


@given(journals, st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_refreshing_in_any_steps_is_rebuilding(
    tmp_path_factory: pytest.TempPathFactory, content: list[list[Event | bytes]], draw: random.Random
) -> None:
    home = tmp_path_factory.mktemp("home")
    whole = [segment_bytes(segment) for segment in content]
    written = [0] * len(whole)
    store = Store(home)
    while any(done < len(data) for done, data in zip(written, whole, strict=True)):
        number = draw.choice([n for n, data in enumerate(whole) if written[n] < len(data)])
        # Cut anywhere once, then go to the end: each refresh costs, and two steps show what ten do.
        start, end = written[number], len(whole[number])
        written[number] = end if start else draw.randint(1, end)
        segment_path(home, number).write_bytes(whole[number][: written[number]])
        store.refresh()
    stepwise = dump(store) if any(whole) else None
    store.rebuild()
    assert stepwise is None or dump(store) == stepwise
    store.close()


@given(journals)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_counted_agrees_with_reading_the_journal(
    tmp_path_factory: pytest.TempPathFactory, content: list[list[Event | bytes]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    for number, segment in enumerate(content):
        segment_path(home, number).write_bytes(segment_bytes(segment))
    store = Store(home)
    store.refresh()
    (row,) = store.sql("SELECT sum(lines), sum(damaged), sum(unknown) FROM segment").rows
    items = [item for segment in content for item in segment]
    unknown = sum(item == JUNK[4] for item in items)
    assert (row[0] or 0, row[2] or 0) == (len(items), unknown)
    assert (row[1] or 0) == sum(isinstance(item, bytes) for item in items) - unknown
    store.close()


def test_merged_journals_give_the_same_from_either_side(tmp_path: Path) -> None:
    append(tmp_path / "a", *EVENTS[:9])
    append(tmp_path / "b", *EVENTS[9:])
    shutil.copytree(tmp_path / "a" / "journal", tmp_path / "c" / "journal")
    Journal(tmp_path / "a" / "journal").merge(tmp_path / "b" / "journal")
    Journal(tmp_path / "b" / "journal").merge(tmp_path / "c" / "journal")
    assert dump(Store(tmp_path / "a")) == dump(Store(tmp_path / "b"))


def test_merging_the_same_journal_again_changes_nothing(tmp_path: Path) -> None:
    store = home_with(tmp_path / "a", *EVENTS)
    before = dump(store)
    shutil.copytree(tmp_path / "a" / "journal", tmp_path / "b")
    Journal(tmp_path / "a" / "journal").merge(tmp_path / "b")
    store.refresh()
    assert dump(store) == before


def test_a_journal_that_lost_a_segment_makes_a_new_database(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation(SEGV, case="other"))
    store.refresh()
    segments(tmp_path / "journal")[0].unlink()
    store.refresh()
    assert value(store, "SELECT count(*) FROM observation") == 1


def test_a_full_segment_is_read_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SEGMENT_LIMIT", 100)
    home = tmp_path / "a [b] 'c' *"
    assert value(home_with(home, observation(), observation(SEGV)), "SELECT count(*) FROM observation") == 2


def test_a_line_too_long_for_the_reader_costs_nothing_else(tmp_path: Path) -> None:
    append(tmp_path, observation())
    (path,) = segments(tmp_path / "journal")
    path.write_bytes(b'{"x":"' + b"y" * 40_000_000 + b'"}\n' + path.read_bytes())
    store = Store(tmp_path)
    assert value(store, "SELECT count(*) FROM observation") == 1
    assert store.sql("SELECT lines, damaged + unknown FROM segment").rows == [(2, 1)]
