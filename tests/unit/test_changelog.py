"""A changelog says what differs, and what could not be compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders import measured, verdict, view, wheel
from tracker.changelog import BuildView, NameChanges, changelog, pairs
from tracker.changes import ChangeKind
from tracker.model import Platform, State
from tracker.publish.changelogs import FORMATS, as_json, as_markdown, as_text, code, escape


def seen(version: str, **changes: Any) -> BuildView:
    """Return a build of which one machine measured something special."""
    return view(version, measured={"box": measured(version, **changes)})


def test_equal_builds_have_an_empty_changelog_that_says_so() -> None:
    log = changelog(view("1.0"), view("2.0"))
    assert log.empty
    assert "Nothing differs in what could be compared." in as_text(log)


def test_builds_of_which_nothing_is_known_are_not_called_equal() -> None:
    log = changelog(view("1.0", wheels={}, measured={}), view("2.0", wheels={}, measured={}))
    assert log.empty and not log.conclusive
    assert "Nothing could be compared." in as_text(log)
    assert "Nothing differs" not in as_text(log) + as_markdown(log)


def test_kernels_that_come_and_go_are_named() -> None:
    new = seen("2.0", kernels={"PrivateUse1": frozenset({"aten::add.out", "aten::lerp"})})
    log = changelog(view("1.0"), new)
    assert log.kernels["PrivateUse1"] == NameChanges(("aten::lerp",), ("aten::mul.out",))
    assert "PrivateUse1            2 -> 2 (+1, -1)" in as_text(log)


def test_a_key_that_torch_lacks_is_not_an_empty_key() -> None:
    old = dict(measured("1.0").kernels or {})
    new = seen("2.0", kernels={**old, "AutocastPrivateUse1": frozenset()})
    log = changelog(view("1.0"), new)
    assert log.kernel_counts["AutocastPrivateUse1"] == (None, 0)
    assert "AutocastPrivateUse1    no such key -> 0" in as_text(log)


def test_a_build_without_census_is_named_as_not_compared() -> None:
    log = changelog(seen("1.0", kernels=None), view("2.0"))
    assert log.kernels == {}
    assert "kernels: no census of 1.0 on record" in as_text(log)


def test_growth_of_the_directml_library_is_told_with_its_versions() -> None:
    old = view("1.0", wheels={Platform.WINDOWS: wheel(directml_version="1.10.1", directml_size=10_000_000)})
    text = as_text(changelog(old, view("2.0")))
    assert "DirectML               1.10.1 -> 1.13.1" in text
    assert "DirectML size          10.00 MB -> 14.00 MB (+40.0 %)" in text


def test_operators_that_a_wheel_names_are_left_to_the_census_where_there_is_one() -> None:
    old = {"wheels": {Platform.WINDOWS: wheel(operators=("aten::mul.out",))}}
    assert "operators named" not in as_text(changelog(view("1.0", **old), view("2.0")))
    assert "operators named now" in as_text(changelog(view("1.0", **old, measured={}), view("2.0")))


def test_signatures_that_change_are_told_with_both() -> None:
    log = changelog(seen("1.0", api={"device": "()"}), view("2.0"))
    assert "~ device() is now device(device_id=None)" in as_text(log)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (State.PASS, State.CRASH, ChangeKind.REGRESSED),
        (State.WRONG, State.PASS, ChangeKind.FIXED),
        (State.WRONG, State.INFRA, ChangeKind.INCONCLUSIVE),
    ],
)
def test_verdicts_that_change_are_told_by_kind(old: State, new: State, kind: ChangeKind) -> None:
    cell = ("vit/forward", "GPU")
    log = changelog(seen("1.0", verdicts={cell: verdict(old)}), seen("2.0", verdicts={cell: verdict(new)}))
    assert [change.kind for change in log.verdicts] == [kind]
    assert f"{kind:<22} vit/forward on GPU: {old} -> {new}" in as_text(log)


def test_many_cases_with_one_cause_are_told_together() -> None:
    cells = [(f"operators/op{number}/float32", "GPU") for number in range(40)]
    old = seen("1.0", verdicts=dict.fromkeys(cells, verdict(State.WRONG)))
    new = seen("2.0", verdicts=dict.fromkeys(cells, verdict(State.PASS)))
    log = changelog(old, new)
    assert len(log.verdicts) == 40
    text = as_text(log)
    assert "fixed                  40 cases on GPU: wrong -> pass" in text
    assert "operators/op10/float32" in text and "and 16 more" in text
    assert "**fixed**: 40 cases on GPU: wrong → pass \\[backend\\]: `operators/op0/float32`" in as_markdown(
        log
    )


def test_a_case_that_applies_to_neither_build_is_no_news() -> None:
    cell = ("vit/sdpa", "GPU")
    skipped, ran = verdict(State.SKIPPED), verdict(State.PASS)
    quiet = changelog(seen("1.0", verdicts={cell: skipped}), seen("2.0", verdicts={cell: skipped}))
    told = changelog(seen("1.0", verdicts={cell: skipped}), seen("2.0", verdicts={cell: ran}))
    assert quiet.verdicts == () and len(told.verdicts) == 1


def test_builds_that_no_machine_has_both_measured_are_not_compared() -> None:
    crash = {("census/import", "none"): verdict(State.CRASH)}
    new = view("2.0", measured={"other": measured("2.0", "other", verdicts=crash, kernels={})})
    log = changelog(view("1.0"), new)
    assert log.verdicts == () and log.kernels == {} and log.machine == ""
    assert log.unknown == ("kernels, Python API, verdicts: no machine has measured both builds",)


def test_of_several_machines_our_own_is_compared() -> None:
    both = {name: measured("1.0", name) for name in ("a", "b", "c")}
    assert changelog(view("1.0", measured=both), view("2.0", measured=both), "b").machine == "b"
    assert changelog(view("1.0", measured=both), view("2.0", measured=both), "z").machine == "a"


def test_results_of_changed_suite_files_are_not_comparable_and_say_so() -> None:
    crash = {("census/import", "none"): verdict(State.CRASH)}
    [change] = changelog(view("1.0"), seen("2.0", verdicts=crash, digest="d2")).verdicts
    assert (change.kind, change.why) == (ChangeKind.NOT_COMPARABLE, "the suite files differ: d1 and d2")


def test_a_verdict_that_stays_is_no_change() -> None:
    assert changelog(view("1.0"), view("2.0")).verdicts == ()


def test_the_worst_change_comes_first() -> None:
    old = {("a", "none"): verdict(State.WRONG), ("b", "none"): verdict(State.PASS)}
    new = {("a", "none"): verdict(State.PASS), ("b", "none"): verdict(State.WRONG)}
    kinds = [c.kind for c in changelog(seen("1.0", verdicts=old), seen("2.0", verdicts=new)).verdicts]
    assert kinds == [ChangeKind.REGRESSED, ChangeKind.FIXED]


HOSTILE = "<script>alert(1)</script> `x` | [a](http://evil) \n# head"


def test_hostile_names_can_not_leave_their_place_in_markdown() -> None:
    log = changelog(view("1.0"), seen("2.0", api={"device": "(device_id=None)", HOSTILE: "()"}))
    [line] = [line for line in as_markdown(log).splitlines() if "script" in line]
    assert line.startswith("- new: ``<script>") and line.endswith("``")


def test_escaped_text_has_no_live_markup() -> None:
    assert escape("<b>*x* [y](z)") == r"\<b\>\*x\* \[y\]\(z\)"
    assert code("a`b") == "``a`b``"


def test_json_is_a_list_with_every_part() -> None:
    [data] = json.loads(as_json([changelog(view("1.0"), view("2.0"))]))
    assert {"track", "old", "new", "kernels", "api", "verdicts", "wheels", "unknown"} <= data.keys()


def test_every_format_renders_several_changelogs() -> None:
    logs = [changelog(view("1.0"), view("2.0")), changelog(view("2.0"), view("3.0"))]
    assert all("3.0" in render(logs) and "2.0" in render(logs) for render in FORMATS.values())


def test_pairs_are_neighbours() -> None:
    assert pairs(["a", "b", "c"]) == [("a", "b"), ("b", "c")]
    assert pairs(["a"]) == []
