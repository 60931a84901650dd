"""Isolated environments, one per recipe: made aside, renamed into place, verified before each use, pruned.

``uv`` resolves and installs. The lock it resolved (with the index's hashes) and the facts of what was installed
are kept inside the environment. Only folders that carry our marker are ever deleted. This module does not
know what will run in an environment.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from tracker.config import EnvironmentSettings, IndexSettings
from tracker.errors import EnvironmentProblem
from tracker.files import disk_use, footprint, remove_tree, rename, stamp, to_delete
from tracker.model import EnvironmentFacts, Platform
from tracker.tools import RunTool
from tracker.trackfile import Library
from tracker.uv_output import UNREACHABLE, classify, uv_reason
from tracker.versions import parse

MARKER = "dmltrack-environment.json"
LOCK = "requirements.lock"
STAMPS = "installed.json"
"""What the files of each package looked like when the environment was made."""

GB = 1 << 30


@dataclass(frozen=True)
class Recipe:
    """All that decides what an environment holds. ``python`` is a full version, ``wheel`` a sha256."""

    track: str
    version: str
    package: str
    module: str
    python: str
    requirements: tuple[str, ...]
    wheel: str
    platform: Platform
    libraries: tuple[Library, ...] = ()

    @property
    def digest(self) -> str:
        """Name of the environment: the hash of the recipe, short enough for Windows paths."""
        text = json.dumps(msgspec.to_builtins(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def facts(self) -> EnvironmentFacts:
        """Return what is known before anything was made."""
        return EnvironmentFacts(
            self.track, self.version, self.digest, self.python, self.requirements, wheel=self.wheel
        )


@dataclass(frozen=True)
class Environment:
    """One finished environment."""

    folder: Path
    facts: EnvironmentFacts

    @property
    def python(self) -> Path:
        """The interpreter to start workers with."""
        return interpreter(self.folder)

    @property
    def site_packages(self) -> Path:
        """Where packages were installed."""
        return _site_packages(self.folder, self.facts.python)


def interpreter(folder: Path) -> Path:
    """Return the path of an environment's interpreter on this system."""
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def _site_packages(folder: Path, python: str) -> Path:
    if sys.platform == "win32":
        return folder / "Lib" / "site-packages"
    return folder / "lib" / f"python{'.'.join(python.split('.')[:2])}" / "site-packages"


class Environments:
    """The environments of one home folder.

    ``index`` is where packages come from: an address, or the settings with its mirrors. ``run`` runs ``uv`` and
    the interpreters; it is handed in, so that this module starts no process itself. ``library_folders`` are
    looked through for libraries of the host that its loader does not find.
    """

    def __init__(
        self,
        home: Path,
        settings: EnvironmentSettings,
        index: str | IndexSettings,
        run: RunTool,
        library_folders: Sequence[Path] = (),
    ) -> None:
        self.folder = home / "envs"
        self.trash = home / "trash"
        self.settings = settings
        index = IndexSettings(index) if isinstance(index, str) else index
        self.indexes = tuple(dict.fromkeys((index.url, *index.mirrors)))
        self.run = run
        self.library_folders = library_folders

    def find(self, recipe: Recipe) -> Environment | None:
        """Return the recipe's environment when it exists and still holds what it should, else None."""
        folder = self.folder / recipe.digest
        facts = read_marker(folder)
        if facts is None or self._problem(folder, recipe) is not None or self._spoiled(folder):
            return None
        os.utime(folder / MARKER)
        return Environment(folder, facts)

    def ensure(self, recipe: Recipe, python: Path, keep: Collection[str] = ()) -> tuple[Environment, bool]:
        """Return the recipe's environment and whether it had to be made.

        ``keep`` names environments that must survive the pruning that follows. Raises EnvironmentProblem.
        """
        self._check_last_used(recipe)
        found = self.find(recipe)
        if found:
            return found, False
        self._check_room()
        environment = self._make(recipe, python)
        self.prune({*keep, recipe.digest})
        return environment, True

    def _check_last_used(self, recipe: Recipe) -> None:
        """See to it that what a build wrote over in its own environment does not get from uv's cache into this one.

        Their files are the same ones: uv links them. Each environment is looked at before the next is used.
        """
        used = max(self._finished(), key=lambda folder: (folder / MARKER).stat().st_mtime, default=None)
        if used is not None and used.name != recipe.digest:
            self._spoiled(used)

    def _spoiled(self, folder: Path) -> tuple[str, ...]:
        """Return the packages that were changed since they were installed, having cleaned uv's cache of them."""
        changed = changed_packages(folder)
        for package in changed:
            with suppress(EnvironmentProblem):  # then the next environment is found out in its turn
                self._uv("cache", "clean", "-q", package.rpartition("-")[0])
        return changed

    def _check_room(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free / GB
        if free < self.settings.min_free_gb:
            raise EnvironmentProblem(
                f"only {free:.1f} GB free at {self.folder}, {self.settings.min_free_gb:g} GB are kept free",
                slug="disk-full",
                ours=True,
                hint="free some room, lower environments.min_free_gb, or set DMLTRACK_HOME to a larger disk",
            )

    def _make(self, recipe: Recipe, python: Path) -> Environment:
        started = time.monotonic()
        aside = self.folder / f".{recipe.digest}-{secrets.token_hex(4)}"
        try:
            facts = self._fill(aside, recipe, python)
            facts = replace(facts, size=disk_use([aside]), seconds=round(time.monotonic() - started, 3))
            if changed := changed_packages(self.folder / recipe.digest):
                told = f"made again, as files of {', '.join(changed)} had been changed since it was made"
                facts = replace(facts, reason="changed-by-use", message=told)
            (aside / STAMPS).write_text(json.dumps(installed_stamps(_site_packages(aside, recipe.python))))
            (aside / MARKER).write_bytes(msgspec.json.encode(facts))
            final = self.folder / recipe.digest
            self._discard(final)
            rename(aside, final)
        except OSError as error:
            remove_tree(aside)
            raise EnvironmentProblem(
                f"the environment can not be kept in {self.folder}: {error.strerror or error}",
                slug="disk",
                ours=True,
            ) from error
        except BaseException:
            remove_tree(aside)
            raise
        return Environment(final, facts)

    def _fill(self, folder: Path, recipe: Recipe, python: Path) -> EnvironmentFacts:
        """Install the recipe into a folder and return the facts of what is there."""
        self._uv("venv", "--relocatable", "--python", str(python), str(folder))
        wanted = folder / "requirements.in"
        wanted.write_text(
            "\n".join([f"{recipe.package}=={recipe.version}", *recipe.requirements]) + "\n", "utf-8"
        )
        inside, lock = str(interpreter(folder)), folder / LOCK
        self._uv_from_index(
            "pip", "compile", "-q", "--no-header", "--generate-hashes", "--emit-build-options",
            "--python", inside, "-o", str(lock), str(wanted),
        )  # fmt: skip
        lock.write_text(held_to_wheel(lock.read_text("utf-8"), recipe), "utf-8")
        self._uv_from_index("pip", "install", "-q", "--require-hashes", "--python", inside, "-r", str(lock))
        problem = self._problem(folder, recipe) or self._missing_library(folder, recipe)
        if problem:
            raise problem
        freeze = self._uv("pip", "freeze", "-q", "--python", inside)
        packages = _site_packages(folder, recipe.python)
        return replace(
            recipe.facts(), ready=True, freeze=tuple(freeze.split("\n")), hashes=installed_hashes(packages)
        )

    def _uv_from_index(self, *arguments: str) -> str:
        """Run uv with the index and its mirrors; where one can not be reached, again without it."""
        problems: list[EnvironmentProblem] = []
        for start in range(len(self.indexes)):
            try:
                return self._uv(*arguments, variables=index_variables(self.indexes[start:]))
            except EnvironmentProblem as problem:
                problems.append(problem)
                if problem.slug != UNREACHABLE:
                    raise
        raise problems[0]

    def _uv(self, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
        """Run uv and return what it printed; raises EnvironmentProblem with uv's own reason."""
        from uv import find_uv_bin

        command = [find_uv_bin(), "--no-config", "--color", "never", *arguments]
        code, output = self.run(command, self.settings.install_timeout, variables or {})
        if code is None:
            raise EnvironmentProblem(
                f"'uv {' '.join(arguments[:2])}' did not end within {self.settings.install_timeout:g} s",
                slug="install-timeout",
                ours=True,
            )
        if code != 0:
            reason = uv_reason(output)
            slug, ours = classify(reason)
            raise EnvironmentProblem(reason, slug=slug, ours=ours)
        return output.strip()

    def provide_python(self, minor: str) -> tuple[str, Path] | None:
        """Let uv install a Python of its own; return its full version and path, or None where it has none.

        Raises EnvironmentProblem where the network or the disk is in the way: that says nothing of the build.
        """
        try:
            self._uv("python", "install", minor)
            path = self._uv("python", "find", "--managed-python", minor).splitlines()[-1]
            version = self._uv("python", "find", "--managed-python", "--show-version", minor).splitlines()[-1]
        except EnvironmentProblem as problem:
            if problem.ours:
                raise
            return None
        except IndexError:
            return None
        return version, Path(path)

    def _problem(self, folder: Path, recipe: Recipe) -> EnvironmentProblem | None:
        """Say why the environment does not hold the build under test, or None. Imports nothing."""
        python = [str(interpreter(folder)), "-I", "-X", "utf8", "-c", _QUESTION]
        code, output = self.run([*python, recipe.package, recipe.module], 120)
        try:
            own, version, origin = answer_in(output)
        except ValueError:
            return EnvironmentProblem(
                f"the environment's Python {recipe.python} does not start (exit code {code})",
                slug="broken-python",
                ours=True,
            )
        return _verify(recipe, folder, own, version, origin)

    def _missing_library(self, folder: Path, recipe: Recipe) -> EnvironmentProblem | None:
        for library in recipe.libraries:
            if library.platform not in (recipe.platform, Platform.ANY):
                continue
            load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
            code, _ = self.run([str(interpreter(folder)), "-I", "-c", load, library.name], 60)
            if code != 0 and not any((place / library.name).exists() for place in self.library_folders):
                return EnvironmentProblem(
                    f"this host lacks {library.name}: {library.hint}",
                    slug="missing-library",
                    hint=library.hint,
                )
        return None

    def prune(self, keep: Collection[str]) -> list[str]:
        """Delete environments, oldest use first, until the rest fits the budget; return their names."""
        folders = sorted(self._finished(), key=lambda folder: (folder / MARKER).stat().st_mtime)
        footprints = {folder: footprint(folder) for folder in folders}
        budget = self.settings.disk_budget_gb * GB
        victims = to_delete(footprints, budget, lambda folder: folder.name in keep)
        for victim in victims:
            with suppress(OSError):  # in use; another time
                self._discard(victim)
        return [victim.name for victim in victims if not victim.exists()]

    def _finished(self) -> list[Path]:
        return [
            path.parent for path in self.folder.glob(f"*/{MARKER}") if not path.parent.name.startswith(".")
        ]

    def _discard(self, folder: Path) -> None:
        """Move a folder of ours to the trash and delete it as far as the system lets us."""
        if not folder.exists():
            return
        self.trash.mkdir(parents=True, exist_ok=True)
        rename(folder, self.trash / f"{folder.name}-{secrets.token_hex(4)}")
        self._empty_trash()

    def _empty_trash(self) -> None:
        for folder in self.trash.glob("*"):
            remove_tree(folder)

    def sweep(self) -> None:
        """Delete what lies in the trash, and what an interrupted installation left.

        Must be called only by who holds the home's run lock: an installation that goes on looks the same.
        """
        self._empty_trash()
        for folder in self.folder.glob(".*-*"):
            remove_tree(folder)


def read_marker(folder: Path) -> EnvironmentFacts | None:
    """Return the facts an environment carries, or None where the folder is not a finished one of ours."""
    try:
        return msgspec.json.decode((folder / MARKER).read_bytes(), type=EnvironmentFacts)
    except (OSError, msgspec.MsgspecError):
        return None


_QUESTION = r"""
import importlib.metadata as m, importlib.util as u, json, platform, sys
try:
    version = m.version(sys.argv[1])
except m.PackageNotFoundError:
    version = None
spec = u.find_spec(sys.argv[2])
print("\n\x1e" + json.dumps([platform.python_version(), version, spec.origin if spec else None]), flush=True)
"""


def answer_in(output: str) -> tuple[object, object, object]:
    """Return an interpreter's answer to ``_QUESTION`` from all that it printed. Pure; ValueError for none.

    What is installed may print too, when Python starts (a ``.pth`` file) and when it ends.
    """
    answers = [line for line in output.split("\n") if line.startswith("\x1e[")]
    python, version, origin = json.loads(answers[-1][1:] if answers else "")
    return python, version, origin


def _verify(
    recipe: Recipe, folder: Path, python: object, version: object, origin: object
) -> EnvironmentProblem | None:
    """Compare what an environment would run and import with what is to be tested."""
    if python != recipe.python:
        return EnvironmentProblem(
            f"the environment was made for Python {recipe.python}, and its Python is now {python}",
            slug="wrong-python",
            ours=True,
        )
    if not isinstance(version, str) or (parse(version) or version) != (
        parse(recipe.version) or recipe.version
    ):
        return EnvironmentProblem(
            f"{recipe.package} {recipe.version} was installed, but the environment has {version or 'none'}",
            slug="wrong-version",
        )
    if not isinstance(origin, str) or not Path(origin).is_relative_to(folder):
        return EnvironmentProblem(
            f"the module {recipe.module} would be imported from {origin or 'nowhere'}, not from its environment",
            slug="wrong-module",
        )
    return None


def installed_hashes(packages: Path) -> tuple[str, ...]:
    """Return ``name-version sha256:...`` of each installed package's own list of file hashes (its RECORD)."""
    records = sorted(packages.glob("*.dist-info/RECORD"))
    return tuple(
        f"{record.parent.name.removesuffix('.dist-info')} sha256:{hashlib.sha256(record.read_bytes()).hexdigest()}"
        for record in records
    )


def installed_stamps(packages: Path) -> dict[str, str]:
    """Return for each installed package, named like its RECORD, a stamp of the files that are listed there."""
    return {
        record.parent.name.removesuffix(".dist-info"): stamp(_listed(record))
        for record in packages.glob("*.dist-info/RECORD")
    }


_IDLE = (".h", ".hpp", ".cuh", ".cmake", ".pyi", ".pyc")
"""Endings of files that nothing reads in a run; and byte code, which Python writes anew as it likes."""


def _listed(record: Path) -> list[str]:
    """Return the paths in a RECORD of what can change a result: most of torch's files are headers."""
    base = str(record.parent.parent)
    with record.open(encoding="utf-8", newline="") as file:
        names = [row[0] for row in csv.reader(file) if row and not row[0].endswith(_IDLE)]
    return [os.path.join(base, name) for name in names]  # noqa: PTH118 - ten thousand of them


def changed_packages(folder: Path) -> tuple[str, ...]:
    """Return the packages of an environment whose files are not those that were installed."""
    try:
        known = json.loads((folder / STAMPS).read_text("utf-8"))
        facts = read_marker(folder)
        now = installed_stamps(_site_packages(folder, facts.python)) if facts else known
    except (OSError, ValueError, csv.Error):
        return ()  # made before this was written down, or not to be read: other checks say so
    return tuple(sorted(name for name in known.keys() | now.keys() if known.get(name) != now.get(name)))


def held_to_wheel(lock: str, recipe: Recipe) -> str:
    """Return the lock with the recipe's wheel as the only file of the package that may be installed. Pure.

    Raises EnvironmentProblem where the index does not list that wheel (any more).
    """
    name = re.escape(canonicalize_name(recipe.package))
    entry = re.compile(rf"^({name}==[^\n]*?)((?: *\\\n +--hash=\S+)+)", re.MULTILINE).search(lock)
    wanted = f"--hash=sha256:{recipe.wheel}"
    if entry is None or wanted not in entry[2].split():
        raise EnvironmentProblem(
            f"the index does not list the wheel of {recipe.package} {recipe.version} "
            f"with the sha256 {recipe.wheel}",
            slug="hash-mismatch",
            hint="the file was replaced since the last poll, or a mirror has another one",
        )
    return f"{lock[: entry.end(1)]} \\\n    {wanted}{lock[entry.end() :]}"


def index_variables(indexes: Sequence[str]) -> dict[str, str]:
    """Return the variables that give uv its indexes, the first before the others. Pure.

    Not options: every user of the machine can read the command line of a process, and so the password in an
    address. uv takes a package from the first index that has it, and asks the default one last.
    """
    *first, last = indexes
    return {"UV_DEFAULT_INDEX": last, **({"UV_INDEX": " ".join(first)} if first else {})}
