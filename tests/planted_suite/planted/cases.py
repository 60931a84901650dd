"""Cases that misbehave in every way a build's native code has been seen to, or could."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any


def passes(context: Any, value: float = 1.0) -> dict[str, Any]:
    print("out of a passing case")
    return {"value": value, "pid": os.getpid()}


def raises(context: Any) -> dict[str, Any]:
    raise ValueError("planted: 中文 \ud800")


def raises_without_words(context: Any) -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    raise Wordless


def exits(context: Any) -> None:
    raise SystemExit(3)


def segfaults(context: Any) -> None:
    print("about to crash", flush=True)
    ctypes.string_at(0)


def aborts(context: Any) -> None:
    os.abort()


def exits_at_once(context: Any, code: int = 7) -> None:
    os._exit(code)


def sleeps(context: Any) -> None:
    time.sleep(600)


def prints_for_ever(context: Any) -> None:
    while True:
        os.write(1, b"spam and eggs\n" * 1000)


def eats_memory(context: Any) -> None:
    held = bytearray(500 << 20)
    time.sleep(600)
    del held


def leaves_a_grandchild(context: Any, hang: bool = False) -> dict[str, Any]:
    """Leave a process that has a session of its own and no parent."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild:
            os.write(write, str(grandchild).encode())
            os._exit(0)
        time.sleep(600)
    pid = int(os.read(read, 32))
    if hang:
        Path("grandchild").write_text(str(pid))
        time.sleep(600)
    return {"grandchild": pid}


def writes_results(context: Any, text: str, encoding: str = "utf-8", repeat: int = 1) -> None:
    """Write into the results file behind the worker's back, and give the tracker time to see it."""
    with Path(context.request["results"]).open("ab") as file:
        file.write(text.encode(encoding) * repeat)
    time.sleep(600)


def truncates_results(context: Any) -> None:
    time.sleep(0.2)
    os.truncate(context.request["results"], 3)
    time.sleep(600)


def forges_its_result(context: Any) -> None:
    line = '{"m": "result", "case": "planted/forges", "seconds": 0, "measures": {"forged": 1}}\n'
    with Path(context.request["results"]).open("a") as file:
        file.write(line)


def closes_everything(context: Any) -> dict[str, Any]:
    os.closerange(0, 256)
    return {"closed": True}


def closes_the_streams(context: Any) -> dict[str, Any]:
    sys.stdout.close()
    os.close(2)
    return {}


def opens_too_many(context: Any) -> dict[str, Any]:
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        context.held = held
    return {}


def prints_marks(context: Any) -> None:
    print("\x1edmltrack 0123456789abcdef planted/after")
    print("\x1edmltrack")
    print("\x1e" * 50)


def shows_environment(context: Any) -> dict[str, Any]:
    return {"names": sorted(os.environ)}


def returns_nonfinite(context: Any) -> dict[str, Any]:
    return {"values": [float("nan"), float("inf"), float("-inf"), 1.5]}


def returns_surrogates(context: Any) -> dict[str, Any]:
    return {"\ud800": "\udfff", "good": "中文"}


def returns_an_object(context: Any) -> dict[str, Any]:
    return {"deep": [object()]}


def returns_too_much(context: Any) -> dict[str, Any]:
    return {"text": "x" * (9 << 20)}


def warns(context: Any, times: int = 1) -> None:
    for number in range(times):
        warnings.warn(f"fell back, number {number}", UserWarning, stacklevel=1)


def reads_stdin(context: Any) -> dict[str, Any]:
    return {"stdin": sys.stdin.read()}


def changes_folder(context: Any) -> None:
    os.chdir("/")


def shows_folder(context: Any) -> dict[str, Any]:
    return {"folder": str(Path.cwd())}


def crashes_at_exit(context: Any) -> dict[str, Any]:
    import atexit

    atexit.register(lambda: os._exit(9))
    return {"done": True}


def dies_after_its_result(context: Any) -> dict[str, Any]:
    """Die in another thread once the worker waits in the next case's import."""
    results = Path(context.request["results"])
    size = results.stat().st_size

    def die() -> None:
        while results.stat().st_size == size:
            pass
        os._exit(11)

    threading.Thread(target=die, daemon=True).start()
    return {}


def fills_the_disk(context: Any) -> None:
    """Let whatever the worker still writes meet a full disk."""

    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    vars(sys.modules["__main__"])["_write"] = write
