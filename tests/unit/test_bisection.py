"""What a bisection is asked for, and between which builds it looks; which changes are confirmed together."""

from __future__ import annotations

import pytest

from tests.builders import build, verdict
from tracker.bisecting import TRIES, Ask, Evidence, Found, Impossible
from tracker.bisection import BisectWish, Ends, Subject, ends_of, subject_of, what_next
from tracker.bugs import Bug
from tracker.changelog import VerdictChange
from tracker.changes import ChangeKind
from tracker.confirm import ConfirmWish, grouped, pair_of, wanted
from tracker.errors import UsageError
from tracker.matrix import Case
from tracker.model import State
from tracker.running import quoted

VERSIONS = ["1", "2", "3", "4"]
GOOD, BAD, HOLE = Evidence(good=3), Evidence(bad=3), Evidence(inconclusive=TRIES)
CASES = [Case(name, name.split("/")[0], "f") for name in ("vit/attention", "vit/norm", "bugs/topic/loses")]
LOSES = Bug("microsoft/DirectML#364", "Norm loses its statistics", function="loses", topic="topic")
BUGS = [LOSES, Bug("microsoft/DirectML#5", "Only an application shows it", why_not="needs an application")]


@pytest.mark.parametrize(
    ("text", "case", "bug"),
    [
        ("vit/norm", "vit/norm", None),
        ("attent", "vit/attention", None),
        ("bugs/topic/loses", "bugs/topic/loses", LOSES),
        ("364", "bugs/topic/loses", LOSES),
        ("microsoft/DirectML#364", "bugs/topic/loses", LOSES),
        ("its statistics", "bugs/topic/loses", LOSES),
    ],
)
def test_a_case_is_meant_by_a_part_of_its_name_and_a_report_by_what_names_it(
    text: str, case: str, bug: Bug | None
) -> None:
    found = subject_of(text, CASES, BUGS)
    assert (found.case.id, found.bug) == (case, bug)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vit/", "fits 2 cases: vit/attention, vit/norm"),
        ("nothing", "no report is known as"),
        ("#5", "has no reproducer to run: needs an application"),
    ],
)
def test_what_is_not_one_case_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        subject_of(text, CASES, BUGS)


def test_what_the_cpu_computed_tells_nothing_of_a_report_and_is_right_for_a_case() -> None:
    case = CASES[0]
    assert State.FALLBACK in Subject(case, None).reading.good
    reading = Subject(CASES[2], LOSES).reading
    assert State.FALLBACK not in reading.good and State.FALLBACK in reading.unclear


def test_a_build_that_can_not_be_imported_is_bad_only_for_what_asks_that() -> None:
    assert State.IMPORT_FAILED in Subject(CASES[0], None).reading.unclear
    assert not Subject(Case("census/import", "census", "f"), None).reading.unclear


@pytest.mark.parametrize(
    ("good", "bad", "ends"),
    [
        ("", "", ("1", "4")),
        ("2", "", ("2", "4")),
        ("4", "", ("1", "4")),
        ("", "3", ("3", "4")),
        ("", "4", ("1", "4")),
        ("2", "3", ("2", "3")),
        ("3", "2", ("2", "3")),
    ],
)
def test_the_end_that_nobody_named_is_the_newest_build_or_else_the_oldest(
    good: str, bad: str, ends: tuple[str, str]
) -> None:
    found = ends_of(VERSIONS, good, bad)
    assert (found.start, found.end) == ends


def test_an_end_that_can_not_be_tested_gives_way_when_nobody_named_it() -> None:
    known = {"1": HOLE, "4": HOLE, "2": GOOD, "3": BAD}
    step, skipped = what_next(VERSIONS, ends_of(VERSIONS, "", ""), known, 3)
    assert isinstance(step, Found) and (step.before, step.after) == ("2", "3")
    assert skipped == ("1", "4")
    step, skipped = what_next(VERSIONS, ends_of(VERSIONS, "1", ""), known, 3)
    assert isinstance(step, Impossible) and "the start, 1, can not be tested" in step.why


def test_builds_of_which_none_can_be_tested_end_it() -> None:
    step, _ = what_next(VERSIONS, ends_of(VERSIONS, "", ""), dict.fromkeys(VERSIONS, HOLE), 3)
    assert isinstance(step, Impossible)


@pytest.mark.parametrize(
    ("known", "good", "bad", "said"),
    [
        ({"1": Evidence(bad=1)}, "1", "", "1 was said to be good, and it failed in 1 of 1 runs"),
        ({"1": GOOD, "2": GOOD, "3": BAD, "4": BAD}, "", "1", "1 was said to be bad, and it passed"),
        ({"1": BAD, "2": BAD, "3": GOOD, "4": GOOD}, "", "4", "4 was said to be bad, and it passed"),
    ],
)
def test_a_build_that_is_not_as_it_is_said_to_be_ends_it(
    known: dict[str, Evidence], good: str, bad: str, said: str
) -> None:
    step, _ = what_next(VERSIONS, ends_of(VERSIONS, good, bad), known, 3)
    assert isinstance(step, Impossible) and step.why == said


def test_nothing_known_begins_with_the_start() -> None:
    step, _ = what_next(VERSIONS, Ends("2", "4", True, True), {}, 3)
    assert isinstance(step, Ask) and (step.version, step.times) == ("2", 3)


def test_the_commands_that_go_on_have_their_own_options() -> None:
    wish = BisectWish("its statistics", "1", "2", 5, "Radeon", size="small")
    assert wish.command() == (
        f"dmltrack bisect {quoted('its statistics')} --good 1 --bad 2 --repeats 5 --size small --adapter Radeon"
    )
    asked = ConfirmWish(("1", "2"), ("vit/*",), quick=True, each=True, track="torch")
    assert asked.command() == f"dmltrack confirm 1 2 --cases {quoted('vit/*')} --track torch --quick --each"


# --- confirm ---------------------------------------------------------------------------------------------


def change(case: str, new: State = State.CRASH, kind: ChangeKind = ChangeKind.REGRESSED) -> VerdictChange:
    return VerdictChange(case, "card", kind, verdict(State.PASS), verdict(new, "cause"))


def test_changes_that_are_alike_in_all_but_the_case_are_one_group() -> None:
    changes = [change("a"), change("b", State.HANG), change("c")]
    groups = grouped(changes)
    assert [(group.change.case, group.others) for group in groups] == [("a", ("c",)), ("b", ())]
    assert [group.change.case for group in grouped(changes, each=True)] == ["a", "b", "c"]


def test_only_regressions_and_fixes_that_were_asked_for_are_confirmed() -> None:
    assert wanted(change("vit/a"), (), "")
    assert wanted(change("vit/a"), ("whisper/*", "vit/*"), "CARD")
    assert not wanted(change("vit/a"), ("whisper/*",), "")
    assert not wanted(change("vit/a"), (), "other")
    assert not wanted(change("vit/a", kind=ChangeKind.SLOWER), (), "")


def test_a_build_alone_is_compared_with_the_one_before_it() -> None:
    builds = [build("1.0"), build("2.0"), build("3.0")]
    assert [item.version for item in pair_of(["3.0"], builds)] == ["2.0", "3.0"]
    assert [item.version for item in pair_of(["1.0", "3.0"], builds)] == ["1.0", "3.0"]
    for texts in (["1.0"], [], ["1.0", "2.0", "3.0"]):
        with pytest.raises(UsageError):
            pair_of(texts, builds)
