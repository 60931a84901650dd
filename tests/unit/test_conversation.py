"""What a worker says, from bytes to results, and what it prints, cut into cases."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suites import protocol
from tracker.case_log import CaseLog
from tracker.config import WorkerSettings
from tracker.conversation import Conversation, Garbled, Lines, Reported, parse
from tracker.workers import library_path, limits_from

# The conversation


def hello(talk: Conversation) -> Conversation:
    talk.hear(json.dumps({"m": "hello", "protocol": protocol.PROTOCOL, "nonce": "n", "prefix": "/"}).encode())
    return talk


def test_a_stranger_is_not_listened_to() -> None:
    with pytest.raises(Garbled, match="greeting"):
        Conversation("mine", []).hear(b'{"m": "hello", "protocol": 1, "nonce": "other"}')


def test_a_result_is_taken_once() -> None:
    talk = hello(Conversation("n", ["a"]))
    talk.hear(b'{"m": "start", "case": "a", "at": 1}')
    result = b'{"m": "result", "case": "a", "seconds": 1, "measures": {}}'
    assert isinstance(talk.hear(result), Reported)
    with pytest.raises(Garbled, match="not in flight"):
        talk.hear(result)


def test_an_import_begins_once_and_in_a_case() -> None:
    talk = hello(Conversation("n", ["a"]))
    for line in (b'{"m": "importing"}', b'{"m": "imported"}'):
        with pytest.raises(Garbled, match="import"):
            talk.hear(line)
    talk.hear(b'{"m": "start", "case": "a", "at": 1}')
    talk.hear(b'{"m": "importing"}')
    assert talk.imports
    talk.hear(b'{"m": "imported"}')
    with pytest.raises(Garbled, match="import"):
        talk.hear(b'{"m": "importing"}')


def test_numbers_that_can_not_be_stored_are_refused() -> None:
    for text in (b'{"a": 1e999}', b'{"a": 99999999999999999999}', b'{"a": NaN}'):
        with pytest.raises(Garbled):
            parse(text)


WORDS = st.sampled_from(["m", "case", "at", "seconds", "measures", "error", "warnings"])
VALUES: st.SearchStrategy[object] = st.sampled_from(
    ["start", "importing", "imported", "result", "done", "a", 1, -1, True, None, [], {}]
)
MESSAGES = st.dictionaries(WORDS, VALUES).map(lambda message: json.dumps(message).encode())


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode) | MESSAGES)
def test_nothing_but_garbled_is_ever_raised(line: bytes) -> None:
    talk = hello(Conversation("n", ["a"]))
    for _ in range(2):
        try:
            talk.hear(line)
        except Garbled as error:
            assert len(str(error)) < 1000


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20)))
def test_lines_come_whole_however_they_are_cut(parts: list[bytes]) -> None:
    lines = Lines()
    got = [line for part in parts for line in lines.feed(part)]
    assert got == b"".join(parts).split(b"\n")[:-1]


# The log


@settings(deadline=None)
@given(st.data())
def test_the_log_is_cut_at_marks_however_they_are_cut(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text("ab\x1e\n d", max_size=12), min_size=3, max_size=3))
    stream = "".join(
        f"{protocol.mark('n', case)}\n{text}{protocol.mark('n', '')}\n"
        for case, text in zip("xyz", texts, strict=True)
    ).encode()
    log = CaseLog("n", "xyz", 1000)
    size = data.draw(st.integers(1, 30))
    for at in range(0, len(stream), size):
        log.feed(stream[at : at + size])
    log.close()
    assert [log.take(case) for case in "xyz"] == texts


def test_the_text_of_a_case_that_did_not_end_is_had_when_the_process_has() -> None:
    log = CaseLog("n", ["x"], 100)
    log.feed(f"before\n{protocol.mark('n', 'x')}\nhalf a line\x1edml".encode())
    log.close()
    assert (log.take("x"), log.take("")) == ("half a line\x1edml", "before\n")


# Small things


def test_the_stand_ins_never_hide_real_directx() -> None:
    packages = PurePosixPath("/env/site-packages")
    assert library_path(packages, "real", "/mine") == "/mine"
    assert library_path(packages, "stand-in", "/mine") == "/mine:/env/site-packages/torch_directml"
    assert library_path(packages, "stand-in", "") == "/env/site-packages/torch_directml"
    assert library_path(packages, "absent") == ""


def test_no_memory_setting_means_most_of_the_machine() -> None:
    total = psutil.virtual_memory().total
    assert limits_from(WorkerSettings()).memory == int(total * 0.8)
    assert limits_from(WorkerSettings(memory_gb=2)).memory == 2_000_000_000
