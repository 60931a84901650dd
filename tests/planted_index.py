"""A package index on this machine, spoken to over real HTTP, that can misbehave in every way an index can.

    with PlantedIndex() as index:
        index.add(make_torch_directml(folder, "0.2.5.dev240914"))
        index.answer_next("/simple/torch-directml/", Reply(503), Reply(503))
        PackageIndex(index.settings(), cache).builds("torch-directml", "torch-directml")
        assert index.count("/simple/") == 3

pip and uv can install from it too (``index.url``).
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from packaging.utils import canonicalize_name, parse_wheel_filename

from tracker.config import IndexSettings

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass(frozen=True)
class Reply:
    """One answer. ``claim`` is a Content-Length other than the true one; ``pause`` is in seconds per byte."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    claim: int | None = None
    pause: float = 0.0


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


class PlantedIndex:
    """Serves added wheels until the ``with`` block ends. All state may be changed while it runs."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.pages: dict[str, dict[str, Any]] = {}
        """The JSON page of each normalised package: change it at will."""
        self.use_etags = True
        self._files: dict[str, bytes] = {}
        self._planned: dict[str, deque[Reply]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"{self.root}/simple/"

    def settings(self, **changed: Any) -> IndexSettings:
        """Return settings that point here and lose no time."""
        quick = {"url": self.url, "timeout": 2.0, "deadline": 10.0, "retries": 2, "backoff": 0.001}
        return IndexSettings(**{**quick, **changed})

    def add(self, wheel: Path, uploaded: str = "2024-09-14T18:40:00Z", **changed: Any) -> dict[str, Any]:
        """List a wheel and serve it, and return its entry; ``changed`` fields go before the true ones."""
        content = wheel.read_bytes()
        self._files[f"/files/{wheel.name}"] = content
        entry = {
            "filename": wheel.name,
            "url": f"{self.root}/files/{wheel.name}",
            "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
            "size": len(content),
            "upload-time": uploaded,
            "requires-python": None,
            "yanked": False,
            **changed,
        }
        self.page(parse_wheel_filename(wheel.name)[0])["files"].append(entry)
        return entry

    def page(self, package: str) -> dict[str, Any]:
        """Return the package's page, to be changed in place; an empty one where there was none."""
        name = canonicalize_name(package)
        empty = {"meta": {"api-version": "1.1"}, "name": name, "versions": [], "files": []}
        return self.pages.setdefault(name, empty)

    def answer_next(self, path: str, *replies: Reply) -> None:
        """Give these answers, each once, to the next requests for exactly this path."""
        self._planned.setdefault(path, deque()).extend(replies)

    def count(self, prefix: str = "/") -> int:
        """Return how many requests came for paths that begin so."""
        return sum(request.path.startswith(prefix) for request in self.requests)

    def reply(self, request: Request) -> Reply:
        """Return the answer to a request: a planned one, else the page or file, else 404."""
        with self._lock:
            self.requests.append(request)
            planned = self._planned.get(request.path)
            if planned:
                return planned.popleft()
        if request.path in self._files:
            return Reply(200, self._files[request.path], {"Content-Type": "application/octet-stream"})
        page = self.pages.get(request.path.removeprefix("/simple/").strip("/"))
        return self._page_reply(page, request) if page is not None else Reply(404, b"not found")

    def _page_reply(self, page: dict[str, Any], request: Request) -> Reply:
        body = json.dumps(page).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = {"Content-Type": JSON, **({"ETag": etag} if self.use_etags else {})}
        if self.use_etags and request.headers.get("if-none-match") == etag:
            return Reply(304, b"", headers)
        return Reply(200, body, headers)


def _handler(index: PlantedIndex) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _answer(self, with_body: bool) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = index.reply(Request(self.command, self.path, headers))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            length = len(reply.body) if reply.claim is None else reply.claim
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.close_connection = length != len(reply.body)
            if with_body:
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            try:
                for piece in _pieces(reply):
                    self.wfile.write(piece)
                    self.wfile.flush()
                    time.sleep(reply.pause)
            except OSError:
                self.close_connection = True

    return Handler


def _pieces(reply: Reply) -> list[bytes]:
    return [bytes([byte]) for byte in reply.body] if reply.pause else [reply.body]
