"""Facts of this host that can change a result, and whether DirectX 12 is there.

Nothing here imports torch or asks a device: that is a worker's job.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tracker.model import Machine, Platform

WSL_LIBRARIES = Path("/usr/lib/wsl/lib")
DIRECTX_LIBRARY = "libdxcore.so"


def this_platform() -> Platform:
    """Return the platform whose wheels this host installs."""
    return Platform.WINDOWS if sys.platform == "win32" else Platform.LINUX


def own_fingerprint(worker_environment: Mapping[str, str]) -> str:
    """Return this host's fingerprint alone: all that a question needs of it."""
    return fingerprint(_facts(worker_environment))


def _facts(worker_environment: Mapping[str, str]) -> dict[str, str]:
    system, release = _system()
    return {
        "system": system,
        "release": release,
        "arch": platform.machine().lower().replace("amd64", "x86_64"),
        "cpu": _cpu(),
        "cores": str(os.cpu_count() or 1),
        "memory": str(round(_memory() / (1 << 30))),
        "directx": directx(worker_environment),
    }


def this_machine(worker_environment: Mapping[str, str]) -> Machine:
    """Return the facts of this host; the workers' extra variables may say where DirectX is."""
    facts = _facts(worker_environment)
    return Machine(
        fingerprint=fingerprint(facts),
        system=facts["system"],
        release=facts["release"],
        arch=facts["arch"],
        cpu=facts["cpu"],
        cores=int(facts["cores"]),
        memory=int(facts["memory"]),
        directx=facts["directx"],
        tracker=_own_version(),
    )


def fingerprint(facts: Mapping[str, str]) -> str:
    """Return a digest of the facts that does not depend on their order."""
    text = "\n".join(f"{name}={facts[name]}" for name in sorted(facts))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


BOOT_DRIFT = 120
"""Seconds by which corrections of the clock may move the moment of a start, and no machine starts twice within."""


def boot_id() -> str:
    """Return which start of the machine this is; empty where that can not be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        pass
    import psutil

    return f"{psutil.boot_time():.0f}"


def same_boot(one: str, other: str) -> bool:
    """Whether two answers of ``boot_id`` are of one start; Windows tells its moment only, to within a little."""
    if one.isdigit() and other.isdigit():
        return abs(int(one) - int(other)) < BOOT_DRIFT
    return one == other


def directx(environment: Mapping[str, str]) -> str:
    """Say whether a device may be asked for: ``real`` DirectX, or at best a wheel's ``stand-in`` for it.

    With the stand-ins a build can be imported, but asking it for a device may kill the process.
    """
    if sys.platform == "win32":
        return "real"
    return "real" if has_directx(library_folders(environment)) else "stand-in"


def library_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of Linux in which a worker with these extra variables finds DirectX."""
    paths = [Path(part) for part in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part]
    return [*paths, WSL_LIBRARIES]


def has_directx(folders: Iterable[Path]) -> bool:
    """Whether one of the folders holds the DirectX core library of Linux."""
    return any((folder / DIRECTX_LIBRARY).exists() for folder in folders)


def _system() -> tuple[str, str]:
    """Name the system and its release; on Linux the distribution, because its kernel says nothing here."""
    if sys.platform == "win32":
        return "Windows", platform.version()
    try:
        release = platform.freedesktop_os_release()
        return "Linux", f"{release.get('ID', 'unknown')} {release.get('VERSION_ID', '')}".strip()
    except OSError:
        return platform.system(), platform.release()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _memory() -> int:
    """Return the bytes of memory; a question needs this machine's name, so nothing slow is imported on POSIX."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.virtual_memory().total)
    else:  # noqa: RET505 - the type checker looks at one branch per system
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dmltrack")
    except PackageNotFoundError:
        return "unknown"
