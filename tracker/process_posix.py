"""The POSIX half of a process tree: start it in a session of its own, find all of it, kill it, weigh it.

Members are found in four ways, because each has holes: by session and group (lost by ``setsid``), by descent
from a process seen earlier (lost when a parent dies between two looks), by a nonce in the environment that
every child inherits (lost when it is scrubbed), and because on Linux a process whose parent dies becomes a child
of ours (lost when we die first). Only ``/proc`` tells them; without it (macOS) the group is all that is known.

This file is also a program: the *guard*, one small process per tracker that kills what the tracker started
when the tracker is gone, even by ``kill -9``. So it needs nothing but the standard library. What a tree is
for, and when it has to die, is not known here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

assert sys.platform != "win32"  # the type checker reads on for the other systems only

NONCE = "DMLTRACK_TREE"
"""The environment variable that marks every process of a tree."""

GUARD_PATIENCE = 10.0
"""Seconds for which a guard without a tracker tries to kill what is left."""

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER in linux/prctl.h
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the process table. ``start`` is in clock ticks since boot, ``rss`` in bytes."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    rss: int
    dead: bool = False


Table = Mapping[int, Entry]


def parse_stat(text: bytes) -> Entry | None:
    """Return the entry of a ``/proc/<pid>/stat``; a name may hold spaces, parentheses and newlines."""
    head, _, rest = text.rpartition(b")")
    fields = rest.split()
    if len(fields) < 22:
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    pid, start, rss = int(head.split(b" ", 1)[0]), int(fields[19]), int(fields[21]) * _PAGE
    return Entry(pid, parent, group, session, start, rss, dead=fields[0] in (b"Z", b"X"))


def table() -> Table:
    """Return every process of the host by its id."""
    found = {}
    for name in os.listdir(_PROC) if _PROC.is_dir() else ():  # noqa: PTH208 - names are enough
        if name.isdigit() and (entry := _entry(name)) is not None:
            found[entry.pid] = entry
    return found


def _entry(name: str) -> Entry | None:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - a third of the time of Path.open
            return parse_stat(file.read())
    except OSError:
        return None


def members(processes: Table, root: int, known: Collection[Entry] = ()) -> set[int]:
    """Return the ids of a tree: the root's session and group, what was known before, and all descendants."""
    found = {e.pid for e in processes.values() if root in (e.pid, e.session, e.group)}
    for old in known:
        now = processes.get(old.pid)
        if now is not None and now.start == old.start:  # else the id was given to another process
            found.add(old.pid)
    children: dict[int, list[int]] = {}
    for entry in processes.values():
        children.setdefault(entry.parent, []).append(entry.pid)
    ends = list(found)
    while ends:
        fresh = [pid for pid in children.get(ends.pop(), ()) if pid not in found]
        found.update(fresh)
        ends.extend(fresh)
    return found


def adopted(processes: Table, us: int, own: Collection[int]) -> set[int]:
    """Return the children of ours that we did not start: what left its session and lost its parent.

    ``own`` are the roots and the guard. What the tracker starts otherwise stays in the tracker's session, and what
    still is in the session of a root belongs to that root.
    """
    ours = {*own, *([processes[us].session] if us in processes else [])}
    return {e.pid for e in processes.values() if e.parent == us and not {e.pid, e.session} & ours}


def become_subreaper() -> None:
    """Let processes whose parent dies become children of this process, and not of init."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def carriers(processes: Iterable[Entry], nonces: Collection[str]) -> set[int]:
    """Return the ids of the processes that carry one of the nonces in their environment."""
    words = {f"{NONCE}={nonce}".encode() for nonce in nonces}
    return {entry.pid for entry in processes if words & _environment(entry.pid)}


def _environment(pid: int) -> set[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return set(file.read().split(b"\0"))
    except OSError:
        return set()


def send_kill(pid: int) -> None:
    """Kill one process; one that is gone, or is not ours, is left alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def send_kill_group(group: int) -> None:
    """Kill a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


_OWN: set[int] = set()
"""The processes that we started in sessions of their own, as far as they are not reaped."""

_BIRTHS = threading.Lock()
"""Held while one is started: it must not be seen before it is known to be ours."""


def _start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    with _BIRTHS:
        started = subprocess.Popen(command, start_new_session=True, **options)
        _OWN.add(started.pid)
    return started


def _strays() -> tuple[Table, set[int]]:
    """Return the process table, and which of it are children of ours that we did not start; bury the dead ones."""
    with _BIRTHS:
        processes, own = table(), frozenset(_OWN)
    found = adopted(processes, os.getpid(), own)
    for pid in found:
        if processes[pid].dead:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return processes, found


class PosixTree:
    """One running tree: a session of its own whose members carry a nonce."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, nonce: str, hold_stdin: bool
    ) -> None:
        self._nonce = nonce
        self._known: dict[int, Entry] = {}
        self._peak = 0
        self._ooms = oom_kills()
        become_subreaper()
        GUARD.add(nonce)  # before the start: a tracker that dies in between leaves nothing behind
        try:
            self._popen = _start(
                list(command),
                env={**env, NONCE: nonce},
                cwd=cwd,
                stdin=subprocess.PIPE if hold_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except BaseException:
            GUARD.remove(nonce)
            raise
        self.pid = self._popen.pid
        root = _entry(str(self.pid))
        self._born = root.start if root else 0

    @property
    def output(self) -> IO[bytes]:
        """The read end of the pipe that is stdout and stderr of the tree."""
        assert self._popen.stdout is not None
        return self._popen.stdout

    def exit_code(self) -> int | None:
        """Return the root's exit code, or None while it runs.

        It is not reaped before ``close``: a reaped id may be given to a stranger, whom we would then kill.
        """
        if self._popen.returncode is not None:
            return self._popen.returncode
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._popen.poll()
        if info is None:
            return None
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    def memory(self) -> int:
        """Return the resident bytes of the whole tree now, and remember its members for the end."""
        processes = table()
        mine = members(processes, self.pid, self._known.values())
        self._known = {pid: processes[pid] for pid in mine if pid in processes}
        total = sum(entry.rss for entry in self._known.values())
        self._peak = max(self._peak, total)
        return total

    def peak(self) -> int:
        """Return the greatest of the readings of ``memory``."""
        return self._peak

    def alive(self) -> tuple[int, ...]:
        """Return the ids of the members that are not dead yet."""
        processes, strays = _strays()
        young = [entry for entry in processes.values() if entry.start >= self._born]
        mine = members(processes, self.pid, self._known.values()) | carriers(young, [self._nonce])
        mine |= {entry.pid for entry in young} & strays
        mine |= members(processes, self.pid, [processes[pid] for pid in mine if pid in processes])
        self._known.update((pid, processes[pid]) for pid in mine if pid in processes)
        living = {pid for pid in mine if pid in processes and not processes[pid].dead}
        return tuple(sorted(living - {os.getpid(), 1}))

    def kill(self) -> None:
        """Kill every member that can be found now."""
        send_kill_group(self.pid)
        for pid in self.alive():
            send_kill(pid)

    def oom_killed(self) -> bool:
        """Whether the kernel has killed something for want of memory since the start."""
        return any(now > then for now, then in zip(oom_kills(), self._ooms, strict=True))

    def close(self) -> None:
        """Reap the root, close our end of stdin, and let the guard forget the tree."""
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        self._popen.poll()
        _OWN.discard(self.pid)
        _strays()
        GUARD.remove(self._nonce)


def oom_kills() -> tuple[int, int]:
    """Return how often the kernel's OOM killer struck on this host, and in our own memory group."""
    return _counter(_PROC / "vmstat"), max((_counter(path) for path in _memory_groups()), default=0)


def _memory_groups() -> list[Path]:
    """Return the files that may hold the counter of our cgroup, for versions 2 and 1."""
    files = []
    try:
        lines = (_PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            files.append(Path("/sys/fs/cgroup", path.lstrip("/"), "memory.events"))
        elif "memory" in controllers.split(","):
            files.append(Path("/sys/fs/cgroup/memory", path.lstrip("/"), "memory.oom_control"))
    return files


def _counter(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


class Guard:
    """The tracker's end of the guard: names the trees that must not outlive us. Started at the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nonces: set[str] = set()
        self._popen: subprocess.Popen[bytes] | None = None

    def add(self, nonce: str) -> None:
        """Put a tree under guard."""
        with self._lock:
            self._nonces.add(nonce)
            if not self._tell(f"+{nonce}\n"):
                self._start()

    def remove(self, nonce: str) -> None:
        """Release a tree that is gone."""
        with self._lock:
            self._nonces.discard(nonce)
            self._tell(f"-{nonce}\n")

    def _start(self) -> None:
        # Without a guard a worker still ends with us; only its children might not. So no reason to give up.
        with contextlib.suppress(OSError):
            self._popen = _start(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
            )
        for nonce in self._nonces:
            self._tell(f"+{nonce}\n")

    def _tell(self, line: str) -> bool:
        if self._popen is None or self._popen.stdin is None or self._popen.poll() is not None:
            return False
        try:
            self._popen.stdin.write(line.encode())
            self._popen.stdin.flush()
        except OSError:
            return False
        return True


GUARD = Guard()


def stand_guard(orders: IO[bytes]) -> None:
    """Remember the trees that are named, until the tracker's end closes; then kill those still named."""
    nonces: set[str] = set()
    for line in orders:
        word = line.decode("ascii", "replace").strip()
        (nonces.add if word[:1] == "+" else nonces.discard)(word[1:])
    deadline = time.monotonic() + GUARD_PATIENCE
    while nonces and time.monotonic() < deadline:
        processes = table()
        marked = carriers(processes.values(), nonces)
        left = {pid for pid in marked if not processes[pid].dead}
        for pid in left:
            if processes[pid].group in marked:
                send_kill_group(processes[pid].group)
            send_kill(pid)
        if not left:
            break
        time.sleep(0.02)


if __name__ == "__main__":
    stand_guard(sys.stdin.buffer)
