"""What the backend says past Python is found in a case's log."""

from __future__ import annotations

from tracker.case_log import warnings_in

SAID = (
    "The operator 'aten::eye.m_out' is not currently supported on the DML backend"
    " and will fall back to run on the CPU."
)


def test_a_fallback_that_was_only_printed_is_found_once() -> None:
    line = (
        f"[W dml_cpu_fallback.cpp:15] Warning: {SAID} This may have performance implications. (function f)\n"
    )
    (found,) = warnings_in("before\n" + line + line + "after\n")
    assert found.startswith(SAID)


def test_other_output_is_no_warning() -> None:
    assert warnings_in(f"print: {SAID}\n[W x.cpp:1] Warning: deprecated\n") == []
