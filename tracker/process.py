"""Starts a program and answers for its whole process tree: limits, output, and that nothing of it is left.

The systems differ behind ``Tree``; what happens when is decided here, by ``Watch``, which touches nothing.
What a program is for, and what its output means, is not known here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol, Self
from urllib.parse import urlsplit

MEMORY_EVERY = 0.25
"""Seconds between two looks at a tree's memory."""

TICK = 0.02
"""Seconds between two looks at whether a program has ended."""


class Cause(StrEnum):
    """Why a program is no longer running."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory-limit"
    STOPPED = "stopped"
    NOT_STARTED = "not-started"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tree may take: seconds in all, resident bytes; None is no limit.

    Of the output the first and the last ``log`` bytes are kept. ``patience`` is how many seconds a tree has
    to die before it is said that it would not.
    """

    seconds: float | None = None
    memory: int | None = None
    log: int = 64 * 1024
    patience: float = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    ``exit_code`` is its own (negative is a signal on POSIX, an NTSTATUS is above 2**31 on Windows); None when
    we killed it. ``left`` are the processes that it left behind and we killed, ``undead`` those that would
    not die. ``peak_memory`` is in bytes, ``dropped`` counts bytes of output that were not kept.
    """

    cause: Cause
    exit_code: int | None = None
    seconds: float = 0.0
    peak_memory: int = 0
    oom_killed: bool = False
    left: tuple[int, ...] = ()
    undead: tuple[int, ...] = ()
    log: str = ""
    dropped: int = 0
    error: str = ""


class Step(StrEnum):
    """What to do next with a tree that has to go."""

    AGAIN = "again"
    GONE = "gone"
    UNDEAD = "undead"


@dataclass(slots=True)
class Watch:
    """Decides when a tree has to die and when to give up killing it. Pure: it is told the time."""

    limits: Limits
    started: float
    cause: Cause | None = None
    dying_since: float = 0.0

    def see(self, now: float, *, exited: bool, memory: int) -> Cause | None:
        """Return why the tree has to end, or None when it may go on. The first cause stands."""
        if self.cause is None:
            if exited:
                self.condemn(Cause.EXITED, now)
            elif self.limits.memory is not None and memory > self.limits.memory:
                self.condemn(Cause.MEMORY_LIMIT, now)
            elif self.limits.seconds is not None and now - self.started > self.limits.seconds:
                self.condemn(Cause.TIMEOUT, now)
        return self.cause

    def condemn(self, cause: Cause, now: float) -> None:
        """Decide that the tree has to go."""
        if self.cause is None:
            self.cause, self.dying_since = cause, now

    def dying(self, now: float, alive: int) -> Step:
        """Return whether to kill once more."""
        if not alive:
            return Step.GONE
        return Step.UNDEAD if now - self.dying_since > self.limits.patience else Step.AGAIN


class Sink(Protocol):
    """What takes the output of a program."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""

    def close(self) -> None:
        """There is no more to come."""

    def text(self) -> str:
        """Return what was kept."""

    @property
    def dropped(self) -> int:
        """How many bytes were not kept."""


class BoundedLog:
    """Keeps the first and the last bytes of an endless output, in fixed memory, and counts the rest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._head = bytearray()
        self._tail = bytearray()
        self._taken = 0
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        with self._lock:
            self._taken += len(data)
            room = self._size - len(self._head)
            self._head += data[:room]
            self._tail += data[max(room, len(data) - self._size) :]
            if len(self._tail) > 2 * self._size:
                del self._tail[: -self._size]

    def close(self) -> None:
        """There is no more to come."""

    @property
    def dropped(self) -> int:
        """How many bytes were not kept."""
        return max(0, self._taken - len(self._head) - min(len(self._tail), self._size))

    def text(self) -> str:
        """Return the kept bytes as text, with a line between where some are missing."""
        with self._lock:
            head, tail = bytes(self._head), bytes(self._tail[-self._size :] if self._size else b"")
            missing = self.dropped
        if not missing:
            return decoded(head + tail)
        return f"{decoded(head)}\n... {missing} bytes left out ...\n{decoded(tail)}"


def decoded(data: bytes) -> str:
    """Return any bytes as text; what is not UTF-8 is written as ``\\x..``."""
    return data.decode("utf-8", "backslashreplace")


class Tree(Protocol):
    """The seam: what either system must be able to do with a process tree."""

    pid: int

    @property
    def output(self) -> IO[bytes]:
        """The read end of its stdout and stderr."""

    def exit_code(self) -> int | None:
        """Return the root's exit code, None while it runs."""

    def memory(self) -> int:
        """Return the resident bytes of all members."""

    def peak(self) -> int:
        """Return the most bytes it had."""

    def alive(self) -> tuple[int, ...]:
        """Return the members that are not dead yet."""

    def kill(self) -> None:
        """Kill all members that can be found now."""

    def oom_killed(self) -> bool:
        """Whether the kernel has killed for want of memory since the start."""

    def close(self) -> None:
        """Give back what the system lent us."""


def start_tree(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, nonce: str, hold_stdin: bool
) -> Tree:
    """Start a program in a tree of its own; raise OSError when it cannot be started."""
    if sys.platform == "win32":
        from tracker.process_windows import WindowsTree

        return WindowsTree(command, env, cwd, nonce, hold_stdin)
    else:  # noqa: RET505 - a type checker understands this form on either system
        from tracker.process_posix import PosixTree

        return PosixTree(command, env, cwd, nonce, hold_stdin)


class Process:
    """One running program. Used with ``with``: whatever happens inside, nothing is left of it afterwards.

    On Linux a worker asks to be killed when the *thread* that started it ends, so the thread that makes a
    Process has to stay until it is over.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        limits: Limits,
        sink: Sink | None = None,
        hold_stdin: bool = False,
    ) -> None:
        self._limits = limits
        self._sink = sink or BoundedLog(limits.log)
        self._tree = start_tree(command, env, cwd, secrets.token_hex(16), hold_stdin)
        self._watch = Watch(limits, time.monotonic())
        self._memory = 0
        self._look = self._watch.started
        self._ended: Ended | None = None
        self._drain = threading.Thread(target=self._read, name="output", daemon=True)
        self._drain.start()

    @property
    def pid(self) -> int:
        """The process id of the program (on Windows: of a venv's launcher)."""
        return self._tree.pid

    @property
    def memory(self) -> int:
        """The resident bytes of the tree at the last look."""
        return self._memory

    @property
    def peak(self) -> int:
        """The most bytes that the tree was seen to have."""
        return self._tree.peak()

    def check(self) -> Cause | None:
        """Look once, without waiting: None while the program may go on."""
        now = time.monotonic()
        if now >= self._look:
            self._memory, self._look = self._tree.memory(), now + MEMORY_EVERY
        return self._watch.see(now, exited=self._tree.exit_code() is not None, memory=self._memory)

    def end(self, cause: Cause) -> Ended:
        """Kill all of the tree, wait until it is gone or for our patience, and say how it ended."""
        if self._ended is None:
            self._watch.condemn(cause, time.monotonic())
            self._ended = self._finish()
        return self._ended

    def _finish(self) -> Ended:
        code = self._tree.exit_code()
        left = self._tree.alive() if code is not None else ()
        undead = self._kill_all()
        self._drain.join(timeout=1.0)
        ended = Ended(
            cause=self._watch.cause or Cause.STOPPED,
            exit_code=code,
            seconds=time.monotonic() - self._watch.started,
            peak_memory=self._tree.peak(),
            oom_killed=code == -getattr(signal, "SIGKILL", 9) and self._tree.oom_killed(),
            left=left,
            undead=undead,
            log=self._sink.text(),
            dropped=self._sink.dropped,
        )
        self._tree.close()
        return ended

    def _kill_all(self) -> tuple[int, ...]:
        pause = 0.001
        while True:
            self._tree.kill()
            alive = self._tree.alive()
            if self._watch.dying(time.monotonic(), len(alive)) is not Step.AGAIN:
                return alive
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._tree.output as pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                self._sink.feed(data)
        self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(Cause.STOPPED)


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    limits: Limits,
    on_tick: Callable[[], object] | None = None,
) -> Ended:
    """Run a program to its end within limits. ``on_tick`` is called often; it stops the program with True."""
    try:
        process = Process(command, env=env, cwd=cwd, limits=limits)
    except (OSError, ValueError) as error:
        return Ended(Cause.NOT_STARTED, error=str(error))
    with process:
        while (cause := process.check()) is None:
            if on_tick is not None and on_tick() is True:
                return process.end(Cause.STOPPED)
            time.sleep(TICK)
        return process.end(cause)


_ALLOWED = {
    *("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "NUMBER_OF_PROCESSORS"),
    *("LOCALAPPDATA", "APPDATA", "USERPROFILE", "USERNAME", "PROGRAMDATA", "ALLUSERSPROFILE"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES"),
}
_ALLOWED_BEGINNINGS = ("LC_", "PROCESSOR_")
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def clean_environment(
    extra: Mapping[str, str],
    source: Mapping[str, str] = os.environ,
    home: Path | None = None,
    *,
    windows: bool = os.name == "nt",
) -> dict[str, str]:
    """Return what a program of ours gets to see of the environment: an allow-list, then ``extra``.

    ``home`` becomes HOME on POSIX. Names are compared without case on Windows. Proxies pass unless they hold
    a user name or password. PATH is reduced to the system's own folders.
    """
    result = {
        name: value
        for name, value in source.items()
        if _allowed(name.upper() if windows else name) or _harmless_proxy(name, value)
    }
    if home is not None and not windows:
        result["HOME"] = str(home)
    for name in [name for name in result if name.upper() == "PATH"]:
        result[name] = _reduced(result[name], source, windows)
    return merged(result, extra, windows=windows)


def merged(first: Mapping[str, str], second: Mapping[str, str], *, windows: bool) -> dict[str, str]:
    """Return both environments as one; the second wins, whatever the case of its names on Windows."""
    if not windows:
        return {**first, **second}
    taken = {name.upper() for name in second}
    return {**{name: value for name, value in first.items() if name.upper() not in taken}, **second}


def _allowed(name: str) -> bool:
    return name in _ALLOWED or name.startswith(_ALLOWED_BEGINNINGS)


def _harmless_proxy(name: str, value: str) -> bool:
    if name.upper() not in _PROXIES:
        return False
    try:
        address = urlsplit(value)
    except ValueError:
        return False
    return "@" not in value and address.username is None


def _reduced(path: str, source: Mapping[str, str], windows: bool) -> str:
    """Return PATH without what a user added to it."""
    if not windows:
        return ":".join(part for part in path.split(":") if part in _SYSTEM_FOLDERS) or "/usr/bin:/bin"
    root = next((value for name, value in source.items() if name.upper() == "SYSTEMROOT"), "C:\\Windows")
    inside = root.lower().rstrip("\\") + "\\"
    return ";".join(part for part in path.split(";") if (part.lower().rstrip("\\") + "\\").startswith(inside))
