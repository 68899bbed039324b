# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of the catalogue that the seed draws, installed in turn on one cluster; `make rehearse-catalogue`: all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from catalogue_bench import LIMITS, CatalogueBench, catalogue_bench, leaves, not_ready
from google_admission import NAME
from seeds import drawing

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import DEPLOYMENTS

DRAWN = 2


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogueBench]:
    with catalogue_bench(tmp_path_factory.mktemp("catalogue")) as made:
        yield made


def test_recipes_that_are_drawn_are_installed(bench: CatalogueBench) -> None:
    for leaf in drawing("catalogue").sample(leaves(), DRAWN):
        assert not_ready(bench.become(leaf.recipe)) == [], leaf.name


def test_volcano_on_google_needs_the_quota_that_its_recipe_brings(bench: CatalogueBench) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "service=gke,platform=volcano")
    entry = next(entry for entry in leaf["componentRefs"] if entry["name"] == "volcano")
    without = {key: value for key, value in entry.items() if key not in ("manifests", "preManifestFiles")}
    alone = {**leaf, "deploymentOrder": ["volcano"]}
    short = replace(LIMITS, ready_s=6)
    (wrong,) = not_ready(bench.become({**alone, "componentRefs": [{**without, "dependencyRefs": []}]}, short))
    assert wrong.startswith("volcano: not-ready"), wrong
    live = bench.cluster.find(DEPLOYMENTS, "volcano-scheduler", "volcano-system") or {}
    said = {entry["type"]: entry.get("message", "") for entry in (live.get("status") or {}).get("conditions") or ()}
    assert NAME in said.get("ReplicaFailure", ""), said
    assert not_ready(bench.become({**alone, "componentRefs": [{**entry, "dependencyRefs": []}]})) == []


def test_a_component_that_kustomize_builds_is_installed_alone(bench: CatalogueBench) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "intent=training,platform=mpi-operator")
    entry = next(entry for entry in leaf["componentRefs"] if entry["name"] == "mpi-operator")
    assert entry["type"] == "Kustomize"
    alone = {**leaf, "deploymentOrder": ["mpi-operator"], "componentRefs": [{**entry, "dependencyRefs": []}]}
    assert not_ready(bench.become(alone)) == []
    assert bench.cluster.find(DEPLOYMENTS, "mpi-operator", entry["namespace"]) is not None
    (again,) = bench.become(alone)
    assert again.action.value == "unchanged"
