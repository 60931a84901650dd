"""Each part that a run needs is looked at, and said to be there only when it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import build
from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_torch_directml
from tracker.doctor import Check, Health, examine
from tracker.errors import Stopped
from tracker.home import Home
from tracker.machine import DIRECTX_LIBRARY
from tracker.trackfile import parse_track

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
TRACK = """name = "torch-directml"
package = "torch-directml"
module = "torch_directml"
device = "directml"
dispatch_keys = ["PrivateUse1"]
pythons = ["{}"]
"""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PlantedIndex]:
    with PlantedIndex() as planted:
        planted.add(make_torch_directml(tmp_path, "0.2.5"))
        yield planted


@pytest.fixture
def home(tmp_path: Path, index: PlantedIndex) -> Home:
    return home_at(tmp_path / "home", index)


def home_at(folder: Path, index: PlantedIndex, more: str = "[environments]\nmin_free_gb = 0\n") -> Home:
    folder.mkdir(exist_ok=True)
    text = f'[index]\nurl = "{index.url}"\nretries = 0\ntimeout = 2.0\n{more}'
    (folder / "config.toml").write_text(text)
    return Home(folder)


def checks(home: Home, python: str = OWN) -> dict[str, Check]:
    return {check.name: check for check in examine(home, parse_track(TRACK.format(python), "t"))}


def test_on_a_machine_that_has_all_each_part_passes(home: Home) -> None:
    home.loaded.settings.worker.environment["LD_LIBRARY_PATH"] = str(home.folder)
    (home.folder / DIRECTX_LIBRARY).touch()
    found = checks(home)
    assert {name for name, check in found.items() if check.health is not Health.PASS} <= (
        {"DirectX 12"} if sys.platform == "win32" else set()
    )
    assert len(found) == 9 and "1 builds of torch-directml" in found["index"].detail


def test_looking_leaves_no_trial_behind(home: Home) -> None:
    checks(home)
    assert not (home.folder / ".doctor").exists()


def test_a_home_folder_that_is_a_file_fails(tmp_path: Path, index: PlantedIndex) -> None:
    (tmp_path / "file").touch()
    assert checks(Home(tmp_path / "file"))["home folder"].health is Health.FAIL


def test_a_disk_with_too_little_room_fails(tmp_path: Path, index: PlantedIndex) -> None:
    home = home_at(tmp_path / "home", index, "[environments]\nmin_free_gb = 1e9\n")
    assert checks(home)["disk"].health is Health.FAIL


def test_a_uv_that_does_not_start_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(home.folder / "nowhere"))
    assert checks(home)["uv"].health is Health.FAIL


def test_a_machine_without_a_python_that_builds_have_wheels_for_fails(home: Home) -> None:
    found = checks(home, "3.99")["Pythons"]
    assert found.health is Health.FAIL and "uv python install" in found.hint


def test_an_index_that_does_not_answer_fails_with_a_hint(home: Home, index: PlantedIndex) -> None:
    index.pages.clear()
    found = checks(home)["index"]
    assert found.health is Health.FAIL and "404" in found.detail and found.hint


@pytest.mark.skipif(sys.platform == "win32", reason="Windows brings DirectX")
def test_a_machine_without_directx_is_told_what_it_can_do(home: Home) -> None:
    home.loaded.settings.worker.environment["LD_LIBRARY_PATH"] = str(home.folder)
    if home.machine.directx == "real":
        pytest.skip("DirectX is here")
    found = checks(home)["DirectX 12"]
    assert found.health is Health.UNKNOWN and "LD_LIBRARY_PATH" in found.hint


def test_on_windows_nobody_claims_to_have_looked_for_directx(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = home.machine, home.journal
    monkeypatch.setattr("tracker.doctor.sys.platform", "win32")
    from tracker.doctor import _directx

    assert _directx(home).health is Health.UNKNOWN


def test_a_damaged_journal_fails(home: Home) -> None:
    home.journal.append(build("1.0"))
    home.journal.close()
    [segment] = home.journal.folder.iterdir()
    segment.write_bytes(b"no event\n" + segment.read_bytes())
    assert checks(home)["journal"].health is Health.FAIL


def test_a_database_that_can_not_be_made_fails(home: Home) -> None:
    (home.folder / "store").touch()
    assert checks(home)["database"].health is Health.FAIL


def test_a_wrong_setting_is_told_once_and_what_needs_none_is_looked_at(
    tmp_path: Path, index: PlantedIndex
) -> None:
    found = checks(home_at(tmp_path / "home", index, "[worker]\nnonsense = 1\n"))
    assert found["settings"].health is Health.FAIL and "nonsense" in found["settings"].detail
    assert [name for name, check in found.items() if check.health is Health.PASS] == ["home folder", "uv"]
    assert len(found) == 3


def test_a_doctor_who_is_told_to_stop_does_not_call_it_a_fault(home: Home) -> None:
    with pytest.raises(Stopped):
        checks(Home(home.folder, stop=lambda: True))
