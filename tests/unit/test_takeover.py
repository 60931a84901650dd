"""What a killed run had finished is kept, and a case that took the machine down is remembered and left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suites import protocol
from tracker import takeover
from tracker.home import Home
from tracker.machine import same_boot
from tracker.model import Cell
from tracker.standing import Demand, quarantined
from tracker.takeover import Kept, keep, take_over
from tracker.views import host_deaths

CELL = Cell("torch-directml", "1.0", "ladder", "ladder/64", "GPU", "box", "d")
NONCE = "n1"


def dead_run(home: Path, boot: str) -> None:
    """Leave behind what a tracker leaves that died while its worker was in the case."""
    folder = home / "runs" / "r1" / "1.0" / "1"
    keep(folder, Kept("r1", "env", (CELL,), 1, boot))
    worker = folder / "worker-1"
    worker.mkdir()
    (worker / "request.json").write_text(json.dumps({"nonce": NONCE, "cases": [{"id": CELL.case}]}))
    said = [
        {"m": protocol.HELLO, "protocol": protocol.PROTOCOL, "nonce": NONCE, "prefix": "/env"},
        {"m": protocol.START, "case": CELL.case, "at": 1.0},
    ]
    (worker / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1764590000", "1764590061", True),
        ("1764590000", "1764600000", False),
        ("a-b", "a-b", True),
        ("a", "b", False),
    ],
)
def test_a_start_known_by_its_moment_only_is_the_same_within_a_little(
    one: str, other: str, same: bool
) -> None:
    assert same_boot(one, other) is same


@pytest.mark.parametrize(("boot", "deaths"), [("before", {CELL: 1}), ("now", {}), ("", {})])
def test_a_case_in_flight_is_charged_with_the_machine_only_if_that_was_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, deaths: dict[Cell, int]
) -> None:
    monkeypatch.setattr(takeover, "boot_id", lambda: "now")
    dead_run(tmp_path, boot)
    home = Home(tmp_path)
    assert take_over(home, lambda run: ()) == 0
    assert not (tmp_path / "runs").exists()
    assert host_deaths(home, home.track("torch-directml"), "box") == deaths


def test_a_ladder_that_took_the_machine_down_is_not_climbed_again_unasked() -> None:
    assert quarantined(1, isolate=True, demand=Demand())
    assert not quarantined(1, isolate=False, demand=Demand())
    assert quarantined(2, isolate=False, demand=Demand())
    assert not quarantined(9, isolate=True, demand=Demand(retry=True))
