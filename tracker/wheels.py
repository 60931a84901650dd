"""Reads a wheel without installing it, on any host; and picks the wheel of a build that a platform needs.

Owns the layout of torch-directml wheels: where the DirectML library, the native module and the API are. It
must not know the index, and must not unpack, import or run anything of the wheel. A wheel is hostile:
members are read by name from the archive, never written to disk, and no more of them than a fixed size.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Generic, Self, TypeVar

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from tracker.binaries import named_constants, pe_version
from tracker.errors import WheelError
from tracker.model import ApiEntry, Build, BuildFile, Platform, WheelFacts
from tracker.python_api import public_api
from tracker.wheel_changes import WheelChange as WheelChange
from tracker.wheel_changes import wheel_changes as wheel_changes

T = TypeVar("T")

_MEMBER_LIMIT = 512 * 2**20
_WHEEL_LIMIT = 2 * 2**30
_TEXT_LIMIT = 4 * 2**20
_SOURCE_LIMIT = 2 * 2**20
_REQUIREMENTS = 500
_LINE = 500

_DIRECTML = re.compile(r"(?:torch_directml|torch/lib)/(?:lib)?directml[^/]*\.(?:dll|so)", re.IGNORECASE)
_NATIVE = re.compile(r"torch_directml_native[^/]*\.(?:so|pyd)")
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_LINUX = re.compile(r"(?:many)?linux.*_x86_64")
_INTERPRETER = re.compile(r"(?:cp|py)(\d)(\d*)")
_PACKAGES = ("torch_directml", "torch/dml")
"""Where the Python API begins: the plugin's package, and the module that the old fork has inside torch."""

_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    OSError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""What zipfile raises on damaged, encrypted or strangely compressed archives."""


def read_wheel(path: Path, track: str) -> WheelFacts:
    """Return what the wheel says of itself.

    Raise WheelError where it is no wheel, is damaged or contradicts its own name. ``unpacked_size`` is what
    the archive claims. A library that can not be read leaves what it would have said None or empty.
    """
    name, version, tags = _read_name(path.name)
    with _damage_told(path.name), _Archive(path) as archive:
        metadata = _read_metadata(archive, name, version)
        directml = _read_library(archive, _DIRECTML, pe_version)
        native = _read_library(archive, _NATIVE, _operators)
        return WheelFacts(
            track=track,
            version=str(version),
            filename=path.name,
            sha256=_file_sha256(path),
            platform=_platform(tags),
            python=_joined(tag.interpreter for tag in tags),
            abi=_joined(tag.abi for tag in tags),
            platform_tags=tuple(sorted({tag.platform for tag in tags})),
            size=path.stat().st_size,
            unpacked_size=archive.unpacked_size,
            requires=metadata.requires,
            requires_python=metadata.requires_python,
            directml_name=directml.name,
            directml_version=directml.content.short if directml.content else None,
            directml_size=directml.size,
            directml_sha256=directml.sha256,
            native_name=native.name,
            native_size=native.size,
            native_sha256=native.sha256,
            operators=native.content or (),
            api=_read_api(archive),
            top_level=_read_top_level(archive, metadata.folder),
            directml_build=directml.content.full if directml.content else "",
        )


@dataclass(frozen=True, slots=True)
class _Metadata:
    folder: str
    requires: tuple[str, ...]
    requires_python: str | None


@dataclass(frozen=True, slots=True)
class _Library(Generic[T]):
    """A native library in the archive, and what its bytes said."""

    name: str | None = None
    size: int | None = None
    sha256: str | None = None
    content: T | None = None


class _Archive:
    """An open wheel from which no more than a fixed size is ever unpacked, and only into memory."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self._members = {info.filename: info for info in self._zip.infolist()}
        self._left = _WHEEL_LIMIT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> Collection[str]:
        return self._members.keys()

    @property
    def unpacked_size(self) -> int:
        return sum(info.file_size for info in self._members.values())

    def size_of(self, name: str) -> int:
        return self._members[name].file_size

    def read(self, name: str, limit: int = _MEMBER_LIMIT) -> bytes:
        """Return the member's bytes; zipfile gives no more than the archive says, which is checked."""
        info = self._members[name]
        if info.file_size > min(limit, self._left):
            raise ValueError(f"{_quoted(name)} unpacks to {info.file_size} bytes, which is too much")
        self._left -= info.file_size
        return self._zip.read(info)


@contextmanager
def _damage_told(filename: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        said = _quoted(str(error) or type(error).__name__)
        raise WheelError(f"{filename} is not a wheel that can be read: {said}") from error


def _read_name(filename: str) -> tuple[str, Version, frozenset[Tag]]:
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        raise WheelError(f"{_quoted(filename)} is not the name of a wheel") from None
    return name, version, tags


def _platform(tags: Collection[Tag]) -> Platform:
    """Return the platform of the tags; ValueError for one that no build of ours is for."""
    platforms = {_platform_of(tag) for tag in tags}
    known = platforms - {None}
    if len(known) != 1:
        raise ValueError("it is neither for Linux nor for Windows")
    return next(platform for platform in known if platform)


def _read_metadata(archive: _Archive, name: str, version: Version) -> _Metadata:
    """Return what METADATA requires; ValueError where it is missing or is that of another build."""
    found = [member for member in archive.names if _METADATA.fullmatch(member)]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} METADATA files instead of one")
    raw, _ = parse_email(archive.read(found[0], _TEXT_LIMIT))
    given = canonicalize_name(raw.get("name", "")), _version(raw.get("version", ""))
    if given != (name, version):
        raise ValueError(f"its METADATA is that of {given[0]} {given[1]}")
    requires = tuple(_requirement(text) for text in raw.get("requires_dist", [])[:_REQUIREMENTS])
    return _Metadata(found[0].partition("/")[0], requires, _line(raw.get("requires_python", "")) or None)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _requirement(text: str) -> str:
    """Return the requirement in its one normal form, so that spelling is no difference."""
    try:
        return _line(str(Requirement(text)))
    except InvalidRequirement:
        return _line(text)


def _read_top_level(archive: _Archive, folder: str) -> tuple[str, ...]:
    name = f"{folder}/top_level.txt"
    if name not in archive.names:
        return ()
    lines = archive.read(name, _TEXT_LIMIT).decode("utf-8", "replace").splitlines()
    return tuple(sorted({_line(line) for line in lines[:_REQUIREMENTS] if line.strip()}))


def _read_library(archive: _Archive, pattern: re.Pattern[str], read: Callable[[bytes], T]) -> _Library[T]:
    """Read the library whose member name fits; of several (a debug twin) the one with the shortest name."""
    names = sorted((name for name in archive.names if pattern.fullmatch(name)), key=lambda n: (len(n), n))
    if not names:
        return _Library()
    data = archive.read(names[0])
    return _Library(names[0], len(data), hashlib.sha256(data).hexdigest(), read(data))


def _operators(data: bytes) -> tuple[str, ...]:
    spelled = _spelled_operators()
    return tuple(sorted({spelled[text] for text in named_constants(data, spelled.keys())}))


@cache
def _spelled_operators() -> Mapping[str, str]:
    """Return the known operators by how a binary spells them: those of ``aten`` also go without namespace."""
    text = files("tracker").joinpath("data", "aten_operators.txt").read_text("utf-8")
    names = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: name for name in names} | {name.removeprefix("aten::"): name for name in names}


def _read_api(archive: _Archive) -> tuple[ApiEntry, ...]:
    """Return the public API. Source beyond a total size is not read: parsed, it is a hundred times larger."""
    left = _SOURCE_LIMIT

    def source(path: str) -> bytes | None:
        nonlocal left
        if path not in archive.names or archive.size_of(path) > left:
            return None
        left -= archive.size_of(path)
        return archive.read(path)

    return tuple(entry for package in _PACKAGES for entry in public_api(package, source))


def _file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _joined(texts: Iterable[str]) -> str:
    return ".".join(sorted(set(texts)))


def _line(text: str) -> str:
    """Return hostile text as one bounded line."""
    return "".join(c if c.isprintable() else " " for c in text[:_LINE]).strip()


def _quoted(text: str) -> str:
    return repr(_line(text[:160]))


def choose_wheel(build: Build, platform: Platform, pythons: Sequence[str] | None = None) -> BuildFile | None:
    """Return the build's wheel for the newest CPython on x86-64, if asked only among ``3.10`` and so on.

    Wheels that are not yanked go first. None where no wheel fits.
    """
    rated = [
        ((file.yanked is None, python), file)
        for file in build.files
        for python in _pythons_of(file.filename, platform, pythons)
    ]
    return max(rated, key=lambda pair: (pair[0], pair[1].filename))[1] if rated else None


def _pythons_of(filename: str, platform: Platform, wanted: Sequence[str] | None) -> list[tuple[int, ...]]:
    """Return the Python versions that the wheel is for, as far as the platform and the wish allow."""
    try:
        tags = parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return []
    fitting = (tag for tag in tags if _platform_of(tag) in (platform, Platform.ANY))
    pythons = ((tag, python) for tag in fitting if (python := _python_of(tag)))
    return [
        python
        for tag, python in pythons
        if wanted is None or any(_runs_on(tag, python, version) for version in wanted)
    ]


def _platform_of(tag: Tag) -> Platform | None:
    if tag.platform == "any":
        return Platform.ANY
    if tag.platform == "win_amd64":
        return Platform.WINDOWS
    return Platform.LINUX if _LINUX.fullmatch(tag.platform) else None


def _python_of(tag: Tag) -> tuple[int, ...] | None:
    """Return ``(3, 12)`` or, for a generic tag, ``(3,)``; None where it is free-threaded or no CPython."""
    found = _INTERPRETER.fullmatch(tag.interpreter)
    if not found or tag.abi.endswith("t"):
        return None
    return (int(found[1]), *([int(found[2])] if found[2] else []))


def _runs_on(tag: Tag, python: tuple[int, ...], version: str) -> bool:
    """Tell whether the wheel runs on a CPython version: on that one only, unless its ABI is a stable one."""
    target = tuple(int(part) for part in version.split(".")[:2])
    stable = tag.abi in ("abi3", "none")
    return target[:1] == python[:1] and target >= python if stable else target == python
