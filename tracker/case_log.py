"""Cuts the output of one worker into its cases while it comes, in bounded memory. Knows marks and nothing else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

from suites import protocol
from tracker.process import BoundedLog

MARK_PATIENCE = 0.5
"""Seconds to wait for a case's output after its result: they come by different ways."""


class CaseLog:
    """The output of a worker, cut into its cases as it comes, each kept within bounds.

    A cut is made at a mark with the worker's nonce that names a case still to come, and at no other: a case
    can print what it likes. The text between cases is kept under the empty name.
    """

    def __init__(self, nonce: str, cases: Iterable[str], size: int) -> None:
        self._begin = protocol.mark(nonce, "").encode()
        self._due = list(cases)
        self._size = size
        self._case = ""
        self._sections = {"": BoundedLog(size)}
        self._rest = b""
        self._closed = False
        self._turn = threading.Condition()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        with self._turn:
            self._rest += data
            while (at := self._rest.find(self._begin)) >= 0 and (end := self._rest.find(b"\n", at)) >= 0:
                self._put(self._rest[:at])
                self._cut(self._rest[at : end + 1])
                self._rest = self._rest[end + 1 :]
            self._put_safe(at)

    def close(self) -> None:
        """There is no more to come."""
        with self._turn:
            self._put(self._rest)
            self._rest, self._closed = b"", True
            self._turn.notify_all()

    def _put(self, data: bytes) -> None:
        self._sections[self._case].feed(data)

    def _put_safe(self, at: int) -> None:
        """Pass on what cannot be the beginning of a mark."""
        if at < 0:
            at = self._rest.rfind(b"\x1e", -len(self._begin))
        if at < 0 or len(self._rest) - at > protocol.MAX_TEXT:
            at = len(self._rest)
        self._put(self._rest[:at])
        self._rest = self._rest[at:]

    def _cut(self, mark: bytes) -> None:
        case = mark[len(self._begin) : -1].decode("utf-8", "replace")
        if case == "" and self._case:
            self._case = ""
            self._turn.notify_all()
        elif case in self._due:
            del self._due[: self._due.index(case) + 1]
            self._case = case
            self._sections[case] = BoundedLog(self._size)
        else:
            self._put(mark)

    def take(self, case: str, patience: float = MARK_PATIENCE) -> str:
        """Return a case's text, and forget it; wait a moment for the mark that ends it."""
        with self._turn:
            if case:
                self._turn.wait_for(lambda: self._is_over(case), patience)
            log = self._sections.get(case)
            if case and case != self._case:
                self._sections.pop(case, None)
            return log.text() if log is not None else ""

    def _is_over(self, case: str) -> bool:
        return self._closed or (case != self._case and case not in self._due)

    def text(self) -> str:
        """Return what stands between the cases."""
        return self._sections[""].text()

    @property
    def dropped(self) -> int:
        """How many bytes were not kept, of the sections still here."""
        return sum(section.dropped for section in self._sections.values())


_WARNING = re.compile(
    r"^\[W.{0,80}?\] Warning: (The operator '[^']{1,200}' is not currently supported[^\n]{1,300})",
    re.MULTILINE,
)


def warnings_in(log: str) -> list[str]:
    """Return the backend's words on operators that it computes on the CPU, where they went past Python into the log.

    torch prints a warning by itself when no Python code is under way, as in a call of ``torch.ops``.
    """
    return list(dict.fromkeys(match.group(1).strip() for match in _WARNING.finditer(log)))
