# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A directory of packaged stand-in charts, in the layout of an air-gapped site's chart mirror."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

from .chart import FAULT_ANNOTATION, StandIn, Workload, chart_files, crd_document, stand_in_for

# Output of Kustomize for a component, as a site's mirror has it: definitions and workloads.


def built_text(name: str, tag: str, stand_in: StandIn, fault: str = "") -> str:
    """Return the manifests of a component.

    Args:
        name: component.
        tag: the tag that it was built from.
        stand_in: what it creates.
        fault: reason for which the containers of its first workload keep failing, such as `CrashLoopBackOff`.
    """
    documents = [crd_document(crd) for crd in stand_in.crds]
    if stand_in.workloads:
        documents.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    for number, workload in enumerate(stand_in.workloads):
        documents.append(_workload(name, tag, workload, "" if number else fault))
    return "---\n".join(json.dumps(document, indent=2) + "\n" for document in documents)


def _workload(component: str, tag: str, workload: Workload, fault: str) -> dict[str, Any]:
    labels: Mapping[str, str] = workload.labels or {"app": component}
    pod: dict[str, Any] = {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": component,
            "containers": [{"name": name, "image": f"rehearsal/{name}:{tag}"} for name in workload.containers],
        },
    }
    if fault:
        pod["metadata"]["annotations"] = {FAULT_ANNOTATION: fault}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": pod}
    if workload.kind == "Deployment":
        spec["replicas"] = 1
    metadata = {"name": workload.name, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": workload.kind, "metadata": metadata, "spec": spec}


_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class ChartRef:
    """The chart of a component."""

    component: str
    chart: str
    version: str

    @property
    def file_name(self) -> str:
        """Name of the package in a mirror."""
        return f"{self.chart}-{self.version}.tgz"


def chart_ref(component: Mapping[str, Any]) -> ChartRef | None:
    """Return the chart of a recipe's component, None for one that is not installed by Helm from a chart.

    Raises:
        InputError: the component has no name, or a chart without a version.
    """
    name = str(component.get("name") or "")
    if not name:
        raise InputError(f"component {dict(component)!r}", "has no name.")
    source = str(component.get("source") or "")
    if str(component.get("type") or "Helm").lower() != "helm" or not (component.get("chart") or source):
        return None
    # `oci://registry/charts/x` and `repository/x` both end in the chart's own name.
    chart = str(component.get("chart") or name).rstrip("/").rsplit("/", 1)[-1]
    version = str(component.get("version") or "")
    if not version:
        raise InputError(f"component {name}", f"chart {chart} has no version.", "pin it in the recipe")
    if not _SAFE.fullmatch(f"{chart}-{version}"):
        raise InputError(f"component {name}", f"chart {chart!r} or version {version!r} is not a file name.")
    return ChartRef(name, chart, version)


_FAULTS = {"never-ready": "CrashLoopBackOff", "image-missing": "ImagePullBackOff"}


def build_mirror(
    directory: Path,
    components: Iterable[Mapping[str, Any]],
    states: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write `<chart>-<version>.tgz` for every chart and `<component>-<tag>.yaml` for every Kustomize component.

    Equal input gives equal bytes.

    Args:
        directory: where the packages go; created if it does not exist.
        components: component references of a recipe (name, chart, version, type), with the `workloads` (kind, name) of
            their registry entries.
        states: component or chart name to its fault, as in the model's stack: `never-ready` (the first workload keeps
            failing), `image-missing` (its image cannot be pulled) or `install-fails` (the mirror lacks the package).

    Returns:
        The packages, in the order of the components.

    Raises:
        InputError: a component is not complete.
    """
    directory.mkdir(parents=True, exist_ok=True)
    broken = states or {}
    paths: list[Path] = []
    for component in components:
        if component.get("type") == "Kustomize":
            paths += _build(directory, str(component["name"]), str(component.get("tag") or ""), broken)
            continue
        ref = chart_ref(component)
        state = (broken.get(ref.component) or broken.get(ref.chart)) if ref else None
        if ref is None or state == "install-fails":
            continue
        fault = _FAULTS.get(state or "", "")
        files = chart_files(ref.chart, ref.version, stand_in_for(ref.chart, component.get("workloads") or ()), fault)
        path = directory / ref.file_name
        _write(path, package(ref.chart, files))
        paths.append(path)
    return paths


def _build(directory: Path, name: str, tag: str, broken: Mapping[str, str]) -> list[Path]:
    """Write the Kustomize output of a component, unless the fault removes it from the mirror."""
    state = broken.get(name, "")
    if state == "install-fails":
        return []
    path = directory / f"{name}-{tag}.yaml"
    _write(path, built_text(name, tag, stand_in_for(name), _FAULTS.get(state, "")).encode())
    return [path]


def package(name: str, files: Mapping[str, str]) -> bytes:
    """Return a chart package: a gzipped tar with fixed times, owners and order."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            data = files[path].encode()
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
