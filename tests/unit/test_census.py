"""The census over planted packages: a small torch of either kind, and a build that registers into it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_process import ENV
from tests.unit.test_workers import ROOT, Stage, copy_suites
from tracker.matrix import Case
from tracker.model import Ending
from tracker.workers import CaseResult, WorkerSpec

NEW_TORCH = """
__version__ = "9.9"

class _C:
    kernels = {"PrivateUse1": ["c10d::send"], "AutogradPrivateUse1": []}

    @classmethod
    def _dispatch_get_registrations_for_dispatch_key(cls, key):
        if key not in cls.kernels:
            raise RuntimeError("could not parse dispatch key: " + key)
        return list(cls.kernels[key])

_always = []
set_warn_always = _always.append
"""

OLD_TORCH = """
__version__ = "1.8.0a0"

class Schema:
    def __init__(self, name, overload_name):
        self.name, self.overload_name = name, overload_name

class _C:
    @staticmethod
    def _jit_get_all_schemas():
        return [Schema("aten::add", "Tensor"), Schema("aten::relu", ""), Schema("aten::Bool", "int")]

    @staticmethod
    def _dispatch_dump(name):
        return {
            "aten::add.Tensor": "name: aten::add.Tensor\\ndebug: registered at a\\nDML: registered at b\\n",
            "aten::relu": "CPU: registered at a :: DML: registered at b\\nMath[alias]: registered at c\\n",
        }.get(name, "")

    @staticmethod
    def _dispatch_dump_table(name):
        return "CPU: registered at a [kernel]\\nDML: registered at b [kernel]\\nCUDA: fallthrough [x]\\n"
"""

BUILD = """
import torch
from typing import List
torch._C.kernels["PrivateUse1"] += ["aten::relu", "aten::add.Tensor"]

class Tool:
    def use(self, how=object()): ...
    def _hidden(self): ...

class Odd:
    def __repr__(self):
        raise RuntimeError

LEVEL = 3
def device(index=None): ...
def works(how=print, odd=len): ...
def fails(odd=Odd()): ...
def _private(): ...
has_float64_support = lambda index: index == 0
device_count = lambda: 2
device_name = lambda index: "Planted GPU\\0 "
default_device = lambda: 0
is_available = lambda: True
"""

TRACK = {
    "name": "planted",
    "package": "no-such-package",
    "module": "planted_build",
    "device": "dml",
    "dispatch_keys": ["PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1"],
    "torch_own": False,
}
FORK: dict[str, Any] = {
    **TRACK,
    "module": "torch",
    "dispatch_keys": ["DML", "CUDA", "AutogradDML"],
    "torch_own": True,
}


class Census(Stage):
    def take(self, *functions: str) -> dict[str, CaseResult]:
        return self.play(*(Case(f"census/{name}", "census", name) for name in functions))

    def measure(self, function: str) -> dict[str, Any]:
        result = self.take(function)[function]
        assert result.outcome.ending is Ending.COMPLETED, result.outcome
        return result.measures


@pytest.fixture
def census(tmp_path: Path) -> Census:
    folder = tmp_path / "copy"
    copy_suites(folder)
    for module, text in [("torch", NEW_TORCH), ("planted_build", BUILD)]:
        (folder / module).mkdir()
        (folder / module / "__init__.py").write_text(text)
    stage = Census(folder, tmp_path / "workers")
    stage.spec = WorkerSpec(Path(sys.executable), folder, tmp_path / "workers", TRACK, "real", ENV)
    return stage


def old_torch(census: Census) -> Census:
    (census.spec.suites / "torch/__init__.py").write_text(OLD_TORCH)
    census.spec = replace(census.spec, track=FORK)
    return census


EXPECTED = {
    "keys": {"PrivateUse1": ["aten::add.Tensor", "aten::relu"], "AutogradPrivateUse1": []},
    "absent": ["AutocastPrivateUse1"],
    "torch_registered": {"PrivateUse1": 1, "AutogradPrivateUse1": 0},
}


@pytest.mark.parametrize("before", [[], ["import_build"], ["api", "adapters"]], ids=str)
def test_kernels_are_those_of_the_build_alone_whatever_ran_before(census: Census, before: list[str]) -> None:
    assert census.take(*before, "kernels")["kernels"].measures == EXPECTED


def test_nothing_is_subtracted_from_a_build_that_is_torch(census: Census) -> None:
    census.spec = replace(census.spec, track={**TRACK, "module": "torch", "torch_own": True})
    measures = census.measure("kernels")
    assert measures["keys"]["PrivateUse1"] == ["c10d::send"]
    assert measures["torch_registered"]["PrivateUse1"] == 0


def test_kernels_are_read_from_the_texts_of_an_old_torch(census: Census) -> None:
    assert old_torch(census).measure("kernels") == {
        "keys": {"DML": ["aten::add.Tensor"], "CUDA": []},
        "absent": ["AutogradDML"],
        "torch_registered": {"DML": 0, "CUDA": 0},
    }


def test_the_import_says_what_was_imported(census: Census) -> None:
    measures = census.measure("import_build")
    assert measures["module"] == str(census.spec.suites / "planted_build/__init__.py")
    assert measures["torch"] == {"version": "9.9", "path": str(census.spec.suites / "torch/__init__.py")}
    assert measures["version"] is None
    assert 0 < measures["seconds"] < 20


def test_the_api_is_its_public_names_with_signatures_free_of_addresses(census: Census) -> None:
    entries = {entry["name"]: entry["signature"] for entry in census.measure("api")["api"]}
    assert entries["Tool"] == "()"
    assert entries["Tool.use"] == "(self, how=<object object>)"
    assert entries["LEVEL"] == ""
    assert entries["works"] == "(how=<built-in function print>, odd=<built-in function len>)"
    assert entries["fails"] == "(...)"
    assert not {"torch", "List", "_private", "Tool._hidden"} & set(entries)


def test_the_api_is_the_same_text_each_time(census: Census) -> None:
    assert census.measure("api") == census.measure("api")


def test_adapters_are_named_without_the_nul_at_their_end_and_told_apart(census: Census) -> None:
    assert census.measure("adapters") == {
        "kind": "dml",
        "available": True,
        "count": 2,
        "default": 0,
        "adapters": [
            {"index": 0, "name": "Planted GPU", "float64": True},
            {"index": 1, "name": "Planted GPU #2", "float64": False},
        ],
    }


def test_a_build_that_cannot_list_its_one_device_has_it_named_by_its_kind(census: Census) -> None:
    census.spec = replace(census.spec, track={**TRACK, "module": "torch", "torch_own": True})
    listed = census.measure("adapters")
    assert listed["adapters"] == [{"index": 0, "name": "dml", "float64": None}]
    assert (listed["available"], listed["count"]) == (None, None)


@pytest.mark.parametrize("directx", ["stand-in", "absent"])
def test_adapters_are_not_asked_for_without_directx(census: Census, directx: str) -> None:
    census.spec = replace(census.spec, directx=directx)
    assert "not asked" in census.take("adapters")["adapters"].outcome.error_message


def test_a_build_that_fails_to_load_fails_its_import(census: Census) -> None:
    (census.spec.suites / "planted_build/__init__.py").write_text("raise OSError('libd3d12.so: cannot open')")
    outcome = census.take("kernels", "api")["api"].outcome
    assert (outcome.error_type, outcome.error_message) == ("import:OSError", "libd3d12.so: cannot open")


def test_torch_is_told_to_repeat_its_warnings(census: Census) -> None:
    case = census.spec.suites / "suites/planted"
    shutil.copytree(ROOT / "tests/planted_suite/planted", case)
    (case / "always.py").write_text(
        "import torch\ndef always(context):\n    return {'always': torch._always}\n"
    )
    assert census.play(Case("planted/always", "planted", "always:always"))["always"].measures == {
        "always": [True]
    }
