"""The index as a user's machine meets it: real HTTP, conditional requests, trouble on the way, and downloads."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.planted_index import JSON, PlantedIndex, Reply
from tests.planted_wheels import make_torch_directml, make_wheel
from tracker.errors import IndexProblem, Stopped, WheelError
from tracker.index import UNKNOWN_UPLOAD, IndexAnswer, PackageIndex, is_left_behind
from tracker.index_page import read_page
from tracker.model import BuildFile

PACKAGE = "torch-directml"
PAGE = f"/simple/{PACKAGE}/"
OLD, NEW = "0.1.13.dev221216", "0.1.13.1.dev230119"


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[PlantedIndex]:
    """An index with two builds, which lists the newer one first, as the real one does."""
    with PlantedIndex() as index:
        index.add(make_torch_directml(tmp_path, NEW), "2023-01-20T19:13:04.434003Z")
        index.add(make_torch_directml(tmp_path, OLD), "2022-12-16T20:00:00Z")
        yield index


def ask(planted: PlantedIndex, tmp_path: Path, **settings: Any) -> IndexAnswer:
    return PackageIndex(planted.settings(**settings), tmp_path / "cache").builds(PACKAGE, PACKAGE)


def problem(planted: PlantedIndex, tmp_path: Path, **settings: Any) -> IndexProblem:
    with pytest.raises(IndexProblem) as caught:
        ask(planted, tmp_path, **settings)
    assert "\n" not in caught.value.message
    assert PACKAGE in caught.value.message and caught.value.hint
    return caught.value


def fetch(planted: PlantedIndex, tmp_path: Path, **settings: Any) -> Path:
    index = PackageIndex(planted.settings(**settings), tmp_path / "cache")
    return index.fetch_wheel(index.builds(PACKAGE, PACKAGE).builds[0].files[0])


def left_behind(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache" / "wheels").rglob("*") if path.is_file()]


# What a good page says


def test_builds_come_in_the_order_of_versions_not_of_text(planted: PlantedIndex, tmp_path: Path) -> None:
    answer = ask(planted, tmp_path)
    assert [build.version for build in answer.builds] == [OLD, NEW]
    assert answer.url == planted.url + "torch-directml/"
    assert not answer.warnings


def test_a_build_carries_what_the_index_says_of_its_files(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.page(PACKAGE)["files"][0].update({"requires-python": ">=3.7", "yanked": "broken"})
    build = ask(planted, tmp_path).builds[1]
    assert build.track == PACKAGE and build.yanked and build.yank_reason == "broken"
    assert build.uploaded == datetime(2023, 1, 20, 19, 13, 4, 434003, UTC)
    assert build.files[0].requires_python == ">=3.7"


def test_the_package_name_is_normalised_before_asking(planted: PlantedIndex, tmp_path: Path) -> None:
    answer = PackageIndex(planted.settings(), tmp_path).builds("x", "Torch_DirectML")
    assert len(answer.builds) == 2 and planted.requests[0].path == PAGE


def test_the_json_api_is_asked_for(planted: PlantedIndex, tmp_path: Path) -> None:
    ask(planted, tmp_path)
    assert planted.requests[0].headers["accept"].startswith(JSON)


def test_a_mirror_without_times_and_sizes_still_works(planted: PlantedIndex, tmp_path: Path) -> None:
    for entry in planted.page(PACKAGE)["files"]:
        del entry["upload-time"], entry["size"]
    builds = ask(planted, tmp_path).builds
    assert [build.uploaded for build in builds] == [UNKNOWN_UPLOAD] * 2
    assert builds[0].files[0].size == 0
    assert fetch(planted, tmp_path).is_file()


def test_relative_urls_are_resolved_against_the_page(planted: PlantedIndex, tmp_path: Path) -> None:
    entry = planted.page(PACKAGE)["files"][0]
    entry["url"] = f"../../files/{entry['filename']}#sha256=abc"
    assert ask(planted, tmp_path).builds[1].files[0].url == f"{planted.root}/files/{entry['filename']}"


def test_sdists_are_ignored_without_noise(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.page(PACKAGE)["files"].append({"filename": "torch_directml-9.tar.gz"})
    answer = ask(planted, tmp_path)
    assert len(answer.builds) == 2 and not answer.warnings


def test_ten_times_as_many_files_take_about_ten_times_as_long() -> None:
    def seconds(count: int) -> float:
        names = [f"torch-{n // 20}.0-cp3{n % 20}-cp3{n % 20}-win_amd64.whl" for n in range(count)]
        files = [{"filename": n, "url": n, "hashes": {"sha256": "0" * 64}, "size": 1} for n in names]
        page = json.dumps({"name": "torch", "files": files})
        began = time.process_time()
        builds, warnings = read_page(page, "http://x/", "torch", "torch")
        assert len(builds) == count // 20 and not warnings
        return time.process_time() - began

    seconds(20)  # what is done once
    assert min(seconds(5000) for _ in range(2)) < 50 * min(seconds(500) for _ in range(3))


# Conditional requests


def test_an_unchanged_page_is_answered_from_the_cache(planted: PlantedIndex, tmp_path: Path) -> None:
    first, second = ask(planted, tmp_path), ask(planted, tmp_path)
    assert not first.not_modified and second.not_modified
    assert second.builds == first.builds
    assert "if-none-match" not in planted.requests[0].headers
    assert "if-none-match" in planted.requests[1].headers


def test_a_changed_page_is_read_anew(planted: PlantedIndex, tmp_path: Path) -> None:
    ask(planted, tmp_path)
    planted.page(PACKAGE)["files"].pop()
    answer = ask(planted, tmp_path)
    assert not answer.not_modified and len(answer.builds) == 1


def test_a_torn_cache_is_asked_anew(planted: PlantedIndex, tmp_path: Path) -> None:
    ask(planted, tmp_path)
    (kept,) = (tmp_path / "cache" / "index").iterdir()
    kept.write_text(kept.read_text()[:50])
    answer = ask(planted, tmp_path)
    assert not answer.not_modified and len(answer.builds) == 2


def test_a_bad_page_is_not_kept(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(200, b"{", {"ETag": '"bad"', "Content-Type": JSON}))
    problem(planted, tmp_path)
    assert len(ask(planted, tmp_path).builds) == 2
    assert "if-none-match" not in planted.requests[-1].headers


def test_an_unasked_304_is_no_answer(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(304))
    assert "HTTP 304" in problem(planted, tmp_path).message


# Trouble on the way


def test_passing_server_errors_are_tried_again(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(500), Reply(503))
    assert len(ask(planted, tmp_path).builds) == 2
    assert planted.count(PAGE) == 3


def test_a_server_error_that_stays_is_told_after_all_tries(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, *[Reply(502)] * 9)
    assert "HTTP 502" in problem(planted, tmp_path, retries=2).message
    assert planted.count(PAGE) == 3


def test_retry_after_is_respected(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(429, headers={"Retry-After": "1"}))
    began = time.monotonic()
    assert len(ask(planted, tmp_path).builds) == 2
    assert time.monotonic() - began >= 1


def test_a_wait_past_the_deadline_is_not_waited_for(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(429, headers={"Retry-After": "3600"}))
    began = time.monotonic()
    assert "HTTP 429" in problem(planted, tmp_path).message
    assert time.monotonic() - began < 2


def test_a_retry_after_that_is_nonsense_is_ignored(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(503, headers={"Retry-After": "soon"}))
    assert len(ask(planted, tmp_path).builds) == 2


def test_a_missing_package_is_not_asked_for_again(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.pages.clear()
    assert "404" in problem(planted, tmp_path).message
    assert planted.count(PAGE) == 1


def test_a_truncated_page_is_no_answer(planted: PlantedIndex, tmp_path: Path) -> None:
    body = json.dumps(planted.page(PACKAGE)).encode()
    planted.answer_next(PAGE, *[Reply(200, body, claim=len(body) + 10)] * 3)
    assert "broke off" in problem(planted, tmp_path).message


def test_a_page_cut_once_is_asked_for_again(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(200, b'{"files"', {"Content-Type": JSON}, claim=999))
    assert len(ask(planted, tmp_path).builds) == 2


def test_a_steady_trickle_meets_the_deadline(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(200, b" " * 10_000, {"Content-Type": JSON}, pause=0.02))
    began = time.monotonic()
    assert "longer than its limit" in problem(planted, tmp_path, deadline=0.5).message
    assert time.monotonic() - began < 3


def test_silence_is_told_as_silence(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(200, b"  ", {"Content-Type": JSON}, pause=1.5))
    assert "silent for more than 0.2 s" in problem(planted, tmp_path, timeout=0.2, retries=0).message


def test_an_index_that_is_not_there_is_told_without_object_addresses(tmp_path: Path) -> None:
    with PlantedIndex() as planted:
        gone = planted.settings(retries=0)
    with pytest.raises(IndexProblem) as caught:
        PackageIndex(gone, tmp_path).builds(PACKAGE, PACKAGE)
    assert "0x" not in caught.value.message and gone.url in caught.value.message


def test_a_mirror_answers_when_the_first_index_does_not(planted: PlantedIndex, tmp_path: Path) -> None:
    with PlantedIndex() as empty:
        answer = ask(planted, tmp_path, url=empty.url, mirrors=(planted.url,))
    assert len(answer.builds) == 2 and answer.url.startswith(planted.url)


def test_when_no_index_answers_each_is_named(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.pages.clear()
    with PlantedIndex() as other:
        said = problem(planted, tmp_path, mirrors=(other.url,)).message
        assert planted.url in said and other.url in said


def test_a_login_in_the_url_is_used_but_never_shown(planted: PlantedIndex, tmp_path: Path) -> None:
    secret = planted.url.replace("http://", "http://me:s3cret@")
    answer = ask(planted, tmp_path, url=secret)
    assert planted.requests[0].headers["authorization"].startswith("Basic ")
    assert "s3cret" not in repr(answer)
    planted.pages.clear()
    assert "s3cret" not in problem(planted, tmp_path, url=secret).message


# Wheels


def test_a_wheel_is_kept_under_its_hash(planted: PlantedIndex, tmp_path: Path) -> None:
    path = fetch(planted, tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.parent == tmp_path / "cache" / "wheels" / digest[:2] / digest
    assert left_behind(tmp_path) == [path]


def test_a_wheel_in_the_cache_is_not_fetched_again(planted: PlantedIndex, tmp_path: Path) -> None:
    assert fetch(planted, tmp_path) == fetch(planted, tmp_path)
    assert planted.count("/files/") == 1


def test_a_cached_wheel_of_another_size_is_fetched_again(planted: PlantedIndex, tmp_path: Path) -> None:
    path = fetch(planted, tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert fetch(planted, tmp_path).read_bytes() == whole


def test_a_wheel_with_another_hash_is_refused_with_both_hashes(planted: PlantedIndex, tmp_path: Path) -> None:
    entry = planted.page(PACKAGE)["files"][1]
    true = entry["hashes"]["sha256"]
    entry["hashes"]["sha256"] = "a" * 64
    with pytest.raises(WheelError, match=f"{true}.*{'a' * 64}"):
        fetch(planted, tmp_path)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("step", [-1, 1])
def test_a_wheel_of_another_size_is_refused(planted: PlantedIndex, tmp_path: Path, step: int) -> None:
    planted.page(PACKAGE)["files"][1]["size"] += step
    with pytest.raises(WheelError):
        fetch(planted, tmp_path)
    assert left_behind(tmp_path) == []


def test_a_download_cut_once_is_tried_again(planted: PlantedIndex, tmp_path: Path) -> None:
    entry = planted.page(PACKAGE)["files"][1]
    planted.answer_next(f"/files/{entry['filename']}", Reply(200, b"PK\3\4", claim=entry["size"]))
    path = fetch(planted, tmp_path)
    assert path.stat().st_size == entry["size"] and left_behind(tmp_path) == [path]


def test_a_download_that_stays_cut_leaves_nothing(planted: PlantedIndex, tmp_path: Path) -> None:
    entry = planted.page(PACKAGE)["files"][1]
    planted.answer_next(f"/files/{entry['filename']}", *[Reply(200, b"PK\3\4", claim=entry["size"])] * 3)
    with pytest.raises(WheelError, match="broke off"):
        fetch(planted, tmp_path)
    assert left_behind(tmp_path) == []


def test_an_interrupt_leaves_nothing_behind(planted: PlantedIndex, tmp_path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    index = PackageIndex(planted.settings(), tmp_path / "cache")
    file = index.builds(PACKAGE, PACKAGE).builds[0].files[0]
    with pytest.raises(KeyboardInterrupt):
        index.fetch_wheel(file, interrupt)
    assert left_behind(tmp_path) == []


def test_a_cache_that_can_not_be_written_is_told_in_one_line(planted: PlantedIndex, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "wheels").write_text("a file, not a folder")
    with pytest.raises(WheelError, match="can not be kept"):
        fetch(planted, tmp_path)


@pytest.mark.parametrize(
    "changed", [{"filename": "../../evil-1-py3-none-any.whl"}, {"sha256": "../x"}, {"url": "file:///x"}]
)
def test_a_record_with_a_hostile_name_hash_or_url_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with PlantedIndex() as planted, pytest.raises(WheelError):
        file = BuildFile("x-1-py3-none-any.whl", "http://x/y", "0" * 64, 1, UNKNOWN_UPLOAD)
        PackageIndex(planted.settings(), tmp_path).fetch_wheel(replace(file, **changed))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "age", "left"),
    [
        ("x-1-py3-none-any.whl.11-3f.part", 61, True),
        ("x-1-py3-none-any.whl.11-3f.part", 59, False),
        ("x-1-py3-none-any.whl.7-3f.part", 3600, False),
        ("0123abcd.11.part", 61, True),
        ("x-1-py3-none-any.whl.7-3f.part", 90_000, True),
        ("somebody.part", 3600, False),
    ],
)
def test_a_part_is_left_behind_when_its_process_is_gone_and_it_grows_no_more(
    name: str, age: float, left: bool
) -> None:
    assert is_left_behind(name, age, alive=lambda pid: pid == 7) is left


def test_a_part_of_another_file_whose_download_was_killed_goes_too(
    planted: PlantedIndex, tmp_path: Path
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    part = tmp_path / "cache/wheels/ab/ab12" / f"y.whl.{dead.pid}-3f.part"
    part.parent.mkdir(parents=True)
    part.touch()
    os.utime(part, (time.time() - 100,) * 2)
    fetch(planted, tmp_path)
    assert not part.exists()


def test_old_parts_of_killed_downloads_are_swept(planted: PlantedIndex, tmp_path: Path) -> None:
    path = fetch(planted, tmp_path)
    stale = path.with_name("x.part")
    stale.write_bytes(b"")
    os.utime(stale, (0, 0))
    path.unlink()
    assert fetch(planted, tmp_path) == path and not stale.exists()


def test_any_package_can_be_served(tmp_path: Path) -> None:
    with PlantedIndex() as planted:
        planted.add(make_wheel(tmp_path, "demo", "1.0", "py3", "any", {"demo.py": "x = 1\n"}))
        answer = PackageIndex(planted.settings(), tmp_path).builds("demo", "demo")
    assert [build.version for build in answer.builds] == ["1.0"]


# Logins, mirrors, and being stopped


def test_an_answer_says_whether_a_mirror_gave_it(planted: PlantedIndex, tmp_path: Path) -> None:
    secret = planted.url.replace("http://", "http://me:s3cret@")
    assert not ask(planted, tmp_path, url=secret).mirror
    with PlantedIndex() as empty:
        assert ask(planted, tmp_path, url=empty.url, mirrors=(secret,)).mirror


def test_a_mirror_whose_address_begins_like_the_index_is_a_mirror(
    planted: PlantedIndex, tmp_path: Path
) -> None:
    page = json.dumps(planted.page(PACKAGE)).encode()
    planted.answer_next(f"/simple-mirror/{PACKAGE}/", Reply(200, page, {"Content-Type": JSON}))
    planted.pages.clear()
    answer = ask(planted, tmp_path, url=f"{planted.root}/simple", mirrors=(f"{planted.root}/simple-mirror/",))
    assert answer.mirror


def test_a_login_in_a_redirect_is_not_kept(planted: PlantedIndex, tmp_path: Path) -> None:
    there = planted.root.replace("http://", "http://me:s3cret@") + f"/simple/{PACKAGE}/x"
    body = json.dumps(planted.page(PACKAGE)).encode()
    planted.answer_next(PAGE, Reply(302, headers={"Location": there}))
    planted.answer_next(f"/simple/{PACKAGE}/x", Reply(200, body, {"Content-Type": JSON, "ETag": '"a"'}))
    assert len(ask(planted, tmp_path).builds) == 2
    (kept,) = (tmp_path / "cache" / "index").iterdir()
    assert "s3cret" not in kept.read_text()


def test_a_download_stops_when_it_is_told_to(planted: PlantedIndex, tmp_path: Path) -> None:
    told: list[int] = []
    index = PackageIndex(planted.settings(), tmp_path / "cache", lambda: bool(told))
    file = index.builds(PACKAGE, PACKAGE).builds[0].files[0]
    planted.answer_next(f"/files/{file.filename}", Reply(200, b"x" * file.size, pause=0.01))
    with pytest.raises(Stopped):
        index.fetch_wheel(file, told.append)
    assert left_behind(tmp_path) == []


def test_a_pause_between_tries_stops_when_it_is_told_to(planted: PlantedIndex, tmp_path: Path) -> None:
    planted.answer_next(PAGE, Reply(429, headers={"Retry-After": "5"}))
    index = PackageIndex(planted.settings(), tmp_path / "cache", lambda: planted.count() > 0)
    began = time.monotonic()
    with pytest.raises(Stopped):
        index.builds(PACKAGE, PACKAGE)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("path", ["page", "file"])
def test_a_stop_is_heard_while_the_index_is_silent(planted: PlantedIndex, tmp_path: Path, path: str) -> None:
    told: list[float] = []
    index = PackageIndex(planted.settings(timeout=20), tmp_path / "cache", lambda: bool(told))
    file = index.builds(PACKAGE, PACKAGE).builds[0].files[0]
    silent = Reply(200, b"x" * 10, {"Content-Type": JSON}, pause=3)
    planted.answer_next(PAGE if path == "page" else f"/files/{file.filename}", silent)
    timer = threading.Timer(0.3, lambda: told.append(time.monotonic()))
    timer.start()
    with pytest.raises(Stopped):
        index.builds(PACKAGE, PACKAGE) if path == "page" else index.fetch_wheel(file)
    assert time.monotonic() - told[0] < 1
    assert left_behind(tmp_path) == []
