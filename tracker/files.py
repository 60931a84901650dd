"""Rename, delete and measure files so that it works on Windows too: bounded retries live here and nowhere else.

On Windows a virus scanner or a reader that merely has a file open makes a rename or a deletion fail for a
moment; read-only files cannot be deleted until the bit is cleared.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TRIES = 10
FIRST_PAUSE = 0.01


def retrying(action: Callable[[], object], sleep: Callable[[float], object] = time.sleep) -> None:
    """Do an action, again after a pause that doubles (10 s in all) while the system denies it."""
    for attempt in range(TRIES):
        try:
            action()
        except PermissionError:
            if attempt == TRIES - 1:
                raise
            sleep(FIRST_PAUSE * 2**attempt)
        else:
            return


def rename(old: Path, new: Path) -> None:
    """Give a file or folder a new name in the same volume; an existing file there is replaced."""
    retrying(lambda: old.replace(new))


def remove_tree(folder: Path) -> bool:
    """Delete a folder with all that is in it; return whether it is gone. Never raises."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink(missing_ok=True)
    elif folder.exists():
        shutil.rmtree(folder, onerror=_clear_read_only)
    return not folder.exists()


def _clear_read_only(function: Callable[..., Any], path: str, _: object) -> None:
    try:
        Path(path).chmod(stat.S_IWRITE | stat.S_IREAD | stat.S_IEXEC)
        function(path)
    except OSError:
        pass


def disk_use(folders: Iterable[Path]) -> int:
    """Return the bytes that folders take on disk together; a file with several names is counted once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder in folders:
        for entry in _walk(folder):
            info = entry.stat(follow_symlinks=False)
            if (info.st_dev, info.st_ino) not in seen or not info.st_ino:
                seen.add((info.st_dev, info.st_ino))
                total += info.st_blocks * 512 if hasattr(info, "st_blocks") else info.st_size
    return total


def _walk(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path))
                else:
                    yield entry
    except OSError:
        return
