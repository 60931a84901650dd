"""What ``uv`` says when it fails: the reason in one line, and whether it says anything about the build.

Knows uv's words and the systems' error numbers, and nothing of what uv was asked to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tracker.config import without_login

UNREACHABLE = "index-unreachable"

_FULL, _FAILED, _DENIED, _IN_USE = "disk-full", "disk-failed", "permission-denied", "file-in-use"
_LONG, _MEMORY = "path-too-long", "out-of-memory"
_POSIX_CODES: Mapping[int, str] = {
    **dict.fromkeys((28, 122), _FULL),
    **dict.fromkeys((1, 13, 30), _DENIED),
    5: _FAILED,
    12: _MEMORY,
    26: _IN_USE,
    36: _LONG,
    **dict.fromkeys((32, 99, 100, 101, 103, 104, 110, 111, 112, 113), UNREACHABLE),
}
_WINDOWS_CODES: Mapping[int, str] = {
    **dict.fromkeys((39, 112), _FULL),
    **dict.fromkeys((5, 19), _DENIED),
    **dict.fromkeys((32, 33, 1224), _IN_USE),
    206: _LONG,
    **dict.fromkeys((23, 1117), _FAILED),
    **dict.fromkeys((8, 14, 1455), _MEMORY),
    **dict.fromkeys((*range(10050, 10066), *range(11001, 11005)), UNREACHABLE),
}
"""The system's own numbers: its words come in the language of the user."""

_OUTSIDE: Mapping[str, str] = {
    "No space left on device": _FULL,
    "not enough space": _FULL,
    "Permission denied": _DENIED,
    "Access is denied": _DENIED,
    "Network connectivity is disabled": UNREACHABLE,
    "Failed to fetch": UNREACHABLE,
    "Failed to download": UNREACHABLE,
    "error sending request": UNREACHABLE,
    "certificate": UNREACHABLE,
    "dns error": UNREACHABLE,
    "tunnel error": UNREACHABLE,
    "Connection re": UNREACHABLE,
    "timed out": UNREACHABLE,
}

_INSIDE: Mapping[str, str] = {
    "no wheels with a matching": "no-wheel",
    "was not found in the package registry": "not-on-index",
    "No solution found": "no-solution",
    "Failed to build": "build-failed",
}

_CODE = re.compile(r"\(os error (\d+)\)")
_REFUSED = re.compile(
    r"(?:HTTP status (?:server|client) error \(|An index \(\S+\) returned an? "
    r"|An index URL \(\S+\) could not be queried [a-z ]*\()(\d{3})\b"
)
_PASSING = frozenset({401, 403, 407, 408, 425, 429, *range(500, 600)})


def uv_reason(output: str) -> str:
    """Return uv's own reason in one line: its error and the causes under it, without logins.

    Hints are left out, but for that of an index which refused: it is the cause.
    """
    parts: list[str] = []
    for line in output.splitlines():
        text = line.strip()
        if line.startswith("error: "):
            parts = [text.removeprefix("error: ")]
        elif text.startswith(("cause: ", "Caused by: ")) and parts:
            parts.append(text.partition(": ")[2])
        elif text.startswith(("hint: An index (", "hint: An index URL (")) and parts:
            parts.append(text.removeprefix("hint: "))
        elif text.startswith("hint: "):
            break
    if not parts:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        parts = lines[-1:] or ["uv failed and gave no reason"]
    return without_login(": ".join(parts))[:500]


def classify(reason: str, *, windows: bool = os.name == "nt") -> tuple[str, bool]:
    """Return the stable slug of uv's reason, and whether it says nothing about the build. Pure.

    Numbers go before words: the system's own words are in the user's language.
    """
    if "Hash mismatch" in reason:
        return "hash-mismatch", False
    codes = _WINDOWS_CODES if windows else _POSIX_CODES
    slugs = [codes[number] for found in _CODE.findall(reason) if (number := int(found)) in codes]
    if not slugs and any(int(status) in _PASSING for status in _REFUSED.findall(reason)):
        slugs = [UNREACHABLE]
    slugs += [slug for text, slug in _OUTSIDE.items() if text in reason]
    if slugs:
        return slugs[0], True
    return next((slug for text, slug in _INSIDE.items() if text in reason), "install-failed"), False
