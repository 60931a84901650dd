"""Builds with a known history of faults: where each came and went is found, and what is sure is told from chance."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_wheel
from tests.scenarios.world import ROOT, World, module
from tracker.bisection import BisectWish
from tracker.cli_bisect import bisect_command
from tracker.cli_confirm import confirm_command
from tracker.cli_run import run_command
from tracker.confirm import ConfirmWish
from tracker.errors import EnvironmentProblem, Exit, OutsideError, UsageError
from tracker.home import Home
from tracker.judge import ALONE
from tracker.model import Attempt, Cell, Confidence
from tracker.publish.changelogs import as_text
from tracker.running import Wish
from tracker.suite_files import hand_out
from tracker.views import Views

VERSIONS = [f"{number}.0" for number in range(1, 9)]
HOLE, BROKEN = "4.0", "6.0"
"""A build that can not be installed, and one that can not be imported."""
HISTORY = {  # of the builds in turn: g good, b bad, f fails one time in five
    "present": "bbbbbbbb",
    "never": "gggggggg",
    "mended": "bbbbgggg",
    "again": "bbgggggb",
    "late": "ggggggbb",
    "shaky": "ffffgggg",
    "broke": "gggggggb",
    "twin": "gggggggb",
    "solid": "bbbbbbbg",
    "wavers": "ggggggfb",
    "company": "bggggggg",
    "resumed": "ggggggbb",
    "lapsed": "gggggggb",
    "downs": "gggggggb",
    "reported": "bbbbbbgg",
}
MANIFEST = """
name = "history"
[[case]]
id = "{{name}}"
function = "check"
each = {{ name = [{names}] }}
[[case]]
id = "pixels"
needs = "directx"
function = "check"
params = {{ name = "never" }}
"""
CASES = """
import os, random
def check(context, name):
    build = context.build()
    sign = build.SIGNS[name]
    if sign == "f":
        path = os.path.join(build.COUNTERS, name + build.VERSION)
        with open(path, "a") as file:
            file.write("x")
        chance = random.Random("2 %s %d" % (name, os.path.getsize(path))).random() < 0.2
        sign = "b" if chance else "g"
    if sign == "b":
        raise ValueError("planted in " + ("twin" if name in ("twin", "broke") else name))
    return {"facts": {"pid": os.getpid()}}
"""
REPORT = """
[[bug]]
id = "planted/planted#7"
function = "reported"
title = "Something is not as it should be"
needs = "import"
good = ["pass", "error"]
"""
REPRODUCER = """
def reported(context):
    if context.build().SIGNS["reported"] == "g":
        raise ValueError("the right answer is a refusal")
    raise NotImplementedError("no such operator")
"""


def plant(world: World) -> None:
    counters = world.folder / "counters"
    counters.mkdir()
    for place, version in enumerate(VERSIONS):
        signs = {name: signs[place] for name, signs in HISTORY.items()}
        body = f"SIGNS, COUNTERS, VERSION = {signs!r}, {str(counters)!r}, {version!r}\n"
        if version == HOLE:
            files = {"planted/__init__.py": module()}
            wheel = make_wheel(world.wheels, "planted", version, "py3", "any", files, ["torch==9.9"])
            world.index.add(wheel)
        else:
            world.plant(version, "raise ImportError('cut')" if version == BROKEN else module(body=body))


def write_suites(folder: Path) -> Path:
    source = folder / "source" / "suites"
    shutil.copytree(ROOT / "suites", source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "history").mkdir()
    names = ", ".join(f'"{name}"' for name in HISTORY)
    (source / "history" / "suite.toml").write_text(MANIFEST.format(names=names), "utf-8")
    (source / "history" / "cases.py").write_text(CASES, "utf-8")
    (source / "history" / "__init__.py").touch()
    (source / "bugs" / "planted_reports.toml").write_text(REPORT, "utf-8")
    (source / "bugs" / "planted_reports.py").write_text(REPRODUCER, "utf-8")
    return source


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home that knows the builds; what a test observes of its own cases stays there."""
    folder = tmp_path_factory.mktemp("history")
    with PlantedIndex() as index, pytest.MonkeyPatch.context() as patch:
        world = World(folder, index)
        plant(world)
        source = write_suites(folder)
        for name, value in world.environment().items():
            patch.setenv(name, value)
        for place in ("running", "bisection", "confirm"):
            patch.setattr(f"tracker.{place}.hand_out", lambda folder: hand_out(folder, source))
        patch.setattr("tracker.bug_views.SHIPPED", source)
        made = Home(world.home)
        yield made
        made.store.close()
        world.close()


def found(home: Home, capsys: pytest.CaptureFixture[str], code: Exit, text: str, **wish: Any) -> Any:
    """Bisect, and return what it printed as data."""
    capsys.readouterr()
    assert bisect_command(home, BisectWish(text, track="planted", **wish), json=True) is code
    return json.loads(capsys.readouterr().out)


def runs_of(home: Home, case: str) -> Counter[tuple[str, int]]:
    """Return how often a case was observed, by build and attempt."""
    rows = home.store.sql(f"SELECT version, attempt FROM observation WHERE case_id = '{case}'").rows
    return Counter((version, attempt) for version, attempt in rows)


# --- bisect ----------------------------------------------------------------------------------------------


def test_a_fix_is_found_beside_the_build_that_can_not_be_installed(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    told = found(home, capsys, Exit.OK, "history/mended")
    step = told["step"]
    assert (step["before"], step["after"], step["holes"]) == ("3.0", "5.0", [HOLE])
    assert step["fixed"] and step["warnings"] == []
    assert told["changelog"]["old"] == "3.0" and told["changelog"]["new"] == "5.0"
    ran = runs_of(home, "history/mended")
    assert {attempt for version, attempt in ran if version != HOLE} == {ALONE}
    assert ran[HOLE, 1] == 1
    assert told["runs"] == sum(ran.values())


def test_what_was_found_once_is_told_again_without_a_run(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    first = found(home, capsys, Exit.OK, "history/late")
    assert (first["step"]["before"], first["step"]["after"]) == ("5.0", "7.0")
    assert first["step"]["holes"] == [BROKEN] and not first["step"]["fixed"]
    assert found(home, capsys, Exit.OK, "tory/late")["runs"] == 0


@pytest.mark.parametrize(("case", "word"), [("present", "failed"), ("never", "passed")])
def test_what_is_alike_at_both_ends_can_not_be_bisected(
    home: Home, capsys: pytest.CaptureFixture[str], case: str, word: str
) -> None:
    told = found(home, capsys, Exit.INCONCLUSIVE, f"history/{case}")
    assert told["step"]["why"].startswith(f"{word} at both ends, 1.0 and 8.0")


def test_what_came_back_is_found_between_the_builds_that_are_named(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    back = found(home, capsys, Exit.OK, "history/again", good="5.0")["step"]
    assert (back["before"], back["after"], back["fixed"]) == ("7.0", "8.0", False)
    fix = found(home, capsys, Exit.OK, "history/again", good="5.0", bad="1.0")["step"]
    assert (fix["before"], fix["after"], fix["fixed"]) == ("2.0", "3.0", True)
    told = found(home, capsys, Exit.INCONCLUSIVE, "history/again", good="2.0")["step"]
    assert "2.0 was said to be good, and it failed" in told["why"]


def test_a_report_is_bisected_by_its_own_good_states(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    told = found(home, capsys, Exit.OK, "7")
    step = told["step"]
    assert told["bug"] == "planted/planted#7"
    assert (step["before"], step["after"], step["holes"], step["fixed"]) == ("5.0", "7.0", [BROKEN], True)


def test_what_fails_now_and_then_counts_as_failing_and_makes_every_pass_be_repeated(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    told = found(home, capsys, Exit.OK, "history/shaky", good="5.0", bad="3.0", repeats=15)
    assert (told["step"]["before"], told["step"]["after"]) == ("3.0", "5.0")
    assert "3.0 failed in" in told["step"]["warnings"][0]
    assert told["evidence"]["5.0"]["good"] > 15


def test_the_text_says_before_each_run_why_and_ends_with_the_changelog(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    wish = BisectWish("history/broke", track="planted")
    assert bisect_command(home, wish, json=False) is Exit.OK
    out, err = capsys.readouterr()
    assert "run 1: 1.0, to prove the start of the range (3 runs to go here, 5 builds at most)" in err
    assert "half-way between 1.0, where it passed, and 8.0, where it failed" in err
    assert "history/broke: 7.0 -> 8.0: it fails from there on" in out
    assert "planted 7.0 (" in out and "regressed" in out


def test_a_plan_runs_nothing(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    told = found(home, capsys, Exit.OK, "history/company", plan_only=True)
    assert (told["word"], told["step"]["version"]) == ("next", "1.0")
    assert not runs_of(home, "history/company")


def test_an_interrupt_keeps_what_was_observed_and_the_command_goes_on(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = home.journal.append

    def appended(event: Any) -> Any:
        if type(event).__name__ == "Observation" and sum(runs_of(home, "history/resumed").values()) == 3:
            signal.raise_signal(signal.SIGINT)
        return record(event)

    monkeypatch.setattr(home.journal, "append", appended)
    wish = BisectWish("history/resumed", good="1.0", track="planted")
    assert bisect_command(home, wish, json=True) is Exit.INTERRUPTED
    command = "dmltrack bisect history/resumed --good 1.0 --track planted"
    assert f"interrupted; this goes on where it stopped: {command}" in capsys.readouterr().err
    monkeypatch.undo()
    assert sum(runs_of(home, "history/resumed").values()) == 4
    told = found(home, capsys, Exit.OK, "history/resumed", good="1.0")
    assert (told["step"]["before"], told["step"]["after"]) == ("5.0", "7.0")
    assert told["runs"] == sum(runs_of(home, "history/resumed").values()) - 4


def test_a_bisection_that_was_killed_goes_on_with_what_it_had(world: World) -> None:
    for version, source in (("1.0", module()), ("2.0", module()), ("3.0", "raise ImportError('cut')")):
        world.plant(version, source)
    world.run("poll", code=0)
    command = ("bisect", "census/import", "--track", "planted")
    process = world.start(*command)
    deadline = time.monotonic() + 120
    while sum(path.read_bytes().count(b'"observation"') for path in world.home.glob("journal/*")) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    answer = world.run(*command, code=0)
    assert "census/import: 2.0 -> 3.0: it fails from there on" in answer.out
    [row] = world.run("sql", "select count(*) as runs from observation", "--json", code=0).data
    assert row["runs"] == 9


def test_what_can_not_be_asked_is_said(home: Home) -> None:
    def asked(text: str, **wish: Any) -> None:
        bisect_command(home, BisectWish(text, track="planted", **wish), json=True)

    with pytest.raises(UsageError, match="fits 16 cases"):
        asked("history/")
    with pytest.raises(UsageError, match="no report is known"):
        asked("nothing like that")
    with pytest.raises(UsageError, match="both good and bad"):
        asked("history/never", good="1.0", bad="1.0")
    with pytest.raises(OutsideError, match="history/pixels can not run here: no DirectX"):
        asked("history/pixels")


# --- confirm ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(home: Home) -> Home:
    """The same home after an ordinary run of its last two builds."""
    run_command(home, Wish(("7.0", "8.0"), ("history",), "planted"))
    return home


def confirmed(
    home: Home, capsys: pytest.CaptureFixture[str], code: Exit, case: str, **wish: Any
) -> list[dict[str, Any]]:
    capsys.readouterr()
    asked = ConfirmWish(("8.0",), (case,), track="planted", **wish)
    assert confirm_command(home, asked, json=True) is code
    return list(json.loads(capsys.readouterr().out))


def confidence(home: Home, case: str) -> tuple[str, Confidence]:
    log = Views(home, home.track("planted")).changelog("7.0", "8.0")
    [change] = [change for change in log.verdicts if change.case == case]
    return change.kind, change.confidence


def test_a_fix_that_repeats_is_confirmed_for_good(measured: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert confidence(measured, "history/solid") == ("fixed", Confidence.OBSERVED)
    [told] = confirmed(measured, capsys, Exit.OK, "history/solid")
    # The run that showed the change on the old build was followed by one alone, but that was before the change.
    assert (told["word"], told["runs"]) == ("confirmed", 42 + 14)
    assert confidence(measured, "history/solid") == ("fixed", Confidence.CONFIRMED)
    log = Views(measured, measured.track("planted")).changelog("7.0", "8.0")
    assert "fixed, confirmed       history/solid: error (value-error) -> pass" in as_text(log)
    [again] = confirmed(measured, capsys, Exit.OK, "history/solid")
    assert again["runs"] == 0 and again["why"] == told["why"]


def test_a_quick_confirmation_is_told_as_such(measured: Home, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    asked = ConfirmWish(("7.0", "8.0"), ("history/twin",), quick=True, track="planted")
    assert confirm_command(measured, asked, json=False) is Exit.REGRESSION
    out, err = capsys.readouterr()
    assert "regressed, confirmed: history/twin: pass -> error (value-error)" in out
    assert "after a thorough confirmation only" in err
    assert confidence(measured, "history/twin") == ("regressed", Confidence.OBSERVED)


def test_what_fails_one_time_in_five_is_never_confirmed(
    measured: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert confidence(measured, "history/wavers") == ("regressed", Confidence.OBSERVED)
    [told] = confirmed(measured, capsys, Exit.OK, "history/wavers")
    assert told["word"] == "flaky" and told["why"].startswith("the old build")
    rows = measured.store.query("verdicts", track="planted", version="7.0")
    assert {row["confidence"] for row in rows if row["case_id"] == "history/wavers"} == {"flaky"}
    assert confidence(measured, "history/wavers") == ("flaky", Confidence.FLAKY)


def test_one_of_those_that_changed_alike_speaks_for_the_others(
    measured: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    [told] = confirmed(measured, capsys, Exit.REGRESSION, "history/[bt][rw]*", quick=True)
    assert (told["case"], told["others"]) == ("history/broke", ["history/twin"])
    each = confirmed(measured, capsys, Exit.REGRESSION, "history/[bt][rw]*", quick=True, each=True)
    assert [one["case"] for one in each] == ["history/broke", "history/twin"]


@pytest.mark.parametrize("ours", [True, False])
def test_what_can_not_be_installed_any_more_is_no_endless_trial(
    measured: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    problem = EnvironmentProblem("no room", slug="disk-full" if ours else "resolution-failed", ours=ours)

    def refuse(*_: object) -> None:
        raise problem

    monkeypatch.setattr("tracker.installs.Installer._python", refuse)
    monkeypatch.setattr("tracker.alone.read_marker", lambda _: None)
    if ours:
        with pytest.raises(OutsideError, match="no room"):
            confirmed(measured, capsys, Exit.OUTSIDE, "history/lapsed")
    else:
        [told] = confirmed(measured, capsys, Exit.INCONCLUSIVE, "history/lapsed")
        assert told["why"].endswith("can not be installed any more: no room")


def test_what_took_the_machine_down_is_not_tried_again(
    measured: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT DISTINCT suite_digest, machine FROM observation WHERE case_id = 'history/downs'"
    [(digest, machine)] = measured.store.sql(query).rows
    cell = Cell("planted", "8.0", "history", "history/downs", "none", machine, digest)
    for run in ("first", "second"):
        measured.journal.append(Attempt(run, "worker-1", cell, host_died=True))
    measured.store.refresh()
    [told] = confirmed(measured, capsys, Exit.INCONCLUSIVE, "history/downs")
    assert (told["word"], told["why"]) == ("cannot-tell", "this machine went down while it ran on 8.0")
    step = found(measured, capsys, Exit.INCONCLUSIVE, "history/downs", bad="8.0")["step"]
    assert "the end, 8.0, can not be tested" in step["why"]
    assert runs_of(measured, "history/downs")["8.0", ALONE] == 1


def test_nothing_to_confirm_is_said(measured: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirmed(measured, capsys, Exit.OK, "history/present") == []
    for builds, adapter, said in (
        (("1.0",), "", "is the first build"),
        (("8.0",), "(", "no regular expression"),
    ):
        with pytest.raises(UsageError, match=said):
            wish = ConfirmWish(builds, track="planted", adapter=adapter)
            confirm_command(measured, wish, json=True)
