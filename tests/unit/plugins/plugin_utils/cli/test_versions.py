# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command versions: what is pinned, how old what was read of it is, and what a version of Kubernetes says to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpufleet_command import Command
from snapshot_api import cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import write_snapshot

VOLCANO = ("--service", "generic", "--accelerator", "h100", "--intent", "training", "--platform", "volcano")
NEWER = {
    "apiVersion": "gpufleet.bringup/v1",
    "kind": "RecipeMetadata",
    "metadata": {"name": "newer"},
    "spec": {
        "criteria": {"intent": "training"},
        "componentRefs": [{"name": "kube-prometheus-stack", "version": "88.5.3"}],
    },
}


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """Recipe data of a site that runs a newer chart than the release pins."""
    (tmp_path / "newer" / "overlays").mkdir(parents=True)
    (tmp_path / "newer" / "overlays" / "newer.yaml").write_text(yaml.safe_dump(NEWER), encoding="utf-8")
    return tmp_path / "newer"


def rows(gpufleet: Command, *argv: str) -> dict[str, dict[str, Any]]:
    ended = gpufleet("versions", *argv, "--format", "json")
    assert ended.code == 0
    return {row["name"]: row for row in json.loads(ended.out)["components"]}


def test_without_a_question_every_pin_is_listed_with_its_age(gpufleet: Command) -> None:
    ended = gpufleet("versions", "--format", "json")
    data = json.loads(ended.out)
    assert (ended.code, ended.err, data["kubernetes"]) == (0, "", "")
    found = {row["name"]: row for row in data["components"]}
    assert found["volcano"]["kubernetes"] | {"source": ""} == {"oldest": "1.24", "newest": "1.35", "source": ""}
    assert all(row["checked_days_ago"] >= 0 and row["source"] for row in (*found.values(), *data["images"]))
    assert {row["name"] for row in data["values"]} >= {"gpu-operator driver.version"}
    assert "support" not in found["volcano"]
    text = gpufleet("versions").out
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("volcano ")] == [
        ["volcano", found["volcano"]["version"]],
        ["volcano", "basic.image_tag_version"],
    ]


def test_a_kubernetes_newer_than_the_matrix_of_volcano_is_said(gpufleet: Command) -> None:
    asked = rows(gpufleet, *VOLCANO, "--kubernetes", "v1.36.0-eks-1")
    assert (asked["volcano"]["support"], asked["volcano"]["reason"]) == ("not met", "its project supports 1.24 to 1.35")
    assert (asked["gpu-operator"]["support"], asked["prometheus-adapter"]["support"]) == ("met", "unknown")
    ended = gpufleet("versions", *VOLCANO, "--kubernetes", "1.36", "--exit-code")
    line = next(line for line in ended.out.splitlines() if line.startswith("volcano "))
    assert (ended.code, line.endswith("1.24 to 1.35    not met")) == (8, True)
    assert "the recipe demands K8s.server.version >= 1.34: met" in ended.out
    assert gpufleet("versions", *VOLCANO, "--kubernetes", "1.35", "--exit-code").code == 0
    ended = gpufleet("versions", *VOLCANO, "--kubernetes", "1.33", "--exit-code")
    assert (ended.code, "the recipe demands K8s.server.version >= 1.34: not met" in ended.out) == (8, True)


def test_a_snapshot_says_the_kubernetes_and_the_criteria(gpufleet: Command, tmp_path: Path) -> None:
    api = everything([node("gpu01")], [])
    api.objects["/version"] = {**api.objects["/version"], "gitVersion": "v1.36.1-eks-113cf36"}
    place = tmp_path / "snapshot.json"
    write_snapshot(collect_cluster(cluster_of(api), "gpufleet.bringup 0.0.0"), str(place), lambda: cluster_of(api))
    found = rows(gpufleet, "--snapshot", str(place), "--intent", "training")
    assert "aws-efa" in found
    assert found["cert-manager"]["support"] == "not met"
    assert rows(gpufleet, "--snapshot", str(place), "--kubernetes", "1.35")["cert-manager"]["support"] == "met"


def test_of_a_newer_chart_nothing_is_known_and_its_pair_is_named(gpufleet: Command, newer: Path) -> None:
    found = rows(gpufleet, *VOLCANO, "--data", str(newer), "--kubernetes", "1.35")["kube-prometheus-stack"]
    assert found == {
        "name": "kube-prometheus-stack",
        "version": "88.5.3",
        "support": "unknown",
        "reason": "what was read is of 84.4.0",
    }
    ended = gpufleet("versions", "kube-prometheus-stack", *VOLCANO, "--data", str(newer))
    assert "88.5.3   never" in ended.out
    assert "prometheus-operator-crds 28.0.1, kube-prometheus-stack 88.5.3: they belong together" in ended.err


def test_what_a_private_directory_says_of_its_versions_counts(gpufleet: Command, newer: Path) -> None:
    (newer / "versions.yaml").write_text(
        "components:\n  kube-prometheus-stack: {of: 88.5.3, checked: 2026-11-29, source: its tag,\n"
        "    kubernetes: {oldest: '1.30', source: Chart.yaml}}\n",
        encoding="utf-8",
    )
    ended = gpufleet("versions", *VOLCANO, "--data", str(newer), "--kubernetes", "1.35", "--format", "json")
    found = {row["name"]: row for row in json.loads(ended.out)["components"]}["kube-prometheus-stack"]
    assert (found["support"], found["checked"], "nothing reads" in ended.err) == ("met", "2026-11-29", False)


def test_a_component_that_is_not_pinned_and_a_version_that_is_none_are_refused(gpufleet: Command) -> None:
    ended = gpufleet("versions", "volcan")
    assert (ended.code, "Did you mean 'volcano'?" in ended.err) == (3, True)
    ended = gpufleet("versions", "--kubernetes", "latest")
    assert (ended.code, "is not a version" in ended.err) == (2, True)
