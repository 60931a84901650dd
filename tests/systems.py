"""What the tests need to know of the system that they run on, and waiting that has an end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import psutil
import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="made of what only POSIX has: signals, fork, a shell")


def eventually(holds: Callable[[], object], seconds: float = 60.0) -> bool:
    """Wait until something holds, but not for ever; say whether it does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return bool(holds())


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Wait until a process is gone or only its corpse is left."""

    def is_gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return eventually(is_gone, seconds)
