# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hydration: the chart values of every component merged from files and overrides, and the recipe as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..constraint.evaluate import Constraint, Quantifier, Severity
from ..outcome.errors import InputError
from .advertiser import require_one_advertiser
from .criteria import ANY, UPSTREAM_DIMENSIONS
from .health_checks import installed_asserts
from .merge import over_values
from .model import Catalogue, ComponentRef, Phase, RecipeResult, copied
from .tree import OTHER_TREE, read_text, unsafe_reason
from .yaml_dump import dump_yaml

# The quota with which GKE admits pods of system priority of a component, where its registry entry asks for it. GKE
# has a quota of kube-system for these priorities, and with it the API server admits such pods only in namespaces that
# have one too. Upstream's overlays have none: its bundler creates it (NVIDIA/aicr, pkg/bundler/bundler.go:
# injectGKECriticalPriorityQuotas).

_FILE = "gke-critical-pods.yaml"
# The quota is there to admit pods and not to limit them: more than a component ever has.
_LEAST_PODS, _PODS_PER_NODE = 10_000, 32


def quota_manifests(component: ComponentRef, result: RecipeResult, catalogue: Catalogue) -> list[dict[str, str]]:
    """Return the quota to apply before a component's chart. Only some components on GKE have one."""
    entry = catalogue.registry.get(component.name)
    configured = result.criteria.to_dict()
    requested = entry is not None and entry.data.get("gkeCriticalPriority") and configured.get("service") == "gke"
    if not requested or component.namespace in ("", "kube-system"):
        return []
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gke-critical-pods", "namespace": component.namespace},
        "spec": {
            "hard": {"pods": str(max(_LEAST_PODS, _PODS_PER_NODE * int(configured.get("nodes") or 0)))},
            "scopeSelector": {
                "matchExpressions": [
                    {
                        "scopeName": "PriorityClass",
                        "operator": "In",
                        "values": ["system-node-critical", "system-cluster-critical"],
                    }
                ]
            },
        },
    }
    return [{"when": "before", "file": f"components/{component.name}/{_FILE}", "text": dump_yaml(quota)}]


def file_values(name: str, catalogue: Catalogue) -> Mapping[str, Any]:
    """Return the chart values in a file of the catalogue. They are read once and must not be changed.

    Raises:
        InputError: the file does not exist, is outside of the tree, or is not a mapping.
    """
    known = catalogue.values.get(name)
    if known is not None:
        return known
    path = catalogue.files.get(name)
    if unsafe_reason(name) or path is None:
        raise InputError(f"values file {name}", "does not exist in any tree.", OTHER_TREE)
    from .yaml_text import decode

    data = decode(read_text(path), str(path))
    if data is not None and not isinstance(data, dict):
        raise InputError(f"{path}:1", "must be a mapping of chart values.")
    catalogue.values[name] = data or {}
    return catalogue.values[name]


def value_files(component: ComponentRef, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the values files of a component, lowest precedence first."""
    if not component.values_file:
        return ()
    own = f"components/{component.name}/values.yaml"
    if component.values_file == own or own not in catalogue.files:
        return (component.values_file,)
    return (own, component.values_file)


def component_values(component: ComponentRef, catalogue: Catalogue) -> dict[str, Any]:
    """Return the merged chart values of a component: its own file, the layer's file, the overrides."""
    values: dict[str, Any] = {}
    for name in value_files(component, catalogue):
        values = over_values(values, file_values(name, catalogue), catalogue.dialect)
    return over_values(values, component.overrides, catalogue.dialect)


def constraint_data(constraint: Constraint) -> dict[str, Any]:
    """Return a constraint as it is written in a recipe."""
    data: dict[str, Any] = {"name": constraint.name, "value": constraint.value}
    if constraint.severity is not Severity.ERROR:
        data["severity"] = constraint.severity.value
    if constraint.remediation:
        data["remediation"] = constraint.remediation
    if constraint.unit:
        data["unit"] = constraint.unit
    if constraint.nodes is not Quantifier.NONE_GIVEN:
        data["nodes"] = constraint.nodes.value
    return data


def phase_data(phase: Phase) -> dict[str, Any]:
    """Return a validation phase as it is written in a recipe."""
    data: dict[str, Any] = {}
    if phase.timeout:
        data["timeout"] = phase.timeout
    if phase.constraints:
        data["constraints"] = [constraint_data(item) for item in phase.constraints]
    if phase.checks:
        data["checks"] = list(phase.checks)
    if phase.node_selection:
        data["nodeSelection"] = copied(dict(phase.node_selection))
    if phase.infrastructure:
        data["infrastructure"] = phase.infrastructure
    return data


def component_data(component: ComponentRef) -> dict[str, Any]:
    """Return a component as it is written in a recipe. Empty fields are left out, except `source`."""
    data: dict[str, Any] = {
        "name": component.name,
        "namespace": component.namespace,
        "chart": component.chart,
        "type": component.type,
        "version": component.version,
        "tag": component.tag,
        "path": component.path,
        "valuesFile": component.values_file,
        "overrides": copied(dict(component.overrides)),
        "patches": list(component.patches),
        "dependencyRefs": list(component.dependency_refs),
        "preManifestFiles": list(component.pre_manifest_files),
        "manifestFiles": list(component.manifest_files),
        "cleanup": component.cleanup,
        "expectedResources": [dict(item) for item in component.expected_resources],
        "healthCheckAsserts": component.health_check_asserts,
        "healthCheckSkip": component.health_check_skip,
    }
    return {"source": component.source, **{key: value for key, value in data.items() if value}}


def in_api(result: RecipeResult, api: str | None) -> RecipeResult:
    """Return the recipe with an API version of `UPSTREAM_APIS`. Without `api` it keeps its own."""
    # Ansible wraps the texts of options in its own classes, which no YAML writer knows.
    return replace(result, api_version=str(api)) if api else result


def plain(result: RecipeResult) -> dict[str, Any]:
    """Return the recipe as a RecipeResult document, valid for the upstream tool and for ours."""
    configured = result.criteria.to_dict()
    criteria: dict[str, Any] = {name: configured.pop(name, ANY) for name in UPSTREAM_DIMENSIONS}
    nodes = configured.pop("nodes", None)
    criteria.update({"nodes": int(nodes)} if nodes else {})
    metadata: dict[str, Any] = {"appliedOverlays": list(result.layers)}
    if result.mixins:
        metadata["appliedMixins"] = list(result.mixins)
    if result.profiles:
        metadata["profiles"] = dict(result.profiles)
    data: dict[str, Any] = {
        "apiVersion": result.api_version,
        "kind": "RecipeResult",
        "metadata": metadata,
        "criteria": {**criteria, **configured},
        "componentRefs": [component_data(component) for component in result.components],
        "deploymentOrder": list(result.order),
    }
    if result.constraints:
        data["constraints"] = [constraint_data(constraint) for constraint in result.constraints]
    if result.validation:
        data["validation"] = {name: phase_data(phase) for name, phase in result.validation.items()}
    return data


def manifest_texts(component: ComponentRef, catalogue: Catalogue) -> list[dict[str, str]]:
    """Return the manifest files of a component with their text, for an installer that does not have the catalogue.

    Raises:
        InputError: one cannot be read.
    """
    found = []
    for when, files in (("before", component.pre_manifest_files), ("after", component.manifest_files)):
        for name in files:
            path = catalogue.files.get(name)
            if unsafe_reason(name) or path is None:
                raise InputError(f"manifest file {name}", "does not exist in any tree.", OTHER_TREE)
            found.append({"when": when, "file": name, "text": read_text(path)})
    return found


def hydrated(result: RecipeResult, catalogue: Catalogue) -> dict[str, Any]:
    """Return the recipe for an installer: every enabled component with its chart `values` and `manifests`.

    A disabled component is provided from outside. It is only named in `metadata.disabled`, and nothing waits for it.

    Raises:
        InputError: a file cannot be read, or a component advertises GPUs beside an external advertiser.
    """
    require_one_advertiser(result, catalogue, component_values)
    data = plain(result)
    data.setdefault("constraints", [])
    enabled = {component.name for component in result.components if component.enabled}
    entries = []
    for component, entry in zip(result.components, data["componentRefs"], strict=True):
        if component.name in enabled:
            entry["values"] = component_values(component, catalogue)
            if asserts := installed_asserts(component, catalogue):
                entry["healthCheckAsserts"] = asserts
            quota = quota_manifests(component, result, catalogue)
            if quota:
                entry["preManifestFiles"] = [*(item["file"] for item in quota), *component.pre_manifest_files]
            if manifests := quota + manifest_texts(component, catalogue):
                entry["manifests"] = manifests
            entry["dependencyRefs"] = [name for name in component.dependency_refs if name in enabled]
            entries.append(entry)
    data["componentRefs"] = entries
    disabled = sorted(component.name for component in result.components if component.name not in enabled)
    if disabled:
        data["metadata"]["disabled"] = disabled
    return data


def self_contained(result: RecipeResult, catalogue: Catalogue) -> dict[str, Any]:
    """Return the recipe with all chart values in `overrides` and no values file, for a tool without our catalogue."""
    data = plain(result)
    for component, entry in zip(result.components, data["componentRefs"], strict=True):
        entry.pop("valuesFile", None)
        entry["overrides"] = component_values(component, catalogue)
    return data
