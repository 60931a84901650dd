"""Rename, delete and measure files so that it works on Windows too: bounded retries live here and nowhere else.

On Windows a virus scanner or a reader that merely has a file open makes a rename or a deletion fail for a
moment; read-only files cannot be deleted until the bit is cleared.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

TRIES = 11
FIRST_PAUSE = 0.01

DELETE_TRIES = 7
"""Fewer than for a rename (0.6 s in all): a library in use stays for as long as it is used."""

Footprint = Mapping[tuple[object, ...], int]
"""The bytes that each file takes on disk, by what the system knows it by, whatever its names."""


def retrying(
    action: Callable[[], object], sleep: Callable[[float], object] = time.sleep, tries: int = TRIES
) -> None:
    """Do an action, again after a pause that doubles (10 s in all) while the system denies it."""
    for attempt in range(tries):
        try:
            action()
        except PermissionError:
            if attempt == tries - 1:
                raise
            sleep(FIRST_PAUSE * 2**attempt)
        else:
            return


def rename(old: Path, new: Path) -> None:
    """Give a file or folder a new name in the same volume; an existing file there is replaced."""
    retrying(lambda: old.replace(new))


def copy(source: Path, target: Path) -> None:
    """Copy the bytes of a file; where the file system can, the two share them until one is written."""
    # shutil's way never shares blocks on Linux, this call does on Btrfs, XFS and the like.
    by_kernel: Callable[[int, int, int], int] | None = getattr(os, "copy_file_range", None)
    if by_kernel is not None and _copied_by_kernel(by_kernel, source, target):
        return
    shutil.copyfile(source, target)


def _copied_by_kernel(copy_range: Callable[[int, int, int], int], source: Path, target: Path) -> bool:
    with source.open("rb") as old, target.open("wb") as new:
        left = os.fstat(old.fileno()).st_size
        try:
            while left and (done := copy_range(old.fileno(), new.fileno(), left)):
                left -= done
        except OSError as error:
            # Old kernels and some file systems refuse; a full disk is full for the other way too.
            if error.errno == errno.ENOSPC:
                raise
            return False
    return not left


def remove_tree(folder: Path, sleep: Callable[[float], object] = time.sleep) -> bool:
    """Delete a folder with all that is in it, or a file; return whether it is gone. Never raises.

    What is denied is tried again for a moment; the rest of the tree is deleted all the same.
    """
    try:
        retrying(lambda: _remove(folder), sleep, DELETE_TRIES)
    except OSError:
        return False
    return not os.path.lexists(folder)


def _remove(path: Path) -> None:
    """Delete what can be deleted; PermissionError where some of it was denied."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    elif path.exists():
        denied: list[str] = []
        shutil.rmtree(path, onerror=_clearing_read_only(denied))
        if denied:
            raise PermissionError(f"{denied[0]} can not be deleted")


def _clearing_read_only(denied: list[str]) -> Callable[[Callable[..., Any], str, Any], None]:
    """Return what rmtree calls about a failure: it clears the read-only bit and notes what stays denied."""

    def try_again(function: Callable[..., Any], path: str, _: Any) -> None:
        try:
            Path(path).chmod(stat.S_IWRITE | stat.S_IREAD | stat.S_IEXEC)
            function(path)
        except PermissionError:
            denied.append(path)
        except (OSError, TypeError):
            pass  # gone meanwhile, or a folder in which something stayed; not every function takes a path alone

    return try_again


def stamp(files: Iterable[str]) -> str:
    """Return a digest over the sizes and the times of change of files, which differs once one was written to."""
    digest = hashlib.sha256()
    for path in files:
        try:
            info = os.stat(path)  # noqa: PTH116 - there are ten thousand of them
            digest.update(b"%d %d\n" % (info.st_size, info.st_mtime_ns))
        except OSError:
            digest.update(b"gone\n")
    return digest.hexdigest()[:16]


def disk_use(folders: Iterable[Path]) -> int:
    """Return the bytes that folders take on disk together; a file with several names is counted once."""
    total: dict[tuple[object, ...], int] = {}
    for folder in folders:
        total.update(footprint(folder))
    return sum(total.values())


def footprint(folder: Path) -> Footprint:
    """Return what each file under a folder takes on disk. Other folders may have the same files."""
    found: dict[tuple[object, ...], int] = {}
    for entry in _walk(folder):
        try:
            info = entry.stat(follow_symlinks=False)
            if not info.st_ino:  # Windows leaves it out of a listing
                info = os.stat(entry.path, follow_symlinks=False)  # noqa: PTH116
        except OSError:
            continue  # gone meanwhile
        known_by = (info.st_dev, info.st_ino) if info.st_ino else (entry.path,)
        blocks = getattr(info, "st_blocks", None)
        found[known_by] = info.st_size if blocks is None else blocks * 512
    return found


def to_delete(
    footprints: Mapping[Path, Footprint], budget: float, keep: Callable[[Path], bool]
) -> list[Path]:
    """Return the folders to delete, in the given order, until the rest takes no more than the budget. Pure.

    Deleting a folder saves only those of its files that no other folder has.
    """
    names = Counter(file for files in footprints.values() for file in files)
    total = sum({file: size for files in footprints.values() for file, size in files.items()}.values())
    victims: list[Path] = []
    for folder, files in footprints.items():
        if total <= budget:
            break
        if keep(folder):
            continue
        names.subtract(files.keys())
        total -= sum(size for file, size in files.items() if not names[file])
        victims.append(folder)
    return victims


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
