"""What uv says is told as one reason, and the host's troubles from the build's."""

from __future__ import annotations

import pytest

from tracker.uv_output import classify, uv_reason

NO_SOLUTION = """error: No solution found when resolving dependencies
  cause: Because a==1 has no wheels with a matching Python ABI tag (e.g., `cp312`) and you require a==1, no.

hint: You require CPython 3.12 (`cp312`), but we only found wheels for
"""
REFUSED = """warning: something
error: Request failed after 3 retries in 11.3s
  cause: Failed to fetch: http://127.0.0.1:9/simple/a/
  cause: Connection refused (os error 111)
"""
FORBIDDEN = """error: No solution found when resolving dependencies
  cause: Because planted was not found in the package registry and you require planted==1.0, no.

hint: An index (http://127.0.0.1:9/simple/) returned a 403 Forbidden error. Check that the index URL is correct.
"""
UNAUTHORIZED = """error: No solution found when resolving dependencies
  cause: Because planted was not found in the package registry and you require planted==1.0, no.

hint: An index URL (http://h/simple/) could not be queried due to a lack of credentials (401 Unauthorized)
"""
BUILT = """error: Failed to build `whisper==1`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)
      [stderr]
      error: Permission denied
"""


def test_uvs_reason_is_its_error_and_causes_in_one_line() -> None:
    assert uv_reason(NO_SOLUTION).startswith(
        "No solution found when resolving dependencies: Because a==1 has no wheels"
    )
    assert uv_reason(REFUSED).endswith("Connection refused (os error 111)")
    assert uv_reason("\n\nsomething odd\n") == "something odd"
    assert uv_reason("") == "uv failed and gave no reason"


def test_the_causes_of_an_older_uv_are_read_too() -> None:
    assert uv_reason("error: Failed to fetch\n  Caused by: dns error\n") == "Failed to fetch: dns error"


def test_a_reason_has_no_login() -> None:
    assert (
        uv_reason("error: Failed to fetch: http://me:s3cret@h/simple/") == "Failed to fetch: http://h/simple/"
    )


def test_what_a_build_wrote_is_not_uvs_reason() -> None:
    assert classify(uv_reason(BUILT)) == ("build-failed", False)


@pytest.mark.parametrize(
    ("reason", "slug", "outside"),
    [
        (uv_reason(NO_SOLUTION), "no-wheel", False),
        (uv_reason(REFUSED), "index-unreachable", True),
        (uv_reason(FORBIDDEN), "index-unreachable", True),
        (uv_reason(UNAUTHORIZED), "index-unreachable", True),
        ("No solution found: Because a was not found in the package registry", "not-on-index", False),
        ("failed to write: No space left on device", "disk-full", True),
        ("Failed to download `a`: Hash mismatch for a", "hash-mismatch", False),
        ("HTTP status server error (503 Service Unavailable) for url (x)", "index-unreachable", True),
        ("HTTP status client error (429 Too Many Requests) for url (x)", "index-unreachable", True),
        ("HTTP status client error (401 Unauthorized) for url (x)", "index-unreachable", True),
        ("HTTP status client error (400 Bad Request) for url (x)", "install-failed", False),
        ("invalid peer certificate: UnknownIssuer", "index-unreachable", True),
        ("dns error: failed to lookup address", "index-unreachable", True),
        ("Network connectivity is disabled, but the requested data", "index-unreachable", True),
        ("Failed to build `a`: Failed to fetch: http://x/", "index-unreachable", True),
        ("Failed to build `a`: exit status: 1", "build-failed", False),
        ("something odd", "install-failed", False),
    ],
)
def test_reasons_of_the_host_are_told_from_those_of_the_build(reason: str, slug: str, outside: bool) -> None:
    assert classify(reason) == (slug, outside)


@pytest.mark.parametrize(
    ("reason", "slug"),
    [
        ("Es steht nicht genug Speicherplatz auf dem Datenträger zur Verfügung. (os error 112)", "disk-full"),
        ("磁盘已满 (os error 39)", "disk-full"),
        ("Zugriff verweigert (os error 5)", "permission-denied"),
        ("另一个程序正在使用此文件 (os error 32)", "file-in-use"),
        ("Es konnte keine Verbindung hergestellt werden (os error 10061)", "index-unreachable"),
        ("Der Dateiname ist zu lang (os error 206)", "path-too-long"),
    ],
)
def test_a_windows_in_another_language_is_understood_by_its_numbers(reason: str, slug: str) -> None:
    assert classify(reason, windows=True) == (slug, True)


@pytest.mark.parametrize(
    ("number", "slug"),
    [
        (28, "disk-full"),
        (122, "disk-full"),
        (13, "permission-denied"),
        (5, "disk-failed"),
        (32, "index-unreachable"),
    ],
)
def test_a_linux_in_another_language_is_understood_by_its_numbers(number: int, slug: str) -> None:
    assert classify(f"Irgendetwas (os error {number})", windows=False) == (slug, True)


def test_a_number_that_says_nothing_of_the_host_is_the_builds() -> None:
    assert classify("Failed to build `a`: Failed to spawn (os error 2)", windows=False) == (
        "build-failed",
        False,
    )
