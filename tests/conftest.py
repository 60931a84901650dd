"""What several tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.planted_index import PlantedIndex
from tests.scenarios.world import World


@pytest.fixture
def new_world() -> Iterator[Callable[[Path], World]]:
    """Makes worlds in given folders; nothing that was started in them outlives the test."""
    worlds: list[World] = []
    with PlantedIndex() as index:

        def make(folder: Path) -> World:
            worlds.append(World(folder, index))
            return worlds[-1]

        yield make
        for world in worlds:
            world.close()


@pytest.fixture
def world(new_world: Callable[[Path], World], tmp_path: Path) -> World:
    """A local index with a planted torch, an empty home folder, and the program."""
    return new_world(tmp_path)
