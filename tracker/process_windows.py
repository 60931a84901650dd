"""The Windows half of a process tree: one Job Object per tree, which nothing leaves and which dies with us.

The root is started suspended, put into the job, and only then resumed, so that no child is born outside: a
venv's ``python.exe`` is a launcher that starts the real interpreter. The job's handle is not inheritable, so
the end of the tracker closes it for good, and the system kills what is in it. Loads and is type-checked on
any system; the calls are made inside functions only.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import psutil

KILLED = 0x0D31D1ED
"""The exit code of what we kill: rare, so that it is not taken for a program's own 1."""

# winnt.h
_KILL_ON_JOB_CLOSE = 0x2000
_DIE_ON_UNHANDLED_EXCEPTION = 0x400
_BASIC_ACCOUNTING, _BASIC_PROCESS_IDS, _EXTENDED_LIMITS = 1, 3, 9
# winbase.h
_CREATE_SUSPENDED = 0x4
_CREATE_NO_WINDOW = 0x08000000  # a console of its own, so that our Ctrl-C and Ctrl-Break do not reach it
_MOST_PROCESSES = 4096

_DWORD, _SIZE, _LARGE = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_int64
_HANDLE = ctypes.c_void_p

_Fields = Sequence[tuple[str, type[Any]]]


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, with its two inner structures written out."""

    _fields_: ClassVar[_Fields] = [
        ("per_process_time", _LARGE),
        ("per_job_time", _LARGE),
        ("flags", _DWORD),
        ("least_working_set", _SIZE),
        ("most_working_set", _SIZE),
        ("most_active", _DWORD),
        ("affinity", _SIZE),
        ("priority", _DWORD),
        ("scheduling", _DWORD),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory_limit", _SIZE),
        ("job_memory_limit", _SIZE),
        ("peak_process_memory", _SIZE),
        ("peak_job_memory", _SIZE),
    ]


class _Accounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION."""

    _fields_: ClassVar[_Fields] = [
        ("times", _LARGE * 4),
        ("page_faults", _DWORD),
        ("total", _DWORD),
        ("active", _DWORD),
        ("terminated", _DWORD),
    ]


class _ProcessIds(ctypes.Structure):
    """JOBOBJECT_BASIC_PROCESS_ID_LIST with room for many."""

    _fields_: ClassVar[_Fields] = [
        ("assigned", _DWORD),
        ("listed", _DWORD),
        ("ids", _SIZE * _MOST_PROCESSES),
    ]


def _load_kernel32() -> Any:
    if sys.platform == "win32":
        return ctypes.WinDLL("kernel32", use_last_error=True)
    else:  # noqa: RET505 - a type checker understands this form on either system
        raise OSError("job objects exist on Windows only")


def _kernel32() -> Any:
    """Return the library with the types of the functions in use: a handle has 64 bits."""
    library = _load_kernel32()
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("CreateJobObjectW", _HANDLE, [pointer, ctypes.c_wchar_p]),
        ("SetInformationJobObject", number, [_HANDLE, number, pointer, _DWORD]),
        ("AssignProcessToJobObject", number, [_HANDLE, _HANDLE]),
        ("TerminateJobObject", number, [_HANDLE, ctypes.c_uint]),
        ("QueryInformationJobObject", number, [_HANDLE, number, pointer, _DWORD, pointer]),
        ("CloseHandle", number, [_HANDLE]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Job:
    """A Job Object that kills its members when it is closed; nothing may break away from it."""

    def __init__(self) -> None:
        self._calls = _kernel32()
        self._handle = self._done(self._calls.CreateJobObjectW(None, None))
        limits = _Limits(flags=_KILL_ON_JOB_CLOSE | _DIE_ON_UNHANDLED_EXCEPTION)
        size = ctypes.sizeof(limits)
        self._done(
            self._calls.SetInformationJobObject(self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), size)
        )

    def assign(self, process: int) -> None:
        """Put the process with this handle into the job."""
        self._done(self._calls.AssignProcessToJobObject(self._handle, process))

    def terminate(self) -> None:
        """Begin to end every member."""
        self._calls.TerminateJobObject(self._handle, KILLED)

    def active(self) -> int:
        """Return how many members have not ended yet."""
        return int(self._query(_BASIC_ACCOUNTING, _Accounting()).active)

    def ids(self) -> tuple[int, ...]:
        """Return the process ids of the members."""
        listing = self._query(_BASIC_PROCESS_IDS, _ProcessIds())
        return tuple(listing.ids[: listing.listed])

    def peak(self) -> int:
        """Return the most memory in bytes that the members had committed together."""
        return int(self._query(_EXTENDED_LIMITS, _Limits()).peak_job_memory)

    def close(self) -> None:
        """Close the handle, which kills whatever is left."""
        self._calls.CloseHandle(self._handle)

    def _query(self, kind: int, into: Any) -> Any:
        size = ctypes.sizeof(into)
        self._calls.QueryInformationJobObject(self._handle, kind, ctypes.byref(into), size, None)
        return into

    def _done(self, result: Any) -> Any:
        if sys.platform == "win32" and not result:
            raise ctypes.WinError(ctypes.get_last_error())
        return result


class WindowsTree:
    """One running tree in a job of its own."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, nonce: str, hold_stdin: bool
    ) -> None:
        self._job = Job()
        try:
            self._popen = subprocess.Popen(
                list(command),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE if hold_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                creationflags=_CREATE_SUSPENDED | _CREATE_NO_WINDOW,
            )
        except BaseException:
            self._job.close()
            raise
        self.pid = self._popen.pid
        self._admit()

    def _admit(self) -> None:
        try:
            self._job.assign(int(self._popen._handle))  # type: ignore[attr-defined]
            psutil.Process(self.pid).resume()
        except BaseException:
            self._popen.kill()
            self._popen.wait()
            self._job.close()
            raise

    @property
    def output(self) -> IO[bytes]:
        """The read end of the pipe that is stdout and stderr of the tree."""
        assert self._popen.stdout is not None
        return self._popen.stdout

    def exit_code(self) -> int | None:
        """Return the root's exit code as an unsigned number, or None while it runs."""
        code = self._popen.poll()
        return None if code is None else code & 0xFFFFFFFF

    def memory(self) -> int:
        """Return the resident bytes of the whole tree now."""
        return sum(map(_resident, self._job.ids()))

    def peak(self) -> int:
        """Return the most memory in bytes that the tree had committed."""
        return self._job.peak()

    def alive(self) -> tuple[int, ...]:
        """Return the ids of the members that have not ended; 0 stands for one whose id is not told."""
        return self._job.ids() or (0,) * self._job.active()

    def kill(self) -> None:
        """Begin to end every member; one stuck in a driver goes when the driver lets it."""
        self._job.terminate()

    def oom_killed(self) -> bool:
        """Return False: Windows refuses memory, it does not kill for it."""
        return False

    def close(self) -> None:
        """Close our end of stdin and the job."""
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        self._popen.poll()
        self._job.close()


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
