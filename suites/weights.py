"""Which file in a folder holds the weights of a net. Standard library only; nothing is read."""

from __future__ import annotations

from pathlib import Path

_SUFFIXES = (".pth", ".pt", ".bin")
_HEX = frozenset("0123456789abcdef")


def weights_file(folder: str, name: str) -> Path | None:
    """Return the folder's file for the net: ``<name>.pth``, ``<name>-<hash>.pth``, also .pt and .bin."""
    if not folder or not Path(folder).is_dir():
        return None
    asked = name.replace("_", "-")
    for path in sorted(Path(folder).rglob("*")):
        stem = path.stem.replace("_", "-")
        if path.suffix in _SUFFIXES and (stem == asked or _is_variant(stem, asked)):
            return path
    return None


def _is_variant(stem: str, asked: str) -> bool:
    """Whether the stem is the name and one or two words more, the last a hash: ``-rwightman-7f5810bc``."""
    words = stem[len(asked) + 1 :].split("-") if stem.startswith(asked + "-") else []
    return 0 < len(words) <= 2 and len(words[-1]) >= 8 and _HEX.issuperset(words[-1])
