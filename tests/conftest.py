"""What several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.planted_index import PlantedIndex
from tests.scenarios.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A local index with a planted torch, an empty home folder, and the program."""
    with PlantedIndex() as index:
        yield World(tmp_path, index)
