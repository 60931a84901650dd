"""Read one wheel of a build on demand, from the cache or the index, and compare two."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tracker.errors import OutsideError, UsageError
from tracker.home import Home
from tracker.locate import locate
from tracker.model import Build, BuildFile, Platform, WheelFacts
from tracker.poll import poll
from tracker.trackfile import Track
from tracker.wheels import choose_wheel, read_wheel


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
    for known in wheels_on_record(home, build.track, build.version):
        if known.sha256 == file.sha256:
            return known
    announce(f"reading {file.filename}")
    facts = read_wheel(home.index.fetch_wheel(file), build.track)
    home.journal.append(facts)
    return facts


def wheels_on_record(home: Home, track: str, version: str) -> list[WheelFacts]:
    """Return what the wheels of a build said of themselves when they were read."""
    rows = home.store.query("wheel_of", track=track, version=version)
    return [msgspec.convert(row, WheelFacts) for row in rows]
