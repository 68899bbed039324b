# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The source of a chart, and which manifest files are templates of Helm."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import InputError, NotFoundError
from ...runtime.foreign_yaml import documents

# The source of a chart: a mirror (directory or URL prefix), an OCI registry, or a chart repository.

SUMS, INDEX = "SHA256SUMS", "index.yaml"


@dataclass(frozen=True, slots=True)
class ChartSource:
    """A chart as helm takes it: its reference and the options for it. `text` is for messages."""

    reference: str
    options: tuple[str, ...]
    text: str


def chart_source(component: str, chart: str, version: str, source: str, mirror: str = "") -> ChartSource:
    """Return the source of a chart.

    Args:
        component: component, for the error.
        chart: chart name; a repository alias in front of it (`nvidia/gpu-operator`) is dropped.
        version: exact chart version.
        source: the recipe's repository or OCI address.
        mirror: directory or URL prefix with `<chart>-<version>.tgz`; if set, no other source is used. A package in a
            directory must have the digest that SHA256SUMS or index.yaml there lists.

    Raises:
        InputError: no version, no source and no mirror, a package with another digest, or an index that cannot be read.
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
        # The name of an OCI repository may be that of its chart: KAI's is oci://ghcr.io/kai-scheduler/kai-scheduler/
        # kai-scheduler, its repository one step above (kai-scheduler/KAI-Scheduler, README.md).
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
    _require_digest(component, path, _stated_digest(directory, name, version, package))
    return ChartSource(str(path), (), str(path))


def _stated_digest(directory: Path, name: str, version: str, package: str) -> str | None:
    """Return the SHA-256 that the mirror lists for a package. None where it lists none.

    SHA256SUMS is read first and has to name every package. Without it the index of `helm repo index` is read.
    """
    sums, index = directory / SUMS, directory / INDEX
    if sums.is_file():
        lines = (line.split() for line in sums.read_text(encoding="utf-8").splitlines())
        configured = {words[1].lstrip("*").removeprefix("./"): words[0] for words in lines if len(words) == 2}
        return configured.get(package, "")
    if not index.is_file():
        return None
    try:
        document = next(iter(documents(index.read_text(encoding="utf-8"))), None)
    except ValueError as error:
        raise InputError(str(index), f"is not YAML: {error}.", f"make it again: helm repo index {directory}") from None
    entries = (document.get("entries") or {}).get(name) if isinstance(document, dict) else None
    for entry in entries or ():
        if str(entry.get("version")) == version and entry.get("digest"):
            return str(entry["digest"])
    return None


def _require_digest(component: str, path: Path, configured: str | None) -> None:
    if configured is None:
        return
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != configured.lower().removeprefix("sha256:"):
        reported = f"the mirror states {configured}" if configured else f"{SUMS} beside it does not name it"
        hint = (
            f"take the package from its source again; if it is the right one, write its digest: sha256sum {path.name}"
        )
        raise InputError(f"component {component}", f"{path} has SHA-256 {found}, but {reported}.", hint)


# Whether a manifest file is a template of Helm. This is checked for every file, also where nothing is rendered.


def is_template(text: str) -> bool:
    """Tell whether a manifest file has template expressions outside comments."""
    return "{{" in text and any("{{" in line.partition("#")[0] for line in text.splitlines())
