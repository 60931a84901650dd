"""Reads the public Python API of a package from its source, without running any of it.

Owns what counts as public: functions and classes with their methods, in the package's ``__init__`` or brought
into it by relative imports. It must not know wheels: it is given a way to get a file's source. Source that
does not parse is skipped, and what a hostile source can make us do is bounded.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from tracker.model import ApiEntry

Source = Callable[[str], bytes | None]
"""Returns the source at a path such as ``torch_directml/device.py``, or None where there is none."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_NAMES = 5_000
_MODULES = 200
_SIGNATURE = 500


def public_api(package: str, source: Source) -> tuple[ApiEntry, ...]:
    """Return the public functions, classes and methods of a package's folder, under the names a user writes.

    A function's signature is its arguments and annotation, a class's is ``class`` and its bases.
    """
    entries: dict[str, str] = {}
    for name, node in _Modules(source).exported(PurePosixPath(package, "__init__.py")).items():
        if not name.startswith("_"):
            entries.update(_entries(f"{package.replace('/', '.')}.{name}", node))
    return tuple(ApiEntry(name, entries[name]) for name in sorted(entries)[:_NAMES])


class _Modules:
    """The modules of one package, each read once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._read: dict[PurePosixPath, dict[str, Definition]] = {}

    def exported(self, path: PurePosixPath) -> dict[str, Definition]:
        """Return what the module defines or takes from its siblings; of one name, the later wins."""
        if path in self._read or len(self._read) >= _MODULES:
            return self._read.get(path, {})
        found = self._read[path] = {}
        for node in _statements(_parsed(self._source(str(path)))):
            if isinstance(node, Definition):
                found[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                found.update(self._imported(path.parent / node.module.replace(".", "/"), node))
        return found

    def _imported(self, module: PurePosixPath, node: ast.ImportFrom) -> dict[str, Definition]:
        theirs = self.exported(module.with_name(f"{module.name}.py")) or self.exported(module / "__init__.py")
        if any(alias.name == "*" for alias in node.names):
            return {name: node for name, node in theirs.items() if not name.startswith("_")}
        return {
            alias.asname or alias.name: theirs[alias.name] for alias in node.names if alias.name in theirs
        }


def _parsed(source: bytes | None) -> list[ast.stmt]:
    """Return the statements of the source; none of it where it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source or b"").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run at import, also those under an ``if`` or a ``try``."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body)
            yield from _statements([*node.body, *node.orelse])


def _entries(name: str, node: Definition) -> Iterator[tuple[str, str]]:
    if not isinstance(node, ast.ClassDef):
        yield name, _signature(node)
        return
    bases = ", ".join(_shown(base) for base in node.bases)
    yield name, f"class({bases})" if bases else "class"
    for inner in _statements(node.body):
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if inner.name == "__init__" or not inner.name.startswith("_"):
            yield f"{name}.{inner.name}", _signature(inner)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {_shown(node.returns)}" if node.returns else ""
    return f"({_shown(node.args)}){returns}"


def _shown(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "..."
    return "".join(c if c.isprintable() else " " for c in text)[:_SIGNATURE]
