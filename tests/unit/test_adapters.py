"""Adapters are chosen by name, and never another one in silence."""

from __future__ import annotations

import pytest

from tracker.adapters import Adapter, choose, driver_of
from tracker.errors import UsageError

NAMES = ["NVIDIA GeForce RTX 3060", "AMD Radeon RX 6800 XT", "AMD Radeon RX 6800 XT #2"]


def test_the_first_that_fits_is_taken_and_any_when_nothing_is_asked() -> None:
    assert choose(NAMES, "") == NAMES[0]
    assert choose(NAMES, "radeon") == NAMES[1]
    assert choose(NAMES, "#2$") == NAMES[2]
    assert choose(["AMD Radeon(TM) Graphics"], "Radeon(TM)") == "AMD Radeon(TM) Graphics"
    assert choose([], "radeon") is None


@pytest.mark.parametrize("pattern", ["Arc", "("])
def test_what_fits_nothing_is_an_error(pattern: str) -> None:
    with pytest.raises(UsageError):
        choose(NAMES, pattern)


def test_a_driver_is_part_of_the_label_where_it_is_known() -> None:
    drivers = [
        ("AMD Radeon RX 6800 XT", "31.0.1"),
        ("NVIDIA GeForce RTX 3060", "30.1"),
        ("Basic Display", "10"),
    ]
    assert driver_of("AMD Radeon RX 6800 XT #2", drivers) == "31.0.1"
    assert driver_of("AMD Radeon RX 6800 XT", [*drivers, ("AMD Radeon RX 6800 XT", "29.0")]) == ""
    assert Adapter("X", "1.2").label == "X (driver 1.2)" and Adapter("X").label == "X"
