"""A user's own reproducer is looked at when it is added, and is then a case like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suites.bugs import own as runner
from suites.context import Context, Inconclusive
from tests.unit.test_cli import dmltrack
from tracker.bug_views import one_bug
from tracker.errors import UsageError
from tracker.matrix import Suite
from tracker.own_bugs import add, own_bugs, read, with_own, with_own_digests

SCRIPT = '"""It freezes here."""\nimport sys\nsys.exit(0)\n'
CONTEXT: Any = Context({"track": {}, "directx": ""})


def written(folder: Path, text: str = SCRIPT, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_file_that_was_added_is_a_case_and_a_report(tmp_path: Path) -> None:
    home = tmp_path / "home"
    add(home, written(tmp_path))
    [own] = own_bugs([home / "bugs"])
    assert (own.bug.id, own.bug.title, own.bug.case) == ("mine", "It freezes here.", "bugs/own/mine")
    assert one_bug("mine", [own.bug]) == own.bug
    [suite] = with_own((Suite("bugs", (), ()),), [own])
    [case] = suite.cases
    assert (case.function, case.part, case.isolate) == ("own:script", "bugs:own/mine", True)
    assert Path(case.params["path"]).read_text() == SCRIPT


def test_its_results_rest_on_its_file_and_on_what_runs_it(tmp_path: Path) -> None:
    home = tmp_path / "home"

    def digest(text: str, module: str = "m") -> str:
        add(home, written(tmp_path, text))
        return with_own_digests({"bugs:own": module}, own_bugs([home / "bugs"]))["bugs:own/mine"]

    first = digest(SCRIPT)
    assert digest(SCRIPT) == first
    assert first not in (digest(SCRIPT + "# more\n"), digest(SCRIPT, "other"))


def test_a_file_with_a_function_measures_like_the_programs_own(tmp_path: Path) -> None:
    path = written(tmp_path, "def reproduce(context):\n    return {'claims': [1]}\n")
    assert read(path).is_function
    assert runner.function(CONTEXT, str(path)) == {"claims": [1]}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("mine.py", "def (", "line 1: it is not Python"),
        ("mine.py", "", "is empty"),
        ("mine.py", "def reproduce():\n    pass\n", "one argument"),
        ("mine.txt", SCRIPT, "is not a name"),
        ("my bug.py", SCRIPT, "is not a name"),
        ("mine.py", "x = '\0'", "not Python"),
    ],
)
def test_what_can_not_be_a_reproducer_is_refused_when_it_is_added(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        add(tmp_path / "home", written(tmp_path, text, name))
    assert not own_bugs([tmp_path / "home" / "bugs"])


@pytest.mark.parametrize(("ending", "got"), [("", 0), ("raise SystemExit", 0), ("raise SystemExit(1)", 1)])
def test_a_script_says_good_and_bad_by_its_exit_code(tmp_path: Path, ending: str, got: int) -> None:
    path = written(tmp_path, f"import sys\nassert sys.argv == [__file__]\n{ending}\n")
    [claim] = runner.script(CONTEXT, str(path))["claims"]
    assert (claim["got"], claim["want"]) == (got, 0)


def test_a_script_that_can_not_tell_says_nothing_and_any_other_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Inconclusive):
        runner.script(CONTEXT, str(written(tmp_path, "raise SystemExit(125)")))
    for ending in ("raise SystemExit(3)", "raise SystemExit('text')"):
        with pytest.raises(RuntimeError, match="none of 0, 1 and 125"):
            runner.script(CONTEXT, str(written(tmp_path, ending)))
    with pytest.raises(ZeroDivisionError):
        runner.script(CONTEXT, str(written(tmp_path, "1 / 0")))


def test_the_command_adds_and_lists(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = dmltrack(tmp_path / "home", "bugs", "add", str(path))
    assert done.returncode == 0 and done.stdout.startswith(b"mine (script): It freezes here.")
    assert b"mine" in dmltrack(tmp_path / "home", "bugs", "--like", "freezes").stdout
    assert dmltrack(tmp_path / "home", "bugs", "add", str(tmp_path / "no.py")).returncode == 2


def test_a_folder_of_the_settings_is_known_and_no_name_comes_twice(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "mine"
    home.mkdir()
    folder.mkdir()
    (home / "config.toml").write_text(f"[suites]\nbugs = {json.dumps(str(folder))}\n", "utf-8")
    written(folder)
    assert b"mine" in dmltrack(home, "bugs", "--like", "freezes").stdout
    done = dmltrack(home, "bugs", "add", str(written(tmp_path)))
    assert done.returncode == 2 and b"has that name already" in done.stderr
    (home / "bugs").mkdir()
    written(home / "bugs")
    done = dmltrack(home, "bugs")
    assert done.returncode == 2 and b"have one name" in done.stderr


def test_a_folder_of_the_settings_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[suites]\nbugs = 'nowhere'\n", "utf-8")
    done = dmltrack(tmp_path, "bugs")
    assert (
        done.returncode == 2 and b"suites.bugs is not the absolute path of a folder: 'nowhere'" in done.stderr
    )
