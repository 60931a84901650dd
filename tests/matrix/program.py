"""The whole program in a home folder of its own, over planted builds on real torch."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tracker.config import load

ROOT = Path(__file__).resolve().parents[2]

MARKS = [
    pytest.mark.torch,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the planted device talks to torch's C++ as built for Linux"
    ),
]

SETTINGS = """
[worker]
environment = {{ LD_LIBRARY_PATH = "{directx}", OMP_NUM_THREADS = "1" }}
case_timeout = 40
timeout_factor = {slowness}
# The sample of passes that is run in another order would be another one each time.
reorder_share = 0

[environments]
min_free_gb = 1
disk_budget_gb = 200

[suites]
samples = 4
threads = 1
"""


@dataclass(frozen=True)
class Program:
    """The program in a home folder, on the planted index and, for all that it has not, on the usual one."""

    home: Path
    index: str

    @classmethod
    def made(cls, folder: Path, index: str) -> Self:
        """Make the home folder, and what stands for DirectX, in a folder."""
        home, directx = folder / "home", folder / "directx"
        home.mkdir()
        directx.mkdir()
        (directx / "libdxcore.so").touch()  # whoever has this library has DirectX
        slowness = os.environ.get("DMLTRACK_TEST_SLOWNESS", "1")
        (home / "config.toml").write_text(SETTINGS.format(directx=directx, slowness=slowness), "utf-8")
        return cls(home, index)

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command to its end and return what it printed."""
        usual = load(ROOT).settings.index
        environ = {
            **os.environ,
            "DMLTRACK_HOME": str(self.home),
            "DMLTRACK_INDEX_URL": self.index,
            "DMLTRACK_INDEX_MIRRORS": " ".join((usual.url, *usual.mirrors)),
            "DMLTRACK_ENVIRONMENTS_PYTHONS": sys.executable,
            "COLUMNS": "110",
        }
        command = [sys.executable, "-m", "tracker", *arguments]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in codes, (
            f"exit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
        return done.stdout


def of_cases(patterns: tuple[str, ...]) -> list[str]:
    """Return the options that name cases."""
    return [word for pattern in patterns for word in ("--cases", pattern)]
