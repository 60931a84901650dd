"""Reads what an index says of a package (PEP 691/700 JSON) into builds.

Owns the checks between hostile text and our records: after them a file name is safe as the last part of a
path, a url is a plain http(s) address, a hash is a hash. It must not know where the page came from or what is
done with it: nothing here reads, writes or asks. One bad entry costs that entry and a warning, not the page.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tracker import versions
from tracker.model import Build, BuildFile

UNKNOWN_UPLOAD = datetime(1970, 1, 1, tzinfo=UTC)
"""The upload time of a file whose index (a mirror, as a rule) gives none. A size that is not given is 0."""

_WARNING_LIMIT = 50
_OTHER_ARCHIVES = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz", ".egg", ".exe", ".msi", ".rpm")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

HINT_NAME = "check the package's name and the index url in the configuration"
HINT_JSON = "the index must offer the JSON API (PEP 691); a sign-in page or a proxy may be in the way"


class PageProblem(Exception):
    """A page is not usable as a whole."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class EntryProblem(Exception):
    """One entry of a page is not usable; the text says why."""


def read_page(body: str, base: str, track: str, name: str) -> tuple[tuple[Build, ...], list[str]]:
    """Return the builds of a JSON page and one warning for each entry that had to be skipped.

    ``base`` is the page's own address, ``name`` the normalised package. Pure.
    """
    files: dict[str, dict[str, BuildFile]] = {}
    warnings: list[str] = []
    for entry in _entries(body, name):
        try:
            read = _read_entry(entry, base, name)
            if read is not None:
                version, file = read
                if file.filename in files.setdefault(version, {}):
                    raise EntryProblem("listed twice")
                files[version][file.filename] = file
        except EntryProblem as problem:
            named = entry.get("filename") if isinstance(entry, dict) else entry
            warnings.append(f"{name}: file {quoted(named)} skipped: {problem}")
    builds = [_build(track, version, list(found.values())) for version, found in files.items() if found]
    builds.sort(key=lambda build: versions.sort_key(build.version, build.uploaded))
    return tuple(builds), _bounded(warnings)


def _entries(body: str, name: str) -> list[Any]:
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        raise PageProblem("malformed JSON", HINT_JSON) from None
    if not isinstance(page, dict) or not isinstance(page.get("files"), list):
        raise PageProblem("JSON without a list of files", HINT_JSON)
    meta = page.get("meta")
    api = str(meta.get("api-version", "1.0")) if isinstance(meta, dict) else "1.0"
    if not api.startswith("1."):
        raise PageProblem(f"version {quoted(api)} of the API, 1.x is understood", HINT_JSON)
    given = page.get("name")
    if not isinstance(given, str) or canonicalize_name(given) != name:
        raise PageProblem(f"the answer is about {quoted(given)}", HINT_NAME)
    files: list[Any] = page["files"]
    return files


def _read_entry(entry: Any, base: str, name: str) -> tuple[str, BuildFile] | None:
    """Return the version and the file; None for an sdist or another archive that is no wheel."""
    if not isinstance(entry, dict):
        raise EntryProblem("not an object")
    filename = entry.get("filename")
    if isinstance(filename, str) and filename.lower().endswith(_OTHER_ARCHIVES):
        return None
    version = check_filename(filename, name)
    size = entry.get("size") or 0
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= 2**50:
        raise EntryProblem("its size is not a number of bytes")
    file = BuildFile(
        filename=str(filename),
        url=checked_url(entry.get("url"), base),
        sha256=checked_sha256(entry.get("hashes")),
        size=size,
        uploaded=_upload_time(entry.get("upload-time")),
        requires_python=_clean(entry.get("requires-python"), 200) or None,
        yanked=_yank_reason(entry.get("yanked")),
    )
    return version, file


def check_filename(filename: object, name: str | None = None) -> str:
    """Return the version in a wheel's file name; the name is safe as the last part of a path afterwards."""
    if not isinstance(filename, str) or not 0 < len(filename) <= 240:
        raise EntryProblem("no file name, or one that is too long")
    if not filename.isascii() or not filename.isprintable() or re.search(r'[/\\:*?"<>| ]', filename):
        raise EntryProblem("its name is not a plain file name")
    try:
        project, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        raise EntryProblem("its name is not that of a wheel with a version") from None
    if name is not None and project != name:
        raise EntryProblem("it belongs to another project")
    return str(version)


def checked_sha256(hashes: object) -> str:
    digest = hashes.get("sha256") if isinstance(hashes, dict) else None
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest.lower()):
        raise EntryProblem("it has no usable sha256")
    return digest.lower()


def checked_url(url: object, base: str) -> str:
    """Return the absolute address. It must be http(s), without login, and must not climb out of its place."""
    if not isinstance(url, str) or not 0 < len(url) <= 4096 or not url.isprintable() or "\\" in url:
        raise EntryProblem("it has no usable url")
    try:
        parts = urlsplit(urljoin(base, url))._replace(fragment="")
        host, login = parts.hostname, "@" in parts.netloc
    except ValueError:
        raise EntryProblem("it has no usable url") from None
    if parts.scheme not in ("http", "https") or not host or login or parts.path[-1:] in ("", "/"):
        raise EntryProblem("its url is not the plain http or https address of a file")
    if ".." in unquote(parts.path).replace("\\", "/").split("/"):
        raise EntryProblem("its url climbs out of its folder")
    return urlunsplit(parts)


def _upload_time(text: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text)[:40])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return UNKNOWN_UPLOAD


def _yank_reason(yanked: object) -> str | None:
    """Return the reason, empty where none is given, or None when the file is not yanked (PEP 592, 691)."""
    if not yanked:
        return None
    return _clean(yanked, 500)


def _build(track: str, version: str, files: list[BuildFile]) -> Build:
    known = [file.uploaded for file in files if file.uploaded != UNKNOWN_UPLOAD]
    first = min(known, default=UNKNOWN_UPLOAD)
    return Build(track, version, first, tuple(sorted(files, key=lambda file: file.filename)))


def _clean(text: object, limit: int) -> str:
    """Return at most ``limit`` characters of the text on one line; what is not text is empty."""
    return _CONTROL.sub(" ", text[: 2 * limit]).strip()[:limit] if isinstance(text, str) else ""


def quoted(text: object) -> str:
    """Return hostile text in a form that fits in one line of a message."""
    shown = _CONTROL.sub("?", text if isinstance(text, str) else type(text).__name__)
    return repr(shown if len(shown) <= 120 else shown[:117] + "...")


def _bounded(warnings: list[str]) -> list[str]:
    more = len(warnings) - _WARNING_LIMIT
    return warnings if more <= 0 else [*warnings[:_WARNING_LIMIT], f"and {more} more files skipped"]
