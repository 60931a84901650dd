"""The whole program over a local index of small planted builds, as a user would start it.

A planted build needs a planted ``torch``: a few lines that know the dispatcher's question, so that the census
of a planted build is as real as that of a true one, in a hundredth of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.planted_index import PlantedIndex
from tests.planted_wheels import make_wheel

ROOT = Path(__file__).resolve().parents[2]

TORCH = """
__version__ = "2.4.1"
from torch import _C
def set_warn_always(flag): pass
"""
TORCH_C = """
REGISTERED = {"PrivateUse1": ["c10d::send"], "AutogradPrivateUse1": []}
def _dispatch_get_registrations_for_dispatch_key(key):
    if key not in REGISTERED:
        raise RuntimeError("could not parse dispatch key '%s'" % key)
    return list(REGISTERED[key])
"""

TRACK = """
name = "planted"
package = "planted"
module = "planted"
device = "directml"
dispatch_keys = ["PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1"]
pythons = ["{python}"]
"""

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def module(kernels: str = "aten::add.out", body: str = "") -> str:
    """Return the source of a planted build that registers kernels and then does what ``body`` says."""
    return (
        "import torch\n"
        f'torch._C.REGISTERED["PrivateUse1"] += "{kernels}".split()\n'
        "def device(device_id=None): return 'privateuseone:0'\n" + body
    )


@dataclass
class Answer:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.out)


@dataclass
class World:
    """A local index, a home folder and a way to run the program on them."""

    folder: Path
    index: PlantedIndex
    environ: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        (self.home / "tracks").mkdir(parents=True)
        (self.home / "tracks" / "planted.toml").write_text(TRACK.format(python=PYTHON), "utf-8")
        self.wheels = self.folder / "wheels"
        self.wheels.mkdir(parents=True)
        files = {"torch/__init__.py": TORCH, "torch/_C.py": TORCH_C}
        self.index.add(make_wheel(self.wheels, "torch", "2.4.1", "py3", "any", files))

    def close(self) -> None:
        """Kill what a test that failed has left running; its workers die with it."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=60)

    def plant(
        self, version: str, source: str, more: Mapping[str, str] | None = None, **entry: Any
    ) -> dict[str, Any]:
        """Put a build with this module, and ``more`` files beside it, on the index; return its entry there."""
        files = {"planted/__init__.py": source, **(more or {})}
        wheel = make_wheel(self.wheels, "planted", version, "py3", "any", files, ["torch==2.4.1"])
        return self.index.add(wheel, **entry)

    def settings(self, text: str) -> None:
        """Write the configuration."""
        (self.home / "config.toml").write_text(text, "utf-8")

    def environment(self) -> dict[str, str]:
        """Return the environment in which the program is started."""
        return {
            **os.environ,
            "DMLTRACK_HOME": str(self.home),
            "DMLTRACK_INDEX_URL": self.index.url,
            "DMLTRACK_ENVIRONMENTS_PYTHONS": sys.executable,
            "DMLTRACK_ENVIRONMENTS_MIN_FREE_GB": "0.1",
            "DMLTRACK_INDEX_RETRIES": "0",
            "PYTHONIOENCODING": "utf-8",
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
            **self.environ,
        }

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the program."""
        tracked = {"run", "builds", "poll", "changelog", "ops", "explain", "inspect", "doctor"}
        track = ("--track", "planted") if arguments and arguments[0] in tracked else ()
        return [sys.executable, "-m", "tracker", *arguments, *track]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the program and return at once."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Windows can interrupt a group of processes only.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str, code: int | None = None) -> Answer:
        """Run the program to its end; ``code`` is the exit code that a test relies on."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=240)
        answer = Answer(process.returncode, _text(out), _text(err))
        if code is not None:
            assert answer.code == code, f"exit {answer.code}, not {code}\n{answer.out}\n{answer.err}"
        return answer

    def planned(self, *builds: str) -> list[str]:
        """Return the cases that a run of one build has on this machine: with DirectX there are more."""
        plan = self.run("run", *builds, "--again", "--plan", "--json", code=0).data
        return [str(case) for case in plan["work"][0]["cases"]]

    def states(self) -> dict[tuple[str, str], str]:
        """Return the state of every verdict by version and case."""
        rows = self.run("sql", "select version, case_id, state from verdict", "--json", code=0).data
        return {(row["version"], row["case_id"]): row["state"] for row in rows}


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
