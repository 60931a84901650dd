"""Measure what isolation costs: a run of the matrix against the same cases in one bare Python process.

    uv run python tests/benchmarks/isolation.py --build 2.4.1 --cases 'vit/*' --cases 'operators/views/*' [--times 3]

Uses track ``torch`` on the CPU, so it needs no GPU; the first run installs the build. Then the whole command
``dmltrack run --again`` and a process that does nothing but import the build and call the cases' functions take
turns, because machines are shared and noisy. What counts is the ratio of the least times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tracker.environments import interpreter
from tracker.home import Home
from tracker.matrix import Case, load_suites
from tracker.running import chosen_cases
from tracker.suite_files import hand_out

ROOT = Path(__file__).resolve().parents[2]

BARE = """
import json, sys
request = json.load(open(sys.argv[1]))
sys.path.insert(0, sys.argv[2])
from suites import worker
from suites.context import Context
context = Context(request)
context.build()
failed = 0
for case in request["cases"]:
    try:
        worker.function_of(case)(context, **case["params"])
    except Exception:
        failed += 1
print(failed, "of", len(request["cases"]), "raised")
"""


def run(home: Path, build: str, patterns: list[str], *more: str) -> float:
    """Run the command and return its seconds."""
    words = ["run", build, "--track", "torch", "--device", "cpu", "--size", "small", "--offline", *more]
    for pattern in patterns:
        words += ["--cases", pattern]
    started = time.perf_counter()
    environ = {**os.environ, "DMLTRACK_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "tracker", *words], cwd=ROOT, env=environ, capture_output=True
    )
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode(errors="replace"))
    return seconds


def request_of(cases: list[Case], home: Home) -> dict[str, Any]:
    """Return what a worker would be asked for the cases."""
    track = {"name": "torch", "package": "torch", "module": "torch", "device": "cpu", "dispatch_keys": []}
    listed = [
        {"id": case.id, "suite": case.suite, "function": case.function, "params": dict(case.params)}
        for case in cases
    ]
    settings = home.loaded.settings.suites
    options = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    return {"track": track, "directx": "absent", "adapter": "cpu", "options": options, "cases": listed}


def python_of(home: Home, case: Case) -> Path:
    """Return the interpreter in which the case was run last."""
    sql = f"SELECT environment FROM observation WHERE case_id = '{case.id}' ORDER BY started DESC LIMIT 1"
    home.store.refresh()
    ((recipe,),) = home.store.sql(sql).rows
    return interpreter(home.folder / "envs" / str(recipe))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--build", default="2.4.1")
    parser.add_argument("--cases", action="append", required=True)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--home", type=Path, help="a home folder to keep; else a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.home or Path(scratch) / "home"
        home = Home(folder)
        subprocess.run(
            [sys.executable, "-m", "tracker", "poll", "--track", "torch"],
            cwd=ROOT,
            env={**os.environ, "DMLTRACK_HOME": str(folder)},
            check=True,
        )
        run(folder, options.build, options.cases)
        suites_folder = hand_out(folder)
        every = load_suites(suites_folder / "suites", "small")
        cases = chosen_cases(every, every, options.cases)
        request = Path(scratch) / "request.json"
        request.write_text(json.dumps(request_of(cases, home)))
        bare = [str(python_of(home, cases[0])), "-I", "-c", BARE, str(request), str(suites_folder)]
        ours, theirs = [], []
        for _ in range(options.times):
            ours.append(run(folder, options.build, options.cases, "--again"))
            started = time.perf_counter()
            said = subprocess.run(bare, cwd=scratch, capture_output=True, check=True).stdout.decode()
            theirs.append(time.perf_counter() - started)
        print(f"{len(cases)} cases, {said.strip()}, least of {options.times}")
        print(f"dmltrack run --again: {min(ours):.1f} s; one bare process: {min(theirs):.1f} s")
        print(f"ratio: {min(ours) / min(theirs):.3f}")


if __name__ == "__main__":
    main()
