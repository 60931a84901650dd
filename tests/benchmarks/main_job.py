"""Measure the main job on real builds: against pip, its own overhead, and how fast questions are answered.

    uv run python tests/benchmarks/main_job.py [--builds 0.1.13.1.dev230119,0.2.5.dev240914]

Prints, per build: making the environment by ``python -m venv`` and pip, cold (no cache) and warm, beside a
whole ``dmltrack run`` (environment, wheels, census, changelog), cold and warm. Then what of a warm run is not
work (installing, and running cases), and the time of questions, each a new process. Needs some ten GB of disk
in the folder of ``--scratch``; the machine's speed cancels out only in the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tracker.pythons import find_pythons, newest
from tracker.trackfile import load_track

ROOT = Path(__file__).resolve().parents[2]
BUILDS = "0.1.13.1.dev230119,0.2.5.dev240914"
QUESTIONS = (("ops", "layer_norm"), ("changelog", "newest"), ("builds",), ("explain", "census/import"))


def timed(command: list[str], environ: Mapping[str, str]) -> float:
    """Run a command and return its seconds; one that fails ends the benchmark."""
    started = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **environ}, cwd=ROOT, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}\n{done.stderr.decode(errors='replace')}")
    return time.perf_counter() - started


def dmltrack(home: Path, cache: Path, *arguments: str) -> float:
    """Run the program and return its seconds."""
    environ = {"DMLTRACK_HOME": str(home), "UV_CACHE_DIR": str(cache)}
    return timed([sys.executable, "-m", "tracker", *arguments], environ)


def with_pip(build: str, scratch: Path, name: str, cache: Path) -> float:
    """Make the same environment by venv and pip and return the seconds."""
    track = load_track("torch-directml", scratch)
    minors = ["3.10"] if build.startswith(("0.1.", "0.2.0")) else ["3.10", "3.11", "3.12"]
    python = newest(find_pythons(), minors)
    if python is None:
        sys.exit("this benchmark needs Python 3.10")
    folder = scratch / name
    pins = next((p.requires for p in track.pins if p.fit(build)), ())
    wanted = [f"torch-directml=={build}", *pins, "numpy==1.26.4"]
    started = time.perf_counter()
    timed([str(python.path), "-m", "venv", str(folder)], {})
    inside = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    timed([inside, "-m", "pip", "install", "-q", *wanted], {"PIP_CACHE_DIR": str(cache)})
    seconds = time.perf_counter() - started
    shutil.rmtree(folder)
    return seconds


def measure_build(build: str, scratch: Path) -> None:
    """Print the four times of one build."""
    pip_cache, uv_cache = scratch / "pip-cache", scratch / "uv-cache"
    pip_cold = with_pip(build, scratch, "a", pip_cache)
    pip_warm = with_pip(build, scratch, "b", pip_cache)
    shutil.rmtree(pip_cache, ignore_errors=True)  # pip keeps none of an index that forbids it
    home = scratch / "home"
    cold = dmltrack(home, uv_cache, "run", build, "--suites", "census")
    shutil.rmtree(home / "envs")
    warm = dmltrack(home, uv_cache, "run", build, "--suites", "census", "--again", "--offline")
    print(f"{build:<22} {pip_cold:9.1f} {pip_warm:9.1f} {cold:9.1f} {warm:9.1f}   {cold / pip_cold:.2f} x")


def overhead(home: Path, cache: Path, builds: list[str]) -> None:
    """Print what of a warm run is neither installing nor running cases."""
    shutil.rmtree(home / "envs")
    wall = dmltrack(home, cache, "run", *builds, "--suites", "census", "--again", "--offline")
    lines = [
        json.loads(line) for path in (home / "journal").iterdir() for line in path.open(encoding="utf-8")
    ]
    run = [line["run_started"]["run"] for line in lines if "run_started" in line][-1]
    cases = [line["observation"] for line in lines if line.get("observation", {}).get("run") == run]
    made = [line["environment"]["seconds"] for line in lines if "environment" in line][-len(builds) :]
    work = sum(made) + sum(case["seconds"] for case in cases)
    rest = wall - work
    print(
        f"warm run of {len(builds)} builds: {wall:.2f} s, installing {sum(made):.2f} s, {len(cases)} cases "
        f"{work - sum(made):.2f} s, the rest {rest:.2f} s ({rest / wall:.1%}; {rest / len(cases):.3f} s a case)"
    )


def questions(home: Path, cache: Path) -> None:
    """Print the median time of each question, cold from the shell."""
    for question in QUESTIONS:
        times = [dmltrack(home, cache, *question) for _ in range(7)]
        print(
            f"{' '.join(question):<28} {statistics.median(times) * 1000:6.0f} ms (least {min(times) * 1000:.0f})"
        )


def main() -> None:
    """Run the whole benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--builds", default=BUILDS)
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args()
    builds = options.builds.split(",")
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        print(
            f"{'seconds':<22} {'pip cold':>9} {'pip warm':>9} {'run cold':>9} {'run warm':>9}   run/pip, both cold"
        )
        for build in builds:
            measure_build(build, scratch)
        overhead(scratch / "home", scratch / "uv-cache", builds)
        questions(scratch / "home", scratch / "uv-cache")


if __name__ == "__main__":
    main()
