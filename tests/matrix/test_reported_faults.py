"""The whole program over planted builds with faults of public reports in a known history: every answer is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.matrix.program import MARKS, ROOT, Program, of_cases
from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_planted_device
from tracker.bugs import Bug
from tracker.matrix import load_bugs

pytestmark = MARKS

VERSIONS = [f"{number}.0" for number in range(1, 9)]
HOLE, BROKEN = "4.0", "6.0"
"""A build that can not be installed, and one that can not be imported."""
HISTORY = {  # of the builds in turn: g without the fault, b with it, f with it in one process of five
    364: "bbg.g.gg",  # statistics that are never updated
    347: "bgg.g.gg",  # a wrong quotient
    360: "bbb.g.gg",  # a refusal
    368: "bbb.b.gg",  # a dtype that is not supported
    678: "bbb.b.bg",  # a fallback
    351: "bbb.b.bg",  # an end of the process
    354: "gbg.g.bg",  # an error without a text, twice
    385: "bgg.g.bb",  # mended, and back again
    482: "ggb.b.bb",  # a wrong picture
    739: "ggg.b.bb",  # a gradient of zeros
    704: "ggg.g.gb",  # an end of the process
    686: "bbb.b.bb",  # a wrong dtype, always
    718: "ggg.g.gg",  # never
    307: "ggg.f.fg",  # refusals that come and go
    448: "ggg.g.gf",
}
FLAKY = {307: "7.0", 448: "8.0"}
"""What comes and goes, and the build at which it looks at first as if it were always there."""

ANSWERS = {  # the word, the last build with the other outcome, the first with this one, and the exit code
    364: ("fixed", "2.0", "3.0", 0),
    347: ("fixed", "1.0", "2.0", 0),
    360: ("fixed", "3.0", "5.0", 0),
    368: ("fixed", "5.0", "7.0", 0),
    678: ("fixed", "7.0", "8.0", 0),
    351: ("fixed", "7.0", "8.0", 0),
    354: ("fixed", "7.0", "8.0", 0),
    385: ("regressed again", "5.0", "7.0", 1),
    482: ("still present", "2.0", "3.0", 1),
    739: ("still present", "3.0", "5.0", 1),
    704: ("still present", "7.0", "8.0", 1),
    686: ("still present", "", "1.0", 1),
    718: ("never seen", "", "1.0", 0),
}
EARLIER = {  # the same at an earlier build
    (364, "2.0"): ("still present", "", "1.0", 1),
    (385, "5.0"): ("fixed", "1.0", "2.0", 0),
    (354, "7.0"): ("regressed again", "5.0", "7.0", 1),
    (354, "5.0"): ("fixed", "2.0", "3.0", 0),
    (482, "2.0"): ("never seen", "", "1.0", 0),
    (360, HOLE): ("unknown", "", "", 5),
    (368, BROKEN): ("unknown", "", "", 5),
}
STEPS = {  # what a bisection is told, and the neighbours that it ends with
    364: ((), "2.0", "3.0", True),
    347: ((), "1.0", "2.0", True),
    360: ((), "3.0", "5.0", True),
    368: ((), "5.0", "7.0", True),
    678: ((), "7.0", "8.0", True),
    351: ((), "7.0", "8.0", True),
    354: (("--good", "5.0", "--bad", "7.0"), "5.0", "7.0", False),
    385: (("--good", "5.0", "--bad", "8.0"), "5.0", "7.0", False),
    482: ((), "2.0", "3.0", False),
    739: ((), "3.0", "5.0", False),
    704: ((), "7.0", "8.0", False),
}
CHANGED = {351: "fixed", 354: "fixed", 678: "fallback-lost", 704: "regressed"}
"""What the changelog between the last two builds has to tell, beside what comes and goes."""


def _bugs() -> dict[int, Bug]:
    found = {bug.id: bug for bug in load_bugs(ROOT / "suites" / "bugs")}
    return {number: found[f"microsoft/DirectML#{number}"] for number in HISTORY}


BUGS = _bugs()


def faults_of(place: int) -> str:
    """Return the faults of a build as ``planted_device`` wants them."""
    words = {"b": "", "f": "~"}
    signs = {number: history[place] for number, history in HISTORY.items()}
    return "+".join(f"{number}{words[sign]}" for number, sign in signs.items() if sign in words)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program with the reproducers of all these reports run in every build."""
    folder = tmp_path_factory.mktemp("reports")
    wheels, counters = folder / "wheels", folder / "counters"
    wheels.mkdir()
    counters.mkdir()
    with PlantedIndex() as index:
        for place, version in enumerate(VERSIONS):
            how: dict[str, Any] = {"requires": ["torch==9.9"]} if version == HOLE else {}
            how |= {"start": "raise ImportError('cut')"} if version == BROKEN else {}
            wheel = make_planted_device(wheels, version, faults_of(place), counters=counters, **how)
            index.add(wheel, uploaded=f"2024-01-{place + 1:02}T12:00:00Z")
        ran = Program.made(folder, index.url)
        cases = tuple(bug.case for bug in BUGS.values())
        ran.run("run", "--builds", "all", "--suites", "bugs", *of_cases(cases), codes=(0, 1))
        yield ran


def answered(program: Program, number: int, *options: str, code: int) -> tuple[str, str, str]:
    told = json.loads(program.run("fixed", BUGS[number].id, *options, "--json", codes=(code,)))
    [lane] = told["lanes"]
    found = lane["answer"]
    assert found["word"] == told["word"]
    return found["word"], found["low"], found["high"]


def test_at_least_twelve_reports_have_a_known_history() -> None:
    assert len(set(ANSWERS) - {718}) >= 12
    assert set(ANSWERS) | set(FLAKY) == set(HISTORY)
    assert set(CHANGED) == {n for n, signs in HISTORY.items() if signs[6] != signs[7] and n not in FLAKY}


@pytest.mark.parametrize("number", ANSWERS)
def test_every_answer_is_the_known_one(program: Program, number: int) -> None:
    *expected, code = ANSWERS[number]
    assert answered(program, number, code=code) == tuple(expected)


@pytest.mark.parametrize(("number", "version"), EARLIER)
def test_every_answer_about_an_earlier_build_is_the_known_one(
    program: Program, number: int, version: str
) -> None:
    *expected, code = EARLIER[number, version]
    assert answered(program, number, "--in", version, code=code) == tuple(expected)


@pytest.mark.parametrize("number", STEPS)
def test_every_bisection_ends_between_the_known_builds(program: Program, number: int) -> None:
    options, before, after, fixed = STEPS[number]
    told = json.loads(program.run("bisect", BUGS[number].id, *options, "--repeats", "1", "--json"))
    step = told["step"]
    assert (step["before"], step["after"], step["fixed"]) == (before, after, fixed)
    between = VERSIONS[VERSIONS.index(before) + 1 : VERSIONS.index(after)]
    assert step["holes"] == between and set(between) <= {HOLE, BROKEN}


@pytest.mark.parametrize("number", [686, 718])
def test_what_never_changed_can_not_be_bisected(program: Program, number: int) -> None:
    told = json.loads(program.run("bisect", BUGS[number].id, "--repeats", "1", "--json", codes=(5,)))
    assert told["word"] == "impossible"


def changes(program: Program) -> dict[int, tuple[str, str]]:
    """Return what the changelog of the last two builds says of each report: what became of it, how sure that is."""
    [log] = json.loads(program.run("changelog", "7.0", "8.0", "--json", codes=(0, 1)))
    numbers = {bug.case: number for number, bug in BUGS.items()}
    return {
        numbers[change["case"]]: (change["kind"], change["confidence"])
        for change in log["verdicts"]
        if change["case"] in numbers  # and not the adapters, which are asked of one build
    }


def confirmed(program: Program, *numbers: int) -> dict[int, str]:
    chosen = of_cases(tuple(BUGS[number].case for number in numbers))
    told = json.loads(program.run("confirm", "7.0", "8.0", *chosen, "--each", "--json", codes=(0, 1, 5)))
    words = {one["case"]: one["word"] for one in told}
    return {number: words[BUGS[number].case] for number in numbers}


def test_every_change_is_told_and_confirmed_and_what_comes_and_goes_is_flaky(program: Program) -> None:
    expected = {number: (how, "observed") for number, how in CHANGED.items()}
    fooled = {307: ("fixed", "observed"), 448: ("regressed", "observed")}
    assert changes(program) == expected | fooled
    assert confirmed(program, 351, 704) == {351: "confirmed", 704: "confirmed"}
    assert confirmed(program, *FLAKY) == dict.fromkeys(FLAKY, "flaky")
    expected |= {number: (CHANGED[number], "confirmed") for number in (351, 704)}
    assert changes(program) == expected | dict.fromkeys(FLAKY, ("flaky", "flaky"))
    # What failed now and then is not fixed by the few runs that passed, nor is a pass among failures a fix.
    assert answered(program, 307, code=5)[0] == "unknown"
    assert answered(program, 448, code=1) == ("still present", "7.0", "8.0")
