"""The judge is total, and each code or phrase has exactly the meaning that its table gives it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites import protocol
from tracker import codes
from tracker.judge import JUDGE, find, verdict
from tracker.model import Confidence, Ending, Finding, Outcome, State
from tracker.texts import MAX_MESSAGE, normalise, slug


def raised(kind: str, message: str) -> tuple[State, str]:
    finding = find(Outcome(Ending.EXCEPTION, error_type=kind, error_message=message), {})
    return finding.state, finding.reason


def exited(code: int | None, *, oom_killed: bool = False) -> tuple[State, str]:
    finding = find(Outcome(Ending.EXITED, exit_code=code, oom_killed=oom_killed), {})
    return finding.state, finding.reason


texts = st.text(max_size=80) | st.from_regex(
    r"(Unknown error -\d+|0x[0-9a-f]+|/tmp/\w+|[A-Z]:\\\w+| )*", fullmatch=True
)


@given(st.sampled_from(Ending), st.none() | st.integers(), texts, texts, st.booleans())
def test_every_outcome_has_a_finding_with_a_slug_and_a_judge(
    ending: Ending, code: int | None, kind: str, message: str, killed: bool
) -> None:
    outcome = Outcome(ending, code, kind, message, oom_killed=killed)
    finding = find(outcome, {})
    assert finding.reason == slug(finding.reason)
    assert finding.judge == JUDGE
    assert finding.message == normalise(finding.message)


def test_a_completed_case_passes() -> None:
    assert find(Outcome(Ending.COMPLETED, exit_code=0), {"x": 1}) == Finding(State.PASS, "pass", "", JUDGE)


def test_a_death_after_the_result_is_told_but_does_not_count() -> None:
    finding = find(Outcome(Ending.COMPLETED, exit_code=-11), {})
    assert (finding.state, finding.message) == (State.PASS, "ended with code -11 after the result")


def fell_back(operator: str) -> str:
    return (
        f"The operator '{operator}' is not currently supported on the DML backend and will fall back to run on"
        " the CPU. This may have performance implications. (Triggered internally at D:\\x.cpp:17.)"
    )


def test_a_right_result_computed_on_the_cpu_is_a_fallback_that_names_the_operators() -> None:
    said = (fell_back("aten::b"), "DeprecationWarning: x", fell_back("aten::a"), fell_back("aten::b"))
    finding = find(Outcome(Ending.COMPLETED, warnings=said), {})
    assert (finding.state, finding.reason) == (State.FALLBACK, "cpu-fallback")
    assert finding.message == "aten::a, aten::b"


def test_claims_alone_are_something_that_was_compared() -> None:
    claim = {"name": "raises", "got": "RuntimeError", "want": "RuntimeError"}
    assert find(Outcome(Ending.COMPLETED), {"checks": [], "claims": [claim]}).state is State.PASS
    assert find(Outcome(Ending.COMPLETED), {"checks": [], "claims": []}).state is State.INFRA


def test_another_warning_is_no_fallback() -> None:
    said = ("The operator 'aten::a' is deprecated", "it will fall back to run on the CPU")
    assert find(Outcome(Ending.COMPLETED, warnings=said), {"fallbacks": ["aten::a"]}).state is State.PASS


def test_a_fallback_before_an_error_does_not_hide_the_error() -> None:
    outcome = Outcome(Ending.EXCEPTION, error_type="ValueError", warnings=(fell_back("aten::a"),))
    assert find(outcome, {}).state is State.ERROR


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Unknown error -1234567", (State.ERROR, "runtime-error")),
        ("CUDA out of memory. Tried to allocate 2 GiB", (State.OOM, "out-of-memory")),
        ("\"cos\" not implemented for 'Half'", (State.UNSUPPORTED, "not-implemented")),
        (
            "Could not run 'aten::x' with arguments from the 'PrivateUse1' backend.",
            (State.UNSUPPORTED, "not-implemented"),
        ),
        ("[F dml_util.cc:107] Invalid or unsupported data type.", (State.UNSUPPORTED, "data-type")),
        ("The GPU device does not support Double (Float64) operations!", (State.UNSUPPORTED, "no-float64")),
        ("Cannot set version_counter for inference tensor", (State.UNSUPPORTED, "inference-mode")),
        (
            "Device type PRIVATEUSEONE is not supported for torch.Generator() api.",
            (State.UNSUPPORTED, "not-supported"),
        ),
        ("[Errno 28] No space left on device: '/tmp/x'", (State.INFRA, "disk-full")),
        ("something else", (State.ERROR, "runtime-error")),
    ],
)
def test_an_exception_means_what_its_message_says(message: str, expected: tuple[State, str]) -> None:
    assert raised("RuntimeError", message) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("MemoryError", (State.OOM, "out-of-memory")),
        ("torch.cuda.OutOfMemoryError", (State.OOM, "out-of-memory")),
        ("NotImplementedError", (State.UNSUPPORTED, "not-implemented")),
        (protocol.TOO_LARGE, (State.INFRA, "result-too-large")),
        (protocol.NOT_JSON, (State.INFRA, "measures-not-json")),
        (protocol.SUITE_ERROR + "ImportError", (State.INFRA, "suite-import-error")),
        (protocol.SUITE_ERROR + "MemoryError", (State.INFRA, "suite-memory-error")),
        (f"somebodys.{protocol.TOO_LARGE}", (State.ERROR, "result-too-large")),
        ("import:OSError", (State.IMPORT_FAILED, "os-error")),
        ("import:ModuleNotFoundError", (State.IMPORT_FAILED, "module-not-found-error")),
        ("ImportError", (State.ERROR, "import-error")),
        ("", (State.ERROR, "unknown")),
        ("no-device:no-adapter", (State.NO_DEVICE, "no-adapter")),
        ("no-reference:cpu-refused", (State.NO_REFERENCE, "cpu-refused")),
        ("skipped:not-in-this-torch", (State.SKIPPED, "not-in-this-torch")),
        ("infra:adapter-missing", (State.INFRA, "adapter-missing")),
        ("skipped:", (State.SKIPPED, "unknown")),
        ("pass:looks-good", (State.ERROR, "pass-looks-good")),
    ],
)
def test_an_exception_means_what_its_type_says(kind: str, expected: tuple[State, str]) -> None:
    assert raised(kind, "it went wrong") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("transformers", (State.SKIPPED, "missing-module")),
        ("whisper.model", (State.SKIPPED, "missing-module")),
        ("torch.nn.attention", (State.ERROR, "module-not-found-error")),
        ("torch_directml_native", (State.ERROR, "module-not-found-error")),
        ("torchvision", (State.ERROR, "module-not-found-error")),
    ],
)
def test_a_module_that_is_not_beside_the_build_says_nothing_of_the_build(
    name: str, expected: tuple[State, str]
) -> None:
    assert raised("ModuleNotFoundError", f"No module named '{name}'") == expected


def test_what_a_case_can_not_say_is_not_read_for_phrases() -> None:
    assert raised("no-reference:cpu-refused", "RuntimeError: out of memory")[0] is State.NO_REFERENCE


def test_a_full_disk_during_the_import_is_our_fault_not_the_builds() -> None:
    assert raised("import:OSError", "[Errno 28] No space left on device") == (State.INFRA, "disk-full")


def test_memory_for_thread_locals_that_is_missing_at_import_is_an_import_failure() -> None:
    message = "libgomp.so: cannot allocate memory in static TLS block"
    assert raised("import:ImportError", message) == (State.IMPORT_FAILED, "import-error")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-11, (State.CRASH, "sigsegv")),
        (-6, (State.CRASH, "sigabrt")),
        (-7, (State.CRASH, "sigbus")),
        (-4, (State.CRASH, "sigill")),
        (-8, (State.CRASH, "sigfpe")),
        (-9, (State.INFRA, "sigkill")),
        (-15, (State.INFRA, "sigterm")),
        (-2, (State.INFRA, "sigint")),
        (-1, (State.INFRA, "sighup")),
        (-40, (State.CRASH, "signal-40")),
        (134, (State.CRASH, "exit-134")),
        (0, (State.ERROR, "vanished")),
        (None, (State.ERROR, "vanished")),
        (0xC0001234, (State.CRASH, "ntstatus-c0001234")),
    ],
)
def test_an_exit_code_means_what_its_table_says(code: int | None, expected: tuple[State, str]) -> None:
    assert exited(code) == expected


WINDOWS_EXITS = {
    0xC0000005: (State.CRASH, "access-violation"),
    0xC00000FD: (State.CRASH, "stack-overflow"),
    0xC0000374: (State.CRASH, "heap-corruption"),
    0xC0000409: (State.CRASH, "fail-fast"),
    0xC000001D: (State.CRASH, "host-cpu-illegal-instruction"),
    0xC0000094: (State.CRASH, "division-by-zero"),
    0xC0000006: (State.INFRA, "page-unreadable"),
    0xC0000417: (State.CRASH, "bad-crt-argument"),
    0x80000003: (State.CRASH, "breakpoint"),
    0xE06D7363: (State.CRASH, "cpp-exception"),
    0xC0000017: (State.OOM, "no-memory"),
    0xC000012D: (State.OOM, "commit-limit"),
    0xC0000135: (State.INFRA, "dll-missing"),
    0xC0000139: (State.INFRA, "entry-point-missing"),
    0xC000007B: (State.INFRA, "wrong-architecture"),
    0xC0000142: (State.INFRA, "dll-start-failed"),
    0xC000013A: (State.SKIPPED, "console-closed"),
    0x40010004: (State.INFRA, "session-ended"),
    3: (State.CRASH, "exit-3"),
    1: (State.INFRA, "exit-1"),
}


@pytest.mark.parametrize(("code", "expected"), WINDOWS_EXITS.items())
def test_a_windows_exit_code_means_the_same_signed_and_unsigned(
    code: int, expected: tuple[State, str]
) -> None:
    signed = code - 2**32 if code >= 2**31 else code
    assert exited(code) == exited(signed) == expected


def test_every_known_exit_code_has_its_test() -> None:
    assert codes.EXIT_CODES.keys() == WINDOWS_EXITS.keys()


HRESULTS = {
    0x887A0001: (State.ERROR, "invalid-call"),
    0x887A0005: (State.DEVICE_LOST, "device-removed"),
    0x887A0006: (State.DEVICE_LOST, "device-hung"),
    0x887A0007: (State.DEVICE_LOST, "device-reset"),
    0x887A0020: (State.DEVICE_LOST, "driver-internal-error"),
    0x887A0022: (State.INFRA, "not-currently-available"),
    0x887A0028: (State.INFRA, "session-disconnected"),
    0x887A0004: (State.UNSUPPORTED, "dxgi-unsupported"),
    0x8007000E: (State.OOM, "out-of-memory"),
    0x80004001: (State.UNSUPPORTED, "not-implemented"),
    0x80070057: (State.ERROR, "invalid-argument"),
    0x80004002: (State.ERROR, "no-interface"),
    0x80004005: (State.ERROR, "unspecified-failure"),
    0x80070005: (State.ERROR, "access-denied"),
    0x8000FFFF: (State.ERROR, "unexpected-failure"),
}


@pytest.mark.parametrize(("code", "expected"), HRESULTS.items())
@pytest.mark.parametrize("written", ["Unknown error {0}", "HRESULT 0x{1:08X}", "failed with {1:08x}"])
def test_an_hresult_means_the_same_however_it_is_written(
    code: int, expected: tuple[State, str], written: str
) -> None:
    assert raised("RuntimeError", written.format(code - 2**32, code)) == expected


def test_every_known_hresult_has_its_test() -> None:
    assert codes.HRESULTS.keys() == HRESULTS.keys()


def test_a_kill_by_the_kernel_for_memory_is_out_of_memory() -> None:
    assert exited(-9, oom_killed=True) == (State.OOM, "oom-killed")


@pytest.mark.parametrize(
    ("ending", "kind", "expected"),
    [
        (Ending.TIMEOUT, "", (State.HANG, "timeout")),
        (Ending.MEMORY_LIMIT, "", (State.OOM, "memory-limit")),
        (Ending.GARBLED, "", (State.INFRA, "result-garbled")),
        (Ending.NOT_STARTED, "", (State.INFRA, "not-started")),
        (Ending.CANCELLED, "", (State.SKIPPED, "cancelled")),
        (Ending.NO_ENVIRONMENT, "no-wheel", (State.UNINSTALLABLE, "no-wheel")),
        (Ending.NO_ENVIRONMENT, "infra:disk-full", (State.INFRA, "disk-full")),
    ],
)
def test_an_end_without_a_result_means_what_ended_it(
    ending: Ending, kind: str, expected: tuple[State, str]
) -> None:
    finding = find(Outcome(ending, error_type=kind), {})
    assert (finding.state, finding.reason) == expected


@given(texts)
def test_normalising_twice_is_normalising_once(message: str) -> None:
    once = normalise(message)
    assert normalise(once) == once
    assert len(once) <= MAX_MESSAGE
    assert "\n" not in once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 0x7ffc12345678", "at 0x55d0"),
        ("Unknown error -1234", "Unknown error -2034567890"),
        ("in /tmp/tmpab12/x.py", "in /home/someone/envs/3f/x.py"),
        ("C:\\Users\\a\\x.dll missing", "D:\\work\\x.dll missing"),
        ("/a/b/site-packages/torch/x.so", "/srv/envs/77/lib/site-packages/torch/x.so"),
        ("took 3.25 s", "took 12 ms"),
        ("pid 17 died", "pid 12345 died"),
        ("Tried to allocate 20.00 MiB", "Tried to allocate 1.5 GiB"),
        ("2026-01-02 03:04:05.678 failed", "2027-12-31T23:59:59Z failed"),
        ("a  b\n c", "a b c"),
    ],
)
def test_what_differs_per_run_goes(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    "text",
    [
        "Unknown error -2147024882",
        "0x887A0005",
        "shape [8, 3, 224, 224] and float16",
        "aten::lerp.Scalar_out",
        "https://example.org/home/page",
    ],
)
def test_what_tells_failures_apart_stays(text: str) -> None:
    assert normalise(text) == text


PASS, SLOW_START = Finding(State.PASS, "pass"), Finding(State.INFRA, "not-started")
CRASH, ERROR = Finding(State.CRASH, "sigsegv"), Finding(State.ERROR, "runtime-error")


def test_no_findings_are_not_run() -> None:
    assert verdict([]).state is State.NOT_RUN


def test_equal_conclusive_findings_are_observed() -> None:
    word = verdict([PASS, PASS])
    assert (word.state, word.confidence, word.observations) == (State.PASS, Confidence.OBSERVED, 2)


def test_different_conclusive_findings_are_the_worst_and_flaky() -> None:
    word = verdict([PASS, ERROR, CRASH, PASS])
    assert (word.state, word.confidence, word.observations) == (State.CRASH, Confidence.FLAKY, 4)


def test_two_reasons_of_one_state_are_flaky() -> None:
    assert verdict([CRASH, Finding(State.CRASH, "sigabrt")]).confidence is Confidence.FLAKY


def test_inconclusive_findings_do_not_count_beside_a_conclusive_one() -> None:
    word = verdict([SLOW_START, PASS, SLOW_START])
    assert (word.state, word.confidence, word.observations) == (State.PASS, Confidence.OBSERVED, 1)


def test_the_last_of_only_inconclusive_findings_speaks() -> None:
    word = verdict([Finding(State.SKIPPED, "cancelled"), SLOW_START])
    assert (word.state, word.reason, word.confidence) == (State.INFRA, "not-started", Confidence.OBSERVED)


def test_the_latest_message_of_the_worst_state_speaks() -> None:
    old, new = Finding(State.ERROR, "x", "old"), Finding(State.ERROR, "x", "new")
    assert verdict([old, new, PASS]).message == "new"


@given(st.lists(st.tuples(st.sampled_from([PASS, CRASH, ERROR, SLOW_START]), st.integers(1, 3)), max_size=5))
def test_folded_findings_mean_the_same_as_each_by_itself(runs: list[tuple[Finding, int]]) -> None:
    each = [finding for finding, times in runs for _ in range(times)]
    assert verdict([finding for finding, _ in runs], [times for _, times in runs]) == verdict(each)
