"""Runs a user's own reproducer: a script with exit codes, or a function like those of the other modules."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any, Dict

from suites.context import Context, Inconclusive

Measures = Dict[str, Any]

GOOD, BAD, CANNOT_TELL = 0, 1, 125
"""Exit codes of a script, those of ``git bisect run``. Any other is an error of the script's."""


def script(context: Context, path: str) -> Measures:
    """Run a script as its own program in this process, so that what ends the process is told as that.

    It finds the build imported. Exit code 0 is good, 1 is bad, 125 says that it can not tell.
    """
    before = sys.argv, list(sys.path)
    sys.argv = [path]
    sys.path.insert(0, str(Path(path).parent))
    try:
        runpy.run_path(path, run_name="__main__")
        code: Any = GOOD
    except SystemExit as end:
        code = GOOD if end.code is None else end.code
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
    if code == CANNOT_TELL:
        raise Inconclusive("skipped", "cannot-tell", "the script ended with 125: it can not tell")
    if code not in (GOOD, BAD):
        raise RuntimeError(f"the script ended with {code!r}, which is none of 0, 1 and 125")
    return {"claims": [{"name": "exit code", "got": int(code), "want": GOOD}]}


def function(context: Context, path: str) -> Measures:
    """Call ``reproduce(context)`` of a file and return what it measured."""
    spec = importlib.util.spec_from_file_location("own_bug", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    measures: Measures = module.reproduce(context)
    return measures
