"""What a case leaves behind in torch is undone before the next one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from suites.context import Context


class Setting:
    """One setting of a process, with the function that tells it and the one that sets it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tell(self) -> Any:
        return self.value

    def set(self, value: Any) -> None:
        self.value = value


def test_settings_that_a_case_changed_are_as_they_were_at_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    dtype, gradients = Setting("float32"), Setting(True)
    torch.get_default_dtype, torch.set_default_dtype = dtype.tell, dtype.set  # type: ignore[attr-defined]
    torch.is_grad_enabled, torch.set_grad_enabled = gradients.tell, gradients.set  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "planted_build", ModuleType("planted_build"))
    context = Context({"track": {"module": "planted_build"}, "directx": ""})
    context.restore()  # nothing was imported yet, so nothing is known
    context.build()
    dtype.set("float64")
    gradients.set(False)
    context.restore()
    assert (dtype.value, gradients.value) == ("float32", True)


def test_a_build_without_torch_has_no_settings_to_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "planted_build", ModuleType("planted_build"))
    context = Context({"track": {"module": "planted_build"}, "directx": ""})
    context.build()
    context.restore()
