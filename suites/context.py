"""What a case is given: the request, and the build under test, imported once and at a known moment.

Knows nothing of how cases are run or reported. Standard library only until a build is asked for.
"""

from __future__ import annotations

import importlib
import sys
from time import perf_counter
from types import ModuleType
from typing import Any, Callable

from suites import devices, protocol
from suites.devices import Inconclusive

__all__ = ["BuildImportError", "Context", "Inconclusive"]


class BuildImportError(Exception):
    """The build under test can not be imported; ``cause`` is what its import raised."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class Context:
    """One worker's view of its request, shared by the cases that it runs.

    ``tell`` sends a message to the tracker: a process that dies in an import can not say so afterwards.
    """

    def __init__(
        self, request: dict[str, Any], tell: Callable[[dict[str, Any]], object] = lambda message: None
    ) -> None:
        self._tell = tell
        self.request = request
        self.track: dict[str, Any] = request["track"]
        self.directx: str = request["directx"]
        self.options: dict[str, Any] = request.get("options") or {}
        """The settings of the section ``suites``: samples, operator_seconds, data, weights, threads, ..."""
        self.device_facts: dict[str, Any] | None = None
        """What is known of the device, once a case has asked for it: kind, name, options that were set."""
        self.before: dict[str, list[str] | None] = {}
        """Kernels per dispatch key as torch had them before the build; None for a key that torch lacks."""
        self.import_seconds = 0.0
        """Time of the build's own import; torch's is not in it unless the build is torch."""
        self._module: ModuleType | None = None
        self._device: Any = None
        self._failure: BuildImportError | None = None
        self._usual: dict[str, Any] = {}

    def build(self) -> ModuleType | None:
        """Return the build's module; the first call imports it, and a failure is final for the process."""
        if self._failure is not None:
            raise self._failure
        if self._module is None and self.track.get("module"):
            self._tell({"m": protocol.IMPORTING})
            try:
                self._import()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # A second try would meet half-imported modules and say something else.
                self._failure = BuildImportError(error)
                raise self._failure from error
            finally:
                self._tell({"m": protocol.IMPORTED})
        return self._module

    def _import(self) -> None:
        keys = self.track.get("dispatch_keys") or []
        if keys and not self.track.get("torch_own"):
            # By name, as cases are found: no other suite's digest should move with the census.
            self.before = importlib.import_module("suites.census.dispatcher").census(keys)
        started = perf_counter()
        module = importlib.import_module(self.track["module"])
        self.import_seconds = perf_counter() - started
        if keys:
            _warn_every_time()
        if not self.track.get("tiled_resources", True) and hasattr(module, "disable_tiled_resources"):
            module.disable_tiled_resources(True)  # before anything is computed
        if self.options.get("threads"):
            importlib.import_module("torch").set_num_threads(int(self.options["threads"]))
        self._module = module
        self._usual = _settings(sys.modules.get("torch"))

    def restore(self) -> None:
        """Undo what a case did to torch's settings of the whole process, lest they decide the next case."""
        for name, value in self._usual.items():
            getattr(sys.modules["torch"], name)(value)

    @property
    def device_kind(self) -> str:
        """What the device under test is: directml, dml, cpu or cuda."""
        return str(self.track["device"])

    def device(self) -> Any:
        """Return the torch device under test; raise Inconclusive where there is none.

        A device is never made where none is listed: its first operation would end the process without a word.
        """
        module = self.build()
        if self._device is None:
            torch = importlib.import_module("torch")
            wanted = str(self.request.get("adapter") or "")
            self._device, self.device_facts = devices.open_device(
                torch, module, self.track, self.directx, wanted
            )
        return self._device


def _settings(torch: Any) -> dict[str, Any]:
    """Return torch's settings of the process, by the functions that set them; the old builds lack some."""
    pairs = {
        "set_default_dtype": "get_default_dtype",
        "set_grad_enabled": "is_grad_enabled",
        "set_num_threads": "get_num_threads",
        "use_deterministic_algorithms": "are_deterministic_algorithms_enabled",
    }
    return {
        setter: getattr(torch, getter)()
        for setter, getter in pairs.items()
        if hasattr(torch, setter) and hasattr(torch, getter)
    }


def _warn_every_time() -> None:
    """Let torch repeat warnings that it gives once per process: each case must see its own fallbacks."""
    torch = importlib.import_module("torch")
    if hasattr(torch, "set_warn_always"):
        torch.set_warn_always(True)
