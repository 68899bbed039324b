# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's data resolves to what upstream's own tool makes of it, every combination of it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import parse_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import Criteria, parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.dialect import Dialect
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values, in_api, plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import over_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations

DIMENSIONS = ("service", "accelerator", "intent", "os", "platform")


def as_vector(criteria: Criteria, catalogue: Catalogue) -> dict[str, Any]:
    """Resolve, in the form of the vectors."""
    result = resolve(criteria, catalogue)
    # The vectors are answers of 0.11.1, which knows no newer API than this.
    data = plain(in_api(result, "aicr.nvidia.com/v1alpha1"))
    del data["criteria"]
    data["metadata"]["appliedOverlays"].sort()
    data["hydratedValues"] = {c.name: component_values(c, catalogue) for c in result.components}
    return data


def test_every_combination_of_the_matrix(upstream: Catalogue, shared: Path) -> None:
    matrix = json.loads((shared / "vectors" / "upstream-0.11.1-matrix.json").read_text(encoding="utf-8"))
    wanted = {name: dict(recipe) for name, recipe in matrix["recipes"].items()}
    for recipe in wanted.values():
        overlays = sorted(recipe["metadata"]["appliedOverlays"])
        recipe["metadata"] = {"appliedOverlays": overlays}
    different = [
        combination
        for combination, name in matrix["criteria"].items()
        if as_vector(_criteria(combination, upstream), upstream) != wanted[name]
    ]
    assert len(matrix["criteria"]) == 1349
    assert different == []


def _criteria(combination: str, catalogue: Catalogue) -> Criteria:
    return parse_criteria(dict(zip(DIMENSIONS, combination.split("/"), strict=True)), catalogue.vocabulary)


def test_a_sample_of_the_current_dialect(shared: Path) -> None:
    """Chart values and health check of every component, as upstream's binary of July 2026 has them for its own tree."""
    catalogue = load_catalogue([shared / "upstream" / "aicr-2026-07" / "recipes"])
    compared, different = 0, []
    with gzip.open(shared / "vectors" / "upstream-2026-07-sample.jsonl.gz", "rt", encoding="utf-8") as lines:
        for answer in map(json.loads, lines):
            if "hydrated" not in answer:
                continue
            result = resolve(parse_criteria(answer["q"], catalogue.vocabulary), catalogue)
            checks = {ref["name"]: ref.get("healthCheckAsserts", "") for ref in answer["recipe"]["componentRefs"]}
            assert {c.name: c.health_check_asserts for c in result.components} == checks
            for component in result.components:
                wanted = answer["hydrated"]["components"][component.name].get("values") or {}
                compared += 1
                if component_values(component, catalogue) != wanted:
                    different.append((answer["q"], component.name))
    assert compared > 3000
    assert different == []


@pytest.mark.parametrize(
    ("low", "high", "current", "first"),
    [
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}, {"a": None, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}, {"a": {"b": None, "c": 2}}),
        # What no file has is a default of the chart.
        ({}, {"a": None, "b": {"c": None}}, {"a": None, "b": {"c": None}}, {"a": None, "b": {"c": None}}),
        ({"a": {"b": 1}}, {"a": {"c": None}}, {"a": {"b": 1, "c": None}}, {"a": {"b": 1, "c": None}}),
        ({"a": None}, {"a": None}, {}, {"a": None}),
        ({"a": None}, {"b": 1}, {"a": None, "b": 1}, {"a": None, "b": 1}),
        ({"a": None}, {"a": {"b": None}}, {"a": {"b": None}}, {"a": {"b": None}}),
        ({"a": [1]}, {"a": [None]}, {"a": [None]}, {"a": [None]}),
    ],
)
def test_null_over_a_values_file(low: Any, high: Any, current: Any, first: Any) -> None:
    before = json.dumps([low, high])
    assert over_values(low, high, Dialect.CURRENT) == current
    assert over_values(low, high, Dialect.FIRST) == first
    assert json.dumps([low, high]) == before


def test_no_storage_is_written_as_null_in_our_own_catalogue(own: Catalogue) -> None:
    """A volume that is null beside a claim is refused by the API server under server-side apply."""
    seen = 0
    for service in ("eks", "aks", "gke", "oke", "lke"):
        result = resolve(parse_criteria({"service": service}, own.vocabulary), own)
        component = next(c for c in result.components if c.name == "kube-prometheus-stack")
        storage = component_values(component, own)["prometheus"]["prometheusSpec"]["storageSpec"]
        assert "emptyDir" not in storage and storage["volumeClaimTemplate"], service
        seen += 1
    assert seen == 5


def test_the_empty_question_is_an_error(upstream: Catalogue) -> None:
    with pytest.raises(InputError, match="none is stated"):
        resolve(parse_criteria({"service": "any"}, upstream.vocabulary), upstream)


def test_deployment_orders(upstream: Catalogue, own: Catalogue, shared: Path) -> None:
    catalogues = {"upstream-0.11.1": upstream, "own-catalog": own}
    vectors = yaml.safe_load((shared / "vectors" / "deployment-orders.yaml").read_text(encoding="utf-8"))
    for vector in vectors:
        catalogue = catalogues[vector["data"]]
        result = resolve(parse_criteria(vector["criteria"], catalogue.vocabulary), catalogue)
        assert list(result.order) == vector["order"]


def _by_name(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in recipe["componentRefs"]}


# Where ours differs on purpose: neither chart nor ClusterPolicy of the GPU operator takes an affinity of an operand
# (NVIDIA/gpu-operator at v26.7.0, deployments/gpu-operator/values.yaml, api/nvidia/v1/clusterpolicy_types.go).
NOT_READ = {"gpu-operator": ("dcgmExporter", "devicePlugin", "gfd", "validator")}


def _read(name: str, overrides: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The overrides without what no chart reads."""
    if overrides is None or name not in NOT_READ:
        return None if overrides is None else dict(overrides)
    found = {}
    for key, value in overrides.items():
        kept = {k: v for k, v in value.items() if k != "affinity"} if key in NOT_READ[name] else value
        found |= {key: kept} if kept else {}
    return found


def test_kind_and_a100_from_our_own_catalogue(own: Catalogue, shared: Path) -> None:
    vector = yaml.safe_load((shared / "vectors" / "recipe-kind-a100.yaml").read_text(encoding="utf-8"))
    ours = plain(resolve(parse_criteria(vector["criteria"], own.vocabulary), own))
    assert ours["deploymentOrder"] == vector["deploymentOrder"]
    assert ours["criteria"] == vector["criteria"]
    assert ours["metadata"]["appliedOverlays"] == vector["metadata"]["appliedOverlays"]
    mine, theirs = _by_name(ours), _by_name(vector)
    assert set(mine) == set(theirs)
    for name, wanted in theirs.items():
        assert mine[name].get("overrides") == _read(name, wanted.get("overrides")), name
        assert mine[name].get("dependencyRefs") == wanted.get("dependencyRefs"), name
        assert mine[name]["namespace"] == wanted["namespace"]
        assert parse_version(mine[name]["version"]).padded >= parse_version(wanted["version"]).padded, name
    conformance = vector["validation"]["conformance"]["checks"]
    assert ours["validation"]["conformance"]["checks"] == conformance


def test_upstream_trees_of_other_vintages_resolve(upstream_tree: Path) -> None:
    """Every combination that a tree is for gives a recipe; GPUFLEET_UPSTREAM_TREES names further trees."""
    more = [Path(path) for path in os.environ.get("GPUFLEET_UPSTREAM_TREES", "").split(os.pathsep) if path]
    for tree in [upstream_tree, *more]:
        catalogue = load_catalogue([tree])
        combinations = list(supported_combinations(catalogue))
        assert combinations, tree
        for criteria in combinations:
            assert resolve(criteria, catalogue).order, (tree, criteria)


def test_the_unread_manifest_namespace_is_not_lost(upstream: Catalogue) -> None:
    """Upstream ignores the registry's `manifest.defaultNamespace`, so this component has no namespace there."""
    stated = {"service": "gke", "os": "cos", "accelerator": "h100", "intent": "training"}
    component = resolve(parse_criteria(stated, upstream.vocabulary), upstream).component("gke-nccl-tcpxo")
    assert component is not None
    assert component.namespace == "kube-system"
