"""Real builds from the real index, installed and measured; opt in with ``-m live`` (some GB of disk).

``-m "live and ci"`` runs one build, which is what CI does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(sys.platform != "linux", reason="the expected texts are those of a Linux host"),
]

MEASURED = {"0.1.13.1.dev230119": (246, "1.13.1", "1.9.0"), "0.2.5.dev240914": (299, "2.4.1", "1.13.1")}
"""Kernels, torch and DirectML of real builds, as first measured on 2026-12-01."""


def dmltrack(home: Path, *arguments: str) -> Any:
    """Run the program and return the JSON that it prints."""
    command = [sys.executable, "-m", "tracker", *arguments, "--json"]
    environ = {**os.environ, "DMLTRACK_HOME": str(home)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, timeout=1400, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def rows(home: Path) -> dict[str, Any]:
    return {row["version"]: row for row in dmltrack(home, "builds")}


@pytest.mark.ci
def test_the_newest_builds_census_is_what_it_was(tmp_path: Path) -> None:
    version = "0.2.5.dev240914"
    result = dmltrack(tmp_path, "run", version, "--suites", "census")
    assert result["counts"]["pass"] >= 3 and set(result["counts"]) == {"pass"}
    row = rows(tmp_path)[version]
    assert (row["kernels"], row["torch"], row["directml"]) == MEASURED[version]


def test_two_builds_of_different_torch_are_measured_and_compared(tmp_path: Path) -> None:
    old, new = MEASURED
    result = dmltrack(tmp_path, "run", old, new, "--suites", "census")
    assert set(result["counts"]) == {"pass"}
    found = rows(tmp_path)
    assert {v: (found[v]["kernels"], found[v]["torch"], found[v]["directml"]) for v in MEASURED} == MEASURED
    [log] = dmltrack(tmp_path, "changelog", old, new)
    assert "aten::native_layer_norm" in log["kernels"]["PrivateUse1"]["appeared"]
    sizes = {change["field"]: (change["old"], change["new"]) for change in log["wheels"]["win"]}
    assert sizes["directml-version"] == ("1.9.0", "1.13.1")
    assert sizes["directml-size"] == ("9677208", "14021152")
    [history] = [h for h in dmltrack(tmp_path, "ops", "native_layer_norm") if h["operator"].endswith("norm")]
    assert history["says"].endswith(f"native (changed after {old}) since {new}")


def test_every_build_of_the_index_is_listed_in_order_of_version(tmp_path: Path) -> None:
    dmltrack(tmp_path, "poll")
    versions = list(rows(tmp_path))
    assert len(versions) >= 12 and versions[:3] == [
        "0.1.13.dev221206",
        "0.1.13.dev221216",
        "0.1.13.1.dev230119",
    ]


def test_a_wheel_for_windows_is_read_on_linux(tmp_path: Path) -> None:
    facts = dmltrack(tmp_path, "inspect", "0.2.5.dev240914", "--platform", "win")
    assert (facts["directml_version"], facts["native_size"]) == ("1.13.1", 1953792)
    assert len(facts["operators"]) > 290 and facts["requires"] == ["torch==2.4.1", "torchvision==0.19.1"]
