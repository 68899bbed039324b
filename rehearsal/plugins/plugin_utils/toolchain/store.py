# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cache of built programs: one directory per pinned module, checksums verified on every use."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

# Programs that the rehearsal runs, and the versions of a program on the machine that are good enough.

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Tool:
    """One program: the pinned module that it is built from, and the versions of an existing one that are suitable.

    Args:
        module: directory name of its `go.mod` under the toolchain sources. Programs of one module share the versions of
            their dependencies, which are then compiled once.
        package: Go package of its `main`.
        pin: module whose version in `go.mod` is the program's version; the programs of one pin are one release.
        stamp: linker variables set at build time; `{version}`, `{major}` and `{minor}` are filled in.
        same_minor: an existing program is suitable only with the pinned major and minor version.
        at_least: otherwise the oldest suitable version (same major version).
    """

    name: str
    module: str
    package: str
    pin: str
    stamp: tuple[str, ...] = ()
    version_argv: tuple[str, ...] = ("--version",)
    same_minor: bool = True
    at_least: Version = (0, 0, 0)


_PROGRAMS = "programs"

# Without these the server reports v0.0.0 and clients refuse to use it.
_KUBERNETES_STAMP = (
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor={major}",
    "k8s.io/component-base/version.gitMinor={minor}",
)


def _kubernetes(name: str) -> Tool:
    return Tool(name, _PROGRAMS, f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", _KUBERNETES_STAMP)


TOOLS: tuple[Tool, ...] = (
    Tool("etcd", _PROGRAMS, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    Tool("kwok", _PROGRAMS, "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    Tool(
        "helm",
        _PROGRAMS,
        "helm.sh/helm/v3/cmd/helm",
        "helm.sh/helm/v3",
        ("helm.sh/helm/v3/internal/version.version={version}",),
        ("version", "--short"),
        same_minor=False,
        at_least=(3, 14, 0),
    ),
    # Built, since Debian's package needs its templates in their installed place.
    Tool(
        "alertmanager",
        _PROGRAMS,
        "github.com/prometheus/alertmanager/cmd/alertmanager",
        "github.com/prometheus/alertmanager",
        ("github.com/prometheus/common/version.Version={version}",),
        same_minor=False,
        at_least=(0, 25, 0),
    ),
)

# No rehearsal runs it: a test compares its stand-in with it. It is built from the same versions as the others, which
# takes a quarter of a minute more.
MPI_OPERATOR = Tool(
    "mpi-operator",
    _PROGRAMS,
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "github.com/kubeflow/mpi-operator",
)


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """Pinned sources of one Go module: its directory and the text of `go.mod` and `go.sum`."""

    name: str
    directory: Path
    go_mod: str
    go_sum: str

    def version_of(self, module_path: str) -> str:
        """Return the version (with `v`) at which `go.mod` requires a module.

        Raises:
            InputError: it requires no such module.
        """
        found = re.search(rf"^\s*(?:require\s+)?{re.escape(module_path)}\s+(v\S+)", self.go_mod, re.M)
        if found is None:
            raise InputError(str(self.directory / "go.mod"), f"expected a requirement on {module_path}, found none.")
        return found.group(1)


def read_source(sources: Path, module: str) -> ModuleSource:
    """Read a module's pinned files.

    Raises:
        InputError: a file is missing.
    """
    directory = sources / module
    try:
        return ModuleSource(module, directory, (directory / "go.mod").read_text(), (directory / "go.sum").read_text())
    except OSError as error:
        raise InputError(str(directory), f"the pinned sources of {module} cannot be read: {error}.") from error


def parse_version(text: str) -> Version | None:
    """Return the first x.y.z of a text, or None."""
    found = _VERSION.search(text)
    return (int(found.group(1)), int(found.group(2)), int(found.group(3))) if found else None


def fits(tool: Tool, found: Version | None, pinned: Version) -> bool:
    """Return whether an existing program of that version can replace the pinned one."""
    if found is None:
        return False
    if tool.same_minor:
        return found[:2] == pinned[:2]
    return found >= tool.at_least and found[0] == pinned[0]


def linker_flags(tool: Tool, version: str) -> str:
    """Return the linker flags of a tool at a version such as `v1.36.3`.

    Raises:
        InputError: the version is not of the form x.y.z.
    """
    parsed = parse_version(version)
    if parsed is None:
        raise InputError(f"version of {tool.name}", f"expected x.y.z, found {version}.")
    values = {"version": version, "major": str(parsed[0]), "minor": str(parsed[1])}
    return " ".join(["-s -w", *(f"-X {entry.format(**values)}" for entry in tool.stamp)])


_MANIFEST = "manifest.json"
_SCHEMA = 1
_WORK = ".build-"


def default_cache(environ: Mapping[str, str]) -> Path:
    """Return the user's cache directory for the toolchain.

    It is outside the checkout, so that other clones share it.
    """
    base = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gpufleet" / "toolchain"


def build_digest(source: ModuleSource, flags: Mapping[str, str], platform: str) -> str:
    """Return the digest that identifies a build: pinned sources, flags and platform.

    The Go release is recorded beside the programs but is not part of the digest. A machine with a filled cache needs no
    Go, and a Go patch release is no reason to build for ten minutes (`go.mod` has the language version).
    """
    digest = hashlib.sha256()
    for part in (source.go_mod, source.go_sum, json.dumps(dict(flags), sort_keys=True), platform):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def sha256_of(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ModuleStore:
    """Directory of the programs of one build."""

    directory: Path

    def path_of(self, tool: str) -> Path:
        """Return the path of a program, whether it exists or not."""
        return self.directory / tool

    def problem(self, tool: str) -> str:
        """Return why a stored program cannot be used, `missing` or `checksum`; empty if it can."""
        expected = self._checksums().get(tool, "")
        path = self.path_of(tool)
        if not expected or not path.is_file():
            return "missing"
        return "" if sha256_of(path) == expected else "checksum"

    def record(self, tool: str, go_version: str) -> None:
        """Record the checksum of a program just built."""
        checksums = self._checksums() | {tool: sha256_of(self.path_of(tool))}
        document = {"schema_version": _SCHEMA, "go": go_version, "sha256": checksums}
        write_atomic(self.directory / _MANIFEST, json.dumps(document, indent=2) + "\n")

    def _checksums(self) -> dict[str, str]:
        try:
            document: Any = json.loads((self.directory / _MANIFEST).read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(document, dict) or document.get("schema_version") != _SCHEMA:
            return {}
        checksums = document.get("sha256")
        return {str(k): str(v) for k, v in checksums.items()} if isinstance(checksums, dict) else {}


@contextmanager
def workplace(cache: Path) -> Iterator[Path]:
    """Create a directory for work in progress within the cache, removed at the end."""
    # A process that is just ending may still write into it.
    with tempfile.TemporaryDirectory(dir=cache, prefix=_WORK, ignore_cleanup_errors=True) as name:
        yield Path(name)


def sweep(cache: Path) -> None:
    """Remove the work in progress of killed builds. Call it with the cache locked."""
    for left in cache.glob(f"{_WORK}*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def cache_lock(cache: Path, progress: Progress, alive: Callable[[], None]) -> Iterator[None]:
    """Lock the cache: two builds at once would do the same work twice and overwrite each other.

    Raises:
        UnavailableError: the directory cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle = (cache / ".lock").open("w")
    except OSError as error:
        hint = "set gpufleet_rehearsal_cache to a directory that you can write"
        raise UnavailableError(f"toolchain cache {cache}", f"cannot be written: {error}.", hint) from error
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.tick("toolchain: another build holds the cache, waiting")
                alive()
                sleep(0.5)
        yield
