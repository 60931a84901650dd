"""Texts by which equal causes are known: slugs for reasons, and messages without what differs per run. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tracker.codes import known_hresult

MAX_MESSAGE = 300


def slug(text: str) -> str:
    """Return the text as a reason: lower case words of ASCII with hyphens, ``OSError`` -> ``os-error``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", text)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].rstrip("-") or "unknown"


def _unless_known(placeholder: str) -> Callable[[re.Match[str]], str]:
    """Return a replacement that keeps the numbers whose meaning is known, however they are written."""
    return lambda match: match.group() if known_hresult(match.group()) is not None else placeholder


_ROOTS = r"(?:(?<![\w.>])/(?:tmp|var|home|root|Users|private|mnt|run)/|\b[A-Za-z]:[\\/])"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NORMALISERS: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (
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
    for pattern, replacement in NORMALISERS:
        text = re.sub(pattern, replacement, text)
    return text.strip()[:MAX_MESSAGE].strip()
