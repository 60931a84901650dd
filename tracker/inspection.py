"""Read one wheel of a build on demand, from the cache or the index, and compare two."""

from __future__ import annotations

import secrets
import zipfile
from collections.abc import Callable
from pathlib import Path

from tracker.errors import OutsideError, UsageError, WheelError
from tracker.files import remove_tree, rename
from tracker.home import Home
from tracker.locate import locate
from tracker.model import Build, BuildFile, Platform, WheelFacts
from tracker.poll import poll
from tracker.trackfile import Track
from tracker.wheels import choose_wheel, read_wheel

STAND_INS = ("libd3d12.so", "libdxcore.so")


def wanted_platform(text: str) -> Platform:
    """Return the platform a person means; raises UsageError."""
    names = {"win": Platform.WINDOWS, "windows": Platform.WINDOWS, "linux": Platform.LINUX}
    if text.lower() not in names:
        raise UsageError(f"there is no platform '{text}'", hint="known platforms: win, linux")
    return names[text.lower()]


def inspect_build(home: Home, track: Track, text: str, platform: Platform) -> WheelFacts:
    """Return the facts of a build's newest wheel for a platform; polls first when nothing is known yet."""
    if not home.builds(track.name):
        poll(home, track)
    build = locate(text, home.builds(track.name))
    return wheel_of(home, build, platform)


def wheel_of(home: Home, build: Build, platform: Platform) -> WheelFacts:
    """Return the facts of a build's newest wheel for a platform."""
    file = choose_wheel(build, platform)
    if file is None:
        raise OutsideError(f"{build.version} has no wheel for {platform}")
    return facts_of(home, build, file)


def facts_of(
    home: Home, build: Build, file: BuildFile, announce: Callable[[str], object] = lambda text: None
) -> WheelFacts:
    """Return a wheel's facts: those on record, or read anew (which is announced) and recorded.

    Raises WheelError.
    """
    for known in home.store.known_wheels(build.track, build.version):
        if known.sha256 == file.sha256:
            return known
    announce(f"reading {file.filename}")
    facts = read_wheel(home.index.fetch_wheel(file), build.track)
    home.journal.append(facts)
    return facts


def stand_ins(home: Home, track: Track, platform: Platform) -> str:
    """Return where stand-ins for the DirectX libraries are, with which a build can be imported without DirectX.

    That is a folder in the build's own site-packages, an absolute path where they come from another track's
    newest wheel, or nothing.
    """
    if not track.stand_ins_of:
        return track.stand_ins.get(platform, "")
    other = home.track(track.stand_ins_of)
    if not home.builds(other.name):
        poll(home, other)
    file = next((f for b in reversed(home.builds(other.name)) if (f := choose_wheel(b, platform))), None)
    if file is None or platform not in other.stand_ins:
        return ""
    folder = home.folder / "cache" / "stand-ins" / file.sha256[:12]
    if not folder.exists():
        _take_stand_ins(home.index.fetch_wheel(file), other.stand_ins[platform], folder)
    return str(folder)


def _take_stand_ins(wheel: Path, inside: str, folder: Path) -> None:
    """Copy the stand-ins out of a wheel. Their names are ours, not the archive's. Raises WheelError."""
    aside = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        aside.mkdir(parents=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in STAND_INS:
                (aside / name).write_bytes(archive.read(f"{inside}/{name}"))
        rename(aside, folder)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        # Another process may have been faster; its copy is the same.
        if not folder.exists():
            raise WheelError(
                f"the stand-ins for DirectX can not be taken from {wheel.name}: {error}",
                slug="no-stand-ins",
                ours=True,
            ) from error
    finally:
        remove_tree(aside)
