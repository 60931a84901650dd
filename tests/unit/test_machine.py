"""The facts of a host make its fingerprint; whether DirectX is there is looked for and not guessed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.machine import DIRECTX_LIBRARY, directx, fingerprint, library_folders, this_machine

FACTS = st.dictionaries(st.sampled_from("abcde"), st.text("xyz ", max_size=5), min_size=1)


@given(FACTS, st.randoms())
def test_a_fingerprint_does_not_depend_on_the_order_of_facts(facts: dict[str, str], random: Random) -> None:
    names = list(facts)
    random.shuffle(names)
    assert fingerprint({name: facts[name] for name in names}) == fingerprint(facts)


@given(FACTS, st.data())
def test_a_fingerprint_changes_with_each_fact(facts: dict[str, str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(facts)))
    assert fingerprint({**facts, name: facts[name] + "!"}) != fingerprint(facts)
    assert fingerprint({**facts, "new": ""}) != fingerprint(facts)


def test_this_machine_has_the_same_fingerprint_each_time() -> None:
    assert this_machine({}) == this_machine({})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows brings DirectX")
def test_a_machine_with_directx_is_another_machine(tmp_path: Path) -> None:
    (tmp_path / DIRECTX_LIBRARY).touch()
    there = {"LD_LIBRARY_PATH": f"{tmp_path / 'nowhere'}{os.pathsep}{tmp_path}"}
    assert directx(there) == "real"
    assert directx({"LD_LIBRARY_PATH": str(tmp_path / "nowhere")}) == directx({})
    if directx({}) != "real":
        assert this_machine(there).fingerprint != this_machine({}).fingerprint


def test_empty_parts_of_a_path_are_no_folders() -> None:
    assert library_folders({"LD_LIBRARY_PATH": os.pathsep}) == library_folders({})
