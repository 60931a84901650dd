"""A poll records what is new once, and a lagging mirror takes nothing away."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any

import filelock
import pytest

from tests.builders import DAY, build
from tests.planted_index import JSON, PlantedIndex, Reply
from tests.planted_wheels import make_torch_directml
from tracker.errors import HomeBusy, IndexProblem
from tracker.home import Home
from tracker.index import UNKNOWN_UPLOAD
from tracker.model import IndexChange, IndexChangeKind
from tracker.poll import PollBusy, Polled, changed_builds, completed, poll

OLD = build("1.0")


def test_times_and_sizes_that_a_mirror_leaves_out_are_kept() -> None:
    bare = replace(
        OLD, uploaded=UNKNOWN_UPLOAD, files=(replace(OLD.files[0], uploaded=UNKNOWN_UPLOAD, size=0),)
    )
    assert completed(bare, OLD) == OLD


def test_a_file_with_another_hash_is_another_file() -> None:
    other = replace(OLD, files=(replace(OLD.files[0], sha256="f" * 64, size=0),))
    assert completed(other, OLD).files[0].size == 0


def test_a_build_never_seen_is_taken_as_it_is() -> None:
    assert completed(OLD, None) == OLD


def test_a_record_that_is_equal_is_not_written_again() -> None:
    assert changed_builds({"1.0": OLD}, [OLD]) == []


def test_a_build_that_is_gone_is_recorded_without_files() -> None:
    assert changed_builds({"1.0": OLD}, []) == [replace(OLD, files=())]


def test_the_upload_time_of_a_build_is_that_of_its_first_file() -> None:
    late = replace(OLD.files[0], filename="b", sha256="b" * 64, uploaded=datetime(2025, 1, 1, tzinfo=UTC))
    assert completed(replace(OLD, files=(late, OLD.files[0])), None).uploaded == DAY


# Whole polls of a planted index


@pytest.fixture
def home(tmp_path: Path, planted: PlantedIndex) -> Home:
    return home_at(tmp_path / "home", f'[index]\nurl = "{planted.url}"\nretries = 0\n')


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[PlantedIndex]:
    with PlantedIndex() as index:
        index.add(make_torch_directml(tmp_path, "0.2.4"))
        index.add(make_torch_directml(tmp_path, "0.2.5"))
        yield index


def home_at(folder: Path, settings: str) -> Home:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(settings, "utf-8")
    return Home(folder)


def again(home: Home) -> Home:
    """Return the same home as a new process sees it."""
    home.journal.close()
    return Home(home.folder)


def poll_here(home: Home, **options: bool) -> Polled:
    return poll(home, home.track("torch-directml"), **options)


def told(home: Home) -> list[tuple[str, str]]:
    """Return the changes that the journal holds."""
    records = (entry.record for entry in home.journal.read({IndexChange}))
    return sorted((record.version, record.kind) for record in records if isinstance(record, IndexChange))


BOTH = [("0.2.4", "new-build"), ("0.2.5", "new-build")]


def test_a_second_poll_has_nothing_to_tell(home: Home) -> None:
    assert len(poll_here(home).changes) == 2
    assert poll_here(again(home)).changes == () and told(home) == BOTH


@pytest.mark.parametrize("writes", range(6))
def test_a_poll_that_was_killed_is_finished_by_the_next(
    home: Home, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, left = home.journal.append, [writes]

    def append(record: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        really(record)

    monkeypatch.setattr(home.journal, "append", append)
    with suppress(KeyboardInterrupt):
        poll_here(home)
    after = again(home)
    poll_here(after)
    assert told(after) == BOTH
    assert [build.version for build in again(after).builds("torch-directml")] == ["0.2.4", "0.2.5"]


def test_an_index_that_fails_after_a_kill_makes_nothing_repeat(home: Home, planted: PlantedIndex) -> None:
    home.journal.append(IndexChange("torch-directml", "0.2.4", IndexChangeKind.NEW_BUILD))
    planted.answer_next("/simple/torch-directml/", Reply(404))
    with pytest.raises(IndexProblem):
        poll_here(home)
    poll_here(again(home))
    assert told(home) == BOTH


def test_a_change_that_comes_back_is_told_again(home: Home, planted: PlantedIndex) -> None:
    poll_here(home)
    for reason in ("broken", False, "broken"):
        planted.page("torch-directml")["files"][1]["yanked"] = reason
        poll_here(home)
    kinds = [kind for version, kind in told(home) if version == "0.2.5"]
    assert sorted(kinds) == ["new-build", "unyanked", "yanked", "yanked"]


def test_polls_at_the_same_time_tell_each_change_once(home: Home) -> None:
    homes = [Home(home.folder) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(poll_here, homes))
    assert told(home) == BOTH
    assert sorted(len(polled.changes) for polled in found) == [0, 0, 0, 2]


def test_a_poll_begins_from_what_another_process_recorded(home: Home) -> None:
    assert home.builds("torch-directml") == []
    poll_here(Home(home.folder))
    assert poll_here(home).changes == ()


def test_a_poll_that_waits_for_another_in_vain_says_so(
    home: Home, planted: PlantedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracker.poll.LOCK_WAIT", 0.1)
    with filelock.FileLock(home.folder / "poll.lock"), pytest.raises(HomeBusy, match="another poll"):
        poll_here(home)
    assert planted.count() == 0


def test_a_poll_does_not_begin_from_an_old_database(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    poll_here(home)
    home.journal.append(build("9.9"))
    monkeypatch.setattr("tracker.poll.LOCK_WAIT", 0.1)
    refreshing = filelock.FileLock(home.folder / "store" / "refresh.lock")
    with refreshing, pytest.raises(PollBusy, match="up to date"):
        poll_here(home)


def test_a_poll_waits_for_a_refresh_that_takes_its_time(home: Home) -> None:
    poll_here(home)
    home.journal.append(build("9.9"))
    refreshing = filelock.FileLock(home.folder / "store" / "refresh.lock", thread_local=False)
    refreshing.acquire()
    Timer(2.5, refreshing.release).start()
    assert [change.version for change in poll_here(home).changes] == ["9.9"]


def test_without_patience_an_index_that_fails_costs_one_try(tmp_path: Path, planted: PlantedIndex) -> None:
    home = home_at(tmp_path / "eager", f'[index]\nurl = "{planted.url}"\n')
    planted.answer_next("/simple/torch-directml/", *[Reply(503)] * 9)
    with pytest.raises(IndexProblem):
        poll_here(home, patient=False)
    assert planted.count() == 1


@pytest.mark.parametrize("settings", ["", "retries = 9\n"])
def test_without_patience_a_silent_index_is_given_up_soon(tmp_path: Path, settings: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/simple/"
        home = home_at(tmp_path / "eager", f'[index]\nurl = "{url}"\n{settings}')
        _ = home.store
        began = time.monotonic()
        with pytest.raises(IndexProblem):
            poll_here(home, patient=False)
    assert time.monotonic() - began < 5


def test_without_patience_an_index_that_answers_is_heard(home: Home) -> None:
    assert len(poll_here(home, patient=False).changes) == 2


def test_a_login_reaches_the_index_and_not_the_journal(tmp_path: Path, planted: PlantedIndex) -> None:
    secret = planted.url.replace("http://", "http://me:s3cret@")
    home = home_at(tmp_path / "home", f'[index]\nurl = "{secret}"\nretries = 0\n')
    poll_here(home)
    assert planted.requests[0].headers["authorization"].startswith("Basic ")
    planted.answer_next("/simple/torch-directml/", Reply(404), Reply(404))
    for options in ({}, {"patient": False}):
        with pytest.raises(IndexProblem):
            poll_here(home, **options)
    home.journal.close()
    assert b"s3cret" not in b"".join(path.read_bytes() for path in home.journal.folder.iterdir())


def test_with_a_login_the_index_is_no_mirror(tmp_path: Path, planted: PlantedIndex) -> None:
    secret = planted.url.replace("http://", "http://me:s3cret@")
    home = home_at(tmp_path / "home", f'[index]\nurl = "{secret}"\n')
    poll_here(home)
    planted.page("torch-directml")["files"].pop()
    assert [change.kind for change in poll_here(home).changes] == [IndexChangeKind.BUILD_GONE]


def test_what_a_mirror_lacks_is_not_gone(tmp_path: Path, planted: PlantedIndex) -> None:
    mirror = planted.root + "/simple-mirror/"
    home = home_at(tmp_path / "home", f'[index]\nurl = "{planted.root}/simple"\nmirrors = ["{mirror}"]\n')
    poll_here(home)
    page = planted.page("torch-directml")
    lagging = json.dumps({**page, "files": page["files"][:1]}).encode()
    planted.answer_next("/simple/torch-directml/", Reply(404))
    planted.answer_next("/simple-mirror/torch-directml/", Reply(200, lagging, {"Content-Type": JSON}))
    assert poll_here(home).changes == ()
