"""Environments are made aside by the real uv, verified before each use, and pruned by their last use."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.planted_index import PlantedIndex, Reply
from tests.planted_wheels import make_wheel
from tracker.config import EnvironmentSettings
from tracker.environments import MARKER, Environments, Recipe, uv_is_outside, uv_reason, uv_slug
from tracker.errors import EnvironmentProblem
from tracker.files import disk_use
from tracker.machine import this_platform
from tracker.model import Platform
from tracker.tools import tool_runner
from tracker.trackfile import Library


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PlantedIndex]:
    with PlantedIndex() as planted:
        for version in ("1.0", "2.0"):
            planted.add(
                make_wheel(tmp_path, "planted", version, "py3", "any", {"planted/__init__.py": "x = 1\n"})
            )
        yield planted


@pytest.fixture
def made(tmp_path: Path, index: PlantedIndex, monkeypatch: pytest.MonkeyPatch) -> Environments:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    home = tmp_path / "home"
    home.mkdir()
    settings = EnvironmentSettings(min_free_gb=0.1)
    return Environments(home, settings, index.url, tool_runner(home))


def recipe(version: str = "1.0", **changes: object) -> Recipe:
    plain = Recipe(
        "t", version, "planted", "planted", platform.python_version(), (), "0" * 64, this_platform()
    )
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


def test_an_index_that_fails_says_nothing_about_the_build(made: Environments, index: PlantedIndex) -> None:
    index.answer_next("/simple/planted/", *[Reply(503)] * 10)
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


NO_SOLUTION = """error: No solution found when resolving dependencies
  cause: Because a==1 has no wheels with a matching Python ABI tag (e.g., `cp312`) and you require a==1, no.

hint: You require CPython 3.12 (`cp312`), but we only found wheels for
"""
REFUSED = """warning: something
error: Request failed after 3 retries in 11.3s
  cause: Failed to fetch: http://127.0.0.1:9/simple/a/
  cause: Connection refused (os error 111)
"""


def test_uvs_reason_is_its_error_and_causes_in_one_line() -> None:
    assert uv_reason(NO_SOLUTION).startswith(
        "No solution found when resolving dependencies: Because a==1 has no wheels"
    )
    assert uv_reason(REFUSED).endswith("Connection refused (os error 111)")
    assert uv_reason("\n\nsomething odd\n") == "something odd"
    assert uv_reason("") == "uv failed and gave no reason"


@pytest.mark.parametrize(
    ("reason", "slug", "outside"),
    [
        (uv_reason(NO_SOLUTION), "no-wheel", False),
        (uv_reason(REFUSED), "index-unreachable", True),
        ("failed to write: No space left on device (os error 28)", "disk-full", True),
        ("Failed to download `a`: Hash mismatch for a", "hash-mismatch", False),
        ("something odd", "install-failed", False),
    ],
)
def test_reasons_of_the_host_are_told_from_those_of_the_build(reason: str, slug: str, outside: bool) -> None:
    assert (uv_slug(reason), uv_is_outside(reason)) == (slug, outside)


def test_a_second_name_of_a_file_costs_no_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    single = disk_use([tmp_path])
    os.link(tmp_path / "a", tmp_path / "b")
    assert disk_use([tmp_path]) == single
