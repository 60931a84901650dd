"""The ``recommend`` command: which build to use for what a person needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracker import console
from tracker.bug_views import one_bug, registry
from tracker.bugs import Bug
from tracker.errors import Exit, UsageError
from tracker.fixes import Sight
from tracker.home import Home
from tracker.model import State
from tracker.operator_runs import Works, nearest, search_text, works
from tracker.recommending import Choice, Cost, Need, recommend
from tracker.trackfile import Track

SHOWN = 3
"""Most cases that are named of one cost."""

Row = dict[str, object]


def recommend_command(
    home: Home, track: Track, *, bugs: Sequence[str], ops: Sequence[str], suites: Sequence[str], json: bool
) -> Exit:
    """Rank the builds of a track; exit 5 where nothing is known of any."""
    if not (bugs or ops or suites):
        raise UsageError(
            "nothing was said that a build must do",
            hint="for instance: --bugs 364,739 --ops layer_norm --suites vit",
        )
    needs = _needs(home, track, bugs, ops, suites)
    builds = [build.version for build in home.builds(track.name)]
    choices = [choice for choice in recommend(builds, needs) if choice.known]
    if json:
        console.say(console.as_json({"adapters": sorted(_adapters(needs)), "choices": choices}))
    elif choices:
        _say(choices)
    if choices:
        return Exit.OK
    console.note(
        "nothing is known of any build for this on this machine; 'dmltrack run --builds all' measures it"
    )
    return Exit.INCONCLUSIVE


def _needs(
    home: Home, track: Track, bugs: Sequence[str], ops: Sequence[str], suites: Sequence[str]
) -> list[Need]:
    every = registry(home) if bugs else ()
    reports = [one_bug(text, every) for text in bugs]
    operators = {name: _operators(home, track, name) for name in ops}
    rows = home.store.query(
        "needed_verdicts",
        track=track.name,
        machine=home.fingerprint,
        suites=list(suites),
        operators=sorted(set().union(*operators.values())),
        cases=[bug.case for bug in reports if bug.case],
    )
    needs = [Need(bug.id, _seen((row for row in rows if row["case_id"] == bug.case), bug)) for bug in reports]
    for name, meant in operators.items():
        own = (
            row for row in rows if row["suite"] == "operators" and str(row["case_id"]).split("/")[1] in meant
        )
        needs.append(Need(f"operator {name}", _seen(own)))
    needs += [Need(f"suite {name}", _seen(row for row in rows if row["suite"] == name)) for name in suites]
    return needs


def _operators(home: Home, track: Track, name: str) -> set[str]:
    text = search_text(name)
    rows = home.store.query("operator_verdicts", track=track.name, text=text)
    return nearest(text, {row["case_id"].split("/")[1] for row in rows})


def _seen(rows: Iterable[Row], bug: Bug | None = None) -> dict[str, dict[str, Sight]]:
    found: dict[str, dict[str, Sight]] = {}
    for row in rows:
        state = State(str(row["state"]))
        if state is not State.SKIPPED:  # a case that does not apply here is no need
            place = f"{row['case_id']} on {row['adapter']}"
            found.setdefault(str(row["version"]), {})[place] = _sight(state, bug)
    return found


def _sight(state: State, bug: Bug | None) -> Sight:
    if bug is not None and state in bug.good:
        return Sight.GOOD
    kinds = {Works.RIGHT: Sight.GOOD, Works.FALLBACK: Sight.PARTIAL, Works.UNKNOWN: Sight.UNKNOWN}
    return kinds.get(works(state), Sight.BAD)


def _adapters(needs: Sequence[Need]) -> set[str]:
    return {case.partition(" on ")[2] for need in needs for case in need.all_cases}


def _say(choices: Sequence[Choice]) -> None:
    for place, choice in enumerate(choices):
        met = f"meets {', '.join(choice.met)}" if choice.met else "meets nothing of it whole"
        costs = "".join(f"; {_cost(cost)}" for cost in choice.costs)
        console.say(f"{'  ' if place else 'use '}{choice.version}: {met}{costs}")


def _cost(cost: Cost) -> str:
    if not cost.cases:
        return f"{cost.need}: nothing was run"
    parts = []
    if cost.bad:
        names = ", ".join(case.partition(" on ")[0] for case in cost.bad[:SHOWN])
        parts.append(
            f"{len(cost.bad)} of {cost.cases} bad ({names}{', ...' if len(cost.bad) > SHOWN else ''})"
        )
    if cost.partial:
        parts.append(f"{len(cost.partial)} of {cost.cases} computed on the CPU")
    if cost.unknown:
        parts.append(f"{cost.unknown} of {cost.cases} not known")
    return f"{cost.need}: {', '.join(parts)}"
