"""Order and parse build versions as PEP 440 does, never as text.

``packaging`` is the authority. Nothing here knows what a build is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from packaging.version import InvalidVersion, Version


@lru_cache(maxsize=4096)
def parse(version: str) -> Version | None:
    """Return the PEP 440 version, or None where the text is not one."""
    try:
        return Version(version)
    except InvalidVersion:
        return None


def sort_key(version: str, uploaded: datetime | None = None) -> tuple[bool, Version, float, str]:
    """Return a key that orders by version, then upload time; what is not a version comes first, by text."""
    parsed = parse(version)
    moment = uploaded.timestamp() if uploaded else 0.0
    return (parsed is not None, parsed or Version("0"), moment, version)


def in_order(versions: Iterable[str]) -> list[str]:
    """Return the versions, oldest first."""
    return sorted(versions, key=sort_key)
