"""Run ``uv`` and interpreters for the environments.

Owns what they may see of the host, and where uv keeps its cache.

A package that comes as source runs code of its own while uv builds it, as this user. So uv is not given the
host's tokens, nor anything that would change what is installed. It is given what it needs to reach the index,
with the user names and passwords in it: the proxies here, the index's address by who asks for it. Such code
could read the same in the user's own files; what runs in a finished environment is not given it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tracker.errors import Stopped
from tracker.process import Cause, Limits, clean_environment, run

LOG_BYTES = 256 * 1024
NOT_STARTED = 127
"""The exit code of a command that could not be started, as shells have it."""

_PASSED_ON = {"SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME", "NETRC"}
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
_UV = {
    # Where uv keeps its files, and how they come from there into an environment.
    *("UV_CACHE_DIR", "UV_LINK_MODE", "UV_PYTHON_INSTALL_DIR", "UV_PYTHON_CACHE_DIR"),
    # How it reaches an index and its Pythons.
    *("UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_REQUEST_TIMEOUT", "UV_HTTP_RETRIES", "UV_OFFLINE"),
    *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_PYTHON_INSTALL_MIRROR"),
    # How much it does at once.
    *("UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_BUILDS", "UV_CONCURRENT_INSTALLS", "UV_LOCK_TIMEOUT"),
}
"""uv's own settings that pass. Others change what is installed, or where (UV_CONSTRAINT, UV_TARGET), or are
secrets (UV_PUBLISH_TOKEN)."""


class RunTool(Protocol):
    """Runs a command within seconds, with further variables; gives its exit code (None: killed) and output."""

    def __call__(
        self, command: Sequence[str], seconds: float, variables: Mapping[str, str] = ..., /
    ) -> tuple[int | None, str]:
        """Raise Stopped when it was told to stop."""


def tool_environment(home: Path, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a tool: a worker's, and what uv needs to work and to reach an index."""
    extra = {name: value for name, value in source.items() if _passes(name)}
    cache = _default_cache(source)
    if "UV_CACHE_DIR" not in extra and not (cache and same_volume(cache, home)):
        extra["UV_CACHE_DIR"] = str(home / "cache" / "uv")
    return clean_environment(extra, source)


def _passes(name: str) -> bool:
    return name in _PASSED_ON or name in _UV or name.upper() in _PROXIES


def _default_cache(source: Mapping[str, str]) -> Path | None:
    """Return the folder where uv keeps its cache when it is not told; None where it would find none."""
    if os.name == "nt":
        return Path(source["LOCALAPPDATA"]) if source.get("LOCALAPPDATA") else None
    folder = Path(source.get("XDG_CACHE_HOME") or Path(source.get("HOME") or "nowhere", ".cache"))
    return folder if folder.is_absolute() else None


def same_volume(one: Path, other: Path) -> bool:
    """Whether files of two places can share storage by hard links; paths that do not exist yet count too."""
    try:
        return _existing(one).stat().st_dev == _existing(other).stat().st_dev
    except OSError:
        return False


def _existing(path: Path) -> Path:
    return next(place for place in [path, *path.parents] if place.exists())


def tool_runner(home: Path, stop: Callable[[], bool] = lambda: False) -> RunTool:
    """Return what runs a command; ``stop`` is asked often, and True ends it and raises Stopped."""
    environment = tool_environment(home)

    def run_tool(
        command: Sequence[str], seconds: float, variables: Mapping[str, str] = {}, /
    ) -> tuple[int | None, str]:
        limits = Limits(seconds=seconds, log=LOG_BYTES)
        ended = run(command, env={**environment, **variables}, cwd=home, limits=limits, on_tick=stop)
        if ended.cause is Cause.STOPPED:
            raise Stopped(f"stopped while {Path(command[0]).stem} was at work")
        if ended.cause is Cause.NOT_STARTED:
            return NOT_STARTED, ended.error
        return ended.exit_code, ended.log

    return run_tool
