"""The parts of the image suites that need no torch: times, labels, files of weights, which checks are kept."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from suites import timing
from suites.inference import labels
from suites.telling import telling
from suites.weights import weights_file
from tracker.matrix import load_suites

SUITES = Path(__file__).parents[2] / "suites"
NAMES = ["tench", "goldfish", "great white shark"]


class Tensor:
    """Stands for a tensor whose work is done when it is read."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.read = 0

    def cpu(self) -> None:
        time.sleep(self.seconds)
        self.read += 1


def test_a_time_includes_reading_every_tensor_of_the_result() -> None:
    result = {"a": [Tensor(0.02), (Tensor(0.02), "text", None)]}
    seconds, same = timing.timed(lambda: result)
    assert same is result
    assert seconds >= 0.04


def test_repeats_stop_when_the_time_is_spent_but_not_before_the_least() -> None:
    assert len(timing.repeats(lambda: Tensor(0.02), 100, 0.05)) in (2, 3)
    assert len(timing.repeats(lambda: Tensor(), 100, 0.0, least=4)) == 4
    assert timing.repeats(lambda: Tensor(), 0, 1.0, least=0) == []


def test_rounds_do_each_work_once_in_turns_forward_and_backward() -> None:
    order: list[str] = []
    found = timing.interleaved({name: lambda name=name: order.append(name) for name in "ab"}, 3, 5.0)  # type: ignore[misc]
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert Counter({name: len(times) for name, times in found.items()}) == Counter(a=3, b=3)


@pytest.mark.parametrize(
    ("label", "number"),
    [("1", 1), ("goldfish", 1), ("Great_White_Shark", 2), (" tench ", 0), ("3", None), ("cat", None)],
)
def test_a_label_is_a_number_or_a_name(label: str, number: int | None) -> None:
    assert labels.class_number(label, NAMES) == number


def test_photos_lie_in_folders_named_by_their_label(tmp_path: Path) -> None:
    for name in ("goldfish/b.jpg", "goldfish/a.JPG", "2/c.png", "2/notes.txt", "dog/d.jpg"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    photos, unknown = labels.labelled(str(tmp_path), NAMES)
    assert [(path.name, number) for path, number in photos] == [("c.png", 2), ("a.JPG", 1), ("b.jpg", 1)]
    assert unknown == ["dog"]


def test_a_list_of_photos_goes_before_folders(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "x.jpg").touch()
    (tmp_path / "photos" / "photos.csv").write_text(
        'x.jpg,"great white shark"\nlost.jpg,1\n', encoding="utf-8"
    )
    assert labels.labelled(str(tmp_path), NAMES) == ([(tmp_path / "photos" / "x.jpg", 2)], [])


def test_without_a_folder_there_are_no_photos(tmp_path: Path) -> None:
    assert labels.labelled("", NAMES) == ([], [])
    assert labels.labelled(str(tmp_path / "none"), NAMES) == ([], [])


@pytest.mark.parametrize(
    ("file", "net"),
    [
        ("resnet18.pth", "resnet18"),
        ("resnet18-f37072fd.pth", "resnet18"),
        ("sub/efficientnet_b0_rwightman-7f5810bc.pth", "efficientnet_b0"),
        ("efficientnet-lite0-57934424.pth", "efficientnet_lite0"),
        ("resnet18.txt", None),
        ("resnet18-notes.pth", None),
    ],
)
def test_weights_are_found_by_the_nets_name(tmp_path: Path, file: str, net: str | None) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.touch()
    for name in ("resnet18", "resnet1", "efficientnet_b0", "efficientnet_lite0", "vit_b_16"):
        assert weights_file(str(tmp_path), name) == (path if name == net else None)


def test_a_name_that_begins_another_does_not_take_its_weights(tmp_path: Path) -> None:
    (tmp_path / "vit_b_16_linear-0123abcd.pth").touch()
    (tmp_path / "vit_b_16-c867db91.pth").touch()
    assert weights_file(str(tmp_path), "vit_b_16") == tmp_path / "vit_b_16-c867db91.pth"
    assert weights_file("", "vit_b_16") is None


def check(name: str, error: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": "float32",
        "scale": 1.0,
        "noise": 1e-6,
        "worst": [[1.0, error]] if error else [],
        **more,
    }


def test_what_is_more_than_rounding_is_kept_and_the_largest_of_the_rest() -> None:
    checks = [
        check("exact"),
        check("small", 1e-7),
        check("wrong", 1e-2),
        check("larger", 2e-6),
        check("none", missing="grad is None"),
    ]
    kept, left_out = telling(checks, 1)
    assert [one["name"] for one in kept] == ["wrong", "larger", "none"]
    assert left_out == 2


def test_of_a_thousand_wrong_checks_the_first_forty_speak() -> None:
    kept, left_out = telling([check(str(at), 1.0) for at in range(1000)])
    assert [one["name"] for one in kept] == [str(at) for at in range(40)]
    assert left_out == 960


@pytest.mark.parametrize("suite", ["inference", "fp16", "vit"])
def test_small_runs_have_smaller_cases(suite: str) -> None:
    sizes = {
        size: {
            case.id: case
            for found in load_suites(SUITES, size)
            if found.name == suite
            for case in found.cases
        }
        for size in ("full", "small")
    }
    assert 0 < len(sizes["small"]) <= len(sizes["full"])
    images = [case.params["image"] for case in sizes["small"].values() if "image" in case.params]
    assert images
    assert max(images) <= 64
    assert all(case.needs == "device" for case in sizes["full"].values())
