"""Make the environment of a build for a run: its Python, its wheels, its recipe, what its workers see of the host.

Everything that can keep a build from being installed here is an EnvironmentProblem; nothing is recorded of it here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracker.environments import Environment, Environments, Recipe
from tracker.errors import EnvironmentProblem, IndexProblem, WheelError
from tracker.home import Home
from tracker.inspection import facts_of, stand_ins
from tracker.job import Job, Reporter
from tracker.machine import library_folders, this_platform
from tracker.model import Build, BuildFile, EnvironmentFacts, Platform, WheelFacts
from tracker.process import clean_environment
from tracker.pythons import Python, find_pythons, newest
from tracker.tools import tool_runner
from tracker.wheels import choose_wheel
from tracker.workers import library_path


@dataclass(frozen=True)
class Installed:
    """A build that is ready to be run, with the whole environment of variables of its workers."""

    environment: Environment
    variables: dict[str, str]


class Installer:
    """Makes the environments of one run."""

    def __init__(self, home: Home, job: Job, reporter: Reporter) -> None:
        self.home = home
        self.job = job
        self.reporter = reporter
        self.settings = home.loaded.settings
        self.environments = Environments(
            home.folder,
            self.settings.environments,
            self.settings.index,
            tool_runner(home.folder, home.stop),
            library_folders(self.settings.worker.environment),
        )
        self.attempted: EnvironmentFacts | None = None
        """What was to be made last, for whoever has to say that it could not be."""

    def install(self, build: Build) -> Installed:
        """Return the build's environment, made where it was not there; raises EnvironmentProblem."""
        self.attempted = EnvironmentFacts(
            self.job.track.name, build.version, recipe="", python="", requirements=()
        )
        python, file = self._python(build)
        wheel = self._wheels(build, file)
        recipe = self._recipe(build, python, file, wheel.requires if wheel else ())
        self.attempted = recipe.facts()
        environment = self._environment(recipe, python)
        return Installed(environment, self.worker_environment(environment))

    def _environment(self, recipe: Recipe, python: Python) -> Environment:
        """Return the recipe's environment; raises EnvironmentProblem."""
        self.reporter.step("preparing the environment")
        environment, made = self.environments.ensure(recipe, python.path)
        if made:
            self.home.journal.append(environment.facts)
        self.reporter.environment(environment.facts, made)
        return environment

    def _python(self, build: Build) -> tuple[Python, BuildFile]:
        """Return the newest interpreter that the build has a wheel for, and that wheel."""
        track, platform = self.job.track, this_platform()
        found = find_pythons(self.settings.environments.pythons, self.home.folder / "cache" / "pythons.json")
        here = [minor for minor in track.pythons if newest(found, [minor])]
        file = choose_wheel(build, platform, here)
        if file:
            fitting = [
                minor for minor in here if choose_wheel(replace(build, files=(file,)), platform, [minor])
            ]
            python = newest(found, fitting)
            if python:
                return python, file
        return self._managed_python(build, here)

    def _managed_python(self, build: Build, here: Sequence[str]) -> tuple[Python, BuildFile]:
        """Let uv provide the newest Python that the build has a wheel for, where that is allowed."""
        track, platform = self.job.track, this_platform()
        usable = [minor for minor in reversed(track.pythons) if choose_wheel(build, platform, [minor])]
        if not usable:
            raise EnvironmentProblem(
                f"{build.version} has no wheel for {platform} and a Python among {', '.join(track.pythons)}",
                slug="no-wheel",
            )
        if self.settings.environments.managed_pythons:
            self.reporter.step(f"asking uv for Python {usable[0]}")
            python = self.environments.provide_python(usable[0])
            file = choose_wheel(build, platform, [usable[0]])
            if python and file:
                return Python(python[0], python[1]), file
        raise EnvironmentProblem(
            f"{build.version} needs Python {' or '.join(usable)}; this host has {', '.join(here) or 'none of use'}",
            slug="no-python",
            hint=f"uv python install {usable[0]}",
        )

    def _wheels(self, build: Build, file: BuildFile) -> WheelFacts | None:
        """Read the wheel to install, and the newest one for Windows, whose library says its version.

        Raises EnvironmentProblem when the first can not be had.
        """
        if not self.job.track.inspect_wheels:
            return None
        windows = choose_wheel(build, Platform.WINDOWS)
        if windows and windows.filename != file.filename:
            try:
                self._wheel(build, windows)
            except WheelError as error:
                self.reporter.note(f"{build.version}: the wheel for Windows was not read: {error.message}")
        try:
            return self._wheel(build, file)
        except WheelError as error:
            raise EnvironmentProblem(
                error.message, slug=error.slug, ours=error.ours, hint=error.hint
            ) from error

    def _wheel(self, build: Build, file: BuildFile) -> WheelFacts:
        return facts_of(self.home, build, file, self.reporter.step)

    def _recipe(self, build: Build, python: Python, file: BuildFile, declared: tuple[str, ...]) -> Recipe:
        track = self.job.track
        return Recipe(
            track=track.name,
            version=build.version,
            package=track.package,
            module=track.module,
            python=python.version,
            requirements=(*track.requires(build.version, declared), *self.job.requirements),
            wheel=file.sha256,
            platform=this_platform(),
            libraries=track.libraries,
        )

    def worker_environment(self, environment: Environment) -> dict[str, str]:
        """Return all that a worker sees of the host's environment; raises EnvironmentProblem.

        Its HOME is a folder of ours, so that what libraries keep there is neither lost nor the user's.
        """
        extra, scratch = self.settings.worker.environment, self.home.folder / "cache" / "worker"
        scratch.mkdir(parents=True, exist_ok=True)
        result = clean_environment(extra, home=scratch)
        if os.name == "nt":
            return result
        directx, given = self.job.host.directx, extra.get("LD_LIBRARY_PATH", "")
        try:
            where = stand_ins(self.home, self.job.track, this_platform()) if directx != "real" else ""
        except (WheelError, IndexProblem) as error:
            raise EnvironmentProblem(error.message, slug="no-stand-ins", ours=True) from error
        path = library_path(environment.site_packages, directx, given, where)
        return {**result, "LD_LIBRARY_PATH": path} if path else result
