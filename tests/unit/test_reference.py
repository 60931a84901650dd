"""The reference stands beside a home's journal: it answers where nothing was measured, and never mixes in."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.builders import build
from tracker import reference
from tracker.errors import UsageError
from tracker.journal import Journal
from tracker.judge import find
from tracker.model import REFERENCE, Cell, Ending, Machine, Observation, Outcome
from tracker.store import Store

WORDS = "software adapter, Linux; not your GPU"
AT = datetime(2026, 12, 1, tzinfo=UTC)


def machine(name: str) -> Machine:
    return Machine(name, "Linux", "6.1", "x86_64", "some CPU", 2, 24, "real")


def seen(version: str, where: str, *, good: bool = True, case: str = "bugs/t/f") -> Observation:
    cell = Cell("torch-directml", version, "bugs", case, "Adapter", where, "d" * 16)
    end = Outcome(Ending.COMPLETED) if good else Outcome(Ending.EXITED, exit_code=-11, traceback="x" * 9000)
    return Observation("r", "w", cell, "e" * 12, AT, 1.0, end, find(end, {}), log="y" * 9000)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing of one bundle is remembered for the next."""
    yield
    reference.provenance.cache_clear()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle made of two builds on one machine, with things in the journal that do not belong in it."""
    with Journal(tmp_path / "lab" / "journal") as journal:
        journal.append(machine("lab"))
        journal.append(build("1.0"))
        journal.append(build("2.0"))
        journal.append(build("9.9", track="other"))
        journal.append(seen("1.0", "lab", good=False))
        journal.append(seen("2.0", "lab"))
        journal.append(seen("2.0", "elsewhere"))
    reference.make(journal, tmp_path / "bundle", WORDS, machine="lab", tracks=["torch-directml"])
    return tmp_path / "bundle"


def test_a_bundle_says_what_it_is_and_holds_what_that_machine_saw(bundle: Path) -> None:
    known = reference.provenance(bundle)
    assert known is not None
    assert (known.words, known.builds, known.observations) == (WORDS, ("1.0", "2.0"), 2)
    assert (known.adapter, known.system, known.measured_from) == ("Adapter", "Linux x86_64", "2026-12-01")
    text = lzma.decompress((bundle / "observations.jsonl.xz").read_bytes()).decode()
    assert '"lab"' not in text and "elsewhere" not in text and "9.9" not in text
    assert len(text) < 9000, "long logs and tracebacks help on the machine they are from only"


def test_it_is_put_beside_the_journal_once_and_replaced_by_a_newer_one(bundle: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = reference.put_beside(home, bundle)
    (first,) = place.glob("*.jsonl")
    before = first.stat().st_mtime_ns
    reference.put_beside(home, bundle)
    assert first.stat().st_mtime_ns == before
    (place / "20200101T000000Z-00000000.jsonl").write_text("")
    reference.put_beside(home, bundle)
    assert [path.name for path in place.glob("*.jsonl")] == [first.name]


def test_without_a_bundle_there_is_nothing_beside_it(tmp_path: Path) -> None:
    place = reference.put_beside(tmp_path / "home", tmp_path / "nowhere")
    assert not place.exists() and reference.provenance(tmp_path / "nowhere") is None


def test_a_bundle_that_can_not_be_read_stops_nobody(bundle: Path, tmp_path: Path) -> None:
    (bundle / "observations.jsonl.xz").write_bytes(b"no archive")
    assert not list(reference.put_beside(tmp_path / "home", bundle).glob("*.jsonl"))


def test_its_cells_are_of_their_own_machine_and_no_state_of_a_build_here(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference.put_beside, "__defaults__", (bundle,))
    home = tmp_path / "home"
    with Journal(home / "journal") as journal:
        journal.append(seen("1.0", "mine"))
    store = Store(home)
    store.refresh()
    rows = store.query("bug_evidence", track="torch-directml", case="bugs/t/f")
    assert {(row["version"], row["machine"], row["state"]) for row in rows} == {
        ("1.0", REFERENCE, "crash"),
        ("2.0", REFERENCE, "pass"),
        ("1.0", "mine", "pass"),
    }
    builds = {row["version"]: row["verdicts"] for row in store.query("builds", track="torch-directml")}
    assert builds == {"1.0": {"pass": 1}, "2.0": {}}
    store.close()


def test_a_bundle_of_nothing_is_not_made(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.append(machine("lab"))
    with pytest.raises(UsageError, match="nothing was observed"):
        reference.make(journal, tmp_path / "b", WORDS, machine="lab", tracks=["torch-directml"])


def test_it_names_no_folder_of_the_machine_and_says_what_is_to_be_doubted(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.append(machine("lab"))
        end = Outcome(
            Ending.EXCEPTION,
            error_type="RuntimeError",
            traceback='File "/home/somebody/dml/suites/x.py"\nFile "/home/somebody/.python/y.py"',
        )
        cell = Cell("torch-directml", "1.0", "bugs", "bugs/t/f", "Adapter", "lab", "d" * 16)
        log = "C:\\Users\\somebody\\dml\\log"
        journal.append(Observation("r", "w", cell, "e" * 12, AT, 1.0, end, find(end, {}), log=log))
    (tmp_path / "doubts.toml").write_text('note = "no float64"\n[suspects]\n"bugs/t/f" = "may be its own"\n')
    hide = {"/home/somebody": "~", "/home/somebody/dml": "<home>", "C:\\Users\\somebody\\dml": "<home>"}
    known = reference.make(
        journal,
        tmp_path / "bundle",
        WORDS,
        machine="lab",
        tracks=["torch-directml"],
        doubts=reference.read_doubts(tmp_path / "doubts.toml"),
        hide=hide,
    )
    assert known == reference.provenance(tmp_path / "bundle")
    assert (known.note, known.suspects) == ("no float64", {"bugs/t/f": "may be its own"})
    assert known.suites == {"bugs": ("d" * 16,)}
    text = lzma.decompress((tmp_path / "bundle" / "observations.jsonl.xz").read_bytes()).decode()
    assert "somebody" not in text and "<home>/suites/x.py" in text and "~/.python/y.py" in text
    assert "<home>\\\\log" in text


@pytest.mark.parametrize("text", ["note = 3", "no toml", "[suspects]\na = 1"])
def test_doubts_that_can_not_be_read_are_an_error_of_their_own(tmp_path: Path, text: str) -> None:
    (tmp_path / "doubts.toml").write_text(text)
    with pytest.raises(UsageError, match="can not be read"):
        reference.read_doubts(tmp_path / "doubts.toml")
