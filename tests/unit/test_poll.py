"""A poll records what is new once, and a lagging mirror takes nothing away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.builders import DAY, build
from tracker.index import UNKNOWN_UPLOAD
from tracker.poll import changed_builds, completed

OLD = build("1.0")


def test_times_and_sizes_that_a_mirror_leaves_out_are_kept() -> None:
    bare = replace(
        OLD, uploaded=UNKNOWN_UPLOAD, files=(replace(OLD.files[0], uploaded=UNKNOWN_UPLOAD, size=0),)
    )
    assert completed(bare, OLD) == OLD


def test_a_file_with_another_hash_is_another_file() -> None:
    other = replace(OLD, files=(replace(OLD.files[0], sha256="f" * 64, size=0),))
    assert completed(other, OLD).files[0].size == 0


def test_a_build_never_seen_is_taken_as_it_is() -> None:
    assert completed(OLD, None) == OLD


def test_a_record_that_is_equal_is_not_written_again() -> None:
    assert changed_builds({"1.0": OLD}, [OLD]) == []


def test_a_build_that_is_gone_is_recorded_without_files() -> None:
    assert changed_builds({"1.0": OLD}, []) == [replace(OLD, files=())]


def test_the_upload_time_of_a_build_is_that_of_its_first_file() -> None:
    late = replace(OLD.files[0], filename="b", sha256="b" * 64, uploaded=datetime(2025, 1, 1, tzinfo=UTC))
    assert completed(replace(OLD, files=(late, OLD.files[0])), None).uploaded == DAY
