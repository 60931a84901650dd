"""The cases that suites declare, read from their manifests, and the digest of what a suite's results rest on.

A suite is a folder with a ``suite.toml``::

    name = "inference"              # the folder's name
    requirements = ["timm==1.0.31"] # installed beside the build (PEP 508; markers allowed)
    needs = "device"                # of every case that says nothing else; see NEEDS
    timeout = 300.0                 # seconds, likewise; without one, the setting of the program holds
    options = ["samples"]           # settings of the section "suites" that its results rest on
    digest = "module"               # a case's results rest on its own module, not on all files of the suite

    [[case]]
    id = "{model}/{dtype}/batch{batch}"  # the whole id is then "inference/resnet50/float16/batch8"
    function = "cases:infer"             # module (default "cases") and function; default: the id
    needs = "device"
    timeout = 600.0
    params = { seed = 0 }                # given to the function as keywords
    each = { model = ["resnet50"], dtype = ["float16"], batch = [1, 8] }  # one case per combination
    rows = "operators.json"              # a list of tables of params beside this file: one case for each of them
    after = "inference/{model}/float32/batch1"  # runs only where that case came out right
    isolate = true                       # in a process of its own
    small = { image = 64 }               # params in place of these in a small run; the id then ends in "@small"
    full_only = true                     # no such case in a small run

The suite ``bugs`` has no such cases: each report that ``tracker/bugs.py`` reads beside its manifest has one.

Nothing here runs, imports or judges a case.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from packaging.requirements import InvalidRequirement, Requirement

from tracker import bugs
from tracker.bugs import Bug
from tracker.errors import UsageError

MANIFEST = "suite.toml"
NEEDS = ("import", "directx", "device")
"""What a case needs: the build's import alone, the real DirectX libraries, or a device that computes."""

_SUITE_KEYS = ("name", "requirements", "needs", "timeout", "options", "digest", "case")
OPTIONS = ("samples", "operator_seconds", "data", "weights", "download", "whisper_url", "whisper_sha256")
"""Settings that a suite's results can rest on."""
_CASE_KEYS = (
    *("id", "function", "needs", "timeout", "params", "each", "rows"),
    *("after", "isolate", "small", "full_only"),
)
SIZES = ("full", "small")
"""How much a run asks of a device; a case that is smaller in a small run has another id there."""
SMALL = "@small"
_DEFAULTS = ("needs", "timeout")
_ID = re.compile(r"(?!.*(?:^|/)\.{1,2}(?:/|$))[\w.+=,@-]+(?:/[\w.+=,@-]+)*", re.ASCII)
_FUNCTION = re.compile(r"(?:[A-Za-z_]\w*:)?[A-Za-z_]\w*", re.ASCII)
_TEXT = {".py", ".toml", ".json", ".jsonl", ".txt", ".md", ".csv"}
DIGEST_RULES = 1
"""Raised by hand when ``digest`` comes to another value for the same files."""
_HARNESS = ("worker.py", "protocol.py")


@dataclass(frozen=True, slots=True)
class Case:
    """One check of a suite; ``id`` begins with the suite's name. ``timeout`` in seconds or None.

    ``after`` names the case that must have come out right before; ``isolate`` gives it a process of its own.
    """

    id: str
    suite: str
    function: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    needs: str = "import"
    timeout: float | None = None
    after: str | None = None
    isolate: bool = False
    module: str = ""
    """The one module of the suite that its results rest on; empty for all of its files."""

    @property
    def part(self) -> str:
        """The part of the suites whose digest its results bear: a suite, or one module of it (``bugs:dtypes``)."""
        return f"{self.suite}:{self.module}" if self.module else self.suite


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite with what must be installed for it and its cases, in the order of the manifest."""

    name: str
    requirements: tuple[str, ...]
    cases: tuple[Case, ...]
    options: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that its cases rest on."""
        return tuple(sorted({case.part for case in self.cases}))


def load_suites(folder: Path, size: str = "full") -> tuple[Suite, ...]:
    """Return every suite under the folder, by name; raise UsageError where a manifest makes no sense."""
    suites = [_load(manifest, size) for manifest in sorted(folder.glob(f"*/{MANIFEST}"))]
    known = {case.id: case for suite in suites for case in suite.cases}
    gates = {case.id: _gate(case, known) for case in known.values() if case.after is not None}
    _check_gates(gates)
    return tuple(
        replace(suite, cases=tuple(replace(case, after=gates.get(case.id)) for case in suite.cases))
        for suite in suites
    )


def _gate(case: Case, known: Mapping[str, Case]) -> str:
    """Return the whole id of the case that this one comes after."""
    found = next((name for name in (f"{case.after}{SMALL}", str(case.after)) if name in known), None)
    if found is None:
        raise UsageError(f"{case.id} comes after '{case.after}', and there is no such case")
    return found


def _check_gates(gates: Mapping[str, str]) -> None:
    for first in gates:
        seen, gate = {first}, gates.get(first)
        while gate is not None:
            if gate in seen:
                raise UsageError(f"{first} comes after itself, by way of '{gate}'")
            seen.add(gate)
            gate = gates.get(gate)


def _load(path: Path, size: str) -> Suite:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    return _Manifest(path, data, size).suite()


def load_bugs(folder: Path) -> tuple[Bug, ...]:
    """Return the reports of every topic in the folder of the suite ``bugs``; raise UsageError for a wrong one."""
    found: list[Bug] = []
    for path in sorted(folder.glob("*.toml")):
        if path.name != MANIFEST:
            found += bugs.parse_topic(_text(path), path.stem, str(path))
    bugs.check_registry(found)
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


class _Manifest:
    """One manifest; every complaint names the file and the place in it."""

    def __init__(self, path: Path, data: dict[str, Any], size: str) -> None:
        self._path = path
        self._data = data
        self._small = size == "small"

    def suite(self) -> Suite:
        self._known(self._data, _SUITE_KEYS, "the suite")
        name = self._data.get("name")
        if name != self._path.parent.name:
            self._fail(f"name is {name!r}, and the folder is '{self._path.parent.name}'")
        tables = self._data.get("case", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._fail("'case' is not a list of tables", "write [[case]]")
        cases = tuple(case for table in tables for case in self._cases(str(name), table))
        if name == bugs.SUITE:
            cases += tuple(self._reproducers())
        self._unique(case.id for case in cases)
        if self._data.get("digest", "suite") not in ("suite", "module"):
            self._fail('\'digest\' is "suite" or "module"')
        if self._data.get("digest") == "module":
            cases = tuple(replace(case, module=_module(case)) for case in cases)
        return Suite(str(name), self._requirements(), cases, self._options())

    def _reproducers(self) -> Iterator[Case]:
        """Yield the case of each report in the registry; reports of one fault share theirs."""
        for name, same in bugs.by_case(load_bugs(self._path.parent)).items():
            given = [bug.timeout for bug in same if bug.timeout is not None]
            yield Case(
                id=name,
                suite=bugs.SUITE,
                function=f"{same[0].topic}:{same[0].function}",
                needs=same[0].needs,
                timeout=max(given) if given else self._timeout(self._data.get("timeout"), "the suite"),
                isolate=any(bug.isolate for bug in same),
            )

    def _options(self) -> tuple[str, ...]:
        listed = self._data.get("options", [])
        if not isinstance(listed, list) or not all(name in OPTIONS for name in listed):
            self._fail("'options' is not a list of settings", f"some of: {', '.join(OPTIONS)}")
        return tuple(listed)

    def _requirements(self) -> tuple[str, ...]:
        listed = self._data.get("requirements", [])
        if not isinstance(listed, list):
            self._fail("'requirements' is not a list")
        for text in listed:
            try:
                Requirement(text)
            except (InvalidRequirement, TypeError) as error:
                self._fail(f"requirement {text!r}: {error}")
        return tuple(listed)

    def _cases(self, suite: str, table: dict[str, Any]) -> Iterator[Case]:
        where = f"case {table.get('id')!r}"
        self._known(table, _CASE_KEYS, where)
        defaults: dict[str, Any] = {key: self._data[key] for key in _DEFAULTS if key in self._data}
        given = {**defaults, **table}
        self._check_kinds(given, where)
        if self._small and given.get("full_only"):
            return
        ending = SMALL if self._small and "small" in given else ""
        for params in self._combinations(table, where):
            self._check_json({**params, **given.get("small", {})}, where)
            name = self._filled(table.get("id"), params, where)
            after = given.get("after")
            yield Case(
                id=f"{suite}/{name}{ending}",
                suite=suite,
                function=self._function(table.get("function", name), where),
                params={**params, **given["small"]} if ending else params,
                needs=given.get("needs", "import"),
                timeout=self._timeout(given.get("timeout"), where),
                after=None if after is None else self._filled(after, params, where),
                isolate=given.get("isolate", False),
            )

    def _check_kinds(self, given: Mapping[str, Any], where: str) -> None:
        if given.get("needs", "import") not in NEEDS:
            self._fail(f"{where} needs {given['needs']!r}", f"one of: {', '.join(NEEDS)}")
        for key in ("isolate", "full_only"):
            if not isinstance(given.get(key, False), bool):
                self._fail(f"{where}: '{key}' is true or false")
        if not isinstance(given.get("small", {}), dict):
            self._fail(f"{where}: 'small' is a table")

    def _check_json(self, params: Mapping[str, Any], where: str) -> None:
        """Refuse what TOML can say and the worker can not be told: dates, times, infinities."""
        try:
            json.dumps(params, allow_nan=False)
        except (TypeError, ValueError) as error:
            self._fail(
                f"{where}: a parameter can not be given to a worker: {error}", "text, numbers, true, lists"
            )

    def _combinations(self, table: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
        params, each = table.get("params", {}), table.get("each", {})
        if not isinstance(params, dict) or not isinstance(each, dict):
            self._fail(f"{where}: 'params' and 'each' are tables")
        if not all(isinstance(values, list) and values for values in each.values()):
            self._fail(f"{where}: 'each' gives a list of values for every name")
        for row in self._rows(table["rows"], where) if "rows" in table else ({},):
            for values in itertools.product(*each.values()):
                yield {**params, **row, **dict(zip(each, values, strict=True))}

    def _rows(self, name: Any, where: str) -> list[dict[str, Any]]:
        if not isinstance(name, str) or Path(name).name != name:
            self._fail(f"{where}: 'rows' is the name of a file beside this one")
        try:
            rows = json.loads((self._path.parent / name).read_text("utf-8"))
        except (OSError, ValueError) as error:
            self._fail(f"{where}: {name} cannot be read: {error}")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self._fail(f"{where}: {name} is not a list of tables")
        return rows

    def _filled(self, template: Any, params: dict[str, Any], where: str) -> str:
        try:
            name = str(template).format_map(params) if isinstance(template, str) else ""
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            self._fail(f"{where}: the id cannot be filled in: {error!r}")
        if not _ID.fullmatch(name):
            self._fail(f"{where}: {name!r} is not an id", "parts of letters, digits and ._+=,@- between /")
        return name

    def _function(self, name: Any, where: str) -> str:
        if not isinstance(name, str) or not _FUNCTION.fullmatch(name):
            self._fail(f"{where}: {name!r} is not a function", "write 'function' or 'module:function'")
        return str(name)

    def _timeout(self, value: Any, where: str) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            self._fail(f"{where}: timeout is {value!r}", "a number of seconds above 0")
        return float(value)

    def _unique(self, ids: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in ids:
            if name in seen:
                self._fail(f"two cases are named '{name}'", "put what differs into the id: '{batch}'")
            seen.add(name)

    def _known(self, table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1, 0.5)
                self._fail(f"{where} has no '{key}'", f"did you mean '{near[0]}'?" if near else None)

    def _fail(self, what: str, hint: str | None = None) -> NoReturn:
        raise UsageError(f"{self._path}: {what}", hint=hint)


def _module(case: Case) -> str:
    return case.function.partition(":")[0] if ":" in case.function else "cases"


def digest(folder: Path, part: str) -> str:
    """Return 16 hex digits over all that can change the measures of a part, in ``folder`` or a copy of it.

    That is the suite's own files or its one module, the worker, the protocol, and what any of them imports from
    ``suites``.
    """
    total = hashlib.sha256()
    for path in sorted(_parts(folder, part), key=lambda path: path.relative_to(folder).as_posix()):
        data = path.read_bytes()
        if path.suffix in _TEXT:  # a checkout on Windows may have other line ends
            data = data.replace(b"\r\n", b"\n")
        total.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return total.hexdigest()[:16]


def _parts(folder: Path, part: str) -> set[Path]:
    suite, _, module = part.partition(":")
    own = {path for path in (folder / suite).rglob("*") if path.is_file() and not _is_cache(path)}
    if module:
        own = {path for path in own if path == folder / suite / f"{module}.py"}
    found: set[Path] = set()
    open_ends = own | {folder / name for name in _HARNESS}
    while open_ends:
        found |= open_ends
        open_ends = {part for path in open_ends for part in _imports(folder, path)} - found
    return found


def _is_cache(path: Path) -> bool:
    return "__pycache__" in path.parts or path.suffix in (".pyc", ".pyo")


def _imports(folder: Path, path: Path) -> Iterator[Path]:
    """Yield the files under ``suites`` that a Python file imports by name."""
    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        for dotted in _dotted(node):
            parts = dotted.split(".")[1:]
            for target in (
                folder.joinpath(*parts).with_suffix(".py"),
                folder.joinpath(*parts, "__init__.py"),
            ):
                if parts and target.is_file():
                    yield target


def _dotted(node: ast.AST) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level != 1:
        base = node.module or ""
        base = f"suites.{base}".rstrip(".") if node.level else base
        names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
    yield from (name for name in names if name.startswith("suites."))
