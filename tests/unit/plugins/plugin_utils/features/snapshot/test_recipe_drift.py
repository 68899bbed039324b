# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift of a cluster from a recipe: components and constraints, and nothing passed that was not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from snapshot_api import cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import Importance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.recipe_drift import (
    drift_from_recipe,
    resolved_recipe,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    Collected,
    CollectorResult,
    Release,
    Snapshot,
    Workload,
)

RECIPE: dict[str, Any] = {
    "componentRefs": [
        {
            "name": "gpu-operator",
            "namespace": "gpu-operator",
            "type": "Helm",
            "chart": "gpu-operator",
            "version": "v26.7.0",
            "source": "https://charts.example",
        }
    ],
    "deploymentOrder": ["gpu-operator"],
    "constraints": [
        {"name": "K8s.server.version", "value": ">= 1.32.4"},
        {"name": "OS.release.ID", "value": "ubuntu"},
        {"name": "OS.sysctl./proc/sys/kernel/osrelease", "value": ">= 6.8"},
    ],
}
RELEASE = Release(chart="gpu-operator", version="v26.7.0", status="deployed")


def snapshot(release: Release | None = RELEASE, **changes: Any) -> Snapshot:
    seen = collect_cluster(cluster_of(everything([node("gpu01"), node("gpu02")], [])), "gpufleet.bringup 0.0.0")
    collectors = {**seen.collectors, "releases": CollectorResult(state=Collected.WHOLE)}
    releases = {"gpu-operator/gpu-operator": release} if release else {}
    return replace(seen, collectors=collectors, releases=releases, **changes)


def test_a_cluster_that_is_as_the_recipe_wants_has_no_drift() -> None:
    drift = drift_from_recipe(RECIPE, snapshot())
    assert (drift.changes, drift.not_compared, drift.incomplete) == ((), (), False)


@pytest.mark.parametrize(
    ("release", "path", "after"),
    [
        (None, "component", "not there"),
        (replace(RELEASE, version="v25.3.4"), "component.version", "v25.3.4"),
        (replace(RELEASE, status="failed"), "component.status", "failed"),
    ],
)
def test_a_component_that_differs_is_told_once(release: Release | None, path: str, after: str) -> None:
    (change,) = drift_from_recipe(RECIPE, snapshot(release)).changes
    assert (change.path, change.subjects, change.after) == (path, ("gpu-operator",), after)
    assert change.importance is (Importance.CRITICAL if path == "component" else Importance.HIGH)


@pytest.mark.parametrize(
    ("wanted", "installed", "differs"),
    [
        ("1.18.2", "v1.18.2", False),
        ("v1.18.2", "1.18.2", False),
        ("v1.18", "1.18.0", False),
        ("1.18.2", "v1.18.20", True),
        ("1.18.2", "v1.18.2-rc.1", True),
        ("1.18.2", "1.18.2+build.1", True),
        ("1.18.2", "", True),
        ("main", "vmain", True),
        ("main", "main", False),
    ],
)
def test_versions_of_charts_are_compared_as_helm_reads_them(wanted: str, installed: str, differs: bool) -> None:
    recipe = RECIPE | {"componentRefs": [RECIPE["componentRefs"][0] | {"version": wanted}]}
    changes = drift_from_recipe(recipe, snapshot(replace(RELEASE, version=installed))).changes
    assert [change.path for change in changes] == ["component.version"] * differs


def test_a_component_that_argo_cd_rendered_is_there_without_a_release() -> None:
    """argoproj/argo-cd docs/user-guide/helm.md: charts are rendered by helm template, and no release is kept."""
    image = "nvcr.io/nvidia/gpu-operator:v26.7.0"
    runs = {"Deployment gpu-operator/gpu-operator": Workload(images={"gpu-operator": (image,)})}
    (change,) = drift_from_recipe(RECIPE, snapshot(None, workloads=runs)).changes
    assert (change.path, change.importance) == ("component.release", Importance.HIGH)
    assert change.after == "no Helm release, Deployment gpu-operator/gpu-operator runs it"
    # What the operator made for its nodes outlives it, and is not the operator.
    left = {"DaemonSet gpu-operator/nvidia-operator-validator": Workload(images={"validator": (image,)})}
    (change,) = drift_from_recipe(RECIPE, snapshot(None, workloads=left)).changes
    assert (change.path, change.importance) == ("component", Importance.CRITICAL)


def test_a_constraint_that_does_not_hold_is_told_with_the_nodes_that_break_it() -> None:
    seen = snapshot()
    old = {**seen.nodes, "gpu02": replace(seen.nodes["gpu02"], kernel="5.15.0-1050-aws")}
    (change,) = drift_from_recipe(RECIPE, replace(seen, nodes=old)).changes
    assert (change.path, change.before, change.after) == ("constraint", ">= 6.8", "gpu02=5.15.0-1050-aws")


def test_what_was_not_seen_is_no_peace() -> None:
    seen = snapshot()
    failed = CollectorResult(state=Collected.FAILED, reason="forbidden")
    for collector in ("releases", "nodes"):
        drift = drift_from_recipe(RECIPE, replace(seen, collectors={**seen.collectors, collector: failed}))
        assert drift.incomplete and drift.reaches(Importance.CRITICAL) and drift.not_compared
    assert drift_from_recipe(RECIPE, replace(seen, nodes={})).incomplete
    unknown = {**RECIPE, "constraints": [{"name": "GPU.smi.driver", "value": ">= 580"}]}
    assert "GPU.smi.driver was not measured" in drift_from_recipe(unknown, seen).not_compared[0]


def test_a_file_that_is_no_resolved_recipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "overlay.yaml"
    path.write_text("kind: RecipeMetadata\n", encoding="utf-8")
    with pytest.raises(InputError, match="no resolved recipe"):
        resolved_recipe(path)
