"""The whole program over planted builds, on real torch: each fault is found at its place, and nothing else.

``uv run pytest tests/matrix --accept`` writes a changed outcome into ``expected.json`` and ``changelog.txt``; read
the difference before it is committed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.matrix.builds import BUILDS, CASES, HARMLESS, NETS, WITH_NETS
from tests.matrix.program import MARKS, Program, of_cases
from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_planted_device

HERE = Path(__file__).parent
EXPECTED, CHANGELOG = HERE / "expected.json", HERE / "changelog.txt"

pytestmark = MARKS

STATES = "select version, case_id, state, reason from verdict order by version, case_id"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program with all planted builds run, which takes some minutes."""
    folder = tmp_path_factory.mktemp("matrix")
    wheels = folder / "wheels"
    wheels.mkdir()
    with PlantedIndex() as index:
        for build in BUILDS:
            index.add(
                make_planted_device(wheels, build.version, build.fault, build.kernels),
                uploaded=f"2024-01-{build.number + 1:02}T12:00:00Z",
            )
        ran = Program.made(folder, index.url)
        small = ("--size", "small")
        ran.run("run", "--builds", "all", *small, *of_cases(CASES), codes=(0, 1))
        some = [build.version for build in WITH_NETS]
        ran.run("run", *some, *small, *of_cases(NETS), codes=(0, 1))
        yield ran


def test_every_fault_is_found_at_its_place_and_nothing_else(program: Program, accept: bool) -> None:
    rows = json.loads(program.run("sql", STATES, "--json"))
    found: dict[str, dict[str, Any]] = {build.version: {} for build in BUILDS}
    for row in rows:
        found[row["version"]][row["case_id"]] = [row["state"], row["reason"]]
    if accept:
        EXPECTED.write_text(_as_text(found), "utf-8")
    assert found == json.loads(EXPECTED.read_text("utf-8"))


# What each fault must be found by, whatever is accepted: the case, and the reason that the judge gives.
FOUND = {
    "frozen-buffers": ("training/resnet18/sgd@small", "test-loss-flat-buffers"),
    "stutter": ("training/ladder/resnet18/batch16@small", "stutter"),
    "leak": ("training/ladder/resnet18/batch16@small", "memory-grows"),
    "abort-batch": ("training/ladder/resnet18/batch32@small", "sigabrt"),
    "nan-batch": ("inference/resnet18/batch16@small", "nan"),
    "no-float16": ("fp16/resnet18/half/batch8@small", "not-implemented"),
    "slow-float16": ("fp16/resnet18/half/batch8@small", "float16-not-faster"),
    "zero-gradient": ("operators/nn.functional.mse_loss/float32/backward", "gradient-zero"),
    "strided-input": ("vit/piece/layer_norm/permuted", "values"),
    "segfault-backward": ("vit/piece/layer_norm/contiguous", "sigsegv"),
    "hang-read-back": ("operators/roll/float32/forward", "timeout"),
    "fallback": ("operators/lerp/float32/forward", "cpu-fallback"),
    "wrong-dtype": ("operators/argmax/float32/forward", "dtype"),
    "off-float32": ("operators/nn.functional.gelu/float32/forward", "values"),
    "non-deterministic": ("operators/cumsum/float32/forward", "non-deterministic"),
    "leaking-mode": ("operators/div.no_rounding_mode/float32/forward", "order-dependent"),
    "expanded-gradient": ("operators/nn.functional.gelu/float32/backward", "gradient-values"),
}


def test_each_fault_is_found_for_what_it_is() -> None:
    expected = json.loads(EXPECTED.read_text("utf-8"))
    assert {build.fault for build in BUILDS} == {*FOUND, *HARMLESS}
    for build in BUILDS:
        if build.fault in FOUND:
            case, reason = FOUND[build.fault]
            assert expected[build.version][case][1] == reason, build.version


def test_the_clean_builds_are_clean() -> None:
    expected = json.loads(EXPECTED.read_text("utf-8"))
    assert len(expected) == len(BUILDS)
    for build in BUILDS:
        wrong = {case: said for case, said in expected[build.version].items() if said[0] != "pass"}
        assert bool(wrong) == (build.fault not in HARMLESS), (build.version, wrong)


def test_the_changelog_tells_of_each_fault_as_it_comes_and_goes(program: Program, accept: bool) -> None:
    text = program.run("changelog", "--all")
    if accept:
        CHANGELOG.write_text(text, "utf-8")
    assert _without_digits(text) == _without_digits(CHANGELOG.read_text("utf-8"))


def _without_digits(text: str) -> str:
    """Return a changelog without the sizes in its messages: another processor rounds otherwise."""
    return re.sub(r"(?<=[ (])\d+(?:\.\d+|e-?\d+)(?=[ ,;)\n])", "#", text)


def _as_text(found: dict[str, dict[str, Any]]) -> str:
    """Return the verdicts with one case a line, so that a difference can be read."""
    builds = [
        f"  {json.dumps(version)}: {{\n"
        + ",\n".join(f"    {json.dumps(case)}: {json.dumps(said)}" for case, said in sorted(cases.items()))
        + "\n  }"
        for version, cases in found.items()
    ]
    return "{\n" + ",\n".join(builds) + "\n}\n"
