"""Resident bytes of this process, without a package: from /proc on Linux, from psapi on Windows."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any


def resident() -> int:
    """Return the resident bytes of this process, 0 where they can not be had."""
    try:
        if sys.platform == "win32":
            return _working_set()
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


class _Counters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of psapi.h."""

    _fields_ = [
        ("cb", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        *((name, ctypes.c_size_t) for name in ("PeakWorkingSetSize", "WorkingSetSize")),
        *((f"quota{number}", ctypes.c_size_t) for number in range(6)),
    ]


def _working_set() -> int:
    kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    counters = _Counters(cb=ctypes.sizeof(_Counters))
    asked = kernel.K32GetProcessMemoryInfo
    asked.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    done = asked(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.cb)
    return int(counters.WorkingSetSize) if done else 0
