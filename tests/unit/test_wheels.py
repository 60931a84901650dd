"""What a wheel says of itself: both platforms on any host, hostile archives, comparison, and the choice."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted_wheels import make_elf, make_pe, make_torch_directml, make_wheel, write_zip
from tracker.binaries import named_constants, pe_version
from tracker.errors import WheelError
from tracker.model import ApiEntry, Build, BuildFile, Platform, WheelFacts
from tracker.wheels import WheelChange, choose_wheel, read_wheel, wheel_changes

FULL = "1.13.1+240111-2204.1.dml-1.13.9b0890f"
LINUX = "manylinux2010_x86_64"
INFO = "torch_directml-1.0.dist-info"
METADATA = "Metadata-Version: 2.1\nName: torch-directml\nVersion: 1.0\n"


def planted(folder: Path, files: dict[str, bytes | str], requires: tuple[str, ...] = ()) -> WheelFacts:
    path = make_wheel(folder, "torch-directml", "1.0", "cp310", "win_amd64", files, requires)
    return read_wheel(path, "torch-directml")


def raw(folder: Path, members: dict[str, bytes | str]) -> Path:
    path = folder / "torch_directml-1.0-cp310-cp310-win_amd64.whl"
    write_zip(path, members)
    return path


def api_of(folder: Path, **sources: str) -> dict[str, str]:
    files: dict[str, bytes | str] = {f"torch_directml/{name}.py": text for name, text in sources.items()}
    return {entry.name: entry.signature for entry in planted(folder, files).api}


# Both platforms


def test_a_windows_wheel_is_read(tmp_path: Path) -> None:
    facts = read_wheel(make_torch_directml(tmp_path, "0.2.5.dev240914"), "torch-directml")
    assert (facts.track, facts.version, facts.platform) == (
        "torch-directml",
        "0.2.5.dev240914",
        Platform.WINDOWS,
    )
    assert (facts.python, facts.abi, facts.platform_tags) == ("cp310", "cp310", ("win_amd64",))
    assert (facts.directml_name, facts.directml_version) == ("torch_directml/DirectML.dll", "1.13.1")
    assert facts.directml_build == FULL
    assert facts.native_name == "torch_directml_native.cp310.pyd"
    assert facts.operators == ("aten::add.out", "aten::view")


def test_a_linux_wheel_is_read_and_its_library_names_no_version(tmp_path: Path) -> None:
    facts = read_wheel(make_torch_directml(tmp_path, "0.2.5", "cp312", LINUX), "torch-directml")
    assert facts.platform is Platform.LINUX
    assert facts.directml_name == "torch_directml/libdirectml.so"
    assert facts.directml_version is None and facts.directml_build == ""
    assert facts.operators == ("aten::add.out", "aten::view")


def test_sizes_and_hashes_are_those_of_the_bytes(tmp_path: Path) -> None:
    path = make_torch_directml(tmp_path, "1.0")
    facts = read_wheel(path, "t")
    with zipfile.ZipFile(path) as archive:
        assert facts.unpacked_size == sum(info.file_size for info in archive.infolist())
        assert facts.native_size == len(archive.read("torch_directml_native.cp310.pyd"))
    assert facts.size == path.stat().st_size
    assert facts.directml_sha256 and facts.native_sha256 and len(facts.sha256) == 64


def test_the_old_fork_has_its_library_inside_torch_and_no_module_of_its_own(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torch/lib/directml.dll": make_pe(version="1.8.0+211118"),
        "torch/lib/directml.debug.dll": make_pe(version="9.9"),
        "torch/dml/__init__.py": "def is_available() -> bool: ...\n",
    }
    facts = planted(tmp_path, files)
    assert (facts.directml_name, facts.directml_version) == ("torch/lib/directml.dll", "1.8.0")
    assert facts.native_name is None and facts.operators == ()
    assert facts.api == (ApiEntry("torch.dml.is_available", "() -> bool"),)


def test_a_wheel_without_any_of_it_is_still_a_wheel(tmp_path: Path) -> None:
    facts = planted(tmp_path, {"x.py": ""})
    assert facts.directml_name is None and facts.native_size is None and facts.api == ()


def test_requirements_are_told_in_one_spelling(tmp_path: Path) -> None:
    facts = planted(tmp_path, {}, ("torch (==1.13.1)", "torchvision == 0.14.1", "not a requirement"))
    assert facts.requires == ("torch==1.13.1", "torchvision==0.14.1", "not a requirement")


def test_top_level_names_are_read(tmp_path: Path) -> None:
    assert planted(tmp_path, {f"{INFO}/top_level.txt": "b\na\n\n"}).top_level == ("a", "b")


def test_importing_the_module_loads_no_binary_reader() -> None:
    code = "import sys, tracker.wheels, tracker.index; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {"pefile", "elftools", "requests", "urllib3"}.isdisjoint(loaded.split())


# Libraries


@pytest.mark.parametrize("make", [make_pe, make_elf])
def test_a_constant_counts_when_the_code_refers_to_it(make: type) -> None:
    known = {"add.out", "sin", "mul.out"}
    assert named_constants(make(["add.out"], unreferred=["sin", "mul.out"]), known) == {"add.out"}


@pytest.mark.parametrize("make", [make_pe, make_elf])
def test_a_name_that_is_only_the_tail_of_a_constant_is_found(make: type) -> None:
    known = {"view", "reshape_view", "max.out", "amax.out"}
    assert named_constants(make(["reshape_view", "view", "amax.out"]), known) == known - {"max.out"}


@pytest.mark.parametrize("make", [make_pe, make_elf])
def test_a_longer_text_that_begins_with_a_name_is_not_that_name(make: type) -> None:
    assert named_constants(make(["view as complex", "viewing"]), {"view"}) == frozenset()


def test_names_of_other_namespaces_are_read_whole(tmp_path: Path) -> None:
    facts = planted(tmp_path, {"torch_directml_native.pyd": make_pe(["torchvision::nms", "aten::mm", "nms"])})
    assert facts.operators == ("aten::mm", "torchvision::nms")


def test_debug_sections_are_not_read() -> None:
    assert named_constants(make_elf(["mm"], debug=b"\0add.out\0"), {"mm", "add.out"}) == {"mm"}


def test_code_of_another_processor_names_nothing() -> None:
    assert named_constants(make_elf(["mm"], machine=183), {"mm"}) == frozenset()


def test_names_that_torch_has_dropped_are_known(tmp_path: Path) -> None:
    facts = planted(tmp_path, {"torch_directml_native.pyd": make_pe(["prelu_backward", "_prelu_kernel"])})
    assert facts.operators == ("aten::_prelu_kernel", "aten::prelu_backward")


def test_the_binary_version_stands_in_for_a_missing_text() -> None:
    found = pe_version(make_pe(fixed=0x0001_000D_0001_0000))
    assert found and (found.short, found.full) == ("1.13.1", "")


def test_a_version_text_is_one_bounded_line() -> None:
    found = pe_version(make_pe(version="1.2.3\n\x1b[2J" + "x" * 900))
    assert found and found.short == "1.2.3" and found.full.isprintable() and len(found.full) <= 200


@pytest.mark.parametrize("data", [b"", b"MZ", b"\x7fELF", make_pe(version=FULL)[:700], make_elf(["mm"])[:70]])
def test_a_cut_library_says_nothing(data: bytes) -> None:
    assert pe_version(data) is None
    assert named_constants(data, {"mm"}) == frozenset()


def test_a_cut_library_costs_only_what_it_would_have_said(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torch_directml/DirectML.dll": make_pe(version=FULL)[:700],
        "torch_directml_native.pyd": make_pe(["mm"])[:300],
        "torch_directml/__init__.py": "def f(): ...\n",
    }
    facts = planted(tmp_path, files)
    assert facts.directml_version is None and facts.directml_size == 700
    assert facts.operators == () and facts.native_size == 300 and len(facts.api) == 1


def test_a_section_that_claims_to_be_huge_is_not_believed() -> None:
    data = bytearray(make_elf(["mm"]))
    headers = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, headers + 2 * 64 + 32, 2**60)
    assert named_constants(bytes(data), {"mm"}) == {"mm"}


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=8), st.booleans())
def test_no_damage_to_a_library_raises(place: int, patch: bytes, windows: bool) -> None:
    data = bytearray(make_pe(["mm"], version=FULL) if windows else make_elf(["mm"]))
    place %= len(data)
    data[place : place + len(patch)] = patch
    pe_version(bytes(data))
    assert named_constants(bytes(data), {"mm"}) <= {"mm"}


# The Python API


def test_the_api_is_what_the_package_shows(tmp_path: Path) -> None:
    init = "from .device import *\nfrom .functions import f, hidden as shown\nimport os\nx = 1\n"
    device = "def device(device_id = None) -> str: ...\ndef _private(): ...\n"
    functions = "async def f(a, *, b=1): ...\ndef hidden(): ...\ndef unseen(): ...\n"
    assert api_of(tmp_path, __init__=init, device=device, functions=functions) == {
        "torch_directml.device": "(device_id=None) -> str",
        "torch_directml.f": "(a, *, b=1)",
        "torch_directml.shown": "()",
    }


def test_a_class_is_told_with_its_public_methods(tmp_path: Path) -> None:
    source = "class A(Base):\n def __init__(self): ...\n def go(self, n): ...\n def _no(self): ...\n"
    assert api_of(tmp_path, __init__=source) == {
        "torch_directml.A": "class(Base)",
        "torch_directml.A.__init__": "(self)",
        "torch_directml.A.go": "(self, n)",
    }


def test_definitions_under_if_and_try_count(tmp_path: Path) -> None:
    source = "try:\n def a(): ...\nexcept E:\n pass\nif x:\n def b(): ...\nelse:\n def c(): ...\n"
    assert list(api_of(tmp_path, __init__=source)) == [f"torch_directml.{name}" for name in "abc"]


def test_modules_that_import_each_other_end(tmp_path: Path) -> None:
    found = api_of(
        tmp_path, __init__="from .a import *\n", a="from .b import *\n", b="from .a import *\ndef f(): ..."
    )
    assert list(found) == ["torch_directml.f"]


@pytest.mark.parametrize(
    "source", ["def (", "\0", "# coding: nonsense\n", "(" * 5000, "x = " + "-" * 50_000 + "1"]
)
def test_source_that_does_not_parse_is_skipped(tmp_path: Path, source: str) -> None:
    found = api_of(tmp_path, __init__="from .bad import *\ndef f(): ...\n", bad=source)
    assert list(found) == ["torch_directml.f"]


def test_source_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    found = api_of(
        tmp_path, __init__="from .big import *\ndef f(): ...\n", big="#" * 2_100_000 + "\ndef g(): ..."
    )
    assert list(found) == ["torch_directml.f"]


def test_a_missing_module_is_skipped(tmp_path: Path) -> None:
    assert list(api_of(tmp_path, __init__="from .gone import *\ndef f(): ...\n")) == ["torch_directml.f"]


def test_source_is_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    api_of(tmp_path, __init__=f"open({str(trap)!r}, 'w')\ndef f(x=open({str(trap)!r}, 'w')): ...\n")
    assert not trap.exists()


# Hostile archives


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "torch_directml-1.0-cp310-cp310-win_amd64.whl"
    path.write_bytes(b"<html>")
    with pytest.raises(WheelError, match="not a wheel that can be read"):
        read_wheel(path, "t")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WheelError):
        read_wheel(tmp_path / "torch_directml-1.0-cp310-cp310-win_amd64.whl", "t")


def test_a_name_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="not the name of a wheel"):
        read_wheel(tmp_path / "x.zip", "t")


def test_a_wheel_for_another_system_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "torch", "2.4.1", "cp310", "macosx_11_0_arm64", {})
    with pytest.raises(WheelError, match="neither for Linux nor for Windows"):
        read_wheel(path, "torch")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "0 METADATA files"),
        ({f"{INFO}/METADATA": METADATA, "b-1.dist-info/METADATA": METADATA}, "2 METADATA files"),
        ({f"{INFO}/METADATA": METADATA.replace("directml", "evil")}, "that of torch-evil 1.0"),
        ({f"{INFO}/METADATA": METADATA.replace("1.0", "1.1")}, "that of torch-directml 1.1"),
        ({f"{INFO}/METADATA": "nothing"}, "METADATA is that of"),
        ({f"{INFO}/METADATA": METADATA + " " * 5_000_000}, "too much"),
    ],
)
def test_metadata_must_be_there_once_and_fit_the_name(
    tmp_path: Path, members: dict[str, bytes | str], said: str
) -> None:
    with pytest.raises(WheelError, match=said) as caught:
        read_wheel(raw(tmp_path, members), "t")
    assert "\n" not in caught.value.message


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracker.wheels._WHEEL_LIMIT", 10_000)
    files: dict[str, bytes | str] = {"torch_directml_native.pyd": bytes(20_000)}
    with pytest.raises(WheelError, match="unpacks to 20000 bytes"):
        planted(tmp_path, files)


def test_names_that_climb_out_are_never_written(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    planted(inner, {"../evil.py": "x", "/evil.py": "x", "torch_directml/../../evil.py": "x"})
    assert [path.name for path in tmp_path.rglob("*evil*")] == []


def test_hostile_metadata_text_is_one_bounded_line(tmp_path: Path) -> None:
    facts = planted(tmp_path, {f"{INFO}/top_level.txt": "\x1b[31m" + "x" * 9999}, ("\x1b[2J" + "y" * 9999,))
    for text in (*facts.requires, *facts.top_level):
        assert text.isprintable() and len(text) <= 500


@pytest.mark.parametrize("platform", ["win_amd64", LINUX])
def test_damage_is_only_ever_a_wheel_error(tmp_path: Path, platform: str) -> None:
    path = make_torch_directml(tmp_path, "1.0", platform_tag=platform)
    whole = path.read_bytes()
    chance = random.Random(platform)
    for _ in range(300):
        path.write_bytes(damaged(whole, chance))
        try:
            read_wheel(path, "t")
        except WheelError as error:
            assert "\n" not in error.message and len(error.message) < 400


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """Return the bytes cut off, or with some of them changed, or with a piece taken out."""
    data = bytearray(whole)
    where = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            del data[where:]
        case 1:
            del data[where : where + chance.randrange(1, 64)]
        case _:
            for _ in range(chance.randrange(1, 9)):
                data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


# Comparing wheels


@pytest.fixture
def facts(tmp_path: Path) -> WheelFacts:
    return read_wheel(make_torch_directml(tmp_path, "1.0"), "t")


def test_equal_wheels_do_not_differ(facts: WheelFacts) -> None:
    assert wheel_changes(facts, replace(facts, version="1.1", sha256="0" * 64)) == []


def test_wheels_of_two_platforms_are_not_compared(facts: WheelFacts) -> None:
    assert wheel_changes(facts, replace(facts, platform=Platform.LINUX, native_size=1)) == []


def test_a_new_library_is_told_with_its_version_and_size(facts: WheelFacts) -> None:
    new = replace(facts, directml_version="1.15.0", directml_size=5000, native_size=7)
    assert wheel_changes(facts, new) == [
        WheelChange("directml-version", "1.13.1", "1.15.0"),
        WheelChange("directml-size", "2560", "5000"),
        WheelChange("native-size", "2048", "7"),
    ]


def test_a_moved_torch_pin_is_told(facts: WheelFacts) -> None:
    assert wheel_changes(facts, replace(facts, requires=("torch==2.5.0",))) == [
        WheelChange("requires-added", "1", "1", ("torch==2.5.0",)),
        WheelChange("requires-removed", "1", "1", ("torch==2.4.1",)),
    ]


def test_operators_that_come_and_go_are_told(facts: WheelFacts) -> None:
    assert wheel_changes(facts, replace(facts, operators=("aten::mm", "aten::view", "aten::x"))) == [
        WheelChange("operators-added", "2", "3", ("aten::mm", "aten::x")),
        WheelChange("operators-removed", "2", "3", ("aten::add.out",)),
    ]


def test_an_unread_module_is_not_one_without_operators(facts: WheelFacts) -> None:
    assert wheel_changes(facts, replace(facts, operators=())) == []
    assert wheel_changes(replace(facts, operators=()), facts) == []


def test_the_api_is_compared_by_name_and_signature(facts: WheelFacts) -> None:
    new = replace(facts, api=(ApiEntry("torch_directml.device", "(i)"), ApiEntry("torch_directml.f", "()")))
    assert wheel_changes(facts, new) == [
        WheelChange("api-added", "1", "2", ("torch_directml.f",)),
        WheelChange(
            "api-changed", "1", "2", ("torch_directml.device(device_id=None) -> torch_directml.device(i)",)
        ),
    ]


# Choosing a wheel


def build_of(*tags: str, yanked: str | None = None) -> Build:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    files = [BuildFile(f"torch-1.0-{tag}.whl", "", "", 1, moment, None, yanked) for tag in tags]
    return Build("t", "1.0", moment, tuple(files))


def chosen(build: Build, platform: Platform = Platform.LINUX, pythons: list[str] | None = None) -> str | None:
    file = choose_wheel(build, platform, pythons)
    return file.filename.removeprefix("torch-1.0-").removesuffix(".whl") if file else None


REAL = build_of(*(f"cp3{n}-cp3{n}-{platform}" for n in (8, 9, 10, 12) for platform in (LINUX, "win_amd64")))


def test_the_newest_python_is_chosen_by_number_not_by_text() -> None:
    assert chosen(REAL) == f"cp312-cp312-{LINUX}"
    assert chosen(build_of(f"cp39-cp39-{LINUX}", f"cp310-cp310-{LINUX}")) == f"cp310-cp310-{LINUX}"


def test_each_platform_gets_its_own_wheel() -> None:
    assert chosen(REAL, Platform.WINDOWS) == "cp312-cp312-win_amd64"


def test_only_given_pythons_are_chosen() -> None:
    assert chosen(REAL, pythons=["3.9", "3.10", "3.11"]) == f"cp310-cp310-{LINUX}"
    assert chosen(REAL, pythons=["3.11"]) is None
    assert chosen(REAL, pythons=[]) is None


@pytest.mark.parametrize(
    "tag",
    [
        "cp312-cp312-manylinux_2_17_aarch64",
        "cp312-cp312-macosx_11_0_arm64",
        "cp312-cp312-win_arm64",
        "cp312-cp312-win32",
        "cp313-cp313t-manylinux_2_28_x86_64",
        "pp310-pypy310_pp73-manylinux_2_17_x86_64",
    ],
)
def test_other_processors_and_interpreters_are_not_chosen(tag: str) -> None:
    assert chosen(build_of(tag)) is None and chosen(build_of(tag), Platform.WINDOWS) is None


def test_a_pure_wheel_runs_everywhere_but_a_native_one_goes_before_it() -> None:
    assert chosen(build_of("py3-none-any"), pythons=["3.12"]) == "py3-none-any"
    assert chosen(build_of("py3-none-any", f"cp38-cp38-{LINUX}")) == f"cp38-cp38-{LINUX}"


def test_a_stable_abi_runs_on_later_pythons_only() -> None:
    stable = build_of(f"cp39-abi3-{LINUX}")
    assert chosen(stable, pythons=["3.12"]) and not chosen(stable, pythons=["3.8"])


def test_a_yanked_wheel_is_chosen_only_where_no_other_fits() -> None:
    withdrawn = build_of(f"cp312-cp312-{LINUX}", yanked="why")
    both = replace(withdrawn, files=(*withdrawn.files, *build_of(f"cp310-cp310-{LINUX}").files))
    assert chosen(withdrawn) == f"cp312-cp312-{LINUX}"
    assert chosen(both) == f"cp310-cp310-{LINUX}"


def test_compressed_platform_tags_are_understood() -> None:
    assert chosen(build_of("cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64"))
