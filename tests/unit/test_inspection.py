"""Stand-ins for DirectX come out of a wheel of another track, once and whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_wheel
from tracker.errors import UsageError, WheelError
from tracker.home import Home
from tracker.inspection import STAND_INS, _take_stand_ins, stand_ins, wanted_platform
from tracker.model import Platform

LINUX = "manylinux2014_x86_64"


@pytest.fixture
def index() -> Iterator[PlantedIndex]:
    with PlantedIndex() as planted:
        yield planted


@pytest.fixture
def home(tmp_path: Path, index: PlantedIndex) -> Home:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.toml").write_text(f'[index]\nurl = "{index.url}"\nretries = 0\n')
    return Home(folder)


def wheel(folder: Path, version: str, names: tuple[str, ...] = STAND_INS) -> Path:
    files = {f"torch_directml/{name}": f"{version} {name}" for name in (*names, "libdirectml.so")}
    return make_wheel(folder, "torch-directml", version, "cp312", LINUX, files)


def taken(home: Home) -> Path:
    return Path(stand_ins(home, home.track("pytorch-directml"), Platform.LINUX))


def test_the_fork_gets_the_stand_ins_of_the_newest_wheel(
    home: Home, index: PlantedIndex, tmp_path: Path
) -> None:
    for version in ("0.2.4", "0.2.5"):
        index.add(wheel(tmp_path, version))
    folder = taken(home)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        name: f"0.2.5 {name}" for name in STAND_INS
    }


def test_stand_ins_are_taken_once(home: Home, index: PlantedIndex, tmp_path: Path) -> None:
    index.add(wheel(tmp_path, "0.2.5"))
    assert taken(home) == taken(home)
    assert index.count("/files/") == 1
    assert len(list((home.folder / "cache" / "stand-ins").iterdir())) == 1


def test_those_who_take_them_at_once_share_one_folder(tmp_path: Path) -> None:
    source, folder = wheel(tmp_path, "0.2.5"), tmp_path / "stand-ins" / "abc"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _take_stand_ins(source, "torch_directml", folder), range(4)))
    assert list(folder.parent.iterdir()) == [folder] and len(list(folder.iterdir())) == 2


def test_a_wheel_without_them_leaves_nothing_and_is_our_trouble(
    home: Home, index: PlantedIndex, tmp_path: Path
) -> None:
    index.add(wheel(tmp_path, "0.2.5", names=STAND_INS[:1]))
    with pytest.raises(WheelError, match="libdxcore") as caught:
        taken(home)
    assert caught.value.ours and list((home.folder / "cache" / "stand-ins").iterdir()) == []


def test_without_a_wheel_for_the_platform_there_are_none(
    home: Home, index: PlantedIndex, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "torch-directml", "0.2.5", "cp312", "win_amd64", {"a": ""}))
    assert stand_ins(home, home.track("pytorch-directml"), Platform.LINUX) == ""


def test_a_track_with_stand_ins_of_its_own_asks_nobody(home: Home, index: PlantedIndex) -> None:
    track = home.track("torch-directml")
    assert stand_ins(home, track, Platform.LINUX) == "torch_directml"
    assert stand_ins(home, track, Platform.WINDOWS) == "" and index.count() == 0


def test_a_platform_is_understood_by_its_short_and_its_long_name() -> None:
    assert wanted_platform("Win") is wanted_platform("windows") is Platform.WINDOWS
    with pytest.raises(UsageError):
        wanted_platform("amiga")
