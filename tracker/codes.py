"""What the numbers mean that processes end with and that Windows calls return. Tables only; pure.

The tables are part of the judge's digest: whoever changes a meaning re-judges history.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracker.model import State

# Exit codes as unsigned 32-bit numbers, as Windows has them. The code is stable, its text is translated.
EXIT_CODES: Mapping[int, tuple[State, str]] = {
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

SIGNALS: Mapping[int, tuple[State, str]] = {
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
HRESULTS: Mapping[int, tuple[State, str]] = {
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


def known_hresult(text: str) -> int | None:
    """Return the code that a signed decimal or a hexadecimal number stands for, when the table has it."""
    # Longer than any 32-bit number: not a code, and int() refuses to convert thousands of digits.
    if len(text) > 12:
        return None
    number = int(text) & 0xFFFFFFFF if text.startswith("-") else int(text, 16)
    return number if number in HRESULTS else None
