"""The ``rejudge`` command: brings the database under today's rules, and says what that changes."""

from __future__ import annotations

from tracker import console
from tracker.home import FRESH_WAIT, Home
from tracker.model import Observation
from tracker.rejudging import Rejudged, Shift, rejudge

MOST = 40
"""Cells that are shown by name; JSON has all."""


def rejudge_command(home: Home, *, check: bool, json: bool) -> None:
    """Say what today's rules change; unless that is all that is asked (``check``), make them hold."""
    found = rejudge(home.journal.read({Observation}))
    if not check:
        home.store.refresh(FRESH_WAIT)
    if json:
        return console.say(console.as_json({**_data(found), "checked_only": check}))
    for line in lines(found):
        console.say(line)
    if check and found.foreign:
        return console.note(
            "nothing was changed; without --check, or with the next question, these rules hold"
        )
    return console.note("the database follows today's rules")


def _data(found: Rejudged) -> dict[str, object]:
    return {name: getattr(found, name) for name in found.__dataclass_fields__}


def lines(found: Rejudged) -> list[str]:
    """Return it for a terminal."""
    head = f"{found.observations} observations of {found.cells} cells, {found.foreign} judged by other rules before"
    return [
        head,
        f"{found.changed} findings mean something else now",
        *map(_line, found.findings),
        f"{len(found.turned)} verdicts change",
        *map(_line, found.verdicts),
        *(f"    {turn.cell.version}  {turn.cell.case}  {turn.cell.adapter}" for turn in found.turned[:MOST]),
        *([f"    and {len(found.turned) - MOST} more (--json has all)"] if len(found.turned) > MOST else []),
    ]


def _line(shift: Shift) -> str:
    confidence = "" if shift.old != shift.new else " (another confidence)"
    return f"  {shift.count:>6}  {shift.old} -> {shift.new}{confidence}"
