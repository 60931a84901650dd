"""Measure how fast the database is made from a journal, and how fast it answers.

    uv run python tests/benchmarks/rebuild.py --observations 1000000 [--times 3] [--home FOLDER]

Writes a synthetic journal (12 builds, 2 adapters, thousands of cases, a twentieth not passing), rebuilds, asks
through the real command line, and prints what it took. Machines differ and are shared, so the least of several
times counts, in processor time, beside a yardstick taken in turn with it: DuckDB only counting the JSON objects of
the same files for the rebuild, a Python that does nothing for the commands.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path

from tracker.engine import engine
from tracker.journal import MAX_LINE, SEGMENT_LIMIT, Journal, encode, line_of
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

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 1, 1, tzinfo=UTC)
BUILDS = [f"0.2.{minor}.dev{240101 + minor}" for minor in range(12)]
ADAPTERS = ["AMD Radeon RX 6800 XT", "NVIDIA GeForce RTX 3060"]
CASES = [
    f"operators/{operator}/{dtype}/{way}"
    for operator in (f"nn.functional.op_{number}" for number in range(600))
    for dtype in ("float32", "float16", "int64")
    for way in ("forward", "backward")
]
REPORT = ("364", "bugs/normalization/batch_norm_buffers")
"""A public report and its case."""


def cells() -> Iterator[Cell]:
    """Yield every cell of the matrix, over and over: the rounds of an unattended machine."""
    while True:
        for version in BUILDS:
            yield Cell("torch-directml", version, "census", "census/kernels", NO_ADAPTER, "box", "c" * 16)
            for adapter in ADAPTERS:
                yield Cell("torch-directml", version, "bugs", REPORT[1], adapter, "box", "b" * 16)
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
    lines = events(number)
    total = 0
    for segment in count():
        size = 0
        with (folder / f"20260101T000000Z-{segment:08x}.jsonl").open("wb") as file:
            for seq, (at, record) in zip(count(1), lines, strict=False):
                size += file.write(line_of(seq, at, EVENT_NAMES[type(record)], encode(record)))
                if size >= SEGMENT_LIMIT:
                    break
        total += size
        if size < SEGMENT_LIMIT:
            return total
    return total


def times(action: Callable[[], object]) -> tuple[float, float]:
    """Do an action and return its seconds by the clock and by the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def timed(label: str, action: Callable[[], object]) -> None:
    """Do an action and print its times."""
    wall, processor = times(action)
    print(f"{label:<44} {wall * 1000:10,.0f} ms  ({processor * 1000:,.0f} ms processor)")


def count_objects(journal: Path) -> None:
    """Let the engine find every JSON object of the journal and do nothing with it: the yardstick."""
    source = f"read_ndjson_objects('{journal}/*.jsonl', maximum_object_size={MAX_LINE})"
    with engine().connect() as connection:
        connection.execute(f"SELECT count(*) FROM {source}").fetchall()


def rebuilds(store: Store, journal: Path, number: int, rounds: int) -> None:
    """Rebuild a few times, each after the yardstick, and print the least times."""
    yards, builds = [], []
    for _ in range(rounds):
        yards.append(times(lambda: count_objects(journal)))
        builds.append(times(store.rebuild))
    yard_wall, yard = (min(each) for each in zip(*yards, strict=True))
    wall, processor = (min(each) for each in zip(*builds, strict=True))
    print(f"rebuild, least of {rounds}: {wall:.1f} s, {processor:.1f} s processor, {number / wall:,.0f}/s")
    print(f"yardstick (count the objects): {yard_wall:.1f} s, {yard:.1f} s processor")
    print(f"rebuild / yardstick: {processor / yard:.1f} in processor time")


def append(journal: Path, number: int) -> None:
    """Append so many observations, as a process of its own would."""
    with Journal(journal) as writer:
        for _, record in islice(events(number), len(BUILDS), None):
            writer.append(record)


def many_segments(home: Path, number: int) -> None:
    """Print what a question costs on a journal that so many processes have written to."""
    (home / "journal").mkdir(parents=True)
    (_, record), *_ = islice(events(1), len(BUILDS), None)
    for segment in range(number):
        path = home / "journal" / f"20260101T000000Z-{segment:08x}.jsonl"
        path.write_bytes(line_of(1, START, EVENT_NAMES[type(record)], encode(record)))
    store = Store(home)
    timed(f"rebuild of {number:,} segments of a line", store.rebuild)
    timed("first refresh with nothing new", store.refresh)
    timed("second refresh with nothing new", store.refresh)
    append(home / "journal", 1)
    timed("refresh after one more", store.refresh)
    store.close()


COMMANDS = {
    "python -c pass": ("-c", "pass"),
    'python -c "import _duckdb"': ("-c", "import _duckdb"),
    "dmltrack --help": ("-m", "tracker", "--help"),
    "dmltrack ops": ("-m", "tracker", "ops", "op_7"),
    "dmltrack changelog": ("-m", "tracker", "changelog", BUILDS[-2], BUILDS[-1]),
    "dmltrack builds": ("-m", "tracker", "builds"),
    f"dmltrack fixed {REPORT[0]}": ("-m", "tracker", "fixed", REPORT[0]),
    "dmltrack explain": ("-m", "tracker", "explain", CASES[1000], "--build", BUILDS[6]),
}


def commands(home: Path, rounds: int) -> None:
    """Print what each command takes, cold from the shell, in turn with an idle Python."""
    took: dict[str, list[float]] = {label: [] for label in COMMANDS}
    environ = {**os.environ, "DMLTRACK_HOME": str(home)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has been compiled
    for _ in range(rounds):
        for label, arguments in COMMANDS.items():
            started = time.perf_counter()
            done = subprocess.run(
                [sys.executable, *arguments], env=environ, cwd=ROOT, capture_output=True, check=False
            )
            took[label].append((time.perf_counter() - started) * 1000)
            if done.returncode not in (0, 1, 5):
                sys.exit(f"{label}: {done.stderr.decode(errors='replace')}")
    for label, each in took.items():
        print(f"{label:<30} median {statistics.median(each):6.0f} ms, least {min(each):6.0f} ms")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--observations", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--segments", type=int, default=5_000)
    parser.add_argument(
        "--home", type=Path, help="a folder whose journal to measure; made where there is none"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = options.home or Path(scratch) / "home"
        journal = home / "journal"
        if not journal.is_dir():
            write_journal(journal, options.observations)
        size = sum(path.stat().st_size for path in journal.iterdir())
        print(f"journal {size / 1e6:,.0f} MB, {options.observations:,} observations")
        store = Store(home)
        rebuilds(store, journal, options.observations, options.times)
        (database,) = (home / "store").glob("*.duckdb")
        print(f"store {database.stat().st_size / 1e6:,.0f} MB")
        append(journal, 1)
        timed("refresh after one more observation", store.refresh)
        timed("refresh with nothing new", store.refresh)
        one = {"track": "torch-directml", "version": BUILDS[6]}
        timed("verdicts of a build", lambda: store.query("verdicts", **one))
        known = {"track": "torch-directml", "machine": "box"}
        timed("known cells of a machine", lambda: store.query("known_cells", **known))
        store.close()
        commands(home, 7)
        many_segments(Path(scratch) / "many", options.segments)


if __name__ == "__main__":
    main()
