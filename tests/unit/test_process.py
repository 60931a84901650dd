"""Programs are started for real here: what is promised about their ends is about the system, not about us."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.systems import eventually, gone, posix
from tracker import process_windows
from tracker.process import (
    BoundedLog,
    Cause,
    Ended,
    Limits,
    Process,
    Step,
    Watch,
    clean_environment,
    run,
)

ENV = {"PATH": "/usr/bin:/bin"} if os.name == "posix" else dict(os.environ)


def python(code: str, limits: Limits | None = None, **more: object) -> Ended:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return run(command, env=ENV, cwd=Path.cwd(), limits=limits or Limits(seconds=20), **more)  # type: ignore[arg-type]


# The state machine


def test_a_program_may_go_on_within_its_limits() -> None:
    watch = Watch(Limits(seconds=10, memory=100), started=0)
    assert watch.see(10, exited=False, memory=100) is None


@pytest.mark.parametrize(
    ("now", "exited", "memory", "cause"),
    [
        (1, True, 0, Cause.EXITED),
        (11, False, 0, Cause.TIMEOUT),
        (1, False, 101, Cause.MEMORY_LIMIT),
        (11, True, 101, Cause.EXITED),
        (11, False, 101, Cause.MEMORY_LIMIT),
    ],
)
def test_the_nearest_cause_to_the_program_itself_is_named(
    now: float, exited: bool, memory: int, cause: Cause
) -> None:
    watch = Watch(Limits(seconds=10, memory=100), started=0)
    assert watch.see(now, exited=exited, memory=memory) is cause


def test_the_first_cause_stands() -> None:
    watch = Watch(Limits(seconds=10), started=0)
    watch.condemn(Cause.STOPPED, 1)
    assert watch.see(11, exited=True, memory=0) is Cause.STOPPED


def test_a_tree_that_will_not_die_is_given_up_after_our_patience() -> None:
    watch = Watch(Limits(patience=5), started=0)
    watch.condemn(Cause.STOPPED, 100)
    assert watch.dying(104, alive=1) is Step.AGAIN
    assert watch.dying(106, alive=1) is Step.UNDEAD
    assert watch.dying(106, alive=0) is Step.GONE


# The log


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50)), st.integers(0, 40))
def test_a_log_keeps_its_beginning_and_its_end_and_counts_the_rest(parts: list[bytes], size: int) -> None:
    log, whole = BoundedLog(size), b"".join(parts)
    for part in parts:
        log.feed(part)
    assert log.dropped == max(0, len(whole) - 2 * size)
    assert len(log._head) + len(log._tail) <= 3 * size
    if not log.dropped:
        assert log.text() == whole.decode("utf-8", "backslashreplace")
    elif size:
        assert log.text().startswith(whole[:size].decode("utf-8", "backslashreplace"))
        assert log.text().endswith(whole[-size:].decode("utf-8", "backslashreplace"))


def test_bytes_that_are_not_text_are_written_out() -> None:
    log = BoundedLog(100)
    log.feed(b"caf\xe9 \xed\xa0\x80")
    assert log.text() == "caf\\xe9 \\xed\\xa0\\x80"


# Programs


def test_output_and_exit_code_come_back() -> None:
    ended = python("import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(7)")
    assert (ended.cause, ended.exit_code, ended.log.split()) == (Cause.EXITED, 7, ["out", "err"])


def test_a_program_that_is_not_there_is_not_started() -> None:
    ended = run(["/no/such/program"], env=ENV, cwd=Path.cwd(), limits=Limits())
    assert ended.cause is Cause.NOT_STARTED
    assert "/no/such/program" in ended.error or "cannot find" in ended.error


def test_a_program_is_ended_at_its_time_limit() -> None:
    ended = python("import time; time.sleep(600)", Limits(seconds=0.3))
    assert (ended.cause, ended.exit_code) == (Cause.TIMEOUT, None)
    assert ended.seconds < 10


def test_a_program_is_ended_at_its_memory_limit() -> None:
    code = "import time; held = bytearray(400 << 20); time.sleep(600)"
    ended = python(code, Limits(seconds=20, memory=200 << 20))
    assert ended.cause is Cause.MEMORY_LIMIT
    assert ended.peak_memory > 200 << 20


@posix
def test_memory_is_that_of_the_whole_tree() -> None:
    code = """
        import os, time
        os.fork(); os.fork()
        held = bytearray(100 << 20)
        time.sleep(600)
    """
    assert python(code, Limits(seconds=20, memory=300 << 20)).cause is Cause.MEMORY_LIMIT


def test_endless_output_takes_fixed_room() -> None:
    ended = python("while True: print('spam')", Limits(seconds=2, log=1000))
    assert ended.dropped > 100_000
    assert len(ended.log) < 2200


def test_the_tick_stops_a_program() -> None:
    ended = python("import time; time.sleep(600)", on_tick=lambda: True)
    assert ended.cause is Cause.STOPPED


def test_an_error_in_the_tick_ends_the_program() -> None:
    seen: list[int] = []
    process = Process(
        [sys.executable, "-c", "input()"], env=ENV, cwd=Path.cwd(), limits=Limits(), hold_stdin=True
    )
    with pytest.raises(KeyboardInterrupt), process:
        seen.append(process.pid)
        raise KeyboardInterrupt
    assert gone(seen[0])


@posix
@pytest.mark.parametrize("hang", [False, True], ids=["parent ended", "parent killed"])
def test_a_grandchild_with_a_session_of_its_own_is_killed(hang: bool) -> None:
    code = f"""
        import os, time
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write, str(os.getpid()).encode())
                time.sleep(600)
            os._exit(0)
        print(os.read(read, 20).decode(), flush=True)
        time.sleep(600 if {hang} else 0)
    """
    ended = python(code, Limits(seconds=2))
    assert gone(int(ended.log), seconds=0.5)
    assert ended.undead == ()


@posix
def test_a_child_that_scrubbed_its_environment_is_killed_when_it_was_seen_before() -> None:
    code = """
        import os, subprocess, time
        child = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
        print(child.pid, flush=True)
        time.sleep(0.6)
        os._exit(0)
    """
    ended = python(code)
    assert ended.left == (int(ended.log),)
    assert gone(int(ended.log), seconds=0.5)


@posix
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to us")
def test_a_process_that_left_the_session_its_environment_and_its_parent_is_killed() -> None:
    code = """
        import os, time
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write, str(os.getpid()).encode())
                os.set_inheritable(write, True)
                os.execve("/bin/sleep", ["sleep", "600"], {})
            os._exit(0)
        os.wait()
        print(os.read(read, 20).decode(), flush=True)
    """
    ended = python(code)
    assert ended.left == (int(ended.log),) and ended.undead == ()
    assert not psutil.pid_exists(int(ended.log)), "dead, and reaped"


@posix
def test_what_the_tracker_started_itself_is_never_a_stray() -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        python("print(1)")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@posix
def test_a_program_that_only_kills_itself_was_not_killed_for_memory() -> None:
    ended = python("import os; os.kill(os.getpid(), 9)")
    assert (ended.exit_code, ended.oom_killed) == (-9, False)


@posix
def test_what_a_tracker_started_dies_with_it(tmp_path: Path) -> None:
    """kill -9 of the tracker: nobody is left to clean up but the guard."""
    grandchild = tmp_path / "grandchild"
    inner = f"""
        import os, time
        if os.fork() == 0:
            os.setsid()
            open({str(grandchild)!r} + ".new", "w").write(str(os.getpid()))
            os.rename({str(grandchild)!r} + ".new", {str(grandchild)!r})
        time.sleep(600)
    """
    outer = f"""
        import sys
        from pathlib import Path
        from tracker.process import Limits, run
        run([sys.executable, "-c", {textwrap.dedent(inner)!r}], env={ENV!r}, cwd=Path("/"), limits=Limits())
    """
    tracker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(outer)])
    try:
        assert eventually(grandchild.exists)
        parent = psutil.Process(int(grandchild.read_text())).ppid()
    finally:
        tracker.kill()
        tracker.wait()
    assert gone(int(grandchild.read_text()))
    assert gone(parent)


# The process table


@posix
def test_a_hostile_process_name_does_not_confuse_the_table() -> None:
    from tracker.process_posix import parse_stat

    fields = b"S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 555 1000 3 18446744073709551615"
    entry = parse_stat(b"42 (a) R 1 1 1 (\n) " + fields)
    assert entry is not None
    assert (entry.pid, entry.parent, entry.group, entry.session, entry.start) == (42, 7, 8, 9, 555)


@posix
def test_members_are_found_by_session_by_descent_and_by_memory() -> None:
    from tracker.process_posix import Entry, members

    def entry(pid: int, parent: int, session: int, start: int = 1) -> Entry:
        return Entry(pid, parent, session, session, start, 0)

    processes = {
        e.pid: e for e in [entry(5, 1, 5), entry(6, 1, 5), entry(7, 6, 7), entry(8, 1, 8), entry(9, 1, 9)]
    }
    assert members(processes, 5) == {5, 6, 7}
    assert members(processes, 5, [entry(8, 5, 5)]) == {5, 6, 7, 8}
    assert members(processes, 5, [entry(9, 5, 5, start=0)]) == {5, 6, 7}, "9 is another process now"


@posix
def test_an_orphan_in_a_session_of_its_own_is_a_stray() -> None:
    from tracker.process_posix import Entry, adopted

    table = [(1, 0, 1), (5, 1, 5), (6, 5, 5), (7, 5, 7), (8, 5, 8), (9, 5, 7), (10, 1, 10)]
    processes = {
        pid: Entry(pid, parent, session, session, 1, 0)
        for pid, parent, session in table  # 5 is the tracker, 6 a helper of its, 7 a root
    }
    assert adopted(processes, 5, {7}) == {8}


def test_the_structures_of_the_job_object_have_the_sizes_of_winnt_h() -> None:
    import ctypes

    assert ctypes.sizeof(process_windows._Limits) == 144
    assert ctypes.sizeof(process_windows._Accounting) == 48
    assert process_windows._ProcessIds.ids.offset == 8


# The environment


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["PATH", "LANG", "LC_ALL", "TZ", "SystemRoot", "GITHUB_TOKEN", "PYTHONPATH", "hf_token"]
        )
        | st.text("ABCdef_", min_size=1),
        st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])),
    ),
    st.booleans(),
)
def test_no_variable_outside_the_list_survives(source: dict[str, str], windows: bool) -> None:
    allowed = {"PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT"}
    result = clean_environment({}, source, windows=windows)
    assert {name.upper() if windows else name for name in result} <= allowed
    assert set(result) <= set(source)


def test_what_is_given_wins_in_any_case_of_its_name_on_windows() -> None:
    result = clean_environment({"TEMP": "C:\\b"}, {"Temp": "C:\\a", "Path": ""}, windows=True)
    assert result == {"Path": "", "TEMP": "C:\\b"}


def test_home_is_a_folder_of_ours_on_posix_only(tmp_path: Path) -> None:
    source = {"HOME": "/root", "USERPROFILE": "C:\\Users\\me"}
    assert clean_environment({}, source, tmp_path, windows=False)["HOME"] == str(tmp_path)
    assert "HOME" not in clean_environment({}, source, tmp_path, windows=True)


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("http://proxy:3128", True),
        ("http://me:secret@proxy:3128", False),
        ("me:secret@proxy", False),
        ("http://[", False),
    ],
)
def test_a_proxy_with_a_password_is_kept_from_programs(value: str, passes: bool) -> None:
    assert ("https_proxy" in clean_environment({}, {"https_proxy": value}, windows=False)) is passes


def test_the_path_is_reduced_to_the_systems_folders() -> None:
    posix = clean_environment({}, {"PATH": "/home/me/bin:/usr/bin:/opt/x:/bin"}, windows=False)
    assert posix["PATH"] == "/usr/bin:/bin"
    source = {"Path": "C:\\Users\\me\\bin;c:\\windows\\System32;C:\\WindowsApps", "SystemRoot": "C:\\Windows"}
    assert clean_environment({}, source, windows=True)["Path"] == "c:\\windows\\System32"
