"""Environments are made aside by the real uv, verified before each use, and pruned by their last use."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.planted_index import JSON, PlantedIndex, Reply
from tests.planted_wheels import make_wheel
from tracker.config import EnvironmentSettings, IndexSettings
from tracker.environments import LOCK, MARKER, Environments, Recipe, held_to_wheel, index_variables
from tracker.errors import EnvironmentProblem, Stopped
from tracker.machine import this_platform
from tracker.model import Platform
from tracker.tools import tool_runner
from tracker.trackfile import Library


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PlantedIndex]:
    with PlantedIndex() as planted:
        for version in ("1.0", "2.0"):
            planted.add(wheel(tmp_path, version))
        yield planted


def wheel(folder: Path, version: str, tag: str = "py3", body: str = "x = 1\n") -> Path:
    return make_wheel(folder, "planted", version, tag, "any", {"planted/__init__.py": body})


@cache
def hash_of(version: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return hashlib.sha256(wheel(Path(folder), version).read_bytes()).hexdigest()


@pytest.fixture
def made(tmp_path: Path, index: PlantedIndex, monkeypatch: pytest.MonkeyPatch) -> Environments:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    return environments(tmp_path / "home", index.url)


def environments(home: Path, index: str | IndexSettings, **options: Any) -> Environments:
    home.mkdir(exist_ok=True)
    settings = EnvironmentSettings(min_free_gb=0.1)
    return Environments(home, settings, index, tool_runner(home, **options))


def recipe(version: str = "1.0", **changes: object) -> Recipe:
    python = platform.python_version()
    plain = Recipe("t", version, "planted", "planted", python, (), hash_of(version), this_platform())
    return replace(plain, **changes)  # type: ignore[arg-type]


PYTHON = Path(sys.executable)


def test_an_environment_holds_the_build_and_its_facts(made: Environments) -> None:
    environment, fresh = made.ensure(recipe(), PYTHON)
    assert fresh and environment.facts.ready and "planted==1.0" in environment.facts.freeze
    assert (environment.site_packages / "planted").is_dir()
    assert environment.facts.hashes[0].startswith("planted-1.0 sha256:")
    assert "--hash=sha256:" in (environment.folder / "requirements.lock").read_text()


def test_an_environment_is_made_once(made: Environments) -> None:
    first, _ = made.ensure(recipe(), PYTHON)
    second, fresh = made.ensure(recipe(), PYTHON)
    assert not fresh and second == first


def test_a_changed_recipe_is_another_environment() -> None:
    digests = {
        recipe().digest,
        recipe("2.0").digest,
        recipe(requirements=("a==1",)).digest,
        recipe(wheel="1" * 64).digest,
    }
    assert len(digests) == 4
    assert all(len(digest) == 12 for digest in digests)


def test_an_environment_whose_build_is_gone_is_made_again(made: Environments) -> None:
    environment, _ = made.ensure(recipe(), PYTHON)
    shutil.rmtree(environment.site_packages / "planted")
    again, fresh = made.ensure(recipe(), PYTHON)
    assert fresh and (again.site_packages / "planted").is_dir()


def test_an_environment_with_another_version_inside_is_not_reused(made: Environments) -> None:
    environment, _ = made.ensure(recipe(), PYTHON)
    info = environment.site_packages / "planted-1.0.dist-info" / "METADATA"
    info.write_text(info.read_text().replace("1.0", "1.1"))
    assert made.find(recipe()) is None


def test_a_folder_without_marker_is_not_an_environment(made: Environments) -> None:
    environment, _ = made.ensure(recipe(), PYTHON)
    (environment.folder / MARKER).unlink()
    assert made.find(recipe()) is None


def test_a_failed_installation_leaves_nothing(made: Environments) -> None:
    with pytest.raises(EnvironmentProblem):
        made.ensure(recipe("9.9"), PYTHON)
    assert list(made.folder.iterdir()) == []


def test_a_version_that_is_not_there_is_told_in_uvs_own_words(made: Environments) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        made.ensure(recipe("9.9"), PYTHON)
    assert "no version of planted==9.9" in caught.value.message and "\n" not in caught.value.message
    assert (caught.value.slug, caught.value.ours) == ("no-solution", False)


@pytest.mark.parametrize("status", [401, 403, 503])
@pytest.mark.parametrize("path", ["/simple/planted/", "/files/planted-1.0-py3-none-any.whl"])
def test_an_index_that_refuses_says_nothing_about_the_build(
    made: Environments, index: PlantedIndex, path: str, status: int
) -> None:
    index.answer_next(path, *[Reply(status)] * 10)
    with pytest.raises(EnvironmentProblem) as caught:
        made.ensure(recipe(), PYTHON)
    assert caught.value.ours


def test_a_missing_library_of_the_host_is_named_with_its_remedy(made: Environments) -> None:
    library = Library("libnowhere.so.5", "install nowhere", Platform.ANY)
    with pytest.raises(
        EnvironmentProblem, match=r"this host lacks libnowhere\.so\.5: install nowhere"
    ) as caught:
        made.ensure(recipe(libraries=(library,)), PYTHON)
    assert caught.value.slug == "missing-library"


def test_a_library_for_another_system_is_not_asked_for(made: Environments) -> None:
    other = Platform.LINUX if sys.platform == "win32" else Platform.WINDOWS
    made.ensure(recipe(libraries=(Library("nowhere.dll", "", other),)), PYTHON)


def test_a_full_disk_is_our_trouble(made: Environments) -> None:
    made.settings = EnvironmentSettings(min_free_gb=1e9)
    with pytest.raises(EnvironmentProblem) as caught:
        made.ensure(recipe(), PYTHON)
    assert (caught.value.slug, caught.value.ours) == ("disk-full", True)


def test_over_budget_the_environment_used_longest_ago_goes_first(made: Environments) -> None:
    old, _ = made.ensure(recipe("1.0"), PYTHON)
    os.utime(old.folder / MARKER, (1, 1))
    made.settings = EnvironmentSettings(min_free_gb=0.1, disk_budget_gb=0.0)
    new, _ = made.ensure(recipe("2.0"), PYTHON)
    assert not old.folder.exists() and new.folder.exists()


def test_pruning_never_touches_a_folder_without_our_marker(made: Environments) -> None:
    stranger = made.folder / "somebody"
    stranger.mkdir(parents=True)
    (stranger / "file").write_bytes(b"x" * 10_000)
    made.settings = EnvironmentSettings(disk_budget_gb=0.0)
    assert made.prune(()) == [] and (stranger / "file").exists()


def test_what_an_interrupted_installation_left_is_swept_away(made: Environments) -> None:
    (made.folder / ".abc-1234").mkdir(parents=True)
    made.sweep()
    assert list(made.folder.iterdir()) == []


# What is installed, and from where


def test_only_the_wheel_of_the_recipe_is_installed(
    made: Environments, index: PlantedIndex, tmp_path: Path
) -> None:
    own = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    index.add(wheel(tmp_path, "1.0", own, "x = 'the wheel that uv would prefer'\n"))
    environment, _ = made.ensure(recipe(), PYTHON)
    assert (environment.site_packages / "planted" / "__init__.py").read_text() == "x = 1\n"
    assert (environment.folder / LOCK).read_text().count("--hash") == 1


def test_a_wheel_that_was_replaced_on_the_index_is_not_installed(made: Environments) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        made.ensure(recipe(wheel="f" * 64), PYTHON)
    assert (caught.value.slug, caught.value.ours) == ("hash-mismatch", False)
    assert list(made.folder.iterdir()) == []


def test_a_file_that_is_not_what_the_index_lists_is_not_installed(
    made: Environments, index: PlantedIndex
) -> None:
    index.page("planted")["files"][0]["hashes"]["sha256"] = "f" * 64
    with pytest.raises(EnvironmentProblem) as caught:
        made.ensure(recipe(wheel="f" * 64), PYTHON)
    assert (caught.value.slug, caught.value.ours) == ("hash-mismatch", False)


LOCKED = """a==1 \\
    --hash=sha256:aa
planted==1.0 \\
    --hash=sha256:{} \\
    --hash=sha256:bb
    # via x
"""


def test_a_lock_is_changed_for_the_package_alone() -> None:
    held = held_to_wheel(LOCKED.format(recipe().wheel), recipe())
    assert held == LOCKED.replace(" \\\n    --hash=sha256:bb", "").format(recipe().wheel)


def test_a_requirement_that_only_a_mirror_has_comes_from_there(
    made: Environments, index: PlantedIndex, tmp_path: Path
) -> None:
    with PlantedIndex() as second:
        second.add(make_wheel(tmp_path, "extra", "1.0", "py3", "any", {"extra.py": "x = 1\n"}))
        both = environments(made.folder.parent, index.settings(mirrors=(second.url,)))
        environment, _ = both.ensure(recipe(requirements=("extra",)), PYTHON)
        assert second.count("/simple/planted/") == 0
    assert "extra==1.0" in environment.facts.freeze


def test_a_mirror_serves_when_the_index_does_not(made: Environments, tmp_path: Path) -> None:
    with PlantedIndex() as gone, PlantedIndex() as mirror:
        mirror.add(wheel(tmp_path, "1.0"))
        gone.answer_next("/simple/planted/", *[Reply(503)] * 10)
        both = environments(made.folder.parent, gone.settings(mirrors=(mirror.url,)))
        environment, _ = both.ensure(recipe(), PYTHON)
    assert "planted==1.0" in environment.facts.freeze


def test_the_index_is_asked_before_its_mirrors() -> None:
    assert index_variables(["a"]) == {"UV_DEFAULT_INDEX": "a"}
    assert index_variables(["a", "b", "c"]) == {"UV_INDEX": "a b", "UV_DEFAULT_INDEX": "c"}


def test_a_login_reaches_the_index_and_neither_command_lines_nor_files(
    made: Environments, index: PlantedIndex
) -> None:
    made.indexes = (index.url.replace("http://", "http://me:s3cret@"),)
    really, commands = made.run, []

    def spy(command: Sequence[str], seconds: float, variables: Mapping[str, str] = {}, /) -> Any:
        commands.append(" ".join(command))
        return really(command, seconds, variables)

    made.run = spy
    environment, _ = made.ensure(recipe(), PYTHON)
    assert all("authorization" in request.headers for request in index.requests)
    assert commands and not any("s3cret" in command for command in commands)
    files = [path for path in environment.folder.rglob("*") if path.is_file()]
    assert not any(b"s3cret" in path.read_bytes() for path in files)


def test_a_login_is_not_in_what_is_said_of_a_failure(made: Environments, index: PlantedIndex) -> None:
    made.indexes = (index.url.replace("http://", "http://me:s3cret@"),)
    index.answer_next("/simple/planted/", Reply(503))
    with pytest.raises(EnvironmentProblem) as caught:
        made.ensure(recipe(), PYTHON)
    assert caught.value.ours and "s3cret" not in caught.value.message


# Python


@pytest.mark.skipif(sys.platform == "win32", reason="the fake interpreter is a shell script")
def test_an_environment_whose_python_does_not_start_is_not_reused(made: Environments) -> None:
    environment, _ = made.ensure(recipe(), PYTHON)
    environment.python.unlink()
    environment.python.symlink_to("/nowhere/python")
    assert made.find(recipe()) is None
    _, fresh = made.ensure(recipe(), PYTHON)
    assert fresh


def test_what_is_installed_may_print_when_python_starts_and_ends(
    made: Environments, index: PlantedIndex, tmp_path: Path
) -> None:
    talk = "import atexit; print('hello', end=''); atexit.register(print, '[1, 2, 3]\\nbye')\n"
    files = {"planted/__init__.py": "", "planted.pth": talk}
    built = index.add(make_wheel(tmp_path, "planted", "3.0", "py3", "any", files))
    _, fresh = made.ensure(recipe("3.0", wheel=built["hashes"]["sha256"]), PYTHON)
    assert fresh


def test_an_environment_whose_python_was_replaced_is_not_reused(made: Environments) -> None:
    other = recipe(python="3.99.1")
    environment, _ = made.ensure(recipe(), PYTHON)
    environment.folder.rename(made.folder / other.digest)
    assert made.find(other) is None


def test_a_python_that_is_not_the_recipes_is_our_trouble(made: Environments) -> None:
    with pytest.raises(EnvironmentProblem, match="is now") as caught:
        made.ensure(recipe(python="3.99.1"), PYTHON)
    assert (caught.value.slug, caught.value.ours) == ("wrong-python", True)


def test_a_python_that_uv_does_not_have_is_none(made: Environments) -> None:
    assert made.provide_python("3.99") is None


def test_being_offline_is_not_the_lack_of_a_python(
    made: Environments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(made.folder.parent / "pythons"))
    offline = environments(made.folder.parent, "http://127.0.0.1:9/simple/")
    with pytest.raises(EnvironmentProblem) as caught:
        offline.provide_python("3.10")
    assert (caught.value.slug, caught.value.ours) == ("index-unreachable", True)


# Builds that write where they were installed


def write_over(path: Path) -> None:
    """Write into the file itself, as a build does that keeps something beside its code."""
    with path.open("a") as file:
        file.write("x = 'changed'\n")


def test_what_a_build_wrote_over_is_not_in_the_next_environment(made: Environments) -> None:
    first, _ = made.ensure(recipe(), PYTHON)
    write_over(first.site_packages / "planted/__init__.py")
    second, fresh = made.ensure(recipe(requirements=("planted",)), PYTHON)
    assert fresh and (second.site_packages / "planted/__init__.py").read_text() == "x = 1\n"


def test_an_environment_that_was_written_over_is_made_again_and_says_so(made: Environments) -> None:
    first, _ = made.ensure(recipe(), PYTHON)
    write_over(first.site_packages / "planted/__init__.py")
    again, fresh = made.ensure(recipe(), PYTHON)
    assert fresh and (again.site_packages / "planted/__init__.py").read_text() == "x = 1\n"
    assert (again.facts.reason, "planted-1.0" in again.facts.message) == ("changed-by-use", True)
    assert made.ensure(recipe(), PYTHON) == (again, False)


def test_byte_code_does_not_spoil_an_environment(made: Environments) -> None:
    first, _ = made.ensure(recipe(), PYTHON)
    subprocess.run([first.python, "-I", "-c", "import planted"], check=True)
    assert (first.site_packages / "planted/__pycache__").is_dir()
    assert made.find(recipe())


# Room, time and paths


def test_an_installation_that_is_stopped_leaves_nothing(
    made: Environments, index: PlantedIndex, tmp_path: Path
) -> None:
    index.answer_next("/simple/planted/", Reply(200, b" " * 5000, {"Content-Type": JSON}, pause=0.1))
    stopping = environments(made.folder.parent, index.url, stop=lambda: index.count("/simple/planted/") > 0)
    with pytest.raises(Stopped):
        stopping.ensure(recipe(), PYTHON)
    assert list(made.folder.iterdir()) == []


def test_paths_inside_an_environment_stay_short_enough_for_windows(made: Environments) -> None:
    folders: list[str] = []
    really = made.run

    def spy(command: Sequence[str], seconds: float, variables: Mapping[str, str] = {}, /) -> Any:
        folders.extend(command[-1:] if "venv" in command else [])
        return really(command, seconds, variables)

    made.run = spy
    environment, _ = made.ensure(recipe(), PYTHON)
    home = made.folder.parent
    assert len(folders) == 1
    for folder in (*folders, str(environment.folder)):
        assert len(str(Path(folder).relative_to(home))) <= 40


def test_a_disk_that_fails_while_we_write_is_our_trouble(
    made: Environments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tracker.environments.rename", full)
    with pytest.raises(EnvironmentProblem, match="No space left") as caught:
        made.ensure(recipe(), PYTHON)
    assert caught.value.ours and list(made.folder.iterdir()) == []


def test_an_environment_in_use_is_left_for_another_time(
    made: Environments, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.ensure(recipe(), PYTHON)

    def in_use(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "in use")

    monkeypatch.setattr("tracker.environments.rename", in_use)
    made.settings = EnvironmentSettings(disk_budget_gb=0.0)
    assert made.prune(()) == [] and made.find(recipe())


def test_pruning_looks_at_each_environment_once(made: Environments, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1.0", "2.0"):
        made.ensure(recipe(version), PYTHON)
    looks: list[Path] = []

    def look(folder: Path) -> dict[tuple[object, ...], int]:
        looks.append(folder)
        return {(folder,): 1 << 40}

    monkeypatch.setattr("tracker.environments.footprint", look)
    assert len(made.prune(())) == 2 and len(looks) == 2
