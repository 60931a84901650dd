"""Reports about installing and importing that the environment itself can answer; no device is asked for."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any

from suites.bugs.common_b import Measures, claim, skip
from suites.context import Context


def import_on_linux(context: Context) -> Measures:
    """The import failed for an undefined symbol with conda's torch: it must work with the one from the index."""
    if not sys.platform.startswith("linux"):
        raise skip("not-linux", "the report is about Linux")
    return _imported(context)


def import_on_windows(context: Context) -> Measures:
    """The import failed because a DLL could not be loaded on Windows."""
    if sys.platform != "win32":
        raise skip("not-windows", "the report is about Windows")
    return _imported(context)


def _imported(context: Context) -> Measures:
    """Import the build; say that it is the one under test, from this environment, and whose torch it met."""
    module = context.build()
    package, version = context.track["package"], context.track.get("version")
    # The folder's, because a file may be a link into a cache that several environments share.
    place = Path(str(getattr(module, "__file__", ""))).parent.resolve()
    within = Path(sys.prefix).resolve() in place.parents
    claims = [claim("imported from this environment", within, True)]
    if version:
        claims.append(claim("version", importlib.metadata.version(package), version))
    return {"claims": claims, "facts": {"torch": _installed("torch"), "python": sys.version.split()[0]}}


def _installed(package: str) -> dict[str, Any]:
    found = importlib.metadata.distribution(package)
    return {"version": found.version, "installer": (found.read_text("INSTALLER") or "").strip()}


def torch_two(context: Context) -> Measures:
    """Support for torch 2.0 was wanted, for the build's pin took it away: which torch the build's metadata pins."""
    context.build()
    if context.device_kind in ("cpu", "cuda"):
        raise skip("not-on-this-device", "torch itself pins no torch")
    asked = importlib.metadata.requires(context.track["package"]) or []
    pins = [pin for pin in asked if re.match(r"torch\b(?![-_])", pin)]
    versions = [re.search(r"==\s*(\d+)", pin) for pin in pins]
    majors = [int(found.group(1)) for found in versions if found]
    if not majors:
        raise skip("no-pin", "the build's metadata pins no torch")
    return {
        "claims": [claim("torch pinned is 2.0 or later", min(majors) >= 2, True)],
        "facts": {"pins": pins},
    }
