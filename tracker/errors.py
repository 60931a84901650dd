"""The errors a user can meet, each with what to do about it and the exit code of its class.

This module knows nothing of the rest of the program. Every error is shown as one ``error:`` line with the
values involved and, where something helps, one ``hint:`` line.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command (design, section 8)."""

    OK = 0
    REGRESSION = 1
    USAGE = 2
    OUTSIDE = 3
    INTERNAL = 4
    INCONCLUSIVE = 5
    INTERRUPTED = 130


class TrackerError(Exception):
    """An error with a message for the user, a hint, and an exit code."""

    exit_code: Exit = Exit.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TrackerError):
    """The command line or the configuration is wrong."""

    exit_code = Exit.USAGE


class OutsideError(TrackerError):
    """The host, the network or the index failed us."""

    exit_code = Exit.OUTSIDE


class IndexProblem(OutsideError):
    """The package index gave no usable answer for one package."""


class WheelError(OutsideError):
    """A wheel could not be fetched, or is not what the index promised.

    ``ours`` is True when that says nothing about the build (the network, the disk); ``slug`` is the stable
    reason for the verdict.
    """

    def __init__(
        self, message: str, *, slug: str = "bad-wheel", ours: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.slug = slug
        self.ours = ours


class EnvironmentProblem(OutsideError):
    """An environment could not be made or verified; ``message`` is the reason in one line.

    ``ours`` is True when the reason says nothing about the build (disk full, network down), so the verdict is
    ``infra`` and not ``uninstallable``. ``slug`` is the stable reason that goes into the verdict.
    """

    def __init__(self, message: str, *, slug: str, ours: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.slug = slug
        self.ours = ours


class Stopped(TrackerError):
    """Somebody asked us to stop while a tool or a transfer was under way; nothing of it is kept."""

    exit_code = Exit.INTERRUPTED


class HomeBusy(OutsideError):
    """Another process is running on the same home folder."""


class StoreError(OutsideError):
    """The database can not be read or made."""
