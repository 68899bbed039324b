# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a chart comes from: a mirror (directory or URL prefix), an OCI registry, or a chart repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import InputError, NotFoundError


@dataclass(frozen=True, slots=True)
class ChartSource:
    """A chart as helm takes it: its reference and the options that go with it; `text` is for people."""

    reference: str
    options: tuple[str, ...]
    text: str


def chart_source(component: str, chart: str, version: str, source: str, mirror: str = "") -> ChartSource:
    """Return where to take a chart from.

    Args:
        component: component, for the error.
        chart: chart name; a repository alias in front of it (`nvidia/gpu-operator`) is dropped.
        version: exact chart version.
        source: the recipe's repository or OCI address.
        mirror: directory or URL prefix that holds `<chart>-<version>.tgz`; when set nothing else is asked.

    Raises:
        InputError: no version, or no source and no mirror.
        NotFoundError: the mirror directory lacks the package.
    """
    name = chart.rpartition("/")[2] or component
    if not version:
        raise InputError(f"component {component}", "the recipe pins no chart version.", "pin `version` in the recipe")
    if mirror:
        return _mirrored(component, name, version, mirror)
    if not source:
        hint = "set `source` in the recipe or gpufleet_chart_mirror"
        raise InputError(f"component {component}", "the recipe names no chart source.", hint)
    if source.startswith("oci://"):
        # An OCI repository may be named like its chart: KAI's is oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler,
        # its repository one step above (kai-scheduler/KAI-Scheduler, README.md).
        reference = f"{source.rstrip('/')}/{name}"
        return ChartSource(reference, ("--version", version), f"{reference} {version}")
    return ChartSource(name, ("--repo", source, "--version", version), f"{name} {version} from {source}")


def _mirrored(component: str, name: str, version: str, mirror: str) -> ChartSource:
    package = f"{name}-{version}.tgz"
    if "://" in mirror:
        address = f"{mirror.rstrip('/')}/{package}"
        return ChartSource(address, (), address)
    directory = Path(mirror).expanduser()
    path = directory / package
    if not path.is_file():
        there = sorted(entry.name for entry in directory.glob(f"{name}-*.tgz")) if directory.is_dir() else []
        found = f"there is {', '.join(there)}" if there else "no version of that chart is there"
        hint = f"put {package} into the mirror (gpufleet_chart_mirror), or correct the recipe's version"
        raise NotFoundError(f"component {component}", f"{path} does not exist; {found}.", hint)
    return ChartSource(str(path), (), str(path))
