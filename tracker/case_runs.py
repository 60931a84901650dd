"""The runs of single cases, read from the database for those who ask what they say together.

Turns rows into the records of the pure modules; what they mean is decided there. No SQL stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tracker.changelog import Changelog, VerdictChange
from tracker.changes import ChangeKind
from tracker.model import Confidence, State
from tracker.store import Store

if TYPE_CHECKING:
    from tracker.records import Run

TURNS = (ChangeKind.REGRESSED, ChangeKind.FIXED)
"""The kinds of changes that can be confirmed."""
FEWEST_CLEAN, FEWEST_FAILING = 43, 15
"""No change is confirmed by fewer runs of the build that passes and the one that fails, the one that showed it with
them: of most changes nothing more need be asked than their verdicts. A test holds this to ``confirming.THOROUGH``."""

Runs = dict[tuple[str, str], dict[str, list["Run"]]]
"""By case and adapter, then by version; oldest first."""


def case_runs(
    store: Store,
    track: str,
    machine: str,
    cases: Sequence[str],
    versions: Sequence[str] | None = None,
    alone: int | None = None,
) -> Runs:
    """Return every run of some cases on a machine, at some builds or at all.

    ``alone`` leaves out the builds at which a case has fewer runs alone in a fresh process than that.
    """
    from tracker.records import Run

    rows = store.answer(
        "case_runs",
        track=track,
        machine=machine,
        cases=list(cases),
        versions=None if versions is None else list(versions),
        alone=alone,
    ).rows
    found: Runs = {}
    for version, case, adapter, digest, environment, attempt, state, reason, at in rows:
        run = Run(version, digest, environment, attempt, State(state), reason, at)
        found.setdefault((case, adapter), {}).setdefault(version, []).append(run)
    return found


def with_confidence(store: Store, log: Changelog) -> Changelog:
    """Return a changelog with how far each regression and fix is confirmed by the runs since it was seen.

    Runs are asked for only of cases that were run often enough for it: a handful, if any.
    """
    cases = sorted({change.case for change in log.verdicts if _repeated(change)})
    if not cases:
        return log
    runs = case_runs(store, log.track, log.machine, cases, (log.old, log.new), FEWEST_FAILING - 1)
    told = [_told(log, change, runs) if _repeated(change) else change for change in log.verdicts]
    return replace(log, verdicts=tuple(told))


def _repeated(change: VerdictChange) -> bool:
    """Whether both builds were run often enough that it may be confirmed."""
    if change.kind not in TURNS or change.old is None or change.new is None:
        return False
    failed, passed = (change.old, change.new) if change.kind is ChangeKind.FIXED else (change.new, change.old)
    return failed.observations >= FEWEST_FAILING and passed.observations >= FEWEST_CLEAN


_CONFIDENCE = {"confirmed": Confidence.CONFIRMED, "flaky": Confidence.FLAKY}


def _told(log: Changelog, change: VerdictChange, runs: Runs) -> VerdictChange:
    from tracker.records import confirmation

    own = runs.get((change.case, change.adapter), {})
    step = confirmation(change.kind is ChangeKind.FIXED, own.get(log.old, []), own.get(log.new, []))
    return replace(change, confidence=_CONFIDENCE.get(step.action, Confidence.OBSERVED))
