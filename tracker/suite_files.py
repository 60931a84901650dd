"""The suites as they are handed to environments: a copy in the home folder, named by its digest.

Workers never run the files of the installed program: a copy keeps a run unaffected by an edit in the middle
of it, and keeps the program's own packages off a worker's path.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from tracker import matrix
from tracker.errors import OutsideError
from tracker.files import remove_tree, rename

SHIPPED = Path(__file__).resolve().parent.parent / "suites"


def digest_of(folder: Path) -> str:
    """Return a digest over all files of the folder; caches do not count."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def hand_out(home: Path, source: Path = SHIPPED) -> Path:
    """Return the folder that holds this state of the suites as ``suites``, making the copy when needed."""
    place = home / "suites" / digest_of(source)
    if place.exists() and digest_of(place / "suites") != place.name:
        # Somebody changed the copy, or lost a file of it: results must not bear its name.
        remove_tree(place)
    if not place.exists():
        aside = home / "suites" / f".{secrets.token_hex(4)}"
        try:
            shutil.copytree(source, aside / "suites", ignore=shutil.ignore_patterns("__pycache__"))
            rename(aside, place)
        except OSError as error:
            # Another process may have been faster; its copy is the same.
            if not place.exists():
                raise OutsideError(f"the suites can not be copied to {place}: {error}") from error
        finally:
            remove_tree(aside)
    return place


def digests(place: Path, parts: Iterable[str]) -> dict[str, str]:
    """Return what the results of each part of the suites rest on, for a copy that ``hand_out`` returned.

    The copy never changes, so it is worked out once and kept beside it: to follow every import takes a while.
    """
    path, wanted = place / f"digests-{matrix.DIGEST_RULES}.json", sorted(parts)
    try:
        known = json.loads(path.read_text("ascii"))
        return {name: str(known[name]) for name in wanted}
    except (OSError, ValueError, KeyError, TypeError):
        found = {name: matrix.digest(place / "suites", name) for name in wanted}
    aside = path.with_name(f".{secrets.token_hex(4)}")
    try:
        aside.write_text(json.dumps(found), "ascii")
        rename(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)  # it is worked out again the next time
    return found
