"""Manifests and digests, on small suites made here and on those of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracker.errors import UsageError
from tracker.matrix import Case, Suite, digest, load_suites

SUITES = Path(__file__).parents[2] / "suites"


def manifest(folder: Path, text: str, suite: str = "toy") -> Path:
    (folder / suite).mkdir(exist_ok=True)
    (folder / suite / "suite.toml").write_text(text, "utf-8")
    return folder


def test_a_case_takes_what_it_does_not_say_from_its_suite(tmp_path: Path) -> None:
    text = """
        name = "toy"
        requirements = ["timm==1.0.31; python_version >= '3.9'"]
        needs = "device"
        timeout = 60
        [[case]]
        id = "one"
        [[case]]
        id = "two/parts"
        function = "other:thing"
        needs = "import"
        timeout = 5
        params = { seed = 1 }
    """
    cases = (
        Case("toy/one", "toy", "one", {}, "device", 60.0),
        Case("toy/two/parts", "toy", "other:thing", {"seed": 1}, "import", 5.0),
    )
    assert load_suites(manifest(tmp_path, text)) == (
        Suite("toy", ("timm==1.0.31; python_version >= '3.9'",), cases),
    )


def test_each_makes_a_case_per_combination(tmp_path: Path) -> None:
    text = """
        name = "toy"
        [[case]]
        id = "{model}/batch{batch}"
        function = "infer"
        params = { seed = 1 }
        each = { model = ["a", "b"], batch = [1, 8] }
    """
    (suite,) = load_suites(manifest(tmp_path, text))
    assert [case.id for case in suite.cases] == [
        "toy/a/batch1",
        "toy/a/batch8",
        "toy/b/batch1",
        "toy/b/batch8",
    ]
    assert suite.cases[1].params == {"seed": 1, "model": "a", "batch": 8}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "cannot be read"),
        ('name = "other"', "name is 'other', and the folder is 'toy'"),
        ('name = "toy"\nrequirement = []', "the suite has no 'requirement'"),
        ('name = "toy"\nrequirements = ["=="]', "requirement '=='"),
        ('name = "toy"\nrequirements = [1]', "requirement 1"),
        ('name = "toy"\ncase = 3', "'case' is not a list of tables"),
        ('name = "toy"\n[[case]]\nid = "a"\nneed = "x"', "case 'a' has no 'need'"),
        ('name = "toy"\n[[case]]\nid = "a"\nneeds = "luck"', "case 'a' needs 'luck'"),
        ('name = "toy"\n[[case]]\nid = "a"\ntimeout = -1', "case 'a': timeout is -1"),
        ('name = "toy"\n[[case]]\nid = "a"\ntimeout = nan', "timeout is nan"),
        ('name = "toy"\n[[case]]\nid = "../a"\nfunction = "f"', "'../a' is not an id"),
        ('name = "toy"\n[[case]]\nid = "a b"\nfunction = "f"', "'a b' is not an id"),
        ('name = "toy"\n[[case]]\nfunction = "f"', "'' is not an id"),
        ('name = "toy"\n[[case]]\nid = "{b}"\nfunction = "f"', "the id cannot be filled in: KeyError('b')"),
        ('name = "toy"\n[[case]]\nid = "a/b"', "'a/b' is not a function"),
        ('name = "toy"\n[[case]]\nid = "a"\neach = { b = 1 }', "'each' gives a list"),
        ('name = "toy"\n[[case]]\nid = "a"\n[[case]]\nid = "a"', "two cases are named 'toy/a'"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_the_users_error(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        load_suites(manifest(tmp_path, text))
    assert complaint in error.value.message
    assert "suite.toml" in error.value.message


def test_the_nearest_word_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        load_suites(manifest(tmp_path, 'name = "toy"\nrequirement = []'))
    assert error.value.hint == "did you mean 'requirements'?"


def test_the_suites_of_the_program_make_sense() -> None:
    suites = load_suites(SUITES)
    assert "census" in [suite.name for suite in suites]
    for suite in suites:
        for case in suite.cases:
            module = case.function.rpartition(":")[0] or "cases"
            assert (SUITES / suite.name / f"{module}.py").is_file(), case.id


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    files = {
        "worker.py": "from suites import protocol\nfrom suites.context import Context\n",
        "protocol.py": "",
        "context.py": "",
        "shared.py": "def f():\n    import suites.deep\n",
        "deep.py": "",
        "unused.py": "",
        "toy/cases.py": "from suites.shared import f\nfrom .near import g\n",
        "toy/near.py": "",
        "toy/data.bin": "a\r\n",
        "other/cases.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "worker.py",
        "protocol.py",
        "context.py",
        "shared.py",
        "deep.py",
        "toy/cases.py",
        "toy/near.py",
        "toy/data.bin",
    ],
)
def test_the_digest_covers_what_a_suite_imports(toy: Path, name: str) -> None:
    before = digest(toy, "toy")
    (toy / name).write_bytes((toy / name).read_bytes() + b"# more\n")
    assert digest(toy, "toy") != before


@pytest.mark.parametrize("name", ["unused.py", "other/cases.py", "toy/__pycache__/cases.pyc"])
def test_the_digest_covers_nothing_else(toy: Path, name: str) -> None:
    before = digest(toy, "toy")
    (toy / name).parent.mkdir(exist_ok=True)
    (toy / name).write_text("# more")
    assert digest(toy, "toy") == before


def test_the_digest_is_the_same_with_line_ends_of_windows(toy: Path) -> None:
    before = digest(toy, "toy")
    for path in toy.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert digest(toy, "toy") == before
    (toy / "toy/data.bin").write_bytes(b"a\n")
    assert digest(toy, "toy") != before, "what is not text counts as it is"


def test_rows_and_each_combine_and_a_small_run_has_its_own_ids(tmp_path: Path) -> None:
    text = """
        name = "toy"
        [[case]]
        id = "{op}/{dtype}"
        function = "run"
        rows = "ops.json"
        each = { dtype = ["float32", "int64"] }
        [[case]]
        id = "net/batch{batch}"
        function = "net"
        params = { image = 224 }
        each = { batch = [16, 32] }
        small = { image = 32 }
        isolate = true
        [[case]]
        id = "huge"
        full_only = true
    """
    folder = manifest(tmp_path, text)
    (folder / "toy" / "ops.json").write_text('[{"op": "add"}, {"op": "mul", "samples": 3}]')
    (full,) = load_suites(folder)
    (small,) = load_suites(folder, "small")
    assert [case.id for case in full.cases][:4] == [
        "toy/add/float32",
        "toy/add/int64",
        "toy/mul/float32",
        "toy/mul/int64",
    ]
    assert full.cases[3].params == {"op": "mul", "samples": 3, "dtype": "int64"}
    assert [case.id for case in full.cases][4:] == ["toy/net/batch16", "toy/net/batch32", "toy/huge"]
    assert [case.id for case in small.cases][4:] == ["toy/net/batch16@small", "toy/net/batch32@small"]
    assert small.cases[4].params == {"image": 32, "batch": 16} and small.cases[4].isolate
    assert small.cases[0] == full.cases[0]


def test_a_case_comes_after_the_one_of_its_own_size(tmp_path: Path) -> None:
    text = """
        name = "toy"
        [[case]]
        id = "batch16"
        small = {}
        [[case]]
        id = "batch32"
        after = "toy/batch16"
        small = {}
    """
    folder = manifest(tmp_path, text)
    assert load_suites(folder)[0].cases[1].after == "toy/batch16"
    assert load_suites(folder, "small")[0].cases[1].after == "toy/batch16@small"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('after = "toy/none"', "no such case"),
        ('after = "toy/two"', "after itself"),
        ('rows = "../x.json"', "beside this one"),
        ('rows = "missing.json"', "cannot be read"),
        ("isolate = 1", "true or false"),
        ("small = 3", "is a table"),
        ("params = { day = 2026-12-01 }", "can not be given to a worker"),
        ("params = { rate = inf }", "can not be given to a worker"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_one_clear_error(tmp_path: Path, line: str, said: str) -> None:
    text = f"""
        name = "toy"
        [[case]]
        id = "one"
        {line}
        [[case]]
        id = "two"
        after = "toy/one"
    """
    with pytest.raises(UsageError, match=said):
        load_suites(manifest(tmp_path, text))
