"""Labelled photos in a folder: which there are, and which class each label names. Standard library only.

They are in ``<data>/photos``: ``<label>/*.jpg``, or a list ``photos.csv`` with lines ``file,label``. A label is the
class's number (0 to 999) or its name as torchvision lists it, in any case, ``_`` for a blank.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Tuple

_MOST = 32  # photos in one case
_ENDINGS = (".jpg", ".jpeg", ".png")

Photo = Tuple[Path, int]


def labelled(data: str, names: list[str]) -> tuple[list[Photo], list[str]]:
    """Return the photos with their classes' numbers, at most 32, and the labels that name no class."""
    photos: list[Photo] = []
    unknown: list[str] = []
    for path, label in _listed(Path(data) / "photos") if data else []:
        number = class_number(label, names)
        if number is None:
            unknown.append(label)
        elif path.is_file():
            photos.append((path, number))
    return photos[:_MOST], sorted(set(unknown))


def _listed(folder: Path) -> list[tuple[Path, str]]:
    table = folder / "photos.csv"
    if table.is_file():
        with table.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines) if len(row) >= 2]
        return [(folder / row[0].strip(), row[1]) for row in rows]
    return [
        (path, path.parent.name) for path in sorted(folder.glob("*/*")) if path.suffix.lower() in _ENDINGS
    ]


def class_number(label: str, names: list[str]) -> int | None:
    """Return the number of the class that the label names, or None."""
    plain = label.strip().lower().replace("_", " ")
    if plain.isdigit():
        return int(plain) if int(plain) < len(names) else None
    return next((at for at, name in enumerate(names) if name.lower() == plain), None)
