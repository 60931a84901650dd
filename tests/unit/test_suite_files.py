"""The suites are handed out as copies, so that an edit in the middle of a run changes nothing for it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tracker.errors import OutsideError
from tracker.suite_files import digest_of, hand_out


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "census").mkdir(parents=True)
    (folder / "census" / "cases.py").write_text("x = 1\n")
    return folder


def test_a_copy_is_made_once(tmp_path: Path, source: Path) -> None:
    first = hand_out(tmp_path, source)
    made = (first / "suites" / "census" / "cases.py").stat().st_mtime_ns
    assert hand_out(tmp_path, source) == first
    assert (first / "suites" / "census" / "cases.py").stat().st_mtime_ns == made


def test_an_edit_makes_another_copy_and_leaves_the_first(tmp_path: Path, source: Path) -> None:
    first = hand_out(tmp_path, source)
    (source / "census" / "cases.py").write_text("x = 2\n")
    second = hand_out(tmp_path, source)
    assert (first / "suites" / "census" / "cases.py").read_text() == "x = 1\n"
    assert (second / "suites" / "census" / "cases.py").read_text() == "x = 2\n"


def test_caches_are_neither_copied_nor_counted(tmp_path: Path, source: Path) -> None:
    before = digest_of(source)
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert digest_of(source) == before
    assert not (hand_out(tmp_path, source) / "suites" / "__pycache__").exists()


def test_a_renamed_file_is_another_state(source: Path) -> None:
    before = digest_of(source)
    (source / "census" / "cases.py").rename(source / "census" / "other.py")
    assert digest_of(source) != before


def test_those_who_ask_at_once_share_one_copy(tmp_path: Path, source: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        places = set(pool.map(lambda _: hand_out(tmp_path, source), range(8)))
    assert len(places) == 1
    assert list((tmp_path / "suites").iterdir()) == list(places)


def test_a_copy_that_fails_leaves_nothing(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path, target: Path, **options: Any) -> None:
        target.mkdir(parents=True)
        raise OSError("No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(OutsideError, match="No space left"):
        hand_out(tmp_path, source)
    assert list((tmp_path / "suites").iterdir()) == []
