"""An environment with real torch, made once and kept: what tests marked ``torch`` run in."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import platformdirs
import pytest
from filelock import FileLock
from uv import find_uv_bin

from tests.suites.torches import ROOT, Torch
from tracker.config import load
from tracker.environments import index_variables, interpreter

GIVEN = "DMLTRACK_TORCH_PYTHON"
"""Names a Python that has all of it; nothing is installed then."""
REQUIRED = "DMLTRACK_TORCH_REQUIRED"
"""Set where a machine without torch must fail and not skip."""

PINS = ("torch==2.4.1", "torchvision==0.19.1", "numpy==1.26.4")


def requirements() -> list[str]:
    """Return torch, and what the suites' own manifests ask for."""
    found = {
        requirement
        for manifest in (ROOT / "suites").glob("*/suite.toml")
        for requirement in tomllib.loads(manifest.read_text("utf-8")).get("requirements", [])
    }
    return [*PINS, *sorted(found)]


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The interpreter of an environment with torch 2.4.1 and the suites' requirements."""
    given = os.environ.get(GIVEN)
    return Path(given) if given else _made(requirements())


@pytest.fixture(scope="session")
def real_torch(torch_python: Path) -> Torch:
    """Runs cases of the suites there."""
    return Torch(torch_python)


def _made(wanted: list[str]) -> Path:
    python = f"3.{min(sys.version_info[1], 12)}"  # torch 2.4.1 has wheels up to there
    name = hashlib.sha256("\n".join([python, *wanted]).encode()).hexdigest()[:12]
    folder = platformdirs.user_cache_path("dmltrack-tests", appauthor=False) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "ready").exists():
            _uv("venv", "--quiet", "--clear", "--python", python, str(folder))
            _uv("pip", "install", "--quiet", "--python", str(interpreter(folder)), *wanted)
            (folder / "ready").touch()
    return interpreter(folder)


def _uv(*arguments: str) -> None:
    """Run uv with the index of the settings; without torch there is nothing to test."""
    settings = load(ROOT).settings.index
    environ = {**os.environ, **index_variables((settings.url, *settings.mirrors))}
    command = [find_uv_bin(), "--no-config", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        why = f"no environment with torch: {done.stderr.strip()[-500:]}"
        pytest.fail(why) if os.environ.get(REQUIRED) else pytest.skip(why)
