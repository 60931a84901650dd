"""What uv gets to see of the host: what it needs, and nothing that changes what it installs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.errors import Stopped
from tracker.process import clean_environment
from tracker.tools import same_volume, tool_environment, tool_runner

HERE = Path(__file__).parent

SECRETS = st.sampled_from(
    [
        *(
            "UV_PUBLISH_TOKEN",
            "UV_INDEX_MINE_PASSWORD",
            "UV_EXTRA_INDEX_URL",
            "UV_DEFAULT_INDEX",
            "UV_CONSTRAINT",
        ),
        *("UV_OVERRIDE", "UV_EXCLUDE_NEWER", "UV_PYTHON", "UV_TARGET", "UV_PRERELEASE", "UV_TORCH_BACKEND"),
        *(
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "PIP_INDEX_URL",
            "PYTHONPATH",
            "LD_PRELOAD",
            "VIRTUAL_ENV",
        ),
    ]
)
NAMES = (
    SECRETS
    | st.from_regex(r"UV_[A-Z_]{1,20}", fullmatch=True)
    | st.from_regex(r"[A-Z_]{1,12}", fullmatch=True)
)
KNOWN = {
    *("UV_CACHE_DIR", "UV_LINK_MODE", "UV_PYTHON_INSTALL_DIR", "UV_PYTHON_CACHE_DIR", "UV_HTTP_TIMEOUT"),
    *("UV_HTTP_CONNECT_TIMEOUT", "UV_REQUEST_TIMEOUT", "UV_HTTP_RETRIES", "UV_OFFLINE", "UV_NATIVE_TLS"),
    *("UV_SYSTEM_CERTS", "UV_PYTHON_INSTALL_MIRROR", "UV_LOCK_TIMEOUT"),
    *("UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_BUILDS", "UV_CONCURRENT_INSTALLS"),
}


@given(st.dictionaries(NAMES, st.text("abc", min_size=1)))
def test_of_uvs_own_settings_only_harmless_ones_pass(source: dict[str, str]) -> None:
    passed = tool_environment(HERE, source)
    assert {name for name in passed if name.startswith("UV_")} <= KNOWN
    assert {name: passed[name] for name in source if name in KNOWN} == {
        name: value for name, value in source.items() if name in KNOWN
    }


EXTRA = {"SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME", "NETRC"}


@given(st.dictionaries(NAMES, st.text("abc", min_size=1)))
def test_what_a_worker_may_not_see_a_tool_does_not_see_either(source: dict[str, str]) -> None:
    more = tool_environment(HERE, source).keys() - clean_environment({}, source).keys()
    assert more <= KNOWN | EXTRA | {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY"])
def test_a_proxy_with_a_login_reaches_uv(name: str) -> None:
    assert tool_environment(HERE, {name: "http://me:s3cret@proxy/"})[name] == "http://me:s3cret@proxy/"


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_directory_uvs_cache_is_in_our_folder(tmp_path: Path, home: str | None) -> None:
    source = {} if home is None else {"HOME": home}
    assert tool_environment(tmp_path, source)["UV_CACHE_DIR"] == str(tmp_path / "cache" / "uv")


@pytest.mark.skipif(sys.platform == "win32", reason="there the cache is not below HOME")
def test_uvs_cache_stays_where_it_is_when_it_can_share_files(tmp_path: Path) -> None:
    assert "UV_CACHE_DIR" not in tool_environment(tmp_path, {"HOME": str(tmp_path)})


def test_places_that_do_not_exist_yet_are_on_the_volume_of_their_parents(tmp_path: Path) -> None:
    assert same_volume(tmp_path / "a" / "b", tmp_path / "c")


def test_a_tool_is_given_further_variables(tmp_path: Path) -> None:
    ask = [sys.executable, "-c", "import os; print(os.environ['UV_DEFAULT_INDEX'])"]
    assert tool_runner(tmp_path)(ask, 60, {"UV_DEFAULT_INDEX": "x"}) == (0, "x" + os.linesep)


def test_a_tool_is_stopped_when_it_is_told_to(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Stopped):
        tool_runner(tmp_path, lambda: True)([sys.executable, "-c", "import time; time.sleep(60)"], 60)
    assert time.monotonic() - began < 20


def test_a_tool_that_takes_too_long_has_no_exit_code(tmp_path: Path) -> None:
    code, _ = tool_runner(tmp_path)([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    assert code is None


def test_a_tool_that_is_not_there_says_so(tmp_path: Path) -> None:
    code, said = tool_runner(tmp_path)([str(tmp_path / "nowhere")], 60)
    assert code == 127 and "nowhere" in said
