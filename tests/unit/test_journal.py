"""The journal keeps every event, whatever happens to the process, the disk or the text in it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker import journal as module
from tracker.errors import OutsideError
from tracker.journal import Journal, Merged, Tally, segments
from tracker.model import Machine, RunFinished, RunStarted

BOX = Machine("f", "Linux", "6", "x86_64", "cpu", 2, 1, "absent")


def started(number: int) -> RunStarted:
    return RunStarted(f"run{number}", "dmltrack run", number)


def written(folder: Path, count: int) -> Path:
    """Write events to a new segment and return it."""
    before = set(segments(folder))
    with Journal(folder) as journal:
        for number in range(count):
            journal.append(started(number))
    (path,) = set(segments(folder)) - before
    return path


def runs(folder: Path, tally: Tally | None = None) -> list[str]:
    return [entry.record.run for entry in Journal(folder).read([RunStarted], tally)]  # type: ignore[union-attr]


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(BOX)
        journal.append(RunFinished("r", {"pass": 3}))
    entries = list(journal.read())
    assert [entry.record for entry in entries] == [BOX, RunFinished("r", {"pass": 3})]
    assert [entry.seq for entry in entries] == [1, 2]
    assert entries[0].at <= entries[1].at


def test_a_line_has_its_number_its_moment_and_one_record(tmp_path: Path) -> None:
    line = json.loads(written(tmp_path, 1).read_text("utf-8"))
    assert list(line) == ["run_started", "seq", "at"]
    assert line["at"].endswith("Z")


def test_a_journal_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert list(Journal(tmp_path / "none").read()) == []


def test_nothing_is_created_before_the_first_event(tmp_path: Path) -> None:
    Journal(tmp_path / "journal").close()
    assert not (tmp_path / "journal").exists()


def test_two_journals_write_to_two_segments(tmp_path: Path) -> None:
    written(tmp_path, 1)
    written(tmp_path, 1)
    assert len(segments(tmp_path)) == 2


def test_a_full_segment_is_followed_by_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_LIMIT", 200)
    with Journal(tmp_path) as journal:
        for number in range(6):
            journal.append(started(number))
    assert len(segments(tmp_path)) > 1
    assert sorted(runs(tmp_path)) == [f"run{number}" for number in range(6)]


@given(st.text(st.characters(exclude_categories=[]), max_size=30))
@settings(max_examples=50, deadline=None)
def test_any_text_keeps_a_line_whole(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder) as journal:
        journal.append(RunFinished("r", {text: 1}))
        journal.append(started(1))
    tally = Tally()
    records = [entry.record for entry in Journal(folder).read(tally=tally)]
    clean = text.encode("utf-8", "backslashreplace").decode()
    assert records == [RunFinished("r", {clean: 1}), started(1)]
    assert tally.damaged == 0


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_cutting_a_segment_anywhere_loses_at_most_the_last_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = written(folder, 4)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    tally = Tally()
    assert len(runs(folder, tally)) == whole[:cut].count(b"\n")
    assert tally.damaged == 0


@pytest.mark.parametrize(
    "bad",
    [b"\0" * 40, b"{", b"\xff\xfe", b'{"seq":1}', b"[]", b'{"seq":1,"at":"x","machine":{}}', b"[" * 5000],
)
def test_a_damaged_line_is_counted_and_costs_nothing_else(tmp_path: Path, bad: bytes) -> None:
    path = written(tmp_path, 2)
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, bad, second, b""]))
    tally = Tally()
    assert runs(tmp_path, tally) == ["run0", "run1"]
    assert (tally.lines, tally.damaged) == (3, 1)


def test_a_kind_that_a_newer_program_wrote_is_skipped_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    with path.open("ab") as file:
        file.write(b'{"seq":2,"at":"2026-12-01T09:00:00.000000Z","dream":{"deep":true}}\n')
    tally = Tally()
    assert runs(tmp_path, tally) == ["run0"]
    assert (tally.unknown, tally.damaged) == (1, 0)


def test_a_field_that_a_newer_program_added_is_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(b'"cells":', b'"mood":"fine","cells":'))
    assert runs(tmp_path) == ["run0"]


def test_after_a_full_disk_the_next_event_is_not_swallowed_by_the_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[: len(data) - 15])

    with Journal(tmp_path) as journal:
        journal.append(started(0))
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OutsideError, match="No space left"):
            journal.append(started(1))
        monkeypatch.undo()
        journal.append(started(2))
    assert sorted(runs(tmp_path)) == ["run0", "run2"]


@pytest.mark.parametrize("written", [1.0, 0.5])
def test_an_interrupt_while_writing_leaves_no_number_twice_and_swallows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: float
) -> None:
    write = os.write

    def interrupted(fd: int, data: bytes) -> int:
        write(fd, data[: int(len(data) * written)])
        raise KeyboardInterrupt

    with Journal(tmp_path) as journal:
        journal.append(started(0))
        monkeypatch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append(started(1))
        monkeypatch.undo()
        journal.append(started(2))
    entries = list(journal.read())
    assert len({(entry.segment, entry.seq) for entry in entries}) == len(entries)
    assert sorted(runs(tmp_path)) == (["run0", "run1", "run2"] if written == 1 else ["run0", "run2"])


def test_a_file_with_another_name_is_no_segment(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    shutil.copy(path, path.with_name(path.stem + " (copy).jsonl"))
    assert runs(tmp_path) == ["run0"]


def test_merging_twice_is_merging_once(tmp_path: Path) -> None:
    written(tmp_path / "a", 2)
    written(tmp_path / "b", 3)
    target = Journal(tmp_path / "a")
    assert target.merge(tmp_path / "b") == Merged(added=1)
    assert target.merge(tmp_path / "b") == Merged(kept=1)
    assert len(runs(tmp_path / "a")) == 5


@pytest.mark.parametrize("longer", ["here", "there"])
def test_of_two_copies_of_a_segment_the_longer_wins(tmp_path: Path, longer: str) -> None:
    path = written(tmp_path / "here", 3)
    (tmp_path / "there").mkdir()
    copy = Path(shutil.copy(path, tmp_path / "there"))
    shorter = copy if longer == "here" else path
    shorter.write_bytes(shorter.read_bytes()[:-30])
    merged = Journal(tmp_path / "here").merge(tmp_path / "there")
    assert len(runs(tmp_path / "here")) == 3
    assert merged.conflicts == []


def test_copies_that_disagree_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "here", 2)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / path.name).write_bytes(path.read_bytes().replace(b"run0", b"runX"))
    assert Journal(tmp_path / "here").merge(tmp_path / "there").conflicts == [path.name]
