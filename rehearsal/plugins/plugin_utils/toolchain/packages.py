# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs from the distribution's packages, unpacked and not installed, with the libraries that they need."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from .golang import LongCommand, run_watched
from .store import cache_lock

# Installed packages that are on every machine of this distribution: the essential ones and their dependencies.
#
# All other dependencies of a program are unpacked with it, even if this machine has them.

_INSTALLED = "install ok installed"


def base_packages(status: str) -> dict[str, str]:
    """Return the packages of the base system by name, each with its paragraph in dpkg's status file.

    Args:
        status: text of the status file.
    """
    paragraphs: dict[str, tuple[str, dict[str, str]]] = {}
    for text in status.split("\n\n"):
        fields = _fields(text)
        if fields.get("Status") == _INSTALLED:
            paragraphs.setdefault(fields["Package"], (text.strip("\n"), fields))
    installed = {name: fields for name, (_text, fields) in paragraphs.items()}
    providers = _providers(installed)
    waiting = [name for name, fields in installed.items() if fields.get("Essential") == "yes"]
    found = set(waiting)
    while waiting:
        for name in _needs(installed[waiting.pop()], installed, providers):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return {name: paragraphs[name][0] for name in sorted(found)}


def _fields(paragraph: str) -> dict[str, str]:
    lines = (line.partition(":") for line in paragraph.splitlines() if not line[:1].isspace())
    return {name: value.strip() for name, _colon, value in lines}


def _providers(installed: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the providers of a virtual package. The one that every machine has is first (mawk before gawk)."""
    found: dict[str, list[str]] = {}
    for name, fields in sorted(installed.items(), key=lambda item: (item[1].get("Priority") != "required", item[0])):
        for entry in fields.get("Provides", "").split(","):
            if entry.strip():
                found.setdefault(entry.split()[0], []).append(name)
    return found


def _needs(
    fields: Mapping[str, str], installed: Mapping[str, object], providers: Mapping[str, list[str]]
) -> Iterator[str]:
    """Yield one installed package for each dependency. A dependency that no installed package provides is left out."""
    for clause in f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}".split(","):
        names = [words[0].partition(":")[0] for choice in clause.split("|") if (words := choice.split())]
        met = [
            name if name in installed else providers[name][0] for name in names if name in {**installed, **providers}
        ]
        yield from met[:1]


# Report of the system's loader about a program: where each of its libraries is, and which are missing.

_LDD_LIMIT_S = 20.0
_PT_INTERP = 3
_PLACES = ("usr/lib/*-linux-*", "lib/*-linux-*", "usr/lib64", "lib64", "usr/lib", "lib")


def library_path(root: Path) -> str:
    """Return the directories of libraries below a root directory as LD_LIBRARY_PATH."""
    return os.pathsep.join(str(place) for pattern in _PLACES for place in sorted(root.glob(pattern)))


def missing_libraries(program: str, environ: Mapping[str, str]) -> list[str]:
    """Return what the loader reports as missing (libraries, versions of symbols) for a program in that environment.

    Args:
        program: path; one without a loader misses nothing.
        environ: its environment.
    """
    loader = loader_of(Path(program))
    if not loader:
        return []
    # Runs the loader itself: a program without one would simply run.
    done = run_command([loader, "--list", program], _LDD_LIMIT_S, env={**environ, "LC_ALL": "C"})
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    missing = [line.strip() for line in lines if "not found" in line or "cannot" in line]
    return missing or ([] if done.rc == 0 else [f"{loader} ended with {done.rc}"])


def loader_of(program: Path) -> str:
    """Return the loader of a 64-bit ELF file, empty for any other file."""
    with program.open("rb") as handle:
        start = handle.read(4096)
    if start[:5] != b"\x7fELF\x02":
        return ""
    order = "<" if start[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}Q", start, 0x20)
    size, count = struct.unpack_from(f"{order}HH", start, 0x36)
    for place in range(table, table + size * count, size):
        (kind,) = struct.unpack_from(f"{order}I", start, place)
        if kind == _PT_INTERP:
            (offset,) = struct.unpack_from(f"{order}Q", start, place + 8)
            return start[offset : start.index(b"\0", offset)].decode()
    return ""


# Programs from the distribution's packages, unpacked and not installed.
#
# This needs no administrator, changes nothing on the machine, and starts no service. Everything beyond the base system
# is unpacked, whatever this machine has, so that the same tree works on a machine that has nothing else.

_LIMIT_S = 300.0
_STATUS = Path("/var/lib/dpkg/status")
_STAMP = "unpacked.json"
# A tree that was unpacked by an older scheme is created anew.
_SCHEME = 2


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages and the place where they are unpacked.

    Args:
        names: names of packages.
        root: the directory that takes the place of `/`; the packages are kept beside it.
        subject: their name in messages.
        hint: how to install them.
    """

    names: tuple[str, ...]
    root: Path
    subject: str
    hint: str

    def environment(self) -> dict[str, str]:
        """Return the environment variables of these programs: the place of their libraries."""
        return {"LD_LIBRARY_PATH": library_path(self.root)}

    def problem(self, programs: Sequence[str], environment: Mapping[str, str]) -> str:
        """Return why programs of these packages cannot run, empty if they can.

        Args:
            programs: paths.
            environment: variables added to those of this process.
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
    """Do nothing: the default where there is no controller to check."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """Watches the fetching of packages."""

    packages: Packages
    progress: Progress
    alive: Callable[[], None]

    def run(self, argv: Sequence[str], where: Path) -> str:
        """Run a command and return its output.

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
            reported = output.strip().splitlines()
            raise self.failed(
                f"`{' '.join(argv[:2])} ...` ended with {code}: {reported[-1] if reported else 'no output'}."
            )
        return output

    def failed(self, reason: str) -> UnavailableError:
        """Return the error for packages that could not be fetched."""
        packages = self.packages
        return UnavailableError(packages.subject, f"is not installed and cannot be fetched: {reason}", packages.hint)


def ensure_unpacked(
    packages: Packages, problem: Callable[[], str], progress: Progress, alive: Callable[[], None] = nothing_to_watch
) -> None:
    """Unpack packages and all that they need beyond the base system, unless they are there.

    Args:
        packages: the packages.
        problem: returns why the existing tree cannot be used, empty if it can. It runs again once the cache is locked:
            another run that waited for the same packages may use them by then, and files of a running program must not
            be replaced.
        progress: reports what is fetched.
        alive: raises when the controller has ended.

    Raises:
        UnavailableError: this system has no apt, or the packages cannot be fetched or do not work.
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
    """Fetch and unpack. An existing tree is removed."""
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
    """Download the packages and their dependencies. Return their names."""
    base = base_packages(_STATUS.read_text(encoding="utf-8", errors="replace"))
    status = kept / "base-status"
    write_atomic(status, "\n\n".join(base.values()) + "\n")
    try:
        return _download(fetching, kept, set(base), [f"Dir::State::status={status}"])
    except UnavailableError:
        # The package lists of this machine are missing or old. Separate lists need no administrator.
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
    # apt would update packages of the base system, too, and a second C library does not work with the machine's loader.
    wanted = [name for name in names if name not in base]
    fetching.run([*_apt("download", options), *wanted], kept)
    return wanted


def _apt(verb: str, options: Sequence[str]) -> list[str]:
    # Without a cache file, so that this status file never gets into the machine's own cache.
    settings = ("Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", *options)
    return ["apt-get", verb, "-qq", *(word for setting in settings for word in ("-o", setting))]
