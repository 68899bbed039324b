# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs out of the distribution's packages, unpacked and not installed.

It needs no administrator, changes nothing on the machine, and starts no service. Unpacked is what the base system does
not have, never what this machine happens to lack: the same tree serves on a machine that has nothing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import DeadlineError, UnavailableError
from ...runtime.files import write_atomic
from ...runtime.progress import Progress
from .base import base_packages
from .loader import library_path, missing_libraries
from .runner import LongCommand, run_watched
from .store import cache_lock

_LIMIT_S = 300.0
_STATUS = Path("/var/lib/dpkg/status")
_STAMP = "unpacked.json"
# A tree that was unpacked by other rules is made anew.
_SCHEME = 2


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages and where they are unpacked.

    Args:
        names: names of packages.
        root: the directory that stands for `/`; the packages are kept beside it.
        subject: what they are, for messages.
        hint: how to install them.
    """

    names: tuple[str, ...]
    root: Path
    subject: str
    hint: str

    def environment(self) -> dict[str, str]:
        """Return what a program of these packages needs in its environment: where its own libraries are."""
        return {"LD_LIBRARY_PATH": library_path(self.root)}

    def problem(self, programs: Sequence[str], environment: Mapping[str, str]) -> str:
        """Return why programs of these packages cannot be run as they are, nothing if they can.

        Args:
            programs: paths.
            environment: what they get beside that of this process.
        """
        try:
            stamp = json.loads((self.root.parent / _STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return "not unpacked to the end"
        if stamp.get("scheme") != _SCHEME or stamp.get("asked") != list(self.names):
            return "unpacked by other rules"
        missing = {line for name in programs for line in missing_libraries(name, {**os.environ, **environment})}
        return "; ".join(sorted(missing))


def nothing_to_watch() -> None:
    """Take the place of a check of the controller where there is none."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """What watches over the fetching of packages."""

    packages: Packages
    progress: Progress
    alive: Callable[[], None]

    def run(self, argv: Sequence[str], where: Path) -> str:
        """Run a command and return what it printed.

        Raises:
            UnavailableError: it failed.
        """
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        saying = f"rehearsal: fetching {', '.join(self.packages.names)}"
        command = LongCommand(argv, where, environment, saying, _LIMIT_S)
        try:
            code, output = run_watched(command, self.progress, self.alive)
        except DeadlineError as error:
            raise self.failed(str(error)) from error
        if code != 0:
            said = output.strip().splitlines()
            raise self.failed(f"`{' '.join(argv[:2])} ...` ended with {code}: {said[-1] if said else 'no output'}.")
        return output

    def failed(self, reason: str) -> UnavailableError:
        """Return the error that says so."""
        packages = self.packages
        return UnavailableError(packages.subject, f"is not installed and cannot be fetched: {reason}", packages.hint)


def ensure_unpacked(
    packages: Packages, problem: Callable[[], str], progress: Progress, alive: Callable[[], None] = nothing_to_watch
) -> None:
    """Unpack packages and all that they need beyond the base system, unless they are there.

    Args:
        packages: what is wanted.
        problem: says why what is there cannot be used, nothing if it can. It is asked again once the cache is held:
            another run that waited for the same packages may use them by then, and files of a running program must
            not be replaced.
        progress: told of what is fetched.
        alive: raises when the controller has ended.

    Raises:
        UnavailableError: this system has no apt, the packages cannot be had, or they are not what is needed.
        AbortedError: the controller ended meanwhile.
    """
    if not problem():
        return
    with cache_lock(packages.root.parent.parent, progress, alive):
        left = problem()
        if left:
            _unpack(Fetching(packages, progress, alive))
            left = problem()
    if left:
        raise UnavailableError(packages.subject, f"{packages.root} is not complete: {left}.", packages.hint)


def _unpack(fetching: Fetching) -> None:
    """Fetch and unpack; what was there before is removed."""
    packages = fetching.packages
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb") and _STATUS.is_file()):
        raise fetching.failed("this system has no apt.")
    work = packages.root.parent
    shutil.rmtree(work, ignore_errors=True)
    kept = work / "packages"
    kept.mkdir(parents=True)
    packages.root.mkdir()
    names = _fetch(fetching, kept)
    for package in sorted(kept.glob("*.deb")):
        fetching.run(["dpkg-deb", "-x", str(package), str(packages.root)], kept)
    stamp = {"scheme": _SCHEME, "asked": list(packages.names), "unpacked": names}
    write_atomic(work / _STAMP, json.dumps(stamp, indent=2) + "\n")


def _fetch(fetching: Fetching, kept: Path) -> list[str]:
    """Download the packages and what they need; return their names."""
    base = base_packages(_STATUS.read_text(encoding="utf-8", errors="replace"))
    status = kept / "base-status"
    write_atomic(status, "\n\n".join(base.values()) + "\n")
    try:
        return _download(fetching, kept, set(base), [f"Dir::State::status={status}"])
    except UnavailableError:
        # The lists of this machine are missing or old; lists of our own need no administrator.
        lists = kept / "lists"
        (lists / "partial").mkdir(parents=True)
        own = [f"Dir::State::lists={lists}", f"Dir::State::status={status}", "APT::Sandbox::User=root"]
        fetching.run(_apt("update", own), kept)
        return _download(fetching, kept, set(base), own)


def _download(fetching: Fetching, kept: Path, base: set[str], options: list[str]) -> list[str]:
    words = ["--print-uris", "-y", "--no-install-recommends", *fetching.packages.names]
    lines = fetching.run([*_apt("install", options), *words], kept).splitlines()
    files = [line.split()[1] for line in lines if line.startswith("'")]
    names = [file.split("_")[0] for file in files if file.endswith(".deb")]
    # apt would renew a package of the base system, too; a second C library beside the machine's loader breaks all.
    wanted = [name for name in names if name not in base]
    fetching.run([*_apt("download", options), *wanted], kept)
    return wanted


def _apt(verb: str, options: Sequence[str]) -> list[str]:
    # Without a cache file: the machine's own must not learn of another status file.
    settings = ("Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", *options)
    return ["apt-get", verb, "-qq", *(word for setting in settings for word in ("-o", setting))]
