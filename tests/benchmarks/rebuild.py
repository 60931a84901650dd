"""Measure how fast the database is made from a journal, and how fast it answers.

    uv run python tests/benchmarks/rebuild.py --observations 1000000

Writes a synthetic journal (12 builds, 2 adapters, thousands of cases, a twentieth not passing) to a scratch
folder, rebuilds, and prints what it took.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path

import msgspec

from tracker.journal import SEGMENT_LIMIT, Journal
from tracker.judge import find
from tracker.model import (
    EVENT_NAMES,
    NO_ADAPTER,
    Build,
    BuildFile,
    Cell,
    Ending,
    Event,
    Observation,
    Outcome,
)
from tracker.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)
BUILDS = [f"0.2.{minor}.dev{240101 + minor}" for minor in range(12)]
ADAPTERS = ["AMD Radeon RX 6800 XT", "NVIDIA GeForce RTX 3060"]
CASES = [
    f"operators/{operator}/{dtype}/{way}"
    for operator in (f"nn.functional.op_{number}" for number in range(600))
    for dtype in ("float32", "float16", "int64")
    for way in ("forward", "backward")
]


def cells() -> Iterator[Cell]:
    """Yield every cell of the matrix, over and over: the rounds of an unattended machine."""
    while True:
        for version in BUILDS:
            yield Cell("torch-directml", version, "census", "census/kernels", NO_ADAPTER, "box", "c" * 16)
            for adapter in ADAPTERS:
                for case in CASES:
                    yield Cell("torch-directml", version, "operators", case, adapter, "box", "d" * 16)


def outcome(draw: random.Random) -> Outcome:
    """Return an outcome as they come: nineteen of twenty complete."""
    if draw.random() >= 0.05:
        return Outcome(Ending.COMPLETED)
    if draw.random() < 0.3:
        return Outcome(Ending.EXITED, exit_code=-11)
    message = f"Unknown error {draw.choice((-2005270523, -2147024882, -draw.randrange(10**9)))}"
    return Outcome(
        Ending.EXCEPTION, error_type="RuntimeError", error_message=message, traceback="line\n" * 80
    )


def measures(cell: Cell, draw: random.Random) -> dict[str, object]:
    """Return what a case sends; every float differs, as they do."""
    if cell.suite == "census":
        return {"keys": {"PrivateUse1": [f"aten::op_{number}" for number in range(700)]}, "absent": []}
    value = draw.random()
    return {
        "error": {"max_abs": value * 1e-6, "max_rel": value * 1e-5, "noise": value * 1e-7, "nan": 0},
        "shape": [8, 3, 224, 224],
        "dtype": "float32",
        "seconds": [value / 3, value / 5, value / 7],
    }


def events(number: int) -> Iterator[tuple[datetime, Event]]:
    """Yield the events of a journal with so many observations."""
    draw = random.Random(number)
    for version in BUILDS:
        file = BuildFile(f"torch_directml-{version}-cp310-cp310-win_amd64.whl", "", "0" * 64, 1, START)
        yield START, Build("torch-directml", version, START, (file,))
    for place, cell in zip(count(), islice(cells(), number), strict=False):
        at = START + timedelta(seconds=place)
        run, worker = f"run{place // 50_000}", f"worker{place // 500}"
        end = outcome(draw)
        sent = measures(cell, draw) if end.ending is Ending.COMPLETED else {}
        log = "" if sent else "a line of a log\n" * 30
        yield at, Observation(run, worker, cell, "e" * 16, at, 0.5, end, find(end, sent), sent, log)


def write_journal(folder: Path, number: int) -> int:
    """Write the journal in full segments, past ``Journal.append`` that would sync each; return its bytes."""
    folder.mkdir(parents=True)
    encoder, lines = msgspec.json.Encoder(), events(number)
    total = 0
    for segment in count():
        size = 0
        with (folder / f"20260101T000000Z-{segment:08x}.jsonl").open("wb") as file:
            for seq, (at, record) in zip(count(1), lines, strict=False):
                head = f'{{"seq":{seq},"at":"{at:%Y-%m-%dT%H:%M:%S.%f}Z","{EVENT_NAMES[type(record)]}":'
                size += file.write(head.encode() + encoder.encode(record) + b"}\n")
                if size >= SEGMENT_LIMIT:
                    break
        total += size
        if size < SEGMENT_LIMIT:
            return total
    return total


def timed(label: str, action: object) -> float:
    """Do an action, print its wall and processor time, and return the wall time."""
    assert callable(action)
    wall, processor = time.perf_counter(), time.process_time()
    action()
    took = time.perf_counter() - wall
    print(f"{label:<44} {took * 1000:10,.0f} ms  ({time.process_time() - processor:,.1f} s processor)")
    return took


QUERY = """
from pathlib import Path
from tracker.store import Store
store = Store(Path({home!r}))
store.refresh()
store.query("operator_history", track="torch-directml", operator="op_7")
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--observations", type=int, default=1_000_000)
    number = parser.parse_args().observations
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        size = write_journal(home / "journal", number)
        print(f"journal {size / 1e6:,.0f} MB, {number:,} observations and as many attempts")
        store = Store(home)
        took = timed("rebuild", store.rebuild)
        print(f"{number / took:,.0f} observations/s")
        (database,) = (home / "store").glob("*.duckdb")
        print(f"store {database.stat().st_size / 1e6:,.0f} MB")
        with Journal(home / "journal") as journal:
            for _, record in islice(events(1), len(BUILDS), None):
                journal.append(record)
        timed("refresh after one more observation", store.refresh)
        timed("refresh with nothing new", store.refresh)
        store.close()
        query = [sys.executable, "-c", QUERY.format(home=str(home))]
        timed("new process, refresh, operator_history", lambda: subprocess.run(query, check=True))
        timed("open, builds", lambda: Store(home).query("builds", track="torch-directml"))
        one = {"track": "torch-directml", "version": BUILDS[6]}
        timed("verdicts of a build", lambda: store.query("verdicts", **one))
        case = {**one, "case_id": CASES[1000], "adapter": ADAPTERS[1]}
        timed("observations of a cell", lambda: store.query("observations_of", **case))
        timed(
            "done cells of a machine", lambda: store.query("cells_in_states", machine="box", states=["pass"])
        )
        store.close()


if __name__ == "__main__":
    main()
