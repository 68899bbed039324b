# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The programs that the rehearsal runs, and what makes a program found on the machine good enough."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import InputError

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Tool:
    """One program: the pinned module that it is built from, and the versions of a found one that fit.

    Args:
        module: directory name of its `go.mod` under the toolchain sources; programs of one module are built from the
            same versions of what they share, which is then compiled once.
        package: Go package of its `main`.
        pin: module whose version in `go.mod` is the program's version; the programs of one pin are one release.
        stamp: linker variables set at build time; `{version}`, `{major}` and `{minor}` are filled in.
        same_minor: a found program fits only with the pinned major and minor version.
        at_least: otherwise the oldest version that fits (same major version).
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

# Without these the server reports v0.0.0 and clients refuse to talk to it.
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
    # Debian's package needs its templates in their place, and nothing is installed here.
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

# No rehearsal runs it: a test holds its stand-in against it. From the versions that the others are built from, it takes
# a quarter of a minute more.
MPI_OPERATOR = Tool(
    "mpi-operator",
    _PROGRAMS,
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "github.com/kubeflow/mpi-operator",
)


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """The pinned sources of one Go module: its directory and the text of `go.mod` and `go.sum`."""

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
    """Whether a program found at a version can stand in for the pinned one."""
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
