"""Every reproducer comes out right on the CPU, where the reported faults are not: that proves the rule."""

from __future__ import annotations

import pytest

from suites.protocol import RESULT
from tests.suites.torches import ROOT, Torch, Wanted
from tracker.bugs import Bug, by_case
from tracker.matrix import load_bugs
from tracker.model import State

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1200)]

BUGS = load_bugs(ROOT / "suites" / "bugs")
CASES = by_case(BUGS)
TOPICS = sorted({bug.topic for bug in BUGS if bug.case})
EVIDENCE = ("checks", "claims", "statistics", "memory", "steps", "training", "transcript")


def of_topic(topic: str) -> list[Bug]:
    return [same[0] for same in CASES.values() if same[0].topic == topic]


@pytest.mark.parametrize("topic", TOPICS)
def test_no_reproducer_raises_a_false_alarm_on_the_cpu(real_torch: Torch, topic: str) -> None:
    bugs = of_topic(topic)
    ran = real_torch.run([Wanted("bugs", f"{topic}:{bug.function}") for bug in bugs], timeout=1000)
    assert len(ran) == len(bugs)
    for bug, one in zip(bugs, ran, strict=True):
        finding = one.finding
        if bug.not_on_cpu:
            assert finding.state in (State.SKIPPED, State.PASS), (bug.id, finding)
            continue
        assert finding.state in bug.good, (bug.id, finding)
        assert one.message is not None and one.message["m"] == RESULT
        assert any(one.message["measures"].get(key) for key in EVIDENCE), f"{bug.id} compares nothing"


def test_reports_are_all_there_and_those_without_a_reproducer_say_why() -> None:
    with_case = [bug for bug in BUGS if bug.case]
    assert len(BUGS) == 130 and len(with_case) >= 110
    assert all(bug.why_not for bug in BUGS if not bug.case)
