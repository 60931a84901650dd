"""Say what raw outcomes mean: one outcome gives a finding, the findings of a cell give a verdict.

Pure and total: every outcome a worker or the host can produce has a state here, and nowhere else. It must not
know where outcomes come from, nor read a file or a clock. What a code or a phrase means stands in the tables
at the top; the digest over them, ``JUDGE``, is stored with every finding, so that a changed rule re-judges
history.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suites.protocol import IMPORT_ERROR, NOT_JSON, SUITE_ERROR, TOO_LARGE
from tracker.model import Confidence, Ending, Finding, Outcome, State, Verdict

_RULES = "2026-12-01.2"
"""Bumped by hand when the code below changes meaning; the tables are in the digest by themselves."""

MAX_MESSAGE = 300

# Exit codes as unsigned 32-bit numbers, as Windows has them. The code is stable, its text is translated.
_EXIT_CODES: Mapping[int, tuple[State, str]] = {
    0xC0000005: (State.CRASH, "access-violation"),
    0xC00000FD: (State.CRASH, "stack-overflow"),
    0xC0000374: (State.CRASH, "heap-corruption"),
    0xC0000409: (State.CRASH, "fail-fast"),
    # Most often the host's CPU is older than the build's code, so the reason names the host.
    0xC000001D: (State.CRASH, "host-cpu-illegal-instruction"),
    0xC0000094: (State.CRASH, "division-by-zero"),
    0xC0000006: (State.INFRA, "page-unreadable"),
    0xC0000417: (State.CRASH, "bad-crt-argument"),
    0x80000003: (State.CRASH, "breakpoint"),
    0xE06D7363: (State.CRASH, "cpp-exception"),
    0xC0000017: (State.OOM, "no-memory"),
    0xC000012D: (State.OOM, "commit-limit"),
    # These four come before the interpreter runs: a DLL missing inside an import is an OSError instead.
    0xC0000135: (State.INFRA, "dll-missing"),
    0xC0000139: (State.INFRA, "entry-point-missing"),
    0xC000007B: (State.INFRA, "wrong-architecture"),
    0xC0000142: (State.INFRA, "dll-start-failed"),
    0xC000013A: (State.SKIPPED, "console-closed"),
    0x40010004: (State.INFRA, "session-ended"),
    # Also what a kill from outside gives on Windows, and uv's launcher when it fails: it convicts nobody.
    1: (State.INFRA, "exit-1"),
    # abort() without error reporting on Windows; elsewhere somebody's own exit, as bad.
    3: (State.CRASH, "exit-3"),
}

_SIGNALS: Mapping[int, tuple[State, str]] = {
    1: (State.INFRA, "sighup"),
    2: (State.INFRA, "sigint"),
    3: (State.CRASH, "sigquit"),
    4: (State.CRASH, "sigill"),
    5: (State.CRASH, "sigtrap"),
    6: (State.CRASH, "sigabrt"),
    7: (State.CRASH, "sigbus"),
    8: (State.CRASH, "sigfpe"),
    # Out of memory when the kernel says so (``oom_killed``); without its word, somebody outside did it.
    9: (State.INFRA, "sigkill"),
    11: (State.CRASH, "sigsegv"),
    13: (State.CRASH, "sigpipe"),
    15: (State.INFRA, "sigterm"),
    24: (State.INFRA, "sigxcpu"),
    25: (State.INFRA, "sigxfsz"),
    31: (State.CRASH, "sigsys"),
}

# Results of Windows calls; the backend prints them as signed decimals without any text.
_HRESULTS: Mapping[int, tuple[State, str]] = {
    0x8007000E: (State.OOM, "out-of-memory"),
    0x887A0005: (State.DEVICE_LOST, "device-removed"),
    0x887A0006: (State.DEVICE_LOST, "device-hung"),
    0x887A0007: (State.DEVICE_LOST, "device-reset"),
    0x887A0020: (State.DEVICE_LOST, "driver-internal-error"),
    0x887A0022: (State.INFRA, "not-currently-available"),
    0x887A0028: (State.INFRA, "session-disconnected"),
    0x887A0004: (State.UNSUPPORTED, "dxgi-unsupported"),
    0x80004001: (State.UNSUPPORTED, "not-implemented"),
    0x887A0001: (State.ERROR, "invalid-call"),
    0x80070057: (State.ERROR, "invalid-argument"),
    0x80004002: (State.ERROR, "no-interface"),
    0x80004005: (State.ERROR, "unspecified-failure"),
    0x80070005: (State.ERROR, "access-denied"),
    0x8000FFFF: (State.ERROR, "unexpected-failure"),
}

# What an exception says, first match wins; searched in "type: message", so a type can be named too.
_OURS: Sequence[tuple[str, State, str]] = (
    (r"No space left on device|\[Errno 28\]|\[WinError 112\]", State.INFRA, "disk-full"),
    (r"Too many open files|\[Errno 24\]", State.INFRA, "too-many-files"),
)
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

# What the backend says when it computes an operator on the CPU.
_FALLBACK = r"The operator '([^']+)' is not currently supported on the \w+ backend and will fall back to"

# --- one outcome -----------------------------------------------------------------------------------------


def find(outcome: Outcome, measures: Mapping[str, Any]) -> Finding:
    """Return what one attempt means, with a reason that is equal for equal causes."""
    found = _BY_ENDING[outcome.ending](outcome, measures)
    return replace(found, message=normalise(found.message), judge=JUDGE)


def _completed(outcome: Outcome, _: Mapping[str, Any]) -> Finding:
    # Numeric judging (limits, shapes, noise of the reference, speed) belongs here, before the fallback.
    code = outcome.exit_code
    # The interpreter can die while it shuts down, after the case was reported right: said, not counted.
    teardown = f"ended with code {code} after the result" if code else ""
    if operators := _fallbacks(outcome.warnings):
        said = "; ".join(filter(None, (", ".join(operators), teardown)))
        return Finding(State.FALLBACK, "cpu-fallback", said)
    return Finding(State.PASS, "pass", teardown)


def _fallbacks(warnings: Sequence[str]) -> list[str]:
    """Return the sorted names of the operators that the backend said it computes on the CPU."""
    return sorted({name for text in warnings for name in re.findall(_FALLBACK, text)})


def _exception(outcome: Outcome, _: Mapping[str, Any]) -> Finding:
    sent, message = outcome.error_type, outcome.error_message
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
    found = _look_up(_PHRASES, said) or _hresult(message) or _look_up(_REFUSALS, said)
    return Finding(*(found or (State.ERROR, slug(kind))), message)


def _look_up(table: Sequence[tuple[str, State, str]], text: str) -> tuple[State, str] | None:
    return next(((state, reason) for pattern, state, reason in table if re.search(pattern, text)), None)


_CODE = re.compile(r"(?<![\w.])-[12]\d{9}\b|\b(?:0x)?[89A-F][0-9A-F]{7}\b", re.IGNORECASE)


def _known_hresult(text: str) -> int | None:
    """Return the code that a signed decimal or a hexadecimal number stands for, when the table has it."""
    # Longer than any 32-bit number: not a code, and int() refuses to convert thousands of digits.
    if len(text) > 12:
        return None
    number = int(text) & 0xFFFFFFFF if text.startswith("-") else int(text, 16)
    return number if number in _HRESULTS else None


def _hresult(message: str) -> tuple[State, str] | None:
    numbers = (_known_hresult(match.group()) for match in _CODE.finditer(message))
    return next((_HRESULTS[number] for number in numbers if number is not None), None)


def _exited(outcome: Outcome, _: Mapping[str, Any]) -> Finding:
    code, said = outcome.exit_code, outcome.error_message
    if not code:
        return Finding(State.ERROR, "vanished", said or "the process ended without a result")
    if -256 < code < 0:
        return _signal(-code, outcome.oom_killed, said)
    # .NET and PowerShell show the same 32 bits signed.
    unsigned = code & 0xFFFFFFFF
    if unsigned in _EXIT_CODES:
        return Finding(*_EXIT_CODES[unsigned], said)
    if unsigned >= 0x80000000:
        return Finding(State.CRASH, f"ntstatus-{unsigned:08x}", said)
    return Finding(State.CRASH, f"exit-{unsigned}", said)


def _signal(number: int, oom_killed: bool, said: str) -> Finding:
    if number == 9 and oom_killed:
        return Finding(State.OOM, "oom-killed", said)
    return Finding(*_SIGNALS.get(number, (State.CRASH, f"signal-{number}")), said)


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


def verdict(findings: Sequence[Finding], times: Sequence[int] | None = None) -> Verdict:
    """Return what the findings of one cell, oldest first, mean together.

    ``times`` says how often each was seen, when equal findings were folded into one at its latest place.
    """
    counts = list(times) if times is not None else [1] * len(findings)
    seen = list(zip(findings, counts, strict=True))
    if not seen:
        return Verdict(State.NOT_RUN, "not-run", "", Confidence.OBSERVED, 0)
    counted = [(finding, count) for finding, count in seen if finding.state.conclusive]
    if not counted:
        return _as_verdict(seen[-1][0], Confidence.OBSERVED, sum(counts))
    total = sum(count for _, count in counted)
    causes = {(finding.state, finding.reason) for finding, _ in counted}
    # min() keeps the first of equals, so the reversed order lets the latest message of the worst state speak.
    worst = min((finding for finding, _ in reversed(counted)), key=lambda finding: finding.state.rank)
    return _as_verdict(worst, Confidence.OBSERVED if len(causes) == 1 else Confidence.FLAKY, total)


def _as_verdict(finding: Finding, confidence: Confidence, observations: int) -> Verdict:
    return Verdict(finding.state, finding.reason, finding.message, confidence, observations)


# --- texts -----------------------------------------------------------------------------------------------


def slug(text: str) -> str:
    """Return the text as a reason: lower case words of ASCII with hyphens, ``OSError`` -> ``os-error``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", text)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].rstrip("-") or "unknown"


def _unless_known(placeholder: str) -> Callable[[re.Match[str]], str]:
    """Return a replacement that keeps the numbers whose meaning is known, however they are written."""
    return lambda match: match.group() if _known_hresult(match.group()) is not None else placeholder


_ROOTS = r"(?:(?<![\w.>])/(?:tmp|var|home|root|Users|private|mnt|run)/|\b[A-Za-z]:[\\/])"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NORMALISERS: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (
    (r"(?:\b[A-Za-z]:)?[\\/][^\s'\":*?<>|]*[\\/](?=(?:site|dist)-packages[\\/])", "<path>/"),
    (_ROOTS + r"[^\s'\":*?<>|,;)\]]*", "<path>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?|\b\d\d:\d\d:\d\d\.\d+", "<time>"),
    (r"(?<=Unknown error )-?\d+", _unless_known("<code>")),
    (r"\b0x[0-9A-Fa-f]+", _unless_known("<address>")),
    (rf"(?i)\b(?:[0-9a-f]{{16,}}|{_UUID})\b", "<hex>"),
    (r"(?<![\w.])-[12]\d{9}\b|\b(?i:[89A-F][0-9A-F]{7})\b", _unless_known("<code>")),
    (r"(?i)\b(pid|tid|process|thread)([ =:#]+)\d+\b", r"\1\2<id>"),
    (r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|min|minutes?)\b", "<time>"),
    (r"\b\d+(?:\.\d+)? ?(?:bytes|[KMGT]i?B)\b", "<size>"),
    (r"\s+", " "),
)


def normalise(message: str) -> str:
    """Return the message without what differs from run to run, on one line of at most 300 characters.

    Addresses, process ids, temporary and home paths, moments, durations, sizes and unknown error numbers go;
    shapes, operators and the HRESULTs that have a meaning stay. Doing it twice changes nothing.
    """
    # Cutting or joining can make a new match, so it goes on until nothing changes; every pass that changes
    # something takes digits, separators or length away, hence it ends.
    while (shorter := _pass(message)) != message:
        message = shorter
    return message


def _pass(text: str) -> str:
    for pattern, replacement in _NORMALISERS:
        text = re.sub(pattern, replacement, text)
    return text.strip()[:MAX_MESSAGE].strip()


def _digest() -> str:
    codes = [sorted((code, *map(str, row)) for code, row in table.items()) for table in _CODES]
    phrases = [tuple(map(str, row)) for table in (_OURS, _PHRASES, _REFUSALS) for row in table]
    patterns = [pattern for pattern, _ in _NORMALISERS]
    said = (_RULES, codes, phrases, sorted(_OUR_TYPES.items()), _FALLBACK, patterns)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


_CODES = (_EXIT_CODES, _SIGNALS, _HRESULTS)
JUDGE = _digest()
"""Who judges: a digest of every table and of the hand-bumped version of the rules."""
