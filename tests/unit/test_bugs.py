"""The registry of reports: what a person may mean by one, and what makes no sense in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracker import bugs
from tracker.bugs import Bug, by_case, check_registry, matching, parse_topic
from tracker.errors import UsageError
from tracker.matrix import digest, load_bugs, load_suites
from tracker.model import State

TOPIC = """
[[bug]]
id = "maker/Library#364"
function = "batch_norm"
title = "BatchNorm2d never updates its statistics"
links = ["https://example.org/issues/364"]
timeout = 60.0
[[bug]]
id = "maker/Library#365"
function = "batch_norm"
title = "The same, seen later"
duplicate_of = "maker/Library#364"
timeout = 90.0
isolate = true
[[bug]]
id = "other/App#7"
title = "Black pictures from the whole application"
why_not = "needs a whole application"
"""
OWN = Path(__file__).parents[2] / "suites" / "bugs"


def parsed(text: str = TOPIC) -> list[Bug]:
    return parse_topic(text, "normalization", "n.toml")


def test_a_report_has_the_case_of_its_function() -> None:
    first, second, third = parsed()
    assert (first.case, second.case, third.case) == ("bugs/normalization/batch_norm",) * 2 + ("",)
    assert first.good == (State.PASS, State.SLOW)
    assert by_case(parsed()) == {"bugs/normalization/batch_norm": [first, second]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("function", "funktion"), "unknown key"),
        (('title = "BatchNorm2d never updates its statistics"', ""), "title"),
        (("timeout = 60.0", 'fault = "odd"'), "no fault 'odd'"),
        (("timeout = 60.0", 'needs = "luck"'), "needs 'luck'"),
        (("timeout = 60.0", 'good = ["fallback"]'), "'pass' among them"),
        (("timeout = 60.0", 'good = ["pass", "infra"]'), "conclusive"),
        (("timeout = 60.0", 'good = ["fine"]'), "fine"),
        (("timeout = 60.0", 'function = "x"'), "not TOML"),
        (('"batch_norm"', '"Batch Norm"'), "name of a function"),
        (("timeout = 60.0", 'why_not = "no"'), "either a function or a reason"),
        (("[[bug]]", "[bugs]"), "something else"),
        (("[[bug]]", "odd = 1\n[[bug]]"), "something else"),
    ],
)
def test_what_makes_no_sense_is_one_clear_error(change: tuple[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parsed(TOPIC.replace(*change, 1))
    assert "n.toml" in caught.value.message


def test_reports_that_contradict_each_other_are_an_error() -> None:
    first, second, third = parsed()
    with pytest.raises(UsageError, match="stands in"):
        check_registry([first, first])
    with pytest.raises(UsageError, match="not there"):
        check_registry([second, third])
    other = parsed(TOPIC.replace("isolate = true", 'needs = "import"'))
    with pytest.raises(UsageError, match="differ in what it needs"):
        check_registry(other)


@pytest.mark.parametrize(
    "text",
    [
        "maker/Library#364",
        "MAKER/library#364",
        "364",
        "#364",
        "Library#364",
        "https://example.org/issues/364/",
        "never updates",
        "batchnorm2d STATISTICS",
    ],
)
def test_a_report_is_found_by_what_people_call_it(text: str) -> None:
    assert [bug.id for bug in matching(text, parsed())] == ["maker/Library#364"]


def test_several_hits_are_all_given_and_nothing_is_found_by_nothing() -> None:
    assert len(matching("the", parsed())) == 2
    assert matching("bugs/normalization/batch_norm", parsed()) == parsed()[:2]
    assert matching("9999", parsed()) == [] == matching(" ", parsed())


def test_reports_of_one_fault_share_a_case_that_suits_all(tmp_path: Path) -> None:
    folder = tmp_path / "bugs"
    folder.mkdir()
    (folder / "suite.toml").write_text('name = "bugs"\ndigest = "module"\n')
    (folder / "normalization.toml").write_text(TOPIC)
    [suite] = load_suites(tmp_path)
    [case] = suite.cases
    assert (case.id, case.function) == ("bugs/normalization/batch_norm", "normalization:batch_norm")
    assert (case.timeout, case.isolate, case.part) == (90.0, True, "bugs:normalization")


def test_the_results_of_a_report_rest_on_its_module_and_not_on_what_is_said_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "bugs"
    folder.mkdir()
    names = ("worker.py", "protocol.py", "bugs/one.py", "bugs/two.py", "bugs/common.py", "bugs/one.toml")
    for name in names:
        (tmp_path / name).write_text("from suites.bugs import common\n" if name == "bugs/one.py" else "")
    before = digest(tmp_path, "bugs:one")
    for name in ("bugs/two.py", "bugs/one.toml"):
        (tmp_path / name).write_text("# more")
        assert digest(tmp_path, "bugs:one") == before
    for name in ("bugs/common.py", "bugs/one.py", "worker.py"):
        changed = tmp_path / name
        kept: Any = changed.read_text()
        changed.write_text(kept + "# more")
        assert digest(tmp_path, "bugs:one") != before
        changed.write_text(kept)


def test_a_topic_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"odd\.toml: cannot be read"):
        load_bugs(tmp_path)


@pytest.mark.skipif(not OWN.is_dir(), reason="the registry is not there")
def test_each_report_of_the_program_names_a_function_that_is_there() -> None:
    for bug in load_bugs(OWN):
        if bug.case:
            text = (OWN / f"{bug.topic}.py").read_text("utf-8")
            assert f"\ndef {bug.function}(context: Context" in text, bug.id
        assert bug.fault in bugs.FAULTS
