"""A plan has what is to be done, in order, and says of everything else why it is left out."""

from __future__ import annotations

from tests.builders import build
from tracker.matrix import Case
from tracker.model import Cell, State
from tracker.plan import Host, make_plan, runnable_cells, waves, with_gates, withdrawn
from tracker.standing import Next

CASES = [Case("census/import", "census", "f"), Case("census/adapters", "census", "g", needs="directx")]
BUILDS = [build("1.0"), build("2.0")]
DIGESTS = {"census": "d1"}
LINUX, GPU = Host("box", "stand-in"), Host("box", "real")


def test_everything_unknown_is_planned_in_the_order_given() -> None:
    plan = make_plan(BUILDS, CASES, GPU, DIGESTS, lambda cell, case: Next.RUN)
    assert [(w.build.version, [c.id for c in w.cases]) for w in plan.work] == [
        ("1.0", ["census/import", "census/adapters"]),
        ("2.0", ["census/import", "census/adapters"]),
    ]
    assert (plan.cells, plan.done, plan.left_out) == (4, 0, ())


def test_what_needs_directx_is_left_out_with_a_reason_where_there_is_none() -> None:
    plan = make_plan(BUILDS, CASES, LINUX, DIGESTS, lambda cell, case: Next.RUN)
    assert plan.cells == 2
    assert [left.what for left in plan.left_out] == ["census/adapters"]
    assert plan.left_out[0].why.startswith("no DirectX 12 on this host")


def test_what_stands_is_counted_as_done_and_not_planned() -> None:
    def step(cell: Cell, case: Case) -> Next:
        return Next.NOTHING if cell.version == "1.0" else Next.RUN

    plan = make_plan(BUILDS, CASES, GPU, DIGESTS, step)
    assert [work.build.version for work in plan.work] == ["2.0"]
    assert (plan.cells, plan.done) == (2, 2)


def test_a_case_that_is_to_run_alone_is_planned_as_such() -> None:
    [first, _] = make_plan(BUILDS, CASES, LINUX, DIGESTS, lambda cell, case: Next.RUN_ALONE).work
    assert first.cases == () and [case.id for case in first.alone] == ["census/import"]


def test_every_cell_that_can_run_here_is_known_whether_planned_or_not() -> None:
    cells = runnable_cells(BUILDS, CASES, LINUX, DIGESTS)
    assert [(cell.version, cell.case, cell.suite_digest) for cell in cells] == [
        ("1.0", "census/import", "d1"),
        ("2.0", "census/import", "d1"),
    ]


def test_a_withdrawn_build_is_named_with_the_indexs_reason() -> None:
    gone = build("3.0", yanked="broken wheels")
    [left] = withdrawn([*BUILDS, gone], BUILDS)
    assert left.what == "3.0" and "broken wheels" in left.why
    assert withdrawn([gone], [gone]) == []


LADDER = [
    Case("ladder/16", "ladder", "f", needs="device", isolate=True),
    Case("ladder/32", "ladder", "f", needs="device", isolate=True, after="ladder/16"),
    Case("ladder/64", "ladder", "f", needs="device", isolate=True, after="ladder/32"),
]
CARD = Host("box", "real", adapter="Planted GPU")


def ladder(step: dict[str, Next], state: dict[str, State]) -> tuple[list[str], list[tuple[str, str]]]:
    plan = make_plan(
        BUILDS[:1],
        LADDER,
        CARD,
        {"ladder": "d"},
        lambda cell, case: step.get(case.id, Next.RUN),
        lambda cell: state.get(cell.case),
    )
    return [c.id for w in plan.work for c in w.cases], [(left.what, left.why) for left in plan.left_out]


def test_a_case_on_the_device_has_the_adapter_in_its_cell_and_is_left_out_without_one() -> None:
    (cell,) = runnable_cells(BUILDS[:1], LADDER[:1], CARD, {"ladder": "d"})
    assert cell.adapter == "Planted GPU"
    bare = Host("box", "real", no_adapter="no adapter here")
    plan = make_plan(BUILDS[:1], LADDER, bare, {"ladder": "d"}, lambda cell, case: Next.RUN)
    assert plan.work == ()
    assert [(left.what, left.why) for left in plan.left_out] == [("3 cases of ladder", "no adapter here")]


def test_a_case_waits_for_the_one_it_comes_after() -> None:
    assert ladder({}, {}) == (["ladder/16", "ladder/32", "ladder/64"], [])
    done = {"ladder/16": Next.NOTHING}
    assert ladder(done, {"ladder/16": State.SLOW})[0] == ["ladder/32", "ladder/64"]
    why = "it comes after ladder/16, which did not come out right"
    assert ladder(done, {"ladder/16": State.CRASH}) == ([], [("2 cases of ladder", why)])
    # A result that stands is no reason to say anything.
    stands = dict.fromkeys(("ladder/16", "ladder/32", "ladder/64"), Next.NOTHING)
    assert ladder(stands, {"ladder/16": State.CRASH}) == ([], [])


def test_what_took_the_machine_down_is_left_out_with_all_that_comes_after() -> None:
    ran, left = ladder({"ladder/32": Next.QUARANTINED}, {})
    assert ran == ["ladder/16"]
    assert [what for what, _ in left] == ["ladder/32", "ladder/64"]
    assert left[0][1].startswith("quarantined")


def test_waves_keep_gates_before_what_comes_after_and_processes_apart() -> None:
    cases = [*LADDER, Case("x/a", "x", "f"), Case("x/b", "x", "f", after="x/a")]
    assert [[case.id for case in wave] for wave in waves(cases)] == [
        ["x/a"],
        ["ladder/16"],
        ["x/b"],
        ["ladder/32"],
        ["ladder/64"],
    ]
    assert waves(cases[1:2]) == [[LADDER[1]]]  # a gate that is not run now does not matter


def test_a_chosen_case_brings_what_it_comes_after() -> None:
    assert with_gates([LADDER[2]], LADDER) == LADDER
    assert with_gates([LADDER[0]], LADDER) == LADDER[:1]
