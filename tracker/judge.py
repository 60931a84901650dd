"""Say what raw outcomes mean: one outcome gives a finding, the findings of a cell give a verdict.

Pure and total: every outcome a worker or the host can produce has a state here, and nowhere else. It must not
know where outcomes come from, nor read a file or a clock. What a code, a phrase or a number means stands in the
tables here and in ``codes``, ``numbers`` and ``pace``; the digest over them, ``JUDGE``, is stored with every
finding, so that a changed rule re-judges history.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suites.protocol import IMPORT_ERROR, NOT_JSON, SUITE_ERROR, TOO_LARGE
from tracker import numbers, pace, training, transcripts
from tracker.codes import EXIT_CODES, HRESULTS, SIGNALS, known_hresult
from tracker.model import Confidence, Ending, Finding, Outcome, State, Verdict
from tracker.texts import NORMALISERS, normalise, slug

_RULES = "2026-12-06.12"
"""Bumped by hand when code changes meaning, here or in the modules above; tables are in the digest by themselves."""

# What an exception says, first match wins; searched in "type: message", so a type can be named too.
_OURS: Sequence[tuple[str, State, str]] = (
    (r"No space left on device|\[Errno 28\]|\[WinError 112\]", State.INFRA, "disk-full"),
    (r"Too many open files|\[Errno 24\]", State.INFRA, "too-many-files"),
)
# How a case says that it can say nothing of the build: "no-device:no-adapter" (suites.context.Inconclusive).
_INCONCLUSIVE = (State.NO_DEVICE, State.NO_REFERENCE, State.SKIPPED, State.INFRA)
# Types that our worker gives when the case's measures can not be sent.
_OUR_TYPES: Mapping[str, str] = {NOT_JSON: "measures-not-json", TOO_LARGE: "result-too-large"}
_PHRASES: Sequence[tuple[str, State, str]] = (
    (r"^MemoryError\b|OutOfMemoryError\b", State.OOM, "out-of-memory"),
    (
        r"(?i)out of memory|not enough memory|(?:can't|cannot) allocate memory|bad_alloc",
        State.OOM,
        "out-of-memory",
    ),
)
_REFUSALS: Sequence[tuple[str, State, str]] = (
    (r"does not support Double", State.UNSUPPORTED, "no-float64"),
    (r"(?i)invalid or unsupported data type", State.UNSUPPORTED, "data-type"),
    (r"^NotImplementedError\b|(?i:not implemented for)", State.UNSUPPORTED, "not-implemented"),
    (r"Could not run '[^']*' with arguments from the", State.UNSUPPORTED, "not-implemented"),
    (r"Cannot set version_counter for inference tensor", State.UNSUPPORTED, "inference-mode"),
    (r"'memory_format' argument is must be Contiguous", State.UNSUPPORTED, "memory-format"),
    (r"don't know how to restore data location", State.UNSUPPORTED, "serialization"),
    (r"(?i)(?:is|are) not (?:currently |yet )?supported\b", State.UNSUPPORTED, "not-supported"),
    (r"(?i)\b(?:does not|doesn't) support\b", State.UNSUPPORTED, "not-supported"),
)

# What a case needs beside the build and this environment lacks, which says nothing of the build.
_MISSING = r"^ModuleNotFoundError: No module named '(?!torch|functorch)"

# What the backend says when it computes an operator on the CPU.
_FALLBACK = r"The operator '([^']+)' is not currently supported on the \w+ backend and will fall back to"

# --- one outcome -----------------------------------------------------------------------------------------


def find(outcome: Outcome, measures: Mapping[str, Any]) -> Finding:
    """Return what one attempt means, with a reason that is equal for equal causes."""
    found = _BY_ENDING[outcome.ending](outcome, measures)
    if outcome.ending is Ending.EXCEPTION and measures:
        found = _worse(found, _numeric(measures))
    return replace(found, message=normalise(found.message), judge=JUDGE)


def _completed(outcome: Outcome, measures: Mapping[str, Any]) -> Finding:
    """Return the worst thing that can be said of a result, in the order of what the words claim.

    What is proven wrong is wrong, whatever else lacks a reference: each check has its own. Without a reference
    nothing is known to be right, and ``fallback`` and ``slow`` would claim that. A fallback goes before slowness,
    which it explains; the message has both.
    """
    found, slow = _numeric(measures), _slow(measures)
    if found is None and measures.get("checks") == [] and not any(measures.get(key) for key in _EVIDENCE):
        found = Finding(State.INFRA, "nothing-compared", "the suite compared nothing")
    operators = ", ".join(_fallbacks(outcome.warnings))
    if found is None and slow is not None and slow.state is not State.SLOW:
        found = slow
    if found is None and operators:
        also = f"also {slow.reason}" if slow else ""
        found = Finding(State.FALLBACK, "cpu-fallback", _joined(operators, also))
    found = found or slow or Finding(State.PASS, "pass")
    # The interpreter can die while it shuts down, after the case was reported right: said, not counted.
    teardown = f"ended with code {outcome.exit_code} after the result" if outcome.exit_code else ""
    return replace(found, message=_joined(found.message, teardown))


_EVIDENCE = ("statistics", "claims", "training", "transcript")


def _worse(raised: Finding, before: Finding | None) -> Finding:
    """Return what was wrong before a case raised, if it was; what it raised otherwise."""
    if before is None or before.state is not State.WRONG:
        return raised
    return replace(before, message=_joined(before.message, f"then {raised.state}, {raised.reason}"))


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _numeric(measures: Mapping[str, Any]) -> Finding | None:
    """Return the worst of what a case's numbers, its training and its transcript say.

    Of two that are wrong, why a training goes astray says more than that one of its numbers is off.
    """
    transcript = measures.get("transcript")
    found = (
        _training(measures.get("training")),
        None if transcript is None else transcripts.diagnose(transcript),
        numbers.diagnose(measures),
    )
    return min(filter(None, found), key=_numeric_order, default=None)


def _training(sent: Any) -> Finding | None:
    if sent is None:
        return None
    if not isinstance(sent, dict):
        return numbers.unreadable(numbers.Unreadable("training is not an object"))
    said = training.diagnose(sent)
    return Finding(*said) if said else None


def _numeric_order(finding: Finding) -> tuple[bool, int]:
    return finding.state is not State.WRONG, finding.state.rank


def _slow(measures: Mapping[str, Any]) -> Finding | None:
    try:
        return pace.diagnose(measures)
    except numbers.Unreadable as problem:
        return numbers.unreadable(problem)


def _fallbacks(warnings: Sequence[str]) -> list[str]:
    """Return the sorted names of the operators that the backend said it computes on the CPU."""
    return sorted({name for text in warnings for name in re.findall(_FALLBACK, text)})


def _exception(outcome: Outcome, _: Mapping[str, Any]) -> Finding:
    sent, message = outcome.error_type, outcome.error_message
    state, colon, reason = sent.partition(":")
    if colon and state in _INCONCLUSIVE:
        return Finding(State(state), slug(reason), message)
    if sent in _OUR_TYPES:
        return Finding(State.INFRA, _OUR_TYPES[sent], message)
    kind = sent.removeprefix(IMPORT_ERROR).removeprefix(SUITE_ERROR).rpartition(".")[2]
    said = f"{kind}: {message}"
    if found := _look_up(_OURS, said):
        return Finding(*found, message)
    if sent.startswith(SUITE_ERROR):
        return Finding(State.INFRA, slug(f"suite-{kind}"), message)
    if sent.startswith(IMPORT_ERROR):
        return Finding(State.IMPORT_FAILED, slug(kind), message)
    if re.search(_MISSING, said):
        return Finding(State.SKIPPED, "missing-module", message)
    found = _look_up(_PHRASES, said) or _hresult(message) or _look_up(_REFUSALS, said)
    return Finding(*(found or (State.ERROR, slug(kind))), message)


def _look_up(table: Sequence[tuple[str, State, str]], text: str) -> tuple[State, str] | None:
    return next(((state, reason) for pattern, state, reason in table if re.search(pattern, text)), None)


_CODE = re.compile(r"(?<![\w.])-[12]\d{9}\b|\b(?:0x)?[89A-F][0-9A-F]{7}\b", re.IGNORECASE)


def _hresult(message: str) -> tuple[State, str] | None:
    numbers = (known_hresult(match.group()) for match in _CODE.finditer(message))
    return next((HRESULTS[number] for number in numbers if number is not None), None)


def _exited(outcome: Outcome, _: Mapping[str, Any]) -> Finding:
    code, said = outcome.exit_code, outcome.error_message
    if not code:
        return Finding(State.ERROR, "vanished", said or "the process ended without a result")
    if -256 < code < 0:
        return _signal(-code, outcome.oom_killed, said)
    # .NET and PowerShell show the same 32 bits signed.
    unsigned = code & 0xFFFFFFFF
    if unsigned in EXIT_CODES:
        return Finding(*EXIT_CODES[unsigned], said)
    if unsigned >= 0x80000000:
        return Finding(State.CRASH, f"ntstatus-{unsigned:08x}", said)
    return Finding(State.CRASH, f"exit-{unsigned}", said)


def _signal(number: int, oom_killed: bool, said: str) -> Finding:
    if number == 9 and oom_killed:
        return Finding(State.OOM, "oom-killed", said)
    return Finding(*SIGNALS.get(number, (State.CRASH, f"signal-{number}")), said)


def _no_environment(outcome: Outcome, _: Mapping[str, Any]) -> Finding:
    kind = outcome.error_type
    state = State.INFRA if kind.startswith("infra:") else State.UNINSTALLABLE
    return Finding(state, slug(kind.removeprefix("infra:")), outcome.error_message)


def _always(state: State, reason: str) -> Callable[[Outcome, Mapping[str, Any]], Finding]:
    return lambda outcome, _: Finding(state, reason, outcome.error_message)


_BY_ENDING: Mapping[Ending, Callable[[Outcome, Mapping[str, Any]], Finding]] = {
    Ending.COMPLETED: _completed,
    Ending.EXCEPTION: _exception,
    Ending.EXITED: _exited,
    Ending.TIMEOUT: _always(State.HANG, "timeout"),
    Ending.MEMORY_LIMIT: _always(State.OOM, "memory-limit"),
    Ending.GARBLED: _always(State.INFRA, "result-garbled"),
    Ending.NOT_STARTED: _always(State.INFRA, "not-started"),
    Ending.CANCELLED: _always(State.SKIPPED, "cancelled"),
    Ending.NO_ENVIRONMENT: _no_environment,
}


# --- the findings of a cell ------------------------------------------------------------------------------


SHARED, ALONE, REORDERED = 1, 2, 3
"""Attempts by their setting: in a process with other cases; alone in a fresh one; with others in another order."""
ROUNDS = 100
"""Attempts from this number on are rounds of a speed comparison, which are evidence and count towards no verdict."""

_PLACES = {
    SHARED: "in a process with other cases",
    ALONE: "alone in a fresh process",
    REORDERED: "in another order",
}
ORDER_DEPENDENT = "order-dependent"

_Seen = tuple[Finding, int, int]


def verdict(
    findings: Sequence[Finding], times: Sequence[int] | None = None, attempts: Sequence[int] | None = None
) -> Verdict:
    """Return what the findings of one cell, oldest first, mean together.

    ``times`` says how often each was seen, when equal findings were folded into one at its latest place;
    ``attempts`` in which setting: 1 in a process with other cases, 2 alone, 3 in another order. Without them all
    were seen once, in one setting.
    """
    counts = list(times) if times is not None else [1] * len(findings)
    settings = list(attempts) if attempts is not None else [SHARED] * len(findings)
    seen = [item for item in zip(findings, counts, settings, strict=True) if item[2] < ROUNDS]
    if not seen:
        return Verdict(State.NOT_RUN, "not-run", "", Confidence.OBSERVED, 0)
    counted = [item for item in seen if item[0].state.conclusive]
    if not counted:
        return _as_verdict(seen[-1][0], Confidence.OBSERVED, sum(count for _, count, _ in seen))
    total = sum(count for _, count, _ in counted)
    # min() keeps the first of equals, so the reversed order lets the latest message of the worst state speak.
    worst = min((finding for finding, _, _ in reversed(counted)), key=lambda finding: finding.state.rank)
    if len({_cause(finding) for finding, _, _ in counted}) == 1:
        return _as_verdict(worst, Confidence.OBSERVED, total)
    if worst.state is not State.SLOW and (message := _by_setting(counted, worst)):
        told = Finding(worst.state, ORDER_DEPENDENT, message)
        return _as_verdict(told, Confidence.OBSERVED, total)
    return _as_verdict(worst, Confidence.FLAKY, total)


def _cause(finding: Finding) -> tuple[State, str]:
    return finding.state, finding.reason


def _by_setting(counted: Sequence[_Seen], worst: Finding) -> str:
    """Say what each setting gives, when it is the same every time in each; else return nothing.

    How fast something is depends on what else runs and on the hour, so for what is merely slow this is not asked.
    """
    causes: dict[int, set[tuple[State, str]]] = {}
    for finding, _, attempt in counted:
        causes.setdefault(attempt, set()).add(_cause(finding))
    if len(causes) < 2 or any(len(found) > 1 for found in causes.values()):
        return ""
    parts = [
        f"{reason if state is not State.PASS else state} {_PLACES.get(attempt, f'at attempt {attempt}')}"
        for attempt, found in sorted(causes.items())
        for state, reason in found
    ]
    return normalise(": ".join(filter(None, (", ".join(parts), worst.message))))


def _as_verdict(finding: Finding, confidence: Confidence, observations: int) -> Verdict:
    return Verdict(finding.state, finding.reason, finding.message, confidence, observations)


def _digest() -> str:
    codes = [sorted((code, *map(str, row)) for code, row in table.items()) for table in _CODES]
    phrases = [tuple(map(str, row)) for table in (_OURS, _PHRASES, _REFUSALS) for row in table]
    patterns = [pattern for pattern, _ in NORMALISERS]
    said = (
        _RULES,
        codes,
        phrases,
        sorted(_OUR_TYPES.items()),
        _MISSING,
        _FALLBACK,
        patterns,
        numbers.RULES,
        pace.RULES,
        transcripts.RULES,
        training.RULES,
    )
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


_CODES = (EXIT_CODES, SIGNALS, HRESULTS)
JUDGE = _digest()
"""Who judges: a digest of every table and of the hand-bumped version of the rules."""
