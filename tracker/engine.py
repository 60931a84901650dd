"""DuckDB's engine, imported without the part of its package that a question does not need.

``import duckdb`` brings its relational API along, and that takes longer than most answers. The compiled module
under it has all that is used here: connections, statements and errors.
"""

from __future__ import annotations

from typing import Any


def engine() -> Any:
    """Return the module with DuckDB's ``connect`` and its errors."""
    try:
        import _duckdb
    except ImportError:
        # The compiled module's name is DuckDB's own affair and may change; the package's name will not.
        import duckdb

        return duckdb
    return _duckdb
