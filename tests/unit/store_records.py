"""Records, homes and dumps for the tests of the database."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

from tracker.journal import Journal
from tracker.judge import find
from tracker.model import (
    ApiEntry,
    Attempt,
    Build,
    BuildFile,
    Cell,
    Ending,
    EnvironmentFacts,
    Event,
    Finding,
    Observation,
    Outcome,
    Platform,
    PollResult,
    RunFinished,
    RunStarted,
    State,
    WheelFacts,
)
from tracker.store import Store

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
CELL = Cell("torch-directml", "0.2.0.dev230426", "census", "census/kernels", "none", "box", "d1")
SEGV = Outcome(Ending.EXITED, exit_code=-11)
DONE = Outcome(Ending.COMPLETED)


def observation(outcome: Outcome = DONE, measures: dict[str, Any] | None = None, **cell: str) -> Observation:
    sent = measures or {}
    where = replace(CELL, **cell)
    return Observation("r", "w", where, "env", NOW, 1.5, outcome, find(outcome, sent), sent)


def census(version: str, *operators: str, **keys: list[str]) -> Observation:
    measures = {"keys": {"PrivateUse1": list(operators), **keys}, "absent": ["AutocastPrivateUse1"]}
    return observation(measures=measures, version=version)


def build(version: str, *files: str, day: int = 1, yanked: str | None = None) -> Build:
    moment = NOW.replace(day=day)
    rows = (BuildFile(name, f"https://x/{name}", "0" * 64, 7, moment, ">=3.8", yanked) for name in files)
    return Build("torch-directml", version, moment, tuple(rows))


def wheel(version: str, platform: Platform = Platform.WINDOWS, **facts: Any) -> WheelFacts:
    given = {
        "requires": ("torch==2.0.0",),
        "operators": ("aten::a",),
        "api": (ApiEntry("device", "(i)"),),
        **facts,
    }
    fixed = {
        field: given.get(field, "x")
        for field in (
            "sha256",
            "python",
            "abi",
            "native_name",
            "native_sha256",
            "directml_name",
            "directml_sha256",
        )
    }
    return WheelFacts(
        track="torch-directml",
        version=version,
        filename=f"w-{version}-cp310-cp310-{platform}.whl",
        platform=platform,
        platform_tags=("win_amd64",),
        size=10,
        unpacked_size=20,
        requires=given["requires"],
        requires_python=None,
        directml_version=given.get("directml_version"),
        directml_size=given.get("directml_size"),
        native_size=5,
        operators=given["operators"],
        api=given["api"],
        **fixed,
    )


def environment(version: str) -> EnvironmentFacts:
    return EnvironmentFacts("torch-directml", version, f"recipe{version}", "3.10", ("torch",), ready=True)


SAMPLES: dict[Any, Any] = {
    str: "text",
    int: 7,
    float: 1.5,
    bool: True,
    datetime: NOW,
    Platform: Platform.WINDOWS,
    str | None: "some",
    int | None: 9,
    tuple[str, ...]: ("a", "b"),
    tuple[ApiEntry, ...]: (ApiEntry("f", "(x)"),),
}


def full(kind: type[Any], /, **given: Any) -> Any:
    """Return a record of which every field differs from its default, so that a forgotten one is missed."""
    hints = get_type_hints(kind)
    values = {item.name: given.get(item.name, SAMPLES.get(hints[item.name])) for item in fields(kind)}
    assert all(values[item.name] not in (item.default, None) for item in fields(kind))
    return kind(**values)


def home_with(home: Path, *events: Event) -> Store:
    append(home, *events)
    store = Store(home)
    store.refresh()
    return store


def append(home: Path, *events: Event) -> None:
    with Journal(home / "journal") as journal:
        for event in events:
            journal.append(event)


def dump(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Return everything that the database holds."""
    names = [row[0] for row in store.sql("SELECT table_name FROM duckdb_tables() ORDER BY ALL").rows]
    return {name: store.sql(f"FROM {name} ORDER BY ALL").rows for name in names}


def value(store: Store, sql: str) -> Any:
    return store.sql(sql).rows[0][0]


ENDS = [DONE, SEGV, Outcome(Ending.TIMEOUT), Outcome(Ending.CANCELLED), Outcome(Ending.EXITED, exit_code=-6)]
EVENTS: list[Event] = [
    *(observation(end, version=version) for end in ENDS for version in ("1", "2")),
    *(replace(observation(end), finding=Finding(State.PASS, "p", "", "old")) for end in ENDS),
    census("1", "aten::a", "aten::b"),
    census("1", "aten::c"),
    observation(measures={"api": [{"name": "f", "signature": "()"}]}, case="census/api"),
    build("1", "a.whl"),
    build("1"),
    build("2", "x-2-cp38-cp38-win_amd64.whl"),
    wheel("1"),
    wheel("1", operators=()),
    environment("2"),
    Attempt("r", "w", CELL),
    RunStarted("r", "c", 1),
    RunFinished("r", {"pass": 1}),
    PollResult("torch", "https://x", 1, 1, warnings=("w",)),
]
