"""What the tables of the database hold, and how users ask for it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.store_records import (
    CELL,
    DONE,
    NOW,
    SEGV,
    append,
    build,
    census,
    full,
    home_with,
    observation,
    value,
    wheel,
)
from tracker import refresh
from tracker.changelog import SAYS_NOTHING
from tracker.errors import UsageError
from tracker.journal import segments
from tracker.judge import JUDGE, ROUNDS
from tracker.model import (
    Build,
    BuildFile,
    Ending,
    EnvironmentFacts,
    Finding,
    IndexChange,
    IndexChangeKind,
    Machine,
    Outcome,
    Platform,
    PollResult,
    State,
    WheelFacts,
)
from tracker.store import Store, distinct

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


def test_a_result_that_alone_comes_out_otherwise_depends_on_the_order(tmp_path: Path) -> None:
    store = home_with(
        tmp_path,
        observation(SEGV),
        replace(observation(), attempt=2),
        replace(observation(SEGV), attempt=100),
    )
    (row,) = store.query("verdicts", track=CELL.track, version=CELL.version)
    assert (row["state"], row["reason"], row["confidence"]) == ("crash", "order-dependent", "observed")
    assert row["observations"] == 2, "a round that only measures speed must not count"


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


def test_columns_of_one_name_stay_apart(tmp_path: Path) -> None:
    assert distinct(("a", "b", "a", "a_2", "a")) == ["a", "b", "a_3", "a_2", "a_4"]
    answer = home_with(tmp_path).sql("SELECT 1 AS x, 2 AS x")
    assert dict(zip(distinct(answer.columns), answer.rows[0], strict=True)) == {"x": 1, "x_2": 2}


def test_verdicts_that_are_alike_and_say_nothing_are_left_out(tmp_path: Path) -> None:
    both = [observation(case=name, version=version) for name in ("a", "b") for version in ("1", "2")]
    flaky = [observation(end, case="c", version=version) for end in (DONE, SEGV) for version in ("1", "2")]
    only = [observation(SEGV, case="b", version="2", suite_digest="d2"), observation(case="d", version="1")]
    quiet = [f"{state} {confidence}" for state, confidence in SAYS_NOTHING]
    asked = {"track": CELL.track, "old": "1", "new": "2", "machine": "box", "quiet": quiet}
    rows = home_with(tmp_path, *both, *flaky, *only).query("verdicts_that_differ", **asked)
    told = [(row["version"], row["case_id"]) for row in rows]
    assert told == [("1", "b"), ("1", "c"), ("1", "d"), ("2", "b"), ("2", "c")]


def test_the_rounds_that_the_judge_does_not_count_are_those_that_the_sql_leaves_out() -> None:
    text = (refresh.DB / "refresh" / "findings.sql").read_text("utf-8")
    assert f"WHERE attempt < {ROUNDS}\n" in text
