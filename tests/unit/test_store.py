"""The database is a function of the journal: no order, step, crash or damaged line makes another one."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracker import generations, lines, refresh
from tracker.engine import engine
from tracker.errors import StoreError, UsageError
from tracker.journal import Journal, encode, line_of, segments
from tracker.judge import JUDGE, find
from tracker.model import (
    EVENT_NAMES,
    ApiEntry,
    Attempt,
    Build,
    BuildFile,
    Cell,
    Ending,
    EnvironmentFacts,
    Event,
    Finding,
    IndexChange,
    IndexChangeKind,
    Machine,
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


# --- what the tables hold --------------------------------------------------------------------------------


def test_an_observation_is_kept_whole(tmp_path: Path) -> None:
    store = home_with(tmp_path, replace(observation(SEGV), log="tail", attempt=3))
    assert store.sql("SELECT state, reason, judge FROM observation").rows == [("crash", "sigsegv", JUDGE)]
    (row,) = store.sql("SELECT started, seconds, attempt, log, outcome FROM observation").rows
    assert row[:4] == (NOW, 1.5, 3, "tail")
    assert msgspec.json.decode(row[4], type=Outcome) == SEGV


def test_what_an_observation_leaves_out_has_its_default(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    assert b"attempt" not in segments(tmp_path / "journal")[0].read_bytes()
    assert store.sql("SELECT attempt, log, message FROM observation").rows == [(1, "", "")]


@pytest.mark.parametrize("outcome", [DONE, full(Outcome, ending=Ending.EXITED)])
def test_the_evidence_of_a_case_has_every_field_of_its_outcome(tmp_path: Path, outcome: Outcome) -> None:
    store = home_with(tmp_path, observation(outcome))
    (row,) = store.query("case_evidence", track=CELL.track, text=CELL.case)
    assert msgspec.json.decode(row["outcome"]) == msgspec.json.decode(msgspec.json.encode(outcome))


def test_a_cell_with_two_outcomes_has_one_flaky_verdict(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation(SEGV), observation(), observation(SEGV))
    (row,) = store.query("verdicts", track=CELL.track, version=CELL.version)
    assert (row["state"], row["confidence"], row["observations"]) == ("crash", "flaky", 3)


def test_only_the_latest_state_of_a_suite_is_shown_as_verdict(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation(SEGV), observation(suite_digest="d2"))
    rows = store.query("verdicts", track=CELL.track, version=CELL.version)
    assert [(row["suite_digest"], row["state"]) for row in rows] == [("d2", "pass")]
    assert value(store, "SELECT count(*) FROM verdict") == 2


def test_what_is_known_of_a_cell_is_its_last_observation_in_its_environment(tmp_path: Path) -> None:
    store = home_with(
        tmp_path, observation(SEGV), observation(SEGV), observation(), observation(SEGV, case="b")
    )
    rows = store.query("known_cells", track=CELL.track, machine="box")
    told = [(row["case_id"], row["state"], row["attempts"]) for row in rows]
    assert told == [("b", "crash", 1), ("census/kernels", "pass", 3)]


def test_a_build_is_given_back_as_it_was_recorded(tmp_path: Path) -> None:
    old, new = build("0.1", "a-cp38-cp38-win_amd64.whl"), build("0.2", "b.whl", "a.whl", day=2, yanked="bad")
    store = home_with(tmp_path, new, old)
    assert store.known_builds("torch-directml") == [old, new]
    assert store.known_builds("torch") == []


def test_the_latest_record_of_a_build_counts(tmp_path: Path) -> None:
    store = home_with(tmp_path, build("1", "a.whl"), build("1", "a.whl", yanked="oops"))
    (row,) = store.query("builds", track="torch-directml")
    assert (row["yanked"], row["yank_reason"], row["gone"]) == (True, "oops", False)


def test_a_build_without_files_is_gone_and_not_yanked(tmp_path: Path) -> None:
    store = home_with(tmp_path, build("1", "a.whl"), build("1"))
    (row,) = store.query("builds")
    assert (row["gone"], row["yanked"], row["files"]) == (True, False, 0)
    assert store.known_builds("torch-directml") == [build("1")]


def test_builds_come_in_the_order_of_versions_not_of_texts(tmp_path: Path) -> None:
    versions = ["0.1.13.dev221206", "0.1.13.dev221216", "0.1.13.1.dev230119", "0.2.0.dev230426"]
    store = home_with(tmp_path, *(build(version, "a.whl") for version in sorted(versions)))
    assert [row["version"] for row in store.query("builds")] == versions


def test_pythons_come_as_numbers(tmp_path: Path) -> None:
    names = [f"x-1-cp{tag}-cp{tag}-win_amd64.whl" for tag in ("310", "38", "39")]
    store = home_with(tmp_path, build("1", *names, "x-1-py3-none-any.whl"))
    assert store.query("builds")[0]["pythons"] == ["3", "3.8", "3.9", "3.10"]


def test_a_build_shows_what_its_wheels_and_verdicts_say(tmp_path: Path) -> None:
    facts = wheel("1", directml_version="1.9.1", directml_size=99)
    linux = wheel("1", Platform.LINUX, directml_size=77, requires=("torch==2", "numpy<2"))
    measured = census("1", "aten::a", "aten::b", AutogradPrivateUse1=["aten::c"])
    (row,) = home_with(tmp_path, build("1", "a.whl"), facts, linux, measured).query("builds")
    assert (row["win_directml_version"], row["win_directml_size"], row["linux_directml_size"]) == (
        "1.9.1",
        99,
        77,
    )
    assert (row["requires"], row["linux_requires"]) == (["torch==2.0.0"], ["torch==2", "numpy<2"])
    assert (row["kernels"], row["verdicts"]) == (2, {"pass": 1})


def test_a_build_that_was_never_measured_has_no_number_of_kernels(tmp_path: Path) -> None:
    (row,) = home_with(tmp_path, build("1", "a.whl")).query("builds")
    assert (row["kernels"], row["verdicts"], row["requires"]) == (None, {}, None)


def test_every_field_of_a_wheel_is_given_back(tmp_path: Path) -> None:
    facts = full(WheelFacts)
    (row,) = home_with(tmp_path, facts).query("wheel_of", track=facts.track, version=facts.version)
    assert msgspec.convert(row, WheelFacts) == facts


def test_the_last_reading_of_a_wheel_counts(tmp_path: Path) -> None:
    facts = wheel("1", operators=("aten::a", "aten::b"), api=())
    (row,) = home_with(tmp_path, wheel("1"), facts).query("wheel_of", track=facts.track, version="1")
    assert msgspec.convert(row, WheelFacts) == facts


def test_every_field_of_a_build_is_given_back(tmp_path: Path) -> None:
    record = full(Build, files=(full(BuildFile), full(BuildFile, filename="other")))
    assert home_with(tmp_path, record).known_builds(record.track) == [record]


@pytest.mark.parametrize(
    ("record", "table"), [(full(EnvironmentFacts), "environment"), (full(Machine), "machine")]
)
def test_every_field_of_a_fact_is_kept(tmp_path: Path, record: Any, table: str) -> None:
    answer = home_with(tmp_path, record).sql(f"FROM {table}")
    row = dict(zip(answer.columns, answer.rows[0], strict=True))
    # "freeze" is a word of SQL.
    assert msgspec.convert({**row, "freeze": row.get("packages")}, type(record)) == record


def test_what_a_poll_found_is_kept(tmp_path: Path) -> None:
    store = home_with(tmp_path, full(IndexChange, kind=IndexChangeKind.YANKED), full(PollResult))
    found = store.sql("SELECT track, version, kind, subject FROM index_change").rows
    assert found == [("text", "text", "yanked", "text")]
    (end,) = store.sql("SELECT * EXCLUDE (segment, seq, logged_at) FROM poll").rows
    assert end == ("text", "text", 7, 7, True, "some", ["a", "b"])


# --- the census ------------------------------------------------------------------------------------------


def two_machines(home: Path) -> Store:
    more = census("1", "aten::a", "aten::b", "aten::c")
    elsewhere = replace(more, cell=replace(more.cell, machine="z"))
    return home_with(home, build("1", "a.whl"), census("1", "aten::a"), elsewhere)


@pytest.mark.parametrize(("machine", "kernels"), [("box", 1), ("z", 3), ("unmeasured", 1), (None, 1)])
def test_a_build_has_the_kernels_of_the_asking_machine_else_of_the_first(
    tmp_path: Path, machine: str | None, kernels: int
) -> None:
    (row,) = two_machines(tmp_path).query("builds", machine=machine)
    assert row["kernels"] == kernels


def test_a_kernel_is_native_only_where_it_was_registered(tmp_path: Path) -> None:
    store = two_machines(tmp_path)
    rows = store.query("kernel_versions_by_machine", track=CELL.track)
    assert [row["machine"] for row in rows if row["operator"] == "aten::c"] == ["z"]
    (own,) = store.query("kernel_versions_by_machine", track=CELL.track, machine="box")
    assert (own["operator"], own["dispatch_key"], own["versions"]) == ("aten::a", "PrivateUse1", ["1"])


def test_a_new_census_of_one_build_leaves_the_others(tmp_path: Path) -> None:
    store = home_with(tmp_path, census("1", "aten::a"), census("2", "aten::b"))
    append(tmp_path, census("2", "aten::c"))
    store.refresh()
    kernels = store.sql("SELECT version, operator FROM kernel ORDER BY ALL").rows
    assert kernels == [("1", "aten::a"), ("2", "aten::c")]


def test_a_build_counts_its_cells_by_their_latest_state(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation(SEGV), observation(SEGV, case="b"), observation(version="2"))
    append(tmp_path, observation(suite_digest="d2"))
    store.refresh()
    rows = store.sql("SELECT state, cells FROM build_state WHERE version <> '2' ORDER BY ALL").rows
    assert rows == [("crash", 1), ("pass", 1)]


def test_the_latest_passing_census_counts(tmp_path: Path) -> None:
    store = home_with(
        tmp_path, census("1", "aten::old"), census("1", "aten::new"), observation(SEGV, version="1")
    )
    rows = store.query("kernels_of", track="torch-directml", version="1")
    assert [(row["dispatch_key"], row["operator"]) for row in rows] == [("PrivateUse1", "aten::new")]


def test_keys_that_a_torch_does_not_have_are_told(tmp_path: Path) -> None:
    store = home_with(tmp_path, census("1"))
    assert store.query("census_of")[0]["absent_keys"] == ["AutocastPrivateUse1"]
    assert store.query("kernels_of", track="torch-directml", version="1") == []


def test_the_api_is_kept_by_name(tmp_path: Path) -> None:
    sent = {"api": [{"name": "device", "signature": "(i=None)"}, {"name": "__version__"}]}
    store = home_with(tmp_path, observation(measures=sent, case="census/api", version="1"))
    rows = store.query("api_of", track="torch-directml", version="1")
    assert [(row["name"], row["signature"]) for row in rows] == [("__version__", ""), ("device", "(i=None)")]


@pytest.mark.parametrize("keys", [None, 5, [], {"P": 3}, {"P": [None, {"x": 1}]}, {"a.b$": ["o'x"]}])
def test_measures_of_any_shape_do_no_harm(tmp_path: Path, keys: object) -> None:
    store = home_with(tmp_path, observation(measures={"keys": keys, "absent": keys, "api": keys}))
    assert value(store, "SELECT count(*) FROM census") == 1


# --- judging ---------------------------------------------------------------------------------------------


def test_what_another_judge_judged_is_judged_again(tmp_path: Path) -> None:
    old = replace(observation(SEGV), finding=Finding(State.PASS, "pass", "", "an-older-judge"))
    store = home_with(tmp_path, old)
    assert store.sql("SELECT state, reason, judge FROM observation").rows == [("crash", "sigsegv", JUDGE)]
    assert value(store, "SELECT state FROM verdict") == "crash"


def test_what_this_judge_judged_is_taken_as_it_is(tmp_path: Path) -> None:
    store = home_with(tmp_path, replace(observation(SEGV), finding=Finding(State.HANG, "timeout", "", JUDGE)))
    assert value(store, "SELECT state FROM verdict") == "hang"


def test_an_outcome_that_only_a_newer_program_knows_is_inconclusive(tmp_path: Path) -> None:
    append(tmp_path, replace(observation(), finding=Finding(State.PASS, "pass", "", "newer")))
    (path,) = segments(tmp_path / "journal")
    path.write_bytes(path.read_bytes().replace(b'"completed"', b'"teleported"'))
    store = Store(tmp_path)
    assert (
        store.query("verdicts", track=CELL.track, version=CELL.version)[0]["reason"] == "outcome-unreadable"
    )


def test_a_new_judge_judges_everything_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home_with(tmp_path, observation(SEGV)).close()
    monkeypatch.setattr(refresh, "JUDGE", "new")
    monkeypatch.setattr(refresh, "_STALE", "o.judge <> 'new'")
    store = Store(tmp_path)
    store.refresh()
    assert store.sql("SELECT judge FROM meta UNION ALL SELECT judge FROM observation").rows == [
        ("new",),
        ("new",),
    ]


# --- the same from every way -----------------------------------------------------------------------------

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
JUNK = [b"", b"{", b"\0" * 9, b"[1]", b'{"seq":7,"at":"2026-12-01T09:00:00.000000Z","dream":1}', b"\xff{}"]
JUNK += [b'{"seq":8,"at":"2026-12-01T09:00:00.000000Z","observation":{"run":"r"}}', b'{"seq":1} {"seq":2}']


def line(seq: int, event: Event) -> bytes:
    return line_of(seq, NOW + timedelta(seconds=seq % 3), EVENT_NAMES[type(event)], encode(event))


journals = st.lists(
    st.lists(st.sampled_from(EVENTS) | st.sampled_from(JUNK), max_size=12), min_size=1, max_size=4
)


def segment_bytes(content: Sequence[Event | bytes]) -> bytes:
    return b"".join(
        item + b"\n" if isinstance(item, bytes) else line(seq, item) for seq, item in enumerate(content, 1)
    )


def segment_path(home: Path, number: int) -> Path:
    (home / "journal").mkdir(exist_ok=True)
    return home / "journal" / f"20261201T090000Z-{number:08x}.jsonl"


@given(journals, st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_refreshing_in_any_steps_is_rebuilding(
    tmp_path_factory: pytest.TempPathFactory, content: list[list[Event | bytes]], draw: random.Random
) -> None:
    home = tmp_path_factory.mktemp("home")
    whole = [segment_bytes(segment) for segment in content]
    written = [0] * len(whole)
    store = Store(home)
    while any(done < len(data) for done, data in zip(written, whole, strict=True)):
        number = draw.choice([n for n, data in enumerate(whole) if written[n] < len(data)])
        # Cut anywhere once, then go to the end: each refresh costs, and two steps show what ten do.
        start, end = written[number], len(whole[number])
        written[number] = end if start else draw.randint(1, end)
        segment_path(home, number).write_bytes(whole[number][: written[number]])
        store.refresh()
    stepwise = dump(store) if any(whole) else None
    store.rebuild()
    assert stepwise is None or dump(store) == stepwise
    store.close()


@given(journals)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_counted_agrees_with_reading_the_journal(
    tmp_path_factory: pytest.TempPathFactory, content: list[list[Event | bytes]]
) -> None:
    home = tmp_path_factory.mktemp("home")
    for number, segment in enumerate(content):
        segment_path(home, number).write_bytes(segment_bytes(segment))
    store = Store(home)
    store.refresh()
    (row,) = store.sql("SELECT sum(lines), sum(damaged), sum(unknown) FROM segment").rows
    items = [item for segment in content for item in segment]
    unknown = sum(item == JUNK[4] for item in items)
    assert (row[0] or 0, row[2] or 0) == (len(items), unknown)
    assert (row[1] or 0) == sum(isinstance(item, bytes) for item in items) - unknown
    store.close()


def test_merged_journals_give_the_same_from_either_side(tmp_path: Path) -> None:
    append(tmp_path / "a", *EVENTS[:9])
    append(tmp_path / "b", *EVENTS[9:])
    shutil.copytree(tmp_path / "a" / "journal", tmp_path / "c" / "journal")
    Journal(tmp_path / "a" / "journal").merge(tmp_path / "b" / "journal")
    Journal(tmp_path / "b" / "journal").merge(tmp_path / "c" / "journal")
    assert dump(Store(tmp_path / "a")) == dump(Store(tmp_path / "b"))


def test_merging_the_same_journal_again_changes_nothing(tmp_path: Path) -> None:
    store = home_with(tmp_path / "a", *EVENTS)
    before = dump(store)
    shutil.copytree(tmp_path / "a" / "journal", tmp_path / "b")
    Journal(tmp_path / "a" / "journal").merge(tmp_path / "b")
    store.refresh()
    assert dump(store) == before


def test_a_journal_that_lost_a_segment_makes_a_new_database(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation(SEGV, case="other"))
    store.refresh()
    segments(tmp_path / "journal")[0].unlink()
    store.refresh()
    assert value(store, "SELECT count(*) FROM observation") == 1


def test_a_full_segment_is_read_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SEGMENT_LIMIT", 100)
    home = tmp_path / "a [b] 'c' *"
    assert value(home_with(home, observation(), observation(SEGV)), "SELECT count(*) FROM observation") == 2


def test_a_line_too_long_for_the_reader_costs_nothing_else(tmp_path: Path) -> None:
    append(tmp_path, observation())
    (path,) = segments(tmp_path / "journal")
    path.write_bytes(b'{"x":"' + b"y" * 40_000_000 + b'"}\n' + path.read_bytes())
    store = Store(tmp_path)
    assert value(store, "SELECT count(*) FROM observation") == 1
    assert store.sql("SELECT lines, damaged + unknown FROM segment").rows == [(2, 1)]


# --- generations -----------------------------------------------------------------------------------------


def files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "store").iterdir() if path.name != "refresh.lock")


def test_a_refresh_leaves_one_file_with_the_next_number(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())
    store.refresh()
    assert files(tmp_path) == ["00000002.duckdb"]


def test_a_refresh_with_nothing_new_makes_nothing(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    with Journal(tmp_path / "journal") as journal:
        journal.close()
    segments(tmp_path / "journal")[0].open("ab").write(b'{"seq":')
    store.refresh()
    assert files(tmp_path) == ["00000001.duckdb"]


def test_a_reader_works_while_another_process_refreshes_and_is_told(tmp_path: Path) -> None:
    home_with(tmp_path, observation()).close()
    append(tmp_path, observation(SEGV))
    reader = Store(tmp_path, patience=0.1)
    with FileLock(tmp_path / "store" / "refresh.lock"):
        reader.refresh()
    assert reader.stale_since is not None
    assert value(reader, "SELECT count(*) FROM observation") == 1
    reader.refresh()
    assert not reader.stale_reason
    assert value(reader, "SELECT count(*) FROM observation") == 2


def test_a_writer_waits_and_is_refused_what_is_not_up_to_date(tmp_path: Path) -> None:
    home_with(tmp_path, observation()).close()
    append(tmp_path, observation(SEGV))
    writer = Store(tmp_path)
    with FileLock(tmp_path / "store" / "refresh.lock"), pytest.raises(StoreError, match="another process"):
        writer.refresh(wait=0.1)
    writer.refresh(wait=60)
    assert value(writer, "SELECT count(*) FROM observation") == 2


def test_a_question_with_nothing_new_opens_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())
    store.refresh()
    monkeypatch.setattr(refresh, "whole_lines", lambda path, start: pytest.fail(f"{path} was opened"))
    store.refresh()
    assert not store.stale_reason


def test_an_open_reader_sees_what_another_process_added(tmp_path: Path) -> None:
    reader = home_with(tmp_path, observation())
    append(tmp_path, observation(SEGV))
    Store(tmp_path).refresh()
    assert value(reader, "SELECT count(*) FROM observation") == 2


@pytest.mark.parametrize("damage", [b"", b"not a database" * 1000])
def test_a_file_that_can_not_be_opened_is_moved_aside_and_made_anew(tmp_path: Path, damage: bytes) -> None:
    home_with(tmp_path, observation()).close()
    (tmp_path / "store" / "00000001.duckdb").write_bytes(damage)
    store = Store(tmp_path)
    store.refresh()
    assert value(store, "SELECT count(*) FROM observation") == 1
    assert len([name for name in files(tmp_path) if ".broken-" in name]) == 1


def test_a_file_with_a_damaged_block_is_made_anew(tmp_path: Path) -> None:
    home_with(tmp_path, *EVENTS * 50).close()
    path = tmp_path / "store" / "00000001.duckdb"
    data = bytearray(path.read_bytes())
    for place in range(20_000, len(data), 5_000):
        data[place : place + 8] = b"\xff" * 8
    path.write_bytes(data)
    append(tmp_path, observation(case="after"))
    store = Store(tmp_path)
    store.refresh()
    assert value(store, "SELECT count(*) FROM observation WHERE case_id = 'after'") == 1


def test_a_file_with_another_schema_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home_with(tmp_path, observation()).close()
    more = [*refresh.migrations(), tmp_path / "0002_more.sql"]
    more[-1].write_text("CREATE TABLE more (x INTEGER)")
    monkeypatch.setattr(refresh, "migrations", lambda: more)
    store = Store(tmp_path)
    store.refresh()
    assert value(store, "SELECT count(*) FROM more") == 0
    assert value(store, "SELECT count(*) FROM observation") == 1


def test_a_full_disk_leaves_what_was_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tracker.generations.shutil.copyfile", full)
    store.refresh()
    assert "No space left" in store.stale_reason
    assert value(store, "SELECT count(*) FROM observation") == 1
    assert files(tmp_path) == ["00000001.duckdb"]


def test_without_any_database_a_failure_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(generations, "fill", full)
    with pytest.raises(StoreError, match="No space left"):
        Store(tmp_path).refresh()


def test_a_disk_that_fills_in_the_database_leaves_the_one_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home_with(tmp_path, observation())
    append(tmp_path, observation())

    def full(*_: object) -> None:
        raise engine().IOException("Could not write: No space left on device")

    monkeypatch.setattr(generations, "fill", full)
    store.refresh()
    assert "No space left" in store.stale_reason
    assert files(tmp_path) == ["00000001.duckdb"]


def test_killing_a_refresh_leaves_a_database_that_can_be_read(tmp_path: Path) -> None:
    home_with(tmp_path, *EVENTS * 20).close()
    code = (
        f"from pathlib import Path; from tracker.store import Store; Store(Path({str(tmp_path)!r})).refresh()"
    )
    draw = random.Random(1)
    for _ in range(4):
        append(tmp_path, *EVENTS)
        process = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(draw.uniform(0.15, 0.8))
        process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()
        assert value(Store(tmp_path), "SELECT count(*) FROM observation") > 0
    store = Store(tmp_path)
    store.refresh()
    stepwise = dump(store)
    store.rebuild()
    assert dump(store) == stepwise


# --- asking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELEC 1",
        "SELECT nothing FROM build",
        "",
        "DROP TABLE build",
        "INSERT INTO version_rank VALUES ('a', 'b', 1)",
        "COPY build TO 'out.csv'",
        "FROM read_text('/etc/hostname')",
        "ATTACH 'other.duckdb'",
        "SET enable_external_access = true",
        "SELECT $unknown",
    ],
)
def test_sql_that_is_wrong_or_does_more_than_read_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        home_with(tmp_path, build("1", "a.whl")).sql(text)


def test_sql_tells_columns_even_of_no_rows(tmp_path: Path) -> None:
    answer = home_with(tmp_path).sql("SELECT track, track FROM build")
    assert (answer.columns, answer.rows) == (("track", "track"), [])


def test_a_query_or_parameter_that_does_not_exist_is_named(tmp_path: Path) -> None:
    store = home_with(tmp_path, observation())
    with pytest.raises(UsageError, match="nonsense"):
        store.query("nonsense")
    with pytest.raises(UsageError, match="colour"):
        store.query("builds", colour="red")


QUERIES = sorted(path.stem for path in (refresh.DB / "queries").glob("*.sql"))


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_works_on_an_empty_home(tmp_path: Path, name: str) -> None:
    assert len(Store(tmp_path).query(name)) <= 1


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_of_many_rows_orders_them(name: str) -> None:
    text = (refresh.DB / "queries" / f"{name}.sql").read_text("utf-8")
    assert "\nORDER BY " in text or not re.search(r"^(FROM|GROUP BY) ", text, re.MULTILINE)


def test_the_dictionary_describes_every_table_and_column(tmp_path: Path) -> None:
    text = (refresh.DB / "README.md").read_text("utf-8")
    rows = (
        home_with(tmp_path)
        .sql("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal")
        .rows
    )
    sections = {part.split("`", 2)[1]: part for part in text.split("\n### ")[1:]}
    assert [(table, column) for table, column in rows if f"`{column}`" not in sections.get(table, "")] == []
