"""The edge to the shell: exit codes, error lines and streams, of the program as it is started by a user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.systems import posix
from tracker import cli

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tracker"]


def dmltrack(home: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program on an empty home folder."""
    environ = {**os.environ, "DMLTRACK_HOME": str(home)}
    return subprocess.run(
        [*COMMAND, *arguments], cwd=ROOT, env=environ, capture_output=True, timeout=60, check=False
    )


def shell(home: Path, line: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which ``dmltrack`` is the program."""
    environ = {**os.environ, "DMLTRACK_HOME": str(home)}
    program = f'dmltrack() {{ "{sys.executable}" -m tracker "$@"; }}\nset -o pipefail\n'
    return subprocess.run(
        ["bash", "-c", program + line], cwd=ROOT, env=environ, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "line",
    [
        "nope",
        "runn",
        "run --plann",
        "run --again-before yesterday",
        "ops",
        "builds --track",
        "builds too many",
        "--home",
    ],
)
def test_a_wrong_command_line_is_an_error_line_and_a_hint_and_exit_2(tmp_path: Path, line: str) -> None:
    done = dmltrack(tmp_path, *line.split())
    assert (done.returncode, done.stdout) == (2, b"")
    assert re.fullmatch(r"error: [^\n]+\nhint: [^\n]+\n", done.stderr.decode().replace("\r\n", "\n"))


def test_a_gpu_is_not_chosen_for_a_run_on_the_cpu(tmp_path: Path) -> None:
    done = dmltrack(tmp_path, *["run", "--track", "torch", "--device", "cpu", "--adapter", "Radeon"])
    assert done.returncode == 2 and b"chooses among GPUs" in done.stderr


def test_an_unknown_word_is_answered_with_the_nearest(tmp_path: Path) -> None:
    assert b"hint: did you mean 'run'?" in dmltrack(tmp_path, "runn").stderr
    assert b"hint: did you mean --plan?" in dmltrack(tmp_path, "run", "--plann").stderr


def test_no_arguments_show_the_help(tmp_path: Path) -> None:
    done = dmltrack(tmp_path)
    assert done.returncode == 0 and done.stdout.startswith(b"Usage: dmltrack ") and not done.stderr


@posix
def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    done = shell(tmp_path, 'dmltrack sql "select * from range(300000)" | head -1')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"range\n", b"")


@posix
@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(tmp_path: Path, closed: str) -> None:
    done = shell(tmp_path, f'dmltrack sql "select 1 as one" {closed}')
    assert (done.returncode, done.stderr) == (0, b"")


@posix
def test_nothing_of_ours_is_written_into_a_file_that_took_a_closed_streams_place(tmp_path: Path) -> None:
    shell(tmp_path, "dmltrack rebuild >&- 2>&-; dmltrack nope >&- 2>&-")
    assert shell(tmp_path, "dmltrack builds --json").stdout == b"[]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    done = shell(tmp_path, 'dmltrack sql "select 1" > /dev/full')
    assert done.returncode == 3 and done.stderr.startswith(b"error: the output can not be written")


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_invoke", interrupted)
    assert cli._run([]) == 130


def test_an_error_of_ours_is_one_line_and_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DMLTRACK_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "_home", lambda: 1 / 0)
    assert cli._run(["builds"]) == 4
    assert capsys.readouterr().err.startswith("error: ZeroDivisionError: division by zero\nhint: ")
    assert "in <lambda>" in (tmp_path / "last-error.txt").read_text("utf-8")


def test_rebuild_tells_its_counts_as_json(tmp_path: Path) -> None:
    assert dmltrack(tmp_path, "rebuild", "--json").stdout.startswith(b'{\n  "observations": 0,')


@posix
@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "ascii"])
def test_an_argument_that_is_no_text_is_one_error_on_any_console(tmp_path: Path, encoding: str) -> None:
    line = (
        f"PYTHONIOENCODING={encoding} PYTHONUTF8=0 LC_ALL=C dmltrack explain $'census/\\xff' --build $'\\xe9'"
    )
    answer = shell(tmp_path, line)
    assert answer.returncode == 2 and b"Traceback" not in answer.stderr
    assert answer.stderr.startswith(b"error: an argument can not be read") and b"\nhint: " in answer.stderr


@posix
def test_a_home_that_the_locale_has_no_letters_for_is_one_error(tmp_path: Path) -> None:
    answer = shell(tmp_path / "\u0434\u043e\u043c", "PYTHONUTF8=0 LC_ALL=C dmltrack builds")
    assert answer.returncode == 2
    assert answer.stderr.startswith(b"error: the name of the home folder can not be read")
    assert b"PYTHONUTF8=1" in answer.stderr
    assert shell(tmp_path / "\u0434\u043e\u043c", "PYTHONUTF8=1 LC_ALL=C dmltrack builds").returncode == 0
