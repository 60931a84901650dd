"""Pages of an index that are no answer, and entries that cost a warning and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planted_index import JSON, PlantedIndex, Reply
from tests.unit.test_index import PACKAGE, PAGE, planted, problem
from tracker.errors import IndexProblem
from tracker.index import PackageIndex
from tracker.index_page import read_page

__all__ = ["planted"]

# Pages that are no answer


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "malformed JSON"),
        (b"\xff\xfe{", "malformed JSON"),
        (b"[" * 200_000, "malformed JSON"),
        (b"[]", "without a list of files"),
        (b'{"name": "torch-directml"}', "without a list of files"),
        (b'{"name": "torch-directml", "files": {}}', "without a list of files"),
        (b'{"name": "evil", "files": []}', "about 'evil'"),
        (b'{"name": 7, "files": []}', "about 'int'"),
        (b'{"name": "torch-directml", "files": [], "meta": {"api-version": "2.0"}}', "version '2.0'"),
    ],
)
def test_a_page_of_the_wrong_shape_is_no_answer(
    planted: PlantedIndex, tmp_path: Path, body: bytes, said: str
) -> None:
    planted.answer_next(PAGE, Reply(200, body, {"Content-Type": JSON}))
    assert said in problem(planted, tmp_path).message


def test_html_is_told_as_html(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(200, b"<html>", {"Content-Type": "text/html; charset=utf-8"}))
    found = problem(planted, tmp_path)
    assert "HTML instead of JSON" in found.message and "PEP 691" in str(found.hint)


def test_a_name_that_is_none_is_not_asked_for(planted: PlantedIndex, tmp_path: Path) -> None:
    with pytest.raises(IndexProblem, match="not a package name"):
        PackageIndex(planted.settings(), tmp_path).builds("x", "../../admin")
    assert planted.count() == 0


# Entries that are skipped

GOOD = "torch_directml-0.2.5.dev240914-cp312-cp312-win_amd64.whl"


@pytest.mark.parametrize(
    "changed",
    [
        {"filename": f"../{GOOD}"},
        {"filename": f"..\\{GOOD}"},
        {"filename": f"C:{GOOD}"},
        {"filename": GOOD.replace("-cp312-win", "\x1b[31m-cp312-win")},
        {"filename": GOOD.replace("torch", "t\u043erch")},
        {"filename": GOOD.replace("torch_directml", "torch")},
        {"filename": GOOD.replace("0.2.5", "zero")},
        {"filename": "torch_directml-1" + "0" * 300 + "-cp312-cp312-win_amd64.whl"},
        {"filename": "notes.txt"},
        {"filename": None},
        {"hashes": {}},
        {"hashes": {"sha256": "abc"}},
        {"hashes": {"sha256": "../" + "0" * 61}},
        {"hashes": None},
        {"size": -1},
        {"size": "big"},
        {"size": True},
        {"url": None},
        {"url": "file:///etc/passwd"},
        {"url": "ftp://x/y.whl"},
        {"url": "http://"},
        {"url": "http://[::1"},
        {"url": "http://me:pw@host/y.whl"},
        {"url": "/files/%2e%2e/%2e%2e/y.whl"},
        {"url": "/files/a\nb.whl"},
        {"url": "/" + "a" * 5000},
    ],
    ids=lambda changed: repr(changed)[:40],
)
def test_a_bad_entry_costs_one_warning_and_nothing_else(changed: dict[str, Any]) -> None:
    good = {"filename": GOOD, "url": f"/files/{GOOD}", "hashes": {"sha256": "0" * 64}, "size": 1}
    bad = {**good, "filename": GOOD.replace("cp312", "cp311"), **changed}
    body = json.dumps({"name": PACKAGE, "files": [bad, good]})
    builds, warnings = read_page(body, "http://x/simple/", "t", PACKAGE)
    assert [file.filename for build in builds for file in build.files] == [GOOD]
    assert len(warnings) == 1
    assert warnings[0].isprintable() and len(warnings[0]) < 300


@pytest.mark.parametrize("entry", [None, 7, "x", []])
def test_an_entry_that_is_no_object_is_skipped(entry: object) -> None:
    builds, warnings = read_page(json.dumps({"name": PACKAGE, "files": [entry]}), "http://x/", "t", PACKAGE)
    assert not builds and len(warnings) == 1


def test_a_file_listed_twice_counts_once() -> None:
    entry = {"filename": GOOD, "url": "/a", "hashes": {"sha256": "0" * 64}}
    body = json.dumps({"name": PACKAGE, "files": [entry, {**entry, "url": "/b"}]})
    builds, warnings = read_page(body, "http://x/", "t", PACKAGE)
    assert builds[0].files[0].url == "http://x/a" and "twice" in warnings[0]


def test_a_flood_of_bad_entries_is_told_briefly() -> None:
    builds, warnings = read_page(json.dumps({"name": "x", "files": [1] * 500}), "http://x/", "t", "x")
    assert not builds and len(warnings) == 51 and "450 more" in warnings[-1]


def test_a_yank_reason_is_one_bounded_line() -> None:
    entry = {
        "filename": GOOD,
        "url": "/a",
        "hashes": {"sha256": "0" * 64},
        "yanked": "a\nb\x1b[2J" + "x" * 9999,
    }
    builds, _ = read_page(json.dumps({"name": PACKAGE, "files": [entry]}), "http://x/", "t", PACKAGE)
    reason = builds[0].yank_reason
    assert reason and reason.isprintable() and len(reason) == 500


@pytest.mark.parametrize(
    ("said", "yanked"), [(True, ""), ("why", "why"), (False, None), ("", None), (None, None)]
)
def test_yanked_is_read_as_the_standard_says(said: object, yanked: str | None) -> None:
    entry = {"filename": GOOD, "url": "/a", "hashes": {"sha256": "0" * 64}, "yanked": said}
    builds, _ = read_page(json.dumps({"name": PACKAGE, "files": [entry]}), "http://x/", "t", PACKAGE)
    assert builds[0].files[0].yanked == yanked
