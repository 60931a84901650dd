"""One home folder with everything that lives in it, opened only when it is needed.

A query must not pay for the network, and a poll not for the database; so each part is made at first use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracker.config import Loaded, load
from tracker.errors import UsageError

if TYPE_CHECKING:
    from tracker.index import PackageIndex
    from tracker.journal import Journal
    from tracker.model import Build, Machine
    from tracker.store import Store
    from tracker.trackfile import Track


NO_REFERENCE = "DMLTRACK_NO_REFERENCE"
"""Set where answers are to rest on what was measured by this home alone."""
FRESH_WAIT = 120.0
"""Seconds to wait for another process's refresh: what runs is never decided by an old state of the database."""


def check_text(text: str, what: str) -> None:
    """Raise UsageError for what was given to us in letters that its encoding does not have.

    Neither the journal nor the database can hold such halves of characters, nor does either open such a path.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        said = text.encode("utf-8", "backslashreplace").decode()
        raise UsageError(
            f"{what} can not be read in the encoding '{sys.getfilesystemencoding()}': {said}",
            hint="set PYTHONUTF8=1 or a locale of UTF-8 such as LC_ALL=C.UTF-8",
        )


class Home:
    """The parts of one home folder."""

    def __init__(self, folder: Path, stop: Callable[[], bool] = lambda: False) -> None:
        check_text(str(folder), "the name of the home folder")
        self.folder = folder
        self.stop = stop
        """Asked often by what takes long (installing, downloading); True makes it raise Stopped."""

    @cached_property
    def loaded(self) -> Loaded:
        """The settings with the places they came from."""
        return load(self.folder)

    @property
    def bug_folders(self) -> tuple[Path, ...]:
        """Where the user's own reproducers lie: the home's own folder, and that of the settings."""
        named = self.loaded.settings.suites.bugs
        if not named:
            return (self.folder / "bugs",)
        folder = Path(os.path.expanduser(named))  # noqa: PTH111 - it leaves alone what it can not expand
        if not folder.is_absolute() or not folder.is_dir():
            raise UsageError(f"suites.bugs is not the absolute path of a folder: '{named}'")
        return (self.folder / "bugs", folder)

    @cached_property
    def journal(self) -> Journal:
        """Where everything that happens is written."""
        from tracker.journal import Journal

        return Journal(self.folder / "journal")

    @cached_property
    def store(self) -> Store:
        """The database, brought up to date with the journal."""
        from tracker.store import Store

        store = Store(self.folder)
        store.refresh()
        return store

    @cached_property
    def index(self) -> PackageIndex:
        """The package index with its cache."""
        from tracker.index import PackageIndex

        return PackageIndex(self.loaded.settings.index, self.folder / "cache", self.stop)

    @cached_property
    def machine(self) -> Machine:
        """The facts of this host."""
        from tracker.machine import this_machine

        return this_machine(self.loaded.settings.worker.environment)

    @cached_property
    def fingerprint(self) -> str:
        """This host's fingerprint, which is told sooner than all of its facts."""
        from tracker.machine import own_fingerprint

        return own_fingerprint(self.loaded.settings.worker.environment)

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Machines whose measurements are left out of answers: the reference, where that was asked for."""
        from tracker.model import REFERENCE

        return (REFERENCE,) if os.environ.get(NO_REFERENCE) else ()

    def close(self) -> None:
        """Let go of the database, where it was opened."""
        if "store" in self.__dict__:
            self.store.close()

    def track(self, name: str) -> Track:
        """Return a track; raises UsageError when there is none of that name."""
        from tracker.trackfile import load_track

        return load_track(name, self.folder)

    def builds(self, track: str) -> list[Build]:
        """Return the builds of a track that were ever seen on the index, oldest first."""
        from tracker.locate import ordered

        return ordered(self.store.known_builds(track))
