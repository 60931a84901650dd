"""Records for tests, with defaults for what a test does not care about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tracker.changelog import BuildView, Measured
from tracker.model import Build, BuildFile, Cell, Confidence, Platform, State, Verdict, WheelFacts

DAY = datetime(2024, 9, 15, tzinfo=UTC)


def build(
    version: str, *, yanked: str | None = None, uploaded: datetime = DAY, track: str = "torch-directml"
) -> Build:
    """Return a build with one wheel."""
    name = f"torch_directml-{version}-cp312-cp312-win_amd64.whl"
    file = BuildFile(name, f"https://example.org/{name}", "0" * 64, 10, uploaded, yanked=yanked)
    return Build(track, version, uploaded, (file,))


def verdict(state: State, reason: str = "", confidence: Confidence = Confidence.OBSERVED) -> Verdict:
    """Return a verdict of one observation."""
    return Verdict(state, reason, "", confidence, 1)


def wheel(version: str = "1.0", **changes: Any) -> WheelFacts:
    """Return the facts of a Windows wheel."""
    facts: dict[str, Any] = {
        "track": "torch-directml",
        "version": version,
        "filename": f"torch_directml-{version}-cp312-cp312-win_amd64.whl",
        "sha256": "0" * 64,
        "platform": Platform.WINDOWS,
        "python": "cp312",
        "abi": "cp312",
        "platform_tags": ("win_amd64",),
        "size": 9_000_000,
        "unpacked_size": 16_000_000,
        "requires": ("torch==2.4.1",),
        "requires_python": ">=3.7",
        "directml_name": "torch_directml/DirectML.dll",
        "directml_version": "1.13.1",
        "directml_size": 14_000_000,
        "directml_sha256": "1" * 64,
        "native_name": "torch_directml_native.pyd",
        "native_size": 2_000_000,
        "native_sha256": "2" * 64,
        "operators": ("aten::add.out",),
        "api": (),
    }
    return WheelFacts(**(facts | changes))


def view(version: str, **changes: Any) -> BuildView:
    """Return a build of which everything is known, with nothing special about it."""
    facts: dict[str, Any] = {
        "track": "torch-directml",
        "version": version,
        "uploaded": DAY,
        "yanked": False,
        "pythons": ("3.10", "3.12"),
        "torch": "2.4.1",
        "wheels": {
            platform: wheel(version, platform=platform) for platform in (Platform.LINUX, Platform.WINDOWS)
        },
        "measured": {"box": measured(version)},
    }
    return BuildView(**(facts | changes))


def measured(version: str, machine: str = "box", digest: str = "d1", **changes: Any) -> Measured:
    """Return what a machine measured of a build with nothing special about it; verdicts by (case, adapter)."""
    facts: dict[str, Any] = {
        "kernels": {"PrivateUse1": frozenset({"aten::add.out", "aten::mul.out"})},
        "api": {"device": "(device_id=None)"},
        "verdicts": {("census/import", "none"): verdict(State.PASS)},
    }
    facts |= changes
    facts["verdicts"] = {
        (case, adapter): (
            Cell("torch-directml", version, case.split("/")[0], case, adapter, machine, digest),
            said,
        )
        for (case, adapter), said in facts["verdicts"].items()
    }
    return Measured(**facts)
