"""The package index: which builds there are, what changed since the last look, and the wheels themselves.

Owns every word spoken to an index over HTTP, and the folders ``index`` and ``wheels`` of the cache. It must
not know what is done with builds, nor what is inside a page (``index_page``) or a wheel (``wheels``); it
writes no journal and prints nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name, is_normalized_name

from tracker.config import IndexSettings, without_login
from tracker.errors import IndexProblem, Stopped, WheelError
from tracker.files import rename
from tracker.index_page import (
    HINT_JSON,
    HINT_NAME,
    EntryProblem,
    PageProblem,
    check_filename,
    checked_sha256,
    checked_url,
    quoted,
)
from tracker.index_page import UNKNOWN_UPLOAD as UNKNOWN_UPLOAD
from tracker.index_page import read_page as read_page
from tracker.model import Build, BuildFile

if TYPE_CHECKING:
    import requests
    from urllib3.util.retry import Retry

T = TypeVar("T")

MISMATCH = "hash-mismatch"
"""The reason of a file that is not what the index promised."""

_JSON = "application/vnd.pypi.simple.v1+json"
_PAGE_LIMIT = 64 * 2**20
_WHEEL_LIMIT = 4 * 2**30
_CHUNK = 256 * 1024
_STOP_EVERY = 0.1
_PART_LIFE, _PART_SILENCE = 86400.0, 60.0
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

_HINT_NETWORK = "check the network and the proxy, or name a mirror of the index in the configuration"


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What one index said of one package.

    ``not_modified`` means it said that nothing changed (HTTP 304); ``mirror`` that it was not the index itself
    that answered but a mirror, which may lag behind.
    """

    builds: tuple[Build, ...]
    url: str
    not_modified: bool
    warnings: tuple[str, ...]
    mirror: bool = False


class _Failed(Exception):
    """One try failed. ``again``: another may do better; ``wait``: the seconds we were told to wait."""

    def __init__(
        self,
        what: str,
        *,
        again: bool = False,
        wait: float | None = None,
        hint: str = "",
        slug: str = "index-unreachable",
    ) -> None:
        super().__init__(what)
        self.slug = slug
        self.what = what
        self.again = again
        self.wait = wait
        self.hint = hint or _HINT_NETWORK


@dataclass(frozen=True, slots=True)
class _Page:
    """A body with what must be known to read it and to ask for it again."""

    body: str
    base: str
    etag: str


class PackageIndex:
    """An index and its mirrors, with a cache on disk. One object must not be shared between threads.

    ``stop`` is asked between the pieces of a transfer and during pauses; True makes it raise Stopped.
    """

    def __init__(
        self, settings: IndexSettings, cache: Path, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._stop = stop
        addresses = (settings.url, *settings.mirrors)
        self._logins = {_host(url): login for url in reversed(addresses) if (login := _login(url))}
        self._indexes = tuple(map(without_login, addresses))

    def builds(self, track: str, package: str) -> IndexAnswer:
        """Return the package's builds, oldest first, from the first index that gives a usable answer.

        Raise IndexProblem where none does.
        """
        name = canonicalize_name(package)
        if not is_normalized_name(name):
            raise IndexProblem(f"{quoted(package)} is not a package name", hint=HINT_NAME)
        failures: list[tuple[str, _Failed]] = []
        for index in self._indexes:
            url = f"{index.rstrip('/')}/{name}/"
            try:
                return replace(self._answer(url, track, name), mirror=index != self._indexes[0])
            except _Failed as failure:
                failures.append((url, failure))
        said = "; ".join(f"{url}: {failure.what}" for url, failure in failures)
        raise IndexProblem(f"no usable answer for {name} from {said}", hint=failures[0][1].hint)

    def fetch_wheel(self, file: BuildFile, progress: Callable[[int], object] | None = None) -> Path:
        """Return the file's path in the cache, downloading it when it is not there.

        ``progress`` is called with the number of bytes of each piece. Raise WheelError where it cannot be had
        or is not what the index promised; then nothing is left under its name.
        """
        try:
            check_filename(file.filename)
            digest = checked_sha256({"sha256": file.sha256})
            place = self._cache / "wheels" / digest[:2] / digest / file.filename
            if not _is_cached(place, file):
                self._fetch_to(place, file, progress or (lambda _: None))
        except EntryProblem as problem:
            raise WheelError(
                f"{quoted(file.filename)} can not be fetched: {problem}", slug="bad-file"
            ) from None
        except _Failed as problem:
            raise WheelError(
                f"{file.filename} can not be fetched: {problem.what}",
                slug=problem.slug,
                ours=problem.slug != MISMATCH,
                hint=problem.hint,
            ) from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise WheelError(
                f"{file.filename} can not be kept in the cache: {reason}",
                slug="cache",
                ours=True,
                hint="is the disk full?",
            ) from error
        return place

    def _answer(self, url: str, track: str, name: str) -> IndexAnswer:
        kept = self._cache / "index" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
        known = _read_kept(kept, url)
        fresh = self._retrying(lambda limit: self._get_page(url, known, limit))
        page = fresh or known
        assert page is not None, "_get_page answers None only to a question about a known page"
        try:
            builds, warnings = read_page(page.body, page.base, track, name)
        except PageProblem as problem:
            with suppress(OSError):
                kept.unlink(missing_ok=True)
            raise _Failed(problem.what, hint=problem.hint) from None
        if fresh and fresh.etag:
            warnings += _keep_page(kept, url, fresh)
        return IndexAnswer(builds, url, not_modified=fresh is None, warnings=tuple(warnings))

    def _get_page(self, url: str, known: _Page | None, limit: float) -> _Page | None:
        """Return the page, or None when the index says that the known one still stands."""
        headers = {"Accept": f"{_JSON}, application/json;q=0.1"}
        if known:
            headers["If-None-Match"] = known.etag
        with self._opened(url, headers) as response:
            if response.status_code == 304 and known:
                return None
            _check_status(response)
            if "html" in response.headers.get("Content-Type", "").lower():
                raise _Failed("HTML instead of JSON", hint=HINT_JSON)
            body = b"".join(self._pieces(response, _PAGE_LIMIT, limit)).decode("utf-8", "replace")
            return _Page(body, without_login(response.url), response.headers.get("ETag", "")[:200])

    def _fetch_to(self, place: Path, file: BuildFile, progress: Callable[[int], object]) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep_parts(self._cache)
        part = place.with_name(f"{file.filename[:100]}.{os.getpid()}-{time.monotonic_ns():x}.part")
        try:
            self._retrying(lambda limit: self._download(file, part, progress, limit))
            rename(part, place)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _download(self, file: BuildFile, part: Path, progress: Callable[[int], object], limit: float) -> None:
        digest, size = hashlib.sha256(), 0
        url = checked_url(file.url, file.url)
        with self._opened(url, {"Accept-Encoding": "identity"}) as response:
            _check_status(response)
            self._check_stop()
            with part.open("wb") as out:
                for piece in self._pieces(response, file.size or _WHEEL_LIMIT, limit):
                    out.write(piece)
                    digest.update(piece)
                    size += len(piece)
                    progress(len(piece))
        if file.size and size != file.size:
            raise _Failed(f"{size} bytes came, the index promised {file.size}", again=size < file.size)
        if digest.hexdigest() != file.sha256.lower():
            raise _Failed(
                f"its sha256 is {digest.hexdigest()}, the index promised {file.sha256.lower()}",
                hint="the file was changed on its way or on the index; do not install it",
                slug=MISMATCH,
            )

    @cached_property
    def _session(self) -> requests.Session:
        import requests

        session = requests.Session()
        session.headers["User-Agent"] = "dmltrack"
        session.max_redirects = 5
        return session

    @contextmanager
    def _opened(self, url: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """Ask once; whatever goes wrong until the body has been read is a _Failed."""
        import requests
        import urllib3

        try:
            with self._session.get(
                url,
                headers=dict(headers),
                stream=True,
                timeout=self._settings.timeout,
                auth=self._logins.get(_host(url)),
            ) as response:
                yield response
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            raise _Failed(self._said(error), again=True) from error
        except (requests.RequestException, ValueError) as error:
            raise _Failed(quoted(without_login(str(error)))) from error

    def _said(self, error: Exception) -> str:
        """Return what went wrong without object addresses and connection pools."""
        import requests
        import urllib3

        if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
            return f"silent for more than {self._settings.timeout:g} s"
        if isinstance(error, urllib3.exceptions.ProtocolError):
            return "the transfer broke off"
        cause = getattr(error.args[0], "reason", error) if error.args else error
        return quoted(without_login(str(cause)).rsplit(": ", 1)[-1] or type(error).__name__)

    def _retrying(self, attempt: Callable[[float], T]) -> T:
        """Return what the attempt returns, trying again after passing trouble until tries or time are up.

        The attempt is given the moment (monotonic) at which it must have ended.
        """
        limit = time.monotonic() + self._settings.deadline
        for retry in self._retries():
            try:
                return self._hearing_stop(lambda: attempt(limit))
            except _Failed as failure:
                pause = retry.get_backoff_time() if failure.wait is None else failure.wait
                if not failure.again or not retry.total:
                    raise
                if time.monotonic() + pause > limit:
                    failure.what += (
                        f", and a new try would come after the limit of {self._settings.deadline:g} s"
                    )
                    raise
                self._pause(pause)
        raise AssertionError("the last retry has a total of 0 and raises")

    def _hearing_stop(self, attempt: Callable[[], T]) -> T:
        """Return what the attempt returns; raise Stopped soon after we are told to, however silent the index is.

        A thread, because a read that waits for the network hears nothing. After a stop it ends by itself, at the
        next piece or when the index has been silent for too long.
        """
        from concurrent.futures import Future, wait

        told: Future[T] = Future()

        def work() -> None:
            try:
                told.set_result(attempt())
            except BaseException as error:
                told.set_exception(error)

        threading.Thread(target=work, name="transfer", daemon=True).start()
        while not wait([told], _STOP_EVERY).done:
            self._check_stop()
        return told.result()

    def _retries(self) -> Iterator[Retry]:
        """Yield the state of the retries before each try; urllib3 knows the back-off and the jitter."""
        from urllib3.util.retry import RequestHistory, Retry

        backoff, total = self._settings.backoff, max(0, self._settings.retries)
        past = RequestHistory("GET", None, None, None, None)
        for tried in range(total + 1):
            yield Retry(
                total - tried,
                backoff_factor=backoff / 2,
                backoff_jitter=backoff,
                history=(past,) * (tried + 2),
            )

    def _pieces(self, response: requests.Response, cap: int, limit: float) -> Iterator[bytes]:
        """Yield the body as it comes, so that a steady trickle meets the deadline too."""
        size = 0
        while piece := response.raw.read1(_CHUNK, decode_content=True):
            self._check_stop()
            size += len(piece)
            if size > cap:
                raise _Failed(f"more than {cap} bytes came")
            if time.monotonic() > limit:
                raise _Failed("the transfer took longer than its limit")
            yield piece

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self._check_stop()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _STOP_EVERY))
            self._check_stop()

    def _check_stop(self) -> None:
        if self._stop():
            raise Stopped("stopped while the index was asked")


def _host(url: str) -> str:
    return urlsplit(without_login(url)).netloc.lower()


def _login(url: str) -> tuple[str, str] | None:
    """Return the user and the password in an address, for requests to the same host."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def _check_status(response: requests.Response) -> None:
    status = response.status_code
    if status == 404:
        raise _Failed("not there (HTTP 404)", hint=HINT_NAME)
    if status != 200:
        again = status in _PASSING_STATUS
        raise _Failed(f"HTTP {status}", again=again, wait=_told_to_wait(response) if again else None)


def _told_to_wait(response: requests.Response) -> float | None:
    """Return the seconds of a Retry-After header (a number or a date), or None."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util.retry import Retry

    header = response.headers.get("Retry-After")
    try:
        return Retry().parse_retry_after(header[:100]) if header else None
    except (InvalidHeader, ValueError, OverflowError):
        return None


def _is_cached(place: Path, file: BuildFile) -> bool:
    """Tell whether the file is there. Its folder is its hash, so the size is enough; without one, hash it."""
    if not place.is_file():
        return False
    if file.size:
        return place.stat().st_size == file.size
    with place.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256.lower()


def _sweep_parts(cache: Path) -> None:
    """Delete what downloads and polls left behind that were killed, whatever they had come for."""
    for part in (*cache.glob("wheels/*/*/*.part"), *cache.glob("index/*.part")):
        with suppress(OSError):
            if is_left_behind(part.name, time.time() - part.stat().st_mtime, _is_alive):
                part.unlink()


def is_left_behind(name: str, age: float, alive: Callable[[int], bool]) -> bool:
    """Tell from its name and the seconds since it last grew whether nobody fills a file any more.

    A process that is not here can be one of another machine on the same disk: so a moment of silence counts.
    """
    owner = re.search(r"\.(\d+)(?:-[0-9a-f]+)?\.part$", name)
    if owner is None or age > _PART_LIFE:
        return age > _PART_LIFE
    return age > _PART_SILENCE and not alive(int(owner[1]))


def _is_alive(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)


def _read_kept(kept: Path, url: str) -> _Page | None:
    """Return the page kept from an earlier answer, or None where there is none that can be trusted."""
    try:
        data = json.loads(kept.read_text("utf-8"))
        page = _Page(data["body"], data["base"], data["etag"])
        texts = all(isinstance(text, str) for text in (page.body, page.base, page.etag))
        return page if texts and page.etag and data["url"] == url else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _keep_page(kept: Path, url: str, page: _Page) -> list[str]:
    """Keep the page for the next conditional request. A full disk costs the saving, not the answer."""
    part = kept.with_suffix(f".{os.getpid()}.part")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        data = {"url": url, "base": page.base, "etag": page.etag, "body": page.body}
        part.write_text(json.dumps(data), "utf-8")
        rename(part, kept)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        return [f"the answer can not be kept for the next poll: {error.strerror}"]
    return []
