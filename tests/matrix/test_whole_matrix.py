"""The whole program over planted builds, on real torch: each fault is found at its place, and nothing else.

``uv run pytest tests/matrix --accept`` writes a changed outcome into ``expected.json`` and ``changelog.txt``; read
the difference before it is committed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.matrix.builds import BUILDS, CASES, HARMLESS, NETS, WITH_NETS
from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_planted_device
from tracker.config import load

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
EXPECTED, CHANGELOG = HERE / "expected.json", HERE / "changelog.txt"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the planted device talks to torch's C++ as built for Linux"
    ),
]

SETTINGS = """
[worker]
environment = {{ LD_LIBRARY_PATH = "{directx}", OMP_NUM_THREADS = "1" }}
case_timeout = 40
timeout_factor = {slowness}
# The sample of passes that is run in another order would be another one each time.
reorder_share = 0

[environments]
min_free_gb = 1
disk_budget_gb = 200

[suites]
samples = 4
threads = 1
"""

STATES = "select version, case_id, state, reason from verdict order by version, case_id"


@dataclass(frozen=True)
class Program:
    """The program in a home folder, on the planted index and, for all that it has not, on the usual one."""

    home: Path
    index: str

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command to its end and return what it printed."""
        usual = load(ROOT).settings.index
        environ = {
            **os.environ,
            "DMLTRACK_HOME": str(self.home),
            "DMLTRACK_INDEX_URL": self.index,
            "DMLTRACK_INDEX_MIRRORS": " ".join((usual.url, *usual.mirrors)),
            "DMLTRACK_ENVIRONMENTS_PYTHONS": sys.executable,
            "COLUMNS": "110",
        }
        command = [sys.executable, "-m", "tracker", *arguments]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in codes, (
            f"exit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
        return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program with all planted builds run, which takes some minutes."""
    folder = tmp_path_factory.mktemp("matrix")
    home, wheels, directx = folder / "home", folder / "wheels", folder / "directx"
    for made in (home, wheels, directx):
        made.mkdir()
    (directx / "libdxcore.so").touch()  # whoever has this library has DirectX
    slowness = os.environ.get("DMLTRACK_TEST_SLOWNESS", "1")
    (home / "config.toml").write_text(SETTINGS.format(directx=directx, slowness=slowness), "utf-8")
    with PlantedIndex() as index:
        for build in BUILDS:
            index.add(
                make_planted_device(wheels, build.version, build.fault, build.kernels),
                uploaded=f"2024-01-{build.number + 1:02}T12:00:00Z",
            )
        ran = Program(home, index.url)
        small = ("--size", "small")
        ran.run("run", "--builds", "all", *small, *_options(CASES), codes=(0, 1))
        some = [build.version for build in WITH_NETS]
        ran.run("run", *some, *small, *_options(NETS), codes=(0, 1))
        yield ran


def _options(patterns: tuple[str, ...]) -> list[str]:
    return [word for pattern in patterns for word in ("--cases", pattern)]


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
