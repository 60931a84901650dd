"""Two builds run in turns over environments that are there, and the slower one is told from the faster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.world import ROOT, World, module
from tracker.cli_run import run_command
from tracker.cli_speed import speed_command
from tracker.errors import Exit, UsageError
from tracker.home import Home
from tracker.judge import ROUNDS
from tracker.rounds import SpeedWish
from tracker.running import Wish
from tracker.suite_files import hand_out

MANIFEST = """
name = "ticking"
[[case]]
id = "{name}"
function = "tick"
each = { name = ["steady", "lonely"] }
[[case]]
id = "broken"
"""
CASES = """
import os, random
def tick(context, name):
    noise = [random.uniform(0.99, 1.01) for _ in range(3)]
    each = [context.build().SECONDS * one for one in noise]
    return {"timing": {"each": each, "cpu_each": [0.06]}, "facts": {"pid": os.getpid()}}
def broken(context):
    if os.environ.get("BREAK"): raise ValueError("broken")
    return {"timing": {"each": [1.0]}}
"""


@pytest.fixture
def home(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home in which three builds were run once, with a suite that says how fast its build is."""
    source = tmp_path / "source" / "suites"
    shutil.copytree(ROOT / "suites", source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "ticking").mkdir()
    (source / "ticking" / "suite.toml").write_text(MANIFEST, "utf-8")
    (source / "ticking" / "cases.py").write_text(CASES, "utf-8")
    (source / "ticking" / "__init__.py").touch()
    for version, seconds in (("1.0", 0.02), ("2.0", 0.03), ("3.0", 0.03)):
        world.plant(version, module(body=f"SECONDS = {seconds}"))
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tracker.running.hand_out", lambda folder: hand_out(folder, source))
    made = Home(world.home)
    assert run_command(made, Wish(("1.0", "2.0"), ("ticking",), "planted")) is Exit.OK
    yield made
    made.store.close()


def compared(
    home: Home, capsys: pytest.CaptureFixture[str], code: Exit, old: str, new: str, cases: str
) -> Any:
    capsys.readouterr()
    wish = SpeedWish(old, new, (cases,), rounds=4, track="planted")
    assert speed_command(home, wish, json=True) is code
    return json.loads(capsys.readouterr().out)


def test_a_slower_build_is_told_and_no_verdict_moves(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    before = home.store.query("verdicts", track="planted", version="2.0")
    found = compared(home, capsys, Exit.REGRESSION, "1.0", "2.0", "ticking/*")
    cases = {case["case"]: case for case in found["cases"]}
    assert set(cases) == {"ticking/steady", "ticking/lonely", "ticking/broken"}
    steady = cases["ticking/steady"]
    assert steady["compared"]["pace"] == "slower"
    assert steady["compared"]["ratio"] == pytest.approx(1.5, rel=0.05)
    assert steady["times_cpu"] == pytest.approx(2.0, rel=0.05)
    assert cases["ticking/broken"]["compared"]["pace"] == "same"

    rows = home.store.sql(
        "SELECT version, attempt, measures ->> '$.facts.pid' FROM observation"
        f" WHERE case_id = 'ticking/steady' AND attempt >= {ROUNDS} ORDER BY logged_at"
    ).rows
    assert [version for version, _, _ in rows] == ["1.0", "2.0", "2.0", "1.0"] * 2
    assert len({attempt for _, attempt, _ in rows}) == len({pid for _, _, pid in rows}) == 8
    after = home.store.query("verdicts", track="planted", version="2.0")
    assert [(row["case_id"], row["state"], row["reason"]) for row in after] == [
        (row["case_id"], row["state"], row["reason"]) for row in before
    ]


def test_a_build_is_the_same_as_itself(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(home, capsys, Exit.OK, "2.0", "2.0", "*steady")
    [case] = found["cases"]
    assert (case["compared"]["pace"], case["compared"]["rounds"]) == ("same", [4, 4])


def test_what_fails_in_its_rounds_has_no_time(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.loaded.settings.worker.environment["BREAK"] = "1"
    found = compared(home, capsys, Exit.INCONCLUSIVE, "1.0", "2.0", "*broken")
    [case] = found["cases"]
    assert case["compared"]["pace"] == "insufficient-data"
    assert case["failed"] == [["error: value-error", 8]]
    [row] = [
        row
        for row in home.store.query("verdicts", track="planted", version="2.0")
        if row["case_id"] == "ticking/broken"
    ]
    assert (row["state"], row["observations"]) == ("pass", 1)


def test_a_build_that_was_not_measured_is_not_compared(home: Home) -> None:
    with pytest.raises(UsageError, match="no case is known to send times"):
        speed_command(home, SpeedWish("1.0", "3.0", track="planted"), json=False)


def test_the_commands_that_are_named_have_its_own_options() -> None:
    wish = SpeedWish("2.3.1", "2.4.1", ("vit/one",), 4, track="torch", device="cpu")
    options = "--cases vit/one --track torch --device cpu"
    assert wish.command() == f"dmltrack speed 2.3.1 2.4.1 {options} --rounds 4"
    assert wish.command(of="2.4.1") == f"dmltrack run 2.4.1 {options}"
