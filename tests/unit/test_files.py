"""Files are renamed, deleted and measured so that a system that denies for a moment is no trouble."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.files import Footprint, disk_use, footprint, remove_tree, rename, retrying, to_delete


def denied(times: int, action: Callable[..., Any] = lambda: None) -> Callable[..., Any]:
    """Return an action that the system denies so often, as Windows does while a scanner looks at a file."""
    left = [times]

    def maybe(*arguments: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise PermissionError(errno.EACCES, "in use")
        return action(*arguments, **named)

    return maybe


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree" / "inside"
    folder.mkdir(parents=True)
    for name in "abc":
        (folder / name).write_bytes(b"x" * 10_000)
    return tmp_path / "tree"


def test_a_denied_action_is_tried_for_ten_seconds_and_no_more() -> None:
    pauses: list[float] = []
    with pytest.raises(PermissionError):
        retrying(denied(99), pauses.append)
    assert 10 <= sum(pauses) < 11


def test_a_denial_that_passes_is_not_noticed() -> None:
    pauses: list[float] = []
    retrying(denied(3), pauses.append)
    assert pauses == [0.01, 0.02, 0.04]


def test_another_error_is_not_tried_again() -> None:
    pauses: list[float] = []
    with pytest.raises(FileNotFoundError):
        retrying(lambda: Path("/nowhere/at/all").unlink(), pauses.append)
    assert pauses == []


def test_a_rename_outlasts_a_reader(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", denied(2, Path.replace))
    rename(tree, tree.with_name("new"))
    assert (tree.with_name("new") / "inside" / "a").exists()


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_deletion_outlasts_a_virus_scanner(tree: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "unlink", denied(times, os.unlink))
    assert remove_tree(tree, lambda _: None) and not tree.exists()


def test_a_library_in_use_is_told_and_costs_nothing_else(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.unlink

    def unlink(path: Any, **named: Any) -> None:
        if Path(path).name == "b":
            raise PermissionError(errno.EACCES, "in use")
        really(path, **named)

    monkeypatch.setattr(os, "unlink", unlink)
    pauses: list[float] = []
    assert not remove_tree(tree, pauses.append)
    assert [path.name for path in (tree / "inside").iterdir()] == ["b"]
    assert sum(pauses) < 1


def test_a_file_that_can_not_be_deleted_raises_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "unlink", denied(99))
    assert not remove_tree(tree / "inside" / "a", lambda _: None)


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege")
def test_a_link_is_deleted_and_not_what_it_leads_to(tree: Path, tmp_path: Path) -> None:
    for name, target in (("good", tree), ("dangling", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(target)
        assert remove_tree(tmp_path / name) and not (tmp_path / name).is_symlink()
    assert (tree / "inside" / "a").exists()


def test_what_is_not_there_is_gone(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "nowhere")


def test_a_second_name_of_a_file_costs_no_disk(tree: Path) -> None:
    single = disk_use([tree])
    os.link(tree / "inside" / "a", tree / "again")
    assert disk_use([tree]) == single == disk_use([tree, tree / "inside"])


def test_a_file_that_goes_while_we_count_is_not_counted(tree: Path) -> None:
    assert len(footprint(tree)) == 3 and footprint(tree / "nowhere") == {}


A, B, C = Path("a"), Path("b"), Path("c")
SHARED: dict[Path, Footprint] = {A: {(1,): 10, (2,): 1}, B: {(1,): 10, (3,): 2}, C: {(4,): 4}}


def test_shared_files_are_saved_only_with_their_last_folder() -> None:
    assert to_delete(SHARED, 17, lambda _: False) == []
    assert to_delete(SHARED, 16, lambda _: False) == [A]
    assert to_delete(SHARED, 15, lambda _: False) == [A, B]


def test_what_is_to_be_kept_is_passed_over() -> None:
    assert to_delete(SHARED, 0, lambda folder: folder == A) == [B, C]


FILES = st.dictionaries(st.tuples(st.integers(0, 5)), st.just(7), max_size=5)


@given(st.dictionaries(st.sampled_from([A, B, C]), FILES), st.integers(0, 50))
def test_no_more_is_deleted_than_the_budget_asks(world: dict[Path, dict[Any, int]], budget: int) -> None:
    victims = to_delete(world, budget, lambda _: False)

    def size(gone: list[Path]) -> int:
        return 7 * len({file for folder, files in world.items() if folder not in gone for file in files})

    assert size(victims) <= budget
    assert not victims or size(victims[:-1]) > budget
