"""Printing: nothing that a build says can steer a terminal, and no console is too old or too closed for it."""

from __future__ import annotations

import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker import console


def test_every_control_and_format_character_is_replaced() -> None:
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    bad = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in kinds]
    kept = set(console.clean("".join(bad)))
    assert kept == {"\N{REPLACEMENT CHARACTER}", "\t", "\n"}
    assert console.clean("plain 中文 😀 é") == "plain 中文 😀 é"


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "ascii"])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_json_comes_through_any_console_without_loss(encoding: str, text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        console.say(console.as_json({"text": text}))
    stream.flush()
    printed = stream.buffer.getvalue().decode(encoding)
    assert json.loads(printed) == {"text": text}
    assert console.clean(printed) == printed


def test_a_cell_of_a_table_is_one_line() -> None:
    out = io.StringIO()
    console.table(("a", "b"), [("one\ntwo\tthree", None)], out)
    assert out.getvalue() == "a              b\none two three  -\n"
