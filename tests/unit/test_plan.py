"""A plan has what is to be done, in order, and says of everything else why it is left out."""

from __future__ import annotations

from tests.builders import build
from tracker.matrix import Case
from tracker.model import Cell
from tracker.plan import Host, make_plan, runnable_cells, withdrawn
from tracker.standing import Next

CASES = [Case("census/import", "census", "f"), Case("census/adapters", "census", "g", needs="directx")]
BUILDS = [build("1.0"), build("2.0")]
DIGESTS = {"census": "d1"}
LINUX, GPU = Host("box", "stand-in"), Host("box", "real")


def test_everything_unknown_is_planned_in_the_order_given() -> None:
    plan = make_plan(BUILDS, CASES, GPU, DIGESTS, lambda cell: Next.RUN)
    assert [(w.build.version, [c.id for c in w.cases]) for w in plan.work] == [
        ("1.0", ["census/import", "census/adapters"]),
        ("2.0", ["census/import", "census/adapters"]),
    ]
    assert (plan.cells, plan.done, plan.left_out) == (4, 0, ())


def test_what_needs_directx_is_left_out_with_a_reason_where_there_is_none() -> None:
    plan = make_plan(BUILDS, CASES, LINUX, DIGESTS, lambda cell: Next.RUN)
    assert plan.cells == 2
    assert [left.what for left in plan.left_out] == ["census/adapters"]
    assert plan.left_out[0].why.startswith("no DirectX 12 on this host")


def test_what_stands_is_counted_as_done_and_not_planned() -> None:
    def step(cell: Cell) -> Next:
        return Next.NOTHING if cell.version == "1.0" else Next.RUN

    plan = make_plan(BUILDS, CASES, GPU, DIGESTS, step)
    assert [work.build.version for work in plan.work] == ["2.0"]
    assert (plan.cells, plan.done) == (2, 2)


def test_a_case_that_is_to_run_alone_is_planned_as_such() -> None:
    [first, _] = make_plan(BUILDS, CASES, LINUX, DIGESTS, lambda cell: Next.RUN_ALONE).work
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
