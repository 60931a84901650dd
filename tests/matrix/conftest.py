"""``uv run pytest tests/matrix --accept`` runs the matrix and writes down what came out."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="take what the matrix gave as what it must give")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--accept", False):
        config.option.markexpr = ""  # who accepts wants it to run


@pytest.fixture
def accept(request: pytest.FixtureRequest) -> bool:
    """Whether the expected files are to be written."""
    return bool(request.config.getoption("--accept", False))
