"""Run ``uv`` and interpreters for the environments.

Owns what they may see of the host, and where uv keeps its cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tracker.process import Limits, clean_environment, run

LOG_BYTES = 256 * 1024
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME", "NETRC")
_NEVER = ("UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PREFIX")


def tool_environment(home: Path, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a tool: a worker's, and what reaches an index (certificates, uv's settings).

    A package that has to be built runs code of its own here, so tokens of the host do not get in, other than
    those that uv itself was given in UV_* variables.
    """
    extra = {
        name: value
        for name, value in source.items()
        if name in _PASSED_ON or (name.startswith("UV_") and name not in _NEVER)
    }
    if "UV_CACHE_DIR" not in extra and not same_volume(_default_cache(source), home):
        extra["UV_CACHE_DIR"] = str(home / "cache" / "uv")
    return clean_environment(extra, source)


def _default_cache(source: Mapping[str, str]) -> Path:
    """Return the folder where uv keeps its cache when it is not told."""
    if os.name == "nt":
        return Path(source.get("LOCALAPPDATA", str(Path.home())))
    return Path(source.get("XDG_CACHE_HOME") or Path(source.get("HOME", "~")).expanduser() / ".cache")


def same_volume(one: Path, other: Path) -> bool:
    """Whether files of two places can share storage by hard links; paths that do not exist yet count too."""
    try:
        return _existing(one).stat().st_dev == _existing(other).stat().st_dev
    except OSError:
        return False


def _existing(path: Path) -> Path:
    return next(place for place in [path, *path.parents] if place.exists())


def tool_runner(home: Path) -> Callable[[Sequence[str], float], tuple[int | None, str]]:
    """Return what runs a command within seconds and gives its exit code (None: killed) and output."""
    environment = tool_environment(home)

    def run_tool(command: Sequence[str], seconds: float) -> tuple[int | None, str]:
        ended = run(command, env=environment, cwd=home, limits=Limits(seconds=seconds, log=LOG_BYTES))
        return ended.exit_code, ended.log or ended.error

    return run_tool
