"""Settings: what a person wrote is understood or named, and a password in it is never shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.config import home_folder, load, without_login
from tracker.errors import UsageError


def loaded(folder: Path, text: str | bytes = "", **environ: str) -> Any:
    (folder / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(folder, environ)


def problem(folder: Path, text: str | bytes, **environ: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        loaded(folder, text, **environ)
    assert "\n" not in caught.value.message
    return caught.value


# Logins

LOGIN = "https://me:s3cret@host.example/simple/"


def test_an_address_is_shown_without_its_login() -> None:
    assert without_login(LOGIN) == "https://host.example/simple/"
    assert without_login("a http://u@h/x and http://u:p@g:8/") == "a http://h/x and http://g:8/"
    assert without_login("https://host/@scope/x?mail=a@b") == "https://host/@scope/x?mail=a@b"


SAFE = st.text("abcXYZ019-._~%!$&'()*+,;=:@", min_size=1, max_size=20)


@given(SAFE, SAFE)
def test_no_part_of_any_login_is_left(user: str, password: str) -> None:
    assert without_login(f"https://{user}:{password}@host.example/simple/") == "https://host.example/simple/"


def test_the_settings_are_shown_without_logins(tmp_path: Path) -> None:
    text = f'[index]\nurl = "{LOGIN}"\nmirrors = ["{LOGIN}"]\n[worker.environment]\nHTTP_PROXY = "{LOGIN}"\n'
    there = loaded(tmp_path, text)
    assert there.settings.index.url == LOGIN
    rows = {name: value for name, value, _ in there.rows()}
    assert rows["index.mirrors"] == ("https://host.example/simple/",)
    assert "s3cret" not in repr(rows)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://me:s3cret@host/",
        "https://me:s3/cret@host/",
        "https://me:s3#cret@host/",
        "https://a:s3@cret@host/",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_login(tmp_path: Path, url: str) -> None:
    found = problem(tmp_path, f'[index]\nurl = "{url}"\n')
    assert "index.url is not an http address" in found.message and "%2F" in str(found.hint)
    assert "cret" not in found.message


@pytest.mark.parametrize(
    "url", ["", "pypi.org/simple", "http://", "http://[::1", "http://a b/", "http://h:x/"]
)
def test_an_address_without_login_is_named_when_it_is_refused(tmp_path: Path, url: str) -> None:
    assert f"'{url}'" in problem(tmp_path, f'[index]\nmirrors = ["{url}"]\n').message


# The file


def test_a_file_from_an_editor_on_windows_is_read(tmp_path: Path) -> None:
    there = loaded(tmp_path, b"\xef\xbb\xbf[index]\r\ntimeout = 7.0\r\n")
    assert there.settings.index.timeout == 7.0
    assert there.sources["index.timeout"] == str(tmp_path / "config.toml")


def test_a_key_given_twice_is_one_line_that_says_where(tmp_path: Path) -> None:
    assert "line 3" in problem(tmp_path, "[index]\nretries = 1\nretries = 2\n").message


def test_a_file_in_another_encoding_is_told_as_that(tmp_path: Path) -> None:
    assert problem(tmp_path, "[index]\n".encode("utf-16")).hint == "save the file as UTF-8"


def test_an_unknown_key_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    assert problem(tmp_path, "[index]\nretrys = 1\n").hint == "did you mean 'retries'?"
    assert problem(tmp_path, "[indx]\n").hint == "did you mean 'index'?"


@pytest.mark.parametrize(
    "text", ["[index]\nretries = 1.5\n", "[index]\nurl = 1\n", "[index]\ntimeout = -1\n", "url = 1"]
)
def test_a_value_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    problem(tmp_path, text)


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    there = loaded(tmp_path, "[index]\nretries = 1\n", DMLTRACK_INDEX_RETRIES="3")
    assert there.settings.index.retries == 3
    assert there.sources["index.retries"] == "environment variable DMLTRACK_INDEX_RETRIES"


# The home folder


def test_the_home_folder_is_the_one_named(tmp_path: Path) -> None:
    assert home_folder({"DMLTRACK_HOME": str(tmp_path)}) == tmp_path


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_name_is_none(value: str) -> None:
    assert home_folder({"DMLTRACK_HOME": value}) == home_folder({})


@pytest.mark.parametrize("value", ["home", "./home", "~nobody-of-that-name/home"])
def test_a_relative_home_folder_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="not an absolute path"):
        home_folder({"DMLTRACK_HOME": value})


@pytest.mark.skipif(sys.platform == "win32", reason="there the home folder is the machine's")
def test_a_user_without_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(UsageError) as caught:
        home_folder({})
    assert "DMLTRACK_HOME" in str(caught.value.hint)
