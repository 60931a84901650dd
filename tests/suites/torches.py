"""Runs cases of the suites in an environment with real torch, by the worker itself, without tracker or journal.

``Torch`` is what tests are given. Its cases run on the CPU, or on the planted device with one of its faults.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites import protocol
from tests.planted_wheels import PLANTED_DEVICE
from tracker import judge
from tracker.model import Ending, Finding, Outcome

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "suites" / "worker.py"

_START = "import runpy, sys; sys.path[:0] = {path!r}; runpy.run_path({worker!r}, run_name='__main__')"
_KEYS = ["PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1"]
_CPU = {"name": "torch", "package": "torch", "module": "torch", "device": "cpu", "torch_own": True}
_PLANTED = {
    "name": "torch-directml",
    "package": "torch-directml",
    "module": "torch_directml",
    "device": "directml",
    "torch_own": False,
}


@dataclass(frozen=True)
class Wanted:
    """One case: a suite, a function as manifests name it ("infer", "pieces:measure"), and its parameters."""

    suite: str
    function: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """How one case ended: its RESULT message, or none where the process died in it or was ended by us."""

    message: dict[str, Any] | None
    exit_code: int | None
    log: str

    @property
    def measures(self) -> dict[str, Any]:
        """What was measured; an error of the case fails the test."""
        assert self.message is not None, f"the worker died (exit code {self.exit_code}):\n{self.log[-4000:]}"
        error = self.message.get("error")
        assert error is None, f"{error['type']}: {error['message']}\n{error['traceback']}"
        return dict(self.message["measures"])

    @property
    def finding(self) -> Finding:
        """What the tracker's judge says of it."""
        if self.message is None:
            ending = Ending.TIMEOUT if self.exit_code is None else Ending.EXITED
            return judge.find(Outcome(ending, exit_code=self.exit_code), {})
        error = self.message.get("error") or {}
        outcome = Outcome(
            Ending.EXCEPTION if error else Ending.COMPLETED,
            error_type=error.get("type", ""),
            error_message=error.get("message", ""),
            warnings=tuple(self.message["warnings"]),
        )
        return judge.find(outcome, self.message["measures"])


@dataclass(frozen=True)
class Torch:
    """A Python with torch, torchvision, timm, openai-whisper and what torch's own tests need."""

    python: Path

    def measure(self, suite: str, function: str, params: Mapping[str, Any] | None = None, **how: Any) -> Any:
        """Return the measures of one case; keywords as of ``run``."""
        return self.run([Wanted(suite, function, params or {})], **how)[0].measures

    def run(
        self,
        cases: Sequence[Wanted],
        *,
        fault: str | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: float = 240.0,
    ) -> list[Ran]:
        """Run cases in turn in one process: on the CPU, or on the planted device with this fault ("clean": none).

        ``options`` are settings of the section ``suites``. A case before which the process died is not in the list.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            path = [str(ROOT)] if fault is None else [str(_planted(folder, fault)), str(ROOT)]
            (folder / "request.json").write_text(json.dumps(_request(folder, cases, fault, options or {})))
            start = _START.format(path=path, worker=str(WORKER))
            command = [str(self.python), "-I", "-X", "utf8", "-X", "faulthandler", "-c", start]
            code, log = _call([*command, str(folder / "request.json")], folder, timeout)
            return list(_read(folder / "results.jsonl", code, log))


def _planted(folder: Path, fault: str) -> Path:
    """Copy the planted device with its fault; return the folder that goes onto the module path."""
    shutil.copytree(
        PLANTED_DEVICE, folder / "build" / "torch_directml", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "build" / "torch_directml" / "planted.py").write_text(f"FAULT = {fault!r}\nKERNELS = ()\n")
    return folder / "build"


def _request(
    folder: Path, cases: Iterable[Wanted], fault: str | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    track = _CPU if fault is None else _PLANTED
    return {
        "protocol": protocol.PROTOCOL,
        "nonce": "0" * 16,
        "results": str(folder / "results.jsonl"),
        "parent": os.getpid(),
        "track": {**track, "dispatch_keys": [] if fault is None else _KEYS, "version": ""},
        "directx": "real",
        "options": {
            "samples": 8,
            "operator_seconds": 10.0,
            "data": "",
            "weights": "",
            "threads": 1,
            **options,
        },
        "cases": [
            {
                "id": f"{case.suite}/{number}",
                "suite": case.suite,
                "function": case.function,
                "params": dict(case.params),
                "device": True,
            }
            for number, case in enumerate(cases)
        ],
    }


def _call(command: Sequence[str], folder: Path, timeout: float) -> tuple[int | None, str]:
    """Run a worker to its end; return its exit code, None where it did not end in time, and what it printed."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # A worker whose tracker goes away kills its whole group.
            start_new_session=sys.platform != "win32",
        )
        code = None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            if process.stdin:
                process.stdin.close()
    return code, (folder / "log").read_text("utf-8", "replace")


def _read(results: Path, code: int | None, log: str) -> Iterable[Ran]:
    text = results.read_text("utf-8") if results.exists() else ""
    messages = [json.loads(line) for line in text.splitlines()]
    began = [message["case"] for message in messages if message["m"] == protocol.START]
    found = {message["case"]: message for message in messages if message["m"] == protocol.RESULT}
    assert began, f"the worker began no case (exit code {code}):\n{log[-4000:]}"
    return (Ran(found.get(case), code, log) for case in began)
