"""What a run leaves on disk while it goes on, and how the next one takes it over when the run was killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tracker.conversation import Conversation, Garbled, Lines, Reported, Started
from tracker.files import remove_tree
from tracker.home import Home
from tracker.job import observe
from tracker.machine import boot_id, same_boot
from tracker.model import Attempt, Cell, Ending, Observation, Outcome
from tracker.workers import READ, REQUEST, RESULTS, CaseResult, worker_number

RUN_FILE = "run.json"


@dataclass(frozen=True)
class Kept:
    """What the folder of a run says of its work on one build, so that another run can take it over."""

    run: str
    environment: str
    cells: tuple[Cell, ...]
    attempt: int = 1
    boot: str = ""
    """Which start of the machine this was written under."""


def keep(folder: Path, kept: Kept) -> None:
    """Write down what a run is about to do in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN_FILE).write_bytes(msgspec.json.encode(kept))


def take_over(home: Home, known: Callable[[str], Collection[tuple[Cell, int]]]) -> int:
    """Record what workers of a tracker that was killed had finished; clear its folders away.

    ``known`` gives the cells that a run has in the journal already, with the attempt. A case that was in flight
    is recorded as such: one that takes the host down again and again can be told by that. Returns how many
    results were saved. Must be called only by who holds the home's run lock: the folders of a run that goes on
    are not dead.
    """
    saved = 0
    for folder in sorted((home.folder / "runs").glob("*/*/*")):
        for record, attempt in _left_over(folder):
            if (record.cell, attempt) in known(record.run):
                continue
            home.journal.append(record)
            saved += isinstance(record, Observation)
    remove_tree(home.folder / "runs")
    return saved


def _left_over(folder: Path) -> Iterator[tuple[Observation | Attempt, int]]:
    try:
        kept = msgspec.json.decode((folder / RUN_FILE).read_bytes(), type=Kept)
    except (OSError, msgspec.MsgspecError):
        return
    cells = {cell.case: cell for cell in kept.cells}
    for result in salvage(folder):
        cell = cells.get(result.case)
        if cell is None:
            continue
        if result.outcome.ending is Ending.CANCELLED:
            died = bool(kept.boot) and not same_boot(kept.boot, boot_id())
            yield Attempt(kept.run, result.worker, cell, host_died=died), kept.attempt
        else:
            yield observe(kept.run, cell, kept.environment, result, kept.attempt), kept.attempt


def salvage(folder: Path) -> list[CaseResult]:
    """Return what the workers of a tracker that died had finished; a case that was in flight is CANCELLED.

    ``folder`` is that of the ``WorkerSpec``. The logs died with the tracker.
    """
    found = sorted((path for path in folder.glob("worker-*") if worker_number(path)), key=worker_number)
    return [result for path in found for result in _salvaged(path)]


def _salvaged(folder: Path) -> Iterator[CaseResult]:
    try:
        request = json.loads((folder / REQUEST).read_text("utf-8"))
        talk = Conversation(request["nonce"], [case["id"] for case in request["cases"]])
        with (folder / RESULTS).open("rb") as file:
            for said in _heard(talk, file):
                if isinstance(said, Reported):
                    began = datetime.fromtimestamp(said.at, UTC)
                    yield CaseResult(said.case, said.outcome, said.seconds, began, folder.name, said.measures)
        if talk.in_flight is not None:
            broken_off = Outcome(Ending.CANCELLED, error_message="the tracker died meanwhile")
            yield CaseResult(talk.in_flight, broken_off, 0.0, datetime.now(UTC), folder.name)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return  # nothing to be had from this one


def _heard(talk: Conversation, file: Any) -> Iterator[Started | Reported | None]:
    lines = Lines()
    try:
        while data := file.read(READ):
            for line in lines.feed(data):
                yield talk.hear(line)
    except Garbled:
        return
