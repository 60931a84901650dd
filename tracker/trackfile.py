"""Tracks: which packages are followed, and what it takes to use one of their builds.

A track is one commented TOML file. Those of the program are in ``tracker/tracks``; what a file of the same name
in the home folder's ``tracks`` says goes before it, key by key. Nothing here touches the index or an environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracker.errors import UsageError
from tracker.model import Platform

SHIPPED = Path(__file__).with_name("tracks")


@dataclass(frozen=True)
class Pins:
    """What builds that declare nothing are installed with."""

    builds: str
    requires: tuple[str, ...]

    def fit(self, version: str) -> bool:
        """Whether the version is one of these builds."""
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(self.builds, prereleases=True).contains(version, prereleases=True)


@dataclass(frozen=True)
class Library:
    """A shared library of the host that the package needs, and how to get it."""

    name: str
    hint: str
    platform: Platform = Platform.ANY


@dataclass(frozen=True)
class Track:
    """One package to follow and how to reach its device."""

    name: str
    package: str
    module: str
    device: str
    dispatch_keys: tuple[str, ...]
    pythons: tuple[str, ...]
    own_kernels: bool = False
    """Whether the package is torch itself, so that nothing is subtracted from its kernels."""
    inspect_wheels: bool = True
    yanked: bool = False
    """Whether withdrawn builds are used like others."""
    requirements: tuple[str, ...] = ()
    pins: tuple[Pins, ...] = ()
    libraries: tuple[Library, ...] = ()
    stand_ins: dict[Platform, str] = field(default_factory=dict)
    """Folder in site-packages with stand-ins for the DirectX libraries, per platform."""
    tiled_resources: bool = True
    """False turns the backend's tiled resources off right after its import: software adapters need that."""
    stand_ins_of: str = ""
    """The track from whose newest wheel the stand-ins are taken, when the package has none of its own."""

    def requires(self, version: str, declared: tuple[str, ...]) -> tuple[str, ...]:
        """Return what a build is installed with beside itself; its own pins (``declared``) come first."""
        pinned = () if declared else next((p.requires for p in self.pins if p.fit(version)), ())
        return (*pinned, *self.requirements)


def parse_track(text: str, source: str, base: dict[str, Any] | None = None) -> Track:
    """Return the track that a TOML text describes; ``source`` is named in errors, ``base`` has what it leaves out."""
    import tomllib

    import msgspec
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        data: dict[str, Any] = {**(base or {}), **tomllib.loads(text)}
        unknown = sorted(set(data) - set(Track.__dataclass_fields__))
        if unknown:
            raise UsageError(f"{source}: unknown key '{unknown[0]}'")
        track = msgspec.convert(data, Track)
        for pins in track.pins:
            SpecifierSet(pins.builds)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {error}") from None
    except InvalidSpecifier as error:
        raise UsageError(f"{source}: pins: {error}") from None
    return track


def load_track(name: str, home: Path) -> Track:
    """Return the track of that name, the home folder's before the program's own."""
    known = track_files(home)
    if name not in known:
        raise UsageError(f"there is no track '{name}'", hint=f"known tracks: {', '.join(sorted(known))}")
    base: dict[str, Any] = {}
    for path in known[name][:-1]:
        base.update(_read(path))
    path = known[name][-1]
    track = parse_track(_text(path), str(path), base)
    if track.name != name:
        raise UsageError(f"{path}: it says name = '{track.name}', which is not the file's")
    return track


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(_text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")  # editors on Windows begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


def track_files(home: Path) -> dict[str, list[Path]]:
    """Return the files of every known track by its name, the program's own first."""
    found: dict[str, list[Path]] = {}
    for folder in (SHIPPED, home / "tracks"):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, []).append(path)
    return found
