"""Runs cases in worker processes and says for each how it ended; never what that means.

One worker runs many cases. When it dies, stalls, grows too large or talks nonsense, the case in flight is
charged with that and a fresh worker takes the rest. What a worker may say is known to ``conversation``, how a
process tree is kept in check to ``process``.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import psutil

from suites import protocol
from tracker import files
from tracker.case_log import CaseLog, warnings_in
from tracker.config import WorkerSettings
from tracker.conversation import Conversation, Garbled, Lines, Reported, Started
from tracker.matrix import Case
from tracker.model import Ending, Outcome
from tracker.process import Cause, Ended, Limits, Process

POLL = 0.02
"""Seconds between two looks at the results file."""

IMPORTS = 2
"""Workers in a row that may die while they import the build."""

STARTS = 3
"""Workers in a row that may fail before their first case."""

EXIT_TIMEOUT = 30.0
"""Seconds that a worker has to end after its last result."""

UNDEAD = "undead"
"""The error type of an outcome after which processes are left that would not die."""

REQUEST, RESULTS, _SCRATCH = "request.json", "results.jsonl", "scratch"
READ = 1 << 20
_ENDINGS = {
    Cause.EXITED: Ending.EXITED,
    Cause.TIMEOUT: Ending.TIMEOUT,
    Cause.MEMORY_LIMIT: Ending.MEMORY_LIMIT,
    Cause.STOPPED: Ending.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits of workers: seconds, and resident bytes of the whole tree (None is no limit)."""

    case_timeout: float = 600.0
    timeout_factor: float = 1.0
    start_timeout: float = 300.0
    exit_timeout: float = EXIT_TIMEOUT
    memory: int | None = None
    log: int = 16 * 1024
    patience: float = 10.0


def limits_from(settings: WorkerSettings) -> WorkerLimits:
    """Return the limits that the settings ask for; no memory setting means 80 % of this machine's."""
    memory = int(settings.memory_gb * 1e9) or int(psutil.virtual_memory().total * 0.8)
    return WorkerLimits(settings.case_timeout, settings.timeout_factor, settings.start_timeout, memory=memory)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What workers are started with.

    ``suites`` is a folder that holds a copy of the package ``suites`` and nothing else: a worker puts it on
    its ``sys.path``, and beside the original stand the tracker and its libraries. ``folder`` gets one folder
    per worker, ``track``, ``directx``, ``adapter`` and ``options`` go into the request (``suites/protocol.py``),
    ``env`` is the whole environment.
    """

    python: Path
    suites: Path
    folder: Path
    track: Mapping[str, Any]
    directx: str
    env: Mapping[str, str]
    adapter: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one attempt at one case ended. ``worker`` names the process's folder; ``log`` is the case's own.

    ``peak_memory`` is the most that the worker's tree had until then, in bytes, 0 where that is not known.
    ``undead`` says which processes of the worker would not die: on a worker's last results only, and whoever
    reads it must start nothing more on this device. The outcome then has the error type ``undead``, unless it
    is the case's own result.
    """

    case: str
    outcome: Outcome
    seconds: float
    started: datetime
    worker: str
    measures: dict[str, Any] = field(default_factory=dict)
    log: str = ""
    peak_memory: int = 0
    undead: str = ""


class ImportDeaths:
    """The workers that died one after the other while they imported the build, by the cases they died in.

    An import that ends fresh processes again and again would end every other one too, and a hang costs a whole
    time limit: so the second such death speaks for all the cases that are left.
    """

    def __init__(self) -> None:
        self._deaths: list[CaseResult] = []

    def see(self, death: CaseResult | None) -> None:
        """Take how a worker's import ended it, or None where it did not."""
        self._deaths = [*self._deaths, death] if death is not None else []

    @property
    def final(self) -> bool:
        """Whether no other worker needs to try."""
        return len(self._deaths) >= IMPORTS

    def untried(self, case: str) -> CaseResult:
        """Return the result of a case for which the import is not tried once more."""
        last = self._deaths[-1]
        tried = " and ".join(dict.fromkeys(death.case for death in self._deaths))
        message = f"not run, as the import was tried in {tried}: {last.outcome.error_message}"
        outcome = replace(last.outcome, error_message=message)
        return replace(last, case=case, outcome=outcome, seconds=0.0, started=datetime.now(UTC), log="")


def run_cases(
    spec: WorkerSpec,
    cases: Sequence[Case],
    limits: WorkerLimits,
    *,
    stop: Callable[[], bool] = lambda: False,
    isolate: bool = False,
    deaths: ImportDeaths | None = None,
) -> Iterator[CaseResult]:
    """Yield one result per case, in order; with ``isolate`` every case has a process of its own.

    When ``stop`` says so, the case in flight is CANCELLED and those not begun have no result. Closing the
    iterator kills the worker. A result comes when the next case begins, so that a death in between is seen.
    ``deaths`` is for who calls this more than once for the same build.
    """
    rest, failures, failed = list(cases), 0, None
    deaths = deaths or ImportDeaths()
    while rest and not stop() and not deaths.final:
        worker = _Worker(spec, rest[:1] if isolate else rest, limits, stop)
        begun = set()
        for result in worker.results():
            begun.add(result.case)
            yield result
        rest = [case for case in rest if case.id not in begun]
        if begun:
            deaths.see(worker.import_death)
        failures = 0 if begun else failures + 1
        if failures == STARTS or worker.undead:
            failed = worker.not_started()
            break
    if failed is not None:
        yield from (replace(failed, case=case.id) for case in rest)
    elif deaths.final:
        yield from (deaths.untried(case.id) for case in rest)


class _Worker:
    """One worker process and what it has said so far."""

    def __init__(
        self,
        spec: WorkerSpec,
        cases: Sequence[Case],
        limits: WorkerLimits,
        stop: Callable[[], bool],
    ) -> None:
        self._spec, self._limits, self._stop = spec, limits, stop
        self._timeouts = {
            case.id: (case.timeout or limits.case_timeout) * limits.timeout_factor for case in cases
        }
        self._nonce = secrets.token_hex(8)
        self._folder = _new_folder(spec.folder)
        self.name = self._folder.name
        self._results = self._folder / RESULTS
        self._write_request(cases)
        self._talk = Conversation(self._nonce, self._timeouts, self._is_ours)
        self._log = CaseLog(self._nonce, self._timeouts, limits.log)
        self._held: Reported | None = None
        self._since = time.monotonic()
        self._began = datetime.now(UTC)
        self._process: Process | None = None
        self._ended = Ended(Cause.NOT_STARTED)
        self._trouble: tuple[Ending, str] | None = None
        self.import_death: CaseResult | None = None
        """The result of the case in which the build's import ended this process."""

    def _is_ours(self, prefix: str) -> bool:
        """Whether an interpreter with this prefix is that of the environment that was asked for."""
        folder, found = (os.path.realpath(path) for path in (self._spec.python.parent.parent, prefix))
        return Path(os.path.normcase(found)).is_relative_to(os.path.normcase(folder))

    def _write_request(self, cases: Sequence[Case]) -> None:
        request = {
            "protocol": protocol.PROTOCOL,
            "nonce": self._nonce,
            "results": str(self._results),
            "parent": os.getpid(),
            "track": dict(self._spec.track),
            "directx": self._spec.directx,
            "adapter": self._spec.adapter,
            "options": dict(self._spec.options),
            "cases": [
                {
                    "id": case.id,
                    "suite": case.suite,
                    "function": case.function,
                    "params": dict(case.params),
                    "timeout": self._timeouts[case.id],
                    "device": case.needs == "device",
                }
                for case in cases
            ],
        }
        (self._folder / REQUEST).write_text(json.dumps(request, indent=1), encoding="utf-8")
        self._results.touch()
        (self._folder / _SCRATCH).mkdir()

    def results(self) -> Iterator[CaseResult]:
        """Start the process and yield what becomes of its cases."""
        try:
            process = self._start()
        except (OSError, ValueError) as error:
            self._ended = Ended(Cause.NOT_STARTED, error=str(error))
            return
        with process, self._results.open("rb") as file:
            self._process = process
            yield from self._listen(process, file)
            overdue = self._trouble is not None and self._trouble[0] is Ending.TIMEOUT
            self._ended = process.end(process.check() or (Cause.TIMEOUT if overdue else Cause.STOPPED))
        files.remove_tree(self._folder / _SCRATCH)
        yield from self._last_results()

    def _start(self) -> Process:
        script = self._spec.suites / "suites" / "worker.py"
        options = ["-I", "-X", "utf8", "-X", "faulthandler"]
        return Process(
            [str(self._spec.python), *options, str(script), str(self._folder / REQUEST)],
            env=self._spec.env,
            cwd=self._folder / _SCRATCH,
            limits=Limits(memory=self._limits.memory, patience=self._limits.patience),
            sink=self._log,
            hold_stdin=True,
        )

    def _listen(self, process: Process, file: Any) -> Iterator[CaseResult]:
        """Yield results until the process has ended or has to: then ``_trouble`` says why, if we end it."""
        lines = Lines()
        while self._trouble is None:
            # The order matters: what a process wrote before it ended must be read after it has ended.
            cause = process.check()
            try:
                yield from self._hear(lines, file)
            except Garbled as error:
                self._trouble = (Ending.GARBLED, str(error))
            if cause is not None:
                self._trouble = self._trouble or self._reason(cause, process)
                return
            self._trouble = self._trouble or self._overdue()
            if self._trouble is None:
                time.sleep(POLL)

    def _reason(self, cause: Cause, process: Process) -> tuple[Ending, str]:
        text = ""
        if cause is Cause.MEMORY_LIMIT:
            text = f"{process.memory} bytes in use, the limit is {self._limits.memory}"
        return _ENDINGS[cause], text

    def _overdue(self) -> tuple[Ending, str] | None:
        """Return why the process has to be ended now, by the clock or by our master's word."""
        if self._stop():
            return Ending.CANCELLED, ""
        limit, what = self._deadline()
        if time.monotonic() - self._since <= limit:
            return None
        return Ending.TIMEOUT, f"no {what} within {limit:g} s"

    def _deadline(self) -> tuple[float, str]:
        if self._talk.in_flight is not None:
            return self._timeouts[self._talk.in_flight], "result"
        if self._talk.complete:
            return self._limits.exit_timeout, "exit after the last result"
        return self._limits.start_timeout, "case" if self._talk.greeted else "greeting"

    def _hear(self, lines: Lines, file: Any) -> Iterator[CaseResult]:
        """Read all there is."""
        if os.fstat(file.fileno()).st_size < file.tell():
            raise Garbled("the results file has become shorter")
        while data := file.read(READ):
            for line in lines.feed(data):
                yield from self._understand(self._talk.hear(line))

    def _understand(self, said: Started | Reported | None) -> Iterator[CaseResult]:
        if said is not None:
            self._since = time.monotonic()
        if isinstance(said, Started):
            yield from self._release()
            self._began = datetime.now(UTC)
        elif isinstance(said, Reported):
            self._held = said

    def _release(self, exit_code: int | None = None, teardown: str = "") -> Iterator[CaseResult]:
        """Yield the result that was held back until it was known what came after it."""
        if self._held is not None:
            said, self._held = self._held, None
            log = self._log.take(said.case)
            warnings = tuple(dict.fromkeys((*said.outcome.warnings, *warnings_in(log))))
            outcome = replace(said.outcome, exit_code=exit_code or None, warnings=warnings)
            log += teardown
            yield self._result(said.case, outcome, said.seconds, said.measures, log)

    def _result(
        self, case: str, outcome: Outcome, seconds: float, measures: dict[str, Any], log: str
    ) -> CaseResult:
        peak = self._ended.peak_memory or (self._process.peak if self._process is not None else 0)
        return CaseResult(case, outcome, seconds, self._began, self.name, measures, log, peak, self.undead)

    def _last_results(self) -> Iterator[CaseResult]:
        """Yield what is left to say when the process is gone: the held result, and the charged case."""
        ending, text = self._trouble or (Ending.EXITED, "")
        if self._talk.in_flight is None and ending is Ending.GARBLED:
            yield from self._disown(text)
        code = self._ended.exit_code
        yield from self._release(code, f"{self._log.take('')}\n{text}".rstrip("\n") if code or text else "")
        if self._talk.in_flight is not None:
            yield self._charged_in_flight(self._talk.in_flight, ending, text)

    def _charged_in_flight(self, case: str, ending: Ending, text: str) -> CaseResult:
        if ending is Ending.CANCELLED or self._disk_was_full or not self._talk.imports:
            return self._charged(case, ending, text)
        result = self._charged(case, ending, f"{text or 'the process ended'} while the build was imported")
        kind = result.outcome.error_type or f"{protocol.IMPORT_ERROR}{ending}"
        self.import_death = replace(result, outcome=replace(result.outcome, error_type=kind))
        return self.import_death

    def _disown(self, text: str) -> Iterator[CaseResult]:
        """Charge the case that ran last with nonsense that came after its result, which is not believed."""
        if self._held is not None:
            said, self._held = self._held, None
            yield replace(self._charged(said.case, Ending.GARBLED, text), seconds=said.seconds)

    def _charged(self, case: str, ending: Ending, text: str) -> CaseResult:
        text = "; ".join(part for part in (text, self.undead) if part)
        if self._disk_was_full:
            outcome = Outcome(Ending.EXCEPTION, self._ended.exit_code, "OSError", self._no_room())
            return self._result(case, outcome, 0.0, {}, self._log.take(case))
        outcome = Outcome(
            ending,
            exit_code=self._ended.exit_code,
            error_type=self._undead_type,
            error_message=text,
            oom_killed=self._ended.oom_killed,
        )
        return self._result(case, outcome, time.monotonic() - self._since, {}, self._log.take(case))

    @property
    def _disk_was_full(self) -> bool:
        return self._ended.exit_code == protocol.DISK_FULL

    def _no_room(self) -> str:
        """Say what a worker could not: it had no room to write it."""
        free = shutil.disk_usage(self._folder).free / 1e6
        return f"No space left on device for the results in {self._folder} ({free:.0f} MB are free now)"

    @property
    def undead(self) -> str:
        """Say which processes would not die: nothing may be started beside them. Empty if all did."""
        pids = ", ".join(map(str, self._ended.undead))
        return f"would not die: {pids}" if pids else ""

    @property
    def _undead_type(self) -> str:
        return UNDEAD if self._ended.undead else ""

    def not_started(self) -> CaseResult:
        """Return the result of a case that this worker never came to."""
        why = self.undead or self._ended.error or (self._trouble[1] if self._trouble else "")
        why = self._no_room() if self._disk_was_full and not why else why
        why = why or "the worker ended before its first case"
        outcome = Outcome(
            Ending.NOT_STARTED,
            exit_code=self._ended.exit_code,
            error_type=self._undead_type,
            error_message=why,
        )
        return self._result("", outcome, 0.0, {}, self._log.take(""))


def _new_folder(parent: Path) -> Path:
    """Make the folder of the next worker: ``worker-1``, ``worker-2``, ..."""
    parent.mkdir(parents=True, exist_ok=True)
    number = 1 + max((worker_number(path) for path in parent.iterdir()), default=0)
    folder = parent / f"worker-{number}"
    folder.mkdir()
    return folder


def worker_number(path: Path) -> int:
    """Return the number of a worker's folder, 0 for any other."""
    match = re.fullmatch(r"worker-(\d+)", path.name)
    return int(match[1]) if match else 0


def library_path(
    site_packages: PurePath, directx: str, extra: str = "", stand_ins: str = "torch_directml"
) -> str:
    """Return LD_LIBRARY_PATH for a worker on Linux; empty where nothing has to be added.

    The loader reads it once, at the start. ``extra`` is the user's own and goes first. The stand-ins that lie
    in a wheel's folder ``stand_ins`` let a build be imported where there is no DirectX; where there is, they
    must not hide it.
    """
    parts = [part for part in extra.split(":") if part]
    if directx == "stand-in" and stand_ins:
        parts.append(str(site_packages / stand_ins))
    return ":".join(parts)
