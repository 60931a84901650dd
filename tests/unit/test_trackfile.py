"""A track's file says what is followed; what is wrong in it is told in one line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracker.errors import UsageError
from tracker.model import Platform
from tracker.trackfile import load_track, parse_track, track_files

GOOD = """name = "t"
package = "p"
module = "m"
device = "d"
dispatch_keys = ["K"]
pythons = ["3.8"]
"""


def problem(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_track(text, "here.toml")
    assert caught.value.message.startswith("here.toml: ") and "\n" not in caught.value.message
    return caught.value.message


def test_a_track_needs_no_more_than_how_to_reach_its_device() -> None:
    track = parse_track(GOOD, "here.toml")
    assert (track.package, track.pythons, track.inspect_wheels, track.pins) == ("p", ("3.8",), True, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "not TOML"),
        (GOOD + 'name = "u"\n', "not TOML"),
        (GOOD.replace("package", "pakage"), "unknown key 'pakage'"),
        (GOOD.replace('package = "p"\n', ""), "package"),
        (GOOD.replace('["3.8"]', '"3.8"'), "pythons"),
        (GOOD + '[[libraries]]\nname = "x"\nhint = "y"\nplatform = "amiga"\n', "amiga"),
        (GOOD + '[[pins]]\nbuilds = "before 2"\nrequires = []\n', "pins"),
        (GOOD + '[stand_ins]\namiga = "x"\n', "amiga"),
    ],
)
def test_a_file_that_is_no_track_is_told_with_the_reason(text: str, said: str) -> None:
    assert said in problem(text)


@pytest.mark.parametrize("name", ["pytorch-directml", "torch", "torch-directml"])
def test_the_shipped_tracks_load(tmp_path: Path, name: str) -> None:
    track = load_track(name, tmp_path)
    assert track.name == track.package == name and track.pythons and track.dispatch_keys


def test_there_is_no_other_shipped_track(tmp_path: Path) -> None:
    assert sorted(track_files(tmp_path)) == ["pytorch-directml", "torch", "torch-directml"]


def test_the_fork_names_each_library_that_it_needs_with_a_remedy(tmp_path: Path) -> None:
    libraries = load_track("pytorch-directml", tmp_path).libraries
    assert [library.name for library in libraries] == ["libomp.so.5", "libblas.so.3", "liblapack.so.3"]
    assert all("Debian" in library.hint and library.platform is Platform.LINUX for library in libraries)


def test_the_fork_takes_its_stand_ins_from_a_track_that_has_some(tmp_path: Path) -> None:
    other = load_track("pytorch-directml", tmp_path).stand_ins_of
    assert load_track(other, tmp_path).stand_ins[Platform.LINUX] == "torch_directml"


def test_pins_are_for_builds_that_declare_nothing(tmp_path: Path) -> None:
    track = load_track("torch-directml", tmp_path)
    assert "torch==1.13.0" in track.requires("0.1.13.dev221216", ())
    assert "torch==1.13.0" not in track.requires("0.1.13.dev221216", ("torch==1.13.1",))
    assert "torch==1.13.0" not in track.requires("0.1.13.1.dev230119", ())


NAMED = GOOD.replace('name = "t"', 'name = "torch"')


def own(home: Path, content: bytes) -> Path:
    (home / "tracks").mkdir()
    path = home / "tracks" / "torch.toml"
    path.write_bytes(content)
    return path


def test_a_track_of_the_home_folder_goes_before_the_programs_own(tmp_path: Path) -> None:
    own(tmp_path, b"\xef\xbb\xbf" + NAMED.replace("\n", "\r\n").encode())
    assert load_track("torch", tmp_path).package == "p"


def test_a_track_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    path = own(tmp_path, GOOD.encode("utf-16"))
    with pytest.raises(UsageError, match="cannot be read") as caught:
        load_track("torch", tmp_path)
    assert str(path) in caught.value.message


def test_an_unknown_track_is_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_track("tensorflow", tmp_path)
    assert "torch-directml" in str(caught.value.hint)


def test_a_track_that_calls_itself_otherwise_than_its_file_is_refused(tmp_path: Path) -> None:
    own(tmp_path, b'name = "other"')
    with pytest.raises(UsageError, match="says name = 'other'"):
        load_track("torch", tmp_path)
