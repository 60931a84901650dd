"""What two polls have to say of each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_torch_directml
from tests.unit.test_index import NEW, ask, planted
from tracker.index import UNKNOWN_UPLOAD
from tracker.model import Build, BuildFile, IndexChange, IndexChangeKind
from tracker.poll import index_changes

__all__ = ["planted"]

MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


def file_of(name: str, sha256: str = "0", yanked: str | None = None) -> BuildFile:
    return BuildFile(name, "http://x/" + name, sha256, 1, MOMENT, None, yanked)


def build_of(version: str, *files: BuildFile) -> Build:
    return Build("t", version, MOMENT, files)


def kinds(known: list[Build], seen: list[Build]) -> list[tuple[str, str]]:
    found = index_changes({build.version: build for build in known}, seen)
    return [(change.kind.value, change.subject) for change in found]


def test_on_a_first_poll_each_build_is_new_and_its_files_are_not_told() -> None:
    seen = [build_of("2", file_of("a"), file_of("b", yanked="why")), build_of("1", file_of("c"))]
    assert index_changes({}, seen) == [
        IndexChange("t", "1", IndexChangeKind.NEW_BUILD),
        IndexChange("t", "2", IndexChangeKind.NEW_BUILD),
    ]


def test_files_that_come_and_go_are_told_by_name() -> None:
    assert kinds([build_of("1", file_of("a"))], [build_of("1", file_of("b"))]) == [
        ("file-gone", "a"),
        ("new-file", "b"),
    ]


def test_a_build_that_is_gone_is_told_once() -> None:
    assert kinds([build_of("1", file_of("a"), file_of("b"))], []) == [("build-gone", "")]


def test_a_yanked_build_is_told_once_with_its_reason() -> None:
    old = build_of("1", file_of("a"), file_of("b"))
    new = build_of("1", file_of("a", yanked="why"), file_of("b", yanked="why"))
    assert kinds([old], [new]) == [("yanked", "why")]
    assert kinds([new], [old]) == [("unyanked", "")]


def test_a_single_yanked_file_is_told_by_name() -> None:
    old = build_of("1", file_of("a"), file_of("b"))
    new = build_of("1", file_of("a", yanked="why"), file_of("b"))
    assert kinds([old], [new]) == [("yanked", "a")]
    assert kinds([new], [old]) == [("unyanked", "a")]


def test_a_changed_hash_is_told() -> None:
    assert kinds([build_of("1", file_of("a"))], [build_of("1", file_of("a", "1"))]) == [("hash-changed", "a")]


def test_a_mirror_that_leaves_out_times_and_sizes_changes_nothing() -> None:
    bare = replace(file_of("a"), size=0, uploaded=UNKNOWN_UPLOAD, url="http://mirror/a")
    assert kinds([build_of("1", file_of("a"))], [Build("t", "1", UNKNOWN_UPLOAD, (bare,))]) == []


FILES = st.builds(file_of, st.sampled_from("abc"), st.sampled_from("01"), st.sampled_from([None, "", "why"]))
BUILDS = st.lists(
    st.builds(
        lambda version, files: build_of(version, *files),
        st.sampled_from(["0.1.13.dev221216", "0.1.13.1.dev230119", "0.2.5", "0.10", "odd!"]),
        st.lists(FILES, min_size=1, max_size=3, unique_by=lambda file: file.filename),
    ),
    max_size=5,
    unique_by=lambda build: build.version,
)


@settings(deadline=None)
@given(BUILDS)
def test_what_was_seen_is_no_change(seen: list[Build]) -> None:
    assert index_changes({build.version: build for build in seen}, seen) == []


@settings(deadline=None)
@given(BUILDS, BUILDS, st.randoms())
def test_changes_do_not_depend_on_the_order_of_the_page(
    known: list[Build], seen: list[Build], random: Any
) -> None:
    shuffled = [replace(build, files=tuple(reversed(build.files))) for build in seen]
    random.shuffle(shuffled)
    before = {build.version: build for build in known}
    assert index_changes(before, seen) == index_changes(before, shuffled)


@settings(deadline=None)
@given(BUILDS, BUILDS)
def test_each_change_is_told_once(known: list[Build], seen: list[Build]) -> None:
    changes = index_changes({build.version: build for build in known}, seen)
    assert len(changes) == len(set(changes))
    new = {change.version for change in changes if change.kind is IndexChangeKind.NEW_BUILD}
    assert new == {build.version for build in seen} - {build.version for build in known}


@settings(deadline=None)
@given(BUILDS, BUILDS)
def test_nothing_that_differs_is_left_untold(known: list[Build], seen: list[Build]) -> None:
    before, after = ({b.version: frozenset(_facts(b)) for b in side} for side in (known, seen))
    told = {change.version for change in index_changes({b.version: b for b in known}, seen)}
    assert told == {version for version in before | after if before.get(version) != after.get(version)}


def _facts(build: Build) -> Iterator[tuple[str, str, bool]]:
    return ((file.filename, file.sha256, file.yanked is not None) for file in build.files)


def test_later_uploads_do_not_move_the_time_of_a_build(planted: PlantedIndex, tmp_path: Path) -> None:
    first = ask(planted, tmp_path).builds[1].uploaded
    wheel = make_torch_directml(tmp_path, NEW, "cp38")
    planted.add(wheel, (first + timedelta(days=3)).isoformat())
    build = ask(planted, tmp_path).builds[1]
    assert len(build.files) == 2 and build.uploaded == first
