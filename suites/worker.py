"""Runs cases inside the environment of one build and reports what they measured; never judges.

Started by the tracker as ``python -I -X utf8 -X faulthandler <folder>/suites/worker.py request.json``, where
``<folder>`` holds a copy of ``suites`` and nothing else: it is the only thing of ours on ``sys.path``.
``protocol.py`` says what a request holds and which messages are sent.

**How a case is written.** A suite is a folder ``suites/<suite>/`` with a manifest ``suite.toml`` (its format
stands in ``tracker/matrix.py``). A case names a function: ``kernels`` is ``suites.<suite>.cases.kernels``,
``pieces:attention`` is ``suites.<suite>.pieces.attention``. It is called as ``function(context, **params)``
with a ``suites.context.Context`` and returns its *measures*: a dict of JSON values (NaN and infinities are
sent as the strings "nan", "inf", "-inf"). It raises to say that it could not measure. The build is imported
before the suite's module, so a suite may import torch at its top. Python warnings are recorded per case.
Whatever a case does to stdout, stderr, the working folder, the warning filters or torch's default dtype, gradient
mode, threads and determinism is undone before the next.

Needs Python 3.8 and the standard library, until a build is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import importlib
import json
import math
import os
import signal
import stat
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, Iterator, TextIO, Tuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from suites import protocol
from suites.context import BuildImportError, Context, Inconclusive

# What a result goes through is held from before the build is imported: some builds replace such functions.
_dumps = json.JSONEncoder(allow_nan=False).encode
_fstat, _dup2, _chdir = os.fstat, os.dup2, os.chdir
_open_file, _write, _makedirs = os.open, os.write, os.makedirs
_open_stream, _now, _clock = open, time.time, time.perf_counter

PR_SET_PDEATHSIG = 1  # linux/prctl.h
STACKS_AT = 0.95  # share of a case's time limit after which every thread's stack is printed


class SuiteError(Exception):
    """The function of a case can not be had; ``cause`` is why."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class MeasuresError(Exception):
    """A case returned what JSON can not say."""


Identity = Tuple[int, int, int]


def _identity(fd: int) -> Identity | None:
    """Return what tells one open file from another behind the same number, or None when it is closed."""
    try:
        status = _fstat(fd)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode))


class Results:
    """The results file, which survives a case that closes every file or fills the table of open ones."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._fd = _open_file(self._path, flags, 0o600)
        self._identity = _identity(self._fd)

    def send(self, message: dict[str, Any]) -> None:
        """Append one message, at once and whole."""
        if _identity(self._fd) != self._identity:
            self._open()
        data = encode(message)
        while data:
            data = data[_write(self._fd, data) :]


class Log:
    """Where stdout and stderr went when the process began, to mark cases in it and to put both back."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._fd = os.dup(2)
        self._identity = _identity(self._fd)
        self._streams = (sys.stdout, sys.stderr)

    def mark(self, case: str) -> None:
        """Print the line at which the tracker cuts the log; an empty case ends the one before."""
        flush()
        fd = self._alive()
        if fd is not None:
            _write(fd, (f"{protocol.mark(self._nonce, case)}\n").encode())

    def restore(self) -> None:
        """Undo what a case did to descriptors 0 to 2 and to ``sys.stdout`` and ``sys.stderr``.

        Where a case closed every way to the log, what follows is lost; but printing must go on working.
        """
        if _identity(0) is None:
            _open_file(os.devnull, os.O_RDONLY)  # the lowest free number, so 0
        fd = self._alive()
        if fd is None:
            self._fd = fd = _open_file(os.devnull, os.O_WRONLY)
            self._identity = _identity(fd)
        for number in (1, 2):
            if _identity(number) != self._identity:
                _dup2(fd, number)
        sys.stdout, sys.stderr = (
            stream if not stream.closed else reopened(number) for number, stream in zip((1, 2), self._streams)
        )
        self._streams = (sys.stdout, sys.stderr)

    def _alive(self) -> int | None:
        return next((fd for fd in (self._fd, 2, 1) if _identity(fd) == self._identity), None)


def flush() -> None:
    """Flush both streams, whatever a case made of them."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def reopened(fd: int) -> TextIO:
    """Return a text stream on the descriptor that never fails on a character."""
    return _open_stream(fd, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


class Warned:
    """Collects warnings while open: each text once, bounded in number and length."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Record every warning, also those that Python gave before in this process."""
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = self._show
            yield

    def _show(self, message: Any, category: Any, *place: Any, **more: Any) -> None:
        text = protocol.bounded(f"{category.__name__}: {message}")
        if text not in self.texts and len(self.texts) < protocol.MAX_WARNINGS:
            self.texts.append(text)


def plain(value: Any, place: str = "measures") -> Any:
    """Return the value as JSON can say it; non-finite floats become text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{place}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item, f"{place}.{key}") for key, item in value.items()}
    raise MeasuresError(f"{protocol.bounded(place, 200)} is a {type_name(type(value))}")


def type_name(kind: type) -> str:
    """Return a builtin's bare name, and any other type's with its module."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def describe(error: BaseException) -> dict[str, str]:
    """Return an exception as type, message and traceback, bounded, with a prefix that says whose it is."""
    prefix = ""
    if isinstance(error, MeasuresError):
        return {"type": protocol.NOT_JSON, "message": str(error), "traceback": ""}
    if isinstance(error, BuildImportError):
        prefix, error = protocol.IMPORT_ERROR, error.cause
    elif isinstance(error, SuiteError):
        prefix, error = protocol.SUITE_ERROR, error.cause
    elif isinstance(error, Inconclusive):
        return {
            "type": f"{error.state}:{protocol.bounded(error.reason, 200)}",
            "message": protocol.bounded(str(error)),
            "traceback": "",
        }
    try:
        message = str(error)
    except BaseException as second:  # whatever a build's exception does when it is asked
        message = f"<no message: {type_name(type(second))}>"
    return {
        "type": prefix + protocol.bounded(type_name(type(error)), 200),
        "message": protocol.bounded(message),
        "traceback": protocol.bounded(_traceback(error)),
    }


def _traceback(error: BaseException) -> str:
    with contextlib.suppress(BaseException):
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with contextlib.suppress(BaseException):
        return "".join(traceback.format_tb(error.__traceback__))
    return ""


def encode(message: dict[str, Any]) -> bytes:
    """Return the message as one line; a result over the limit becomes an error that says so."""
    line = _dumps(message).encode("ascii") + b"\n"
    if len(line) <= protocol.MAX_MESSAGE:
        return line
    error = {
        "type": protocol.TOO_LARGE,
        "message": f"the result has {len(line)} bytes, the limit is {protocol.MAX_MESSAGE}",
        "traceback": "",
    }
    return encode(dict(message, measures={}, warnings=[], error=error))


def function_of(case: dict[str, Any]) -> Any:
    """Return the function that a case names."""
    module, _, name = case["function"].rpartition(":")
    place = ".".join(("suites", case["suite"], module or "cases"))
    try:
        return getattr(importlib.import_module(place), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise SuiteError(error) from error


def measure(context: Context, case: dict[str, Any]) -> dict[str, Any]:
    """Run one case and return its measures as plain values."""
    context.build()
    measures = function_of(case)(context, **case.get("params", {}))
    if not isinstance(measures, (dict, type(None))):
        raise MeasuresError(f"measures is a {type_name(type(measures))}")
    measures = plain(measures or {})
    if case.get("device") and context.device_facts is not None:
        measures.setdefault("device", context.device_facts)
    return measures


def run(context: Context, case: dict[str, Any]) -> dict[str, Any]:
    """Run one case and return its RESULT message; nothing but an interrupt gets past it."""
    warned, message = Warned(), {"m": protocol.RESULT, "case": case["id"], "measures": {}}
    started = _clock()
    try:
        with warned.collecting():
            message["measures"] = measure(context, case)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: a case must not end the worker
        message["error"] = describe(error)
        with contextlib.suppress(Exception):  # what was measured before
            message["measures"] = plain(getattr(error, "measures", {}))
    return dict(message, seconds=_clock() - started, warnings=list(warned.texts))


@contextlib.contextmanager
def stacks_before(timeout: float | None) -> Iterator[None]:
    """Print the stack of every thread shortly before the tracker would end a case that hangs."""
    if timeout:
        faulthandler.dump_traceback_later(timeout * STACKS_AT, exit=False)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def run_all(request: dict[str, Any], results: Results, log: Log) -> None:
    """Run the cases in turn, each between two marks in the log and two messages in the results."""
    context, folder = Context(request, results.send), Path.cwd()
    for case in request["cases"]:
        log.mark(case["id"])
        results.send({"m": protocol.START, "case": case["id"], "at": _now()})
        with stacks_before(case.get("timeout")):
            message = run(context, case)
        with contextlib.suppress(Exception):  # whatever a build made of torch
            context.restore()
        log.mark("")
        log.restore()  # first, lest the results file be opened anew under a number below 3
        results.send(message)
        _makedirs(folder, exist_ok=True)  # a case may have deleted it
        _chdir(folder)
    results.send({"m": protocol.DONE})


def die_with_parent(parent: int) -> None:
    """Make sure that this process does not outlive the tracker (Windows: the tracker's job object does).

    The kernel's signal comes when the *thread* that started us ends, and not at all when it ended before we
    asked: hence the look at our parent afterwards.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with contextlib.suppress(OSError):
            # When memory runs out the kernel shall take us, not the tracker.
            Path("/proc/self/oom_score_adj").write_text("500")
    if os.name == "posix" and os.getppid() != parent:
        raise SystemExit(f"the tracker (process {parent}) is gone")


def watch_stdin() -> None:
    """Give cases an empty stdin, and end our process group when the tracker's end of the real one closes."""
    pipe = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    threading.Thread(target=_end_at_eof, args=(pipe, _identity(pipe)), daemon=True).start()


def _end_at_eof(pipe: int, identity: Identity | None) -> None:
    try:
        while os.read(pipe, 4096):
            pass
    except OSError:
        return
    if _identity(pipe) != identity:  # a case closed it: that says nothing of the tracker
        return
    if os.name == "posix":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main(path: str) -> None:
    """Serve one request."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    die_with_parent(request["parent"])
    watch_stdin()
    sys.stdout, sys.stderr = reopened(1), reopened(2)
    results, log = Results(request["results"]), Log(request["nonce"])
    results.send(
        {
            "m": protocol.HELLO,
            "protocol": protocol.PROTOCOL,
            "nonce": request["nonce"],
            "prefix": sys.prefix,
        }
    )
    try:
        run_all(request, results, log)
    except OSError as error:
        if not is_full(error):
            raise
        flush()
        os._exit(protocol.DISK_FULL)  # what a build does at exit must not change the code


def is_full(error: OSError) -> bool:
    """Whether it was for want of room that something could not be written."""
    return error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)) or (
        getattr(error, "winerror", None) in (39, 112)
    )


if __name__ == "__main__":
    main(sys.argv[1])
