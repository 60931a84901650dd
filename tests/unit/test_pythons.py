"""Interpreters are found where people have them, and only those that answer count."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tracker.pythons import Answers, Python, _from_pyenv, find_pythons, newest, without_shims

FOUND = [
    Python("3.9.18", Path("a")),
    Python("3.10.13", Path("b")),
    Python("3.10.2", Path("c")),
    Python("3.8.1", Path("d")),
]


def test_the_newest_version_wins_by_number_and_not_by_text() -> None:
    assert newest(FOUND, ["3.9", "3.10"]) == FOUND[1]


def test_of_equal_versions_the_first_found_wins() -> None:
    assert newest(FOUND, ["3.10"]) == FOUND[1]


def test_without_a_fitting_version_there_is_none() -> None:
    assert newest(FOUND, ["3.12"]) is None and newest([], ["3.8"]) is None


def test_this_interpreter_is_found_when_it_is_configured() -> None:
    assert any(python.minor == "{}.{}".format(*sys.version_info) for python in find_pythons([sys.executable]))


def test_a_configured_path_that_is_no_python_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    found = find_pythons([str(broken), str(tmp_path / "nowhere")])
    assert all(python.path != broken for python in found)


@pytest.mark.skipif(sys.platform == "win32", reason="the fake interpreter is a shell script")
def test_pyenv_versions_are_found_in_their_folders_and_silent_ones_are_not(tmp_path: Path) -> None:
    for version, answer in (("3.10.13", "CPython 3.10.13 64"), ("3.9.1", ""), ("3.8.0", "PyPy 3.8.0 64")):
        python = tmp_path / "versions" / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho {answer}\n")
        python.chmod(0o755)
    found = _from_pyenv({"PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path)}, Answers(None).ask)
    assert [python.version for python in found if tmp_path in python.path.parents] == ["3.10.13"]


def test_shims_are_taken_off_the_path() -> None:
    path = os.pathsep.join(["/usr/bin", "/home/x/.pyenv/shims", "/bin"])
    assert without_shims(path) == os.pathsep.join(["/usr/bin", "/bin"])


def test_a_user_without_home_directory_has_no_pyenv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert _from_pyenv({}, Answers(None).ask) == []


@pytest.mark.skipif(sys.platform == "win32", reason="the fake interpreter is a shell script")
def test_an_interpreter_is_started_once_until_it_changes(tmp_path: Path) -> None:
    starts, python, kept = tmp_path / "starts", tmp_path / "python", tmp_path / "cache/pythons.json"

    def plant(version: str) -> None:
        python.write_text(f"#!/bin/sh\necho x >> {starts}\necho CPython {version} 64\n")
        python.chmod(0o755)

    def ask() -> Python | None:
        answers = Answers(kept)
        said = answers.ask(python)
        answers.keep()
        return said

    plant("3.10.2")
    assert ask() == ask() == Python("3.10.2", python) and starts.read_text() == "x\n"
    plant("3.10.13")
    assert ask() == Python("3.10.13", python) and starts.read_text() == "x\nx\n"


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}'])
def test_a_file_of_answers_that_is_none_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").write_text(text)
    assert Answers(tmp_path / "kept").ask(Path(sys.executable))
