# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command upgrade-check: between recipes, from a snapshot, from the cluster with what of others is at risk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpufleet_command import Command
from snapshot_api import PagedApi, cluster_of, everything, node

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm import helm as programs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import cluster as kube
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import write_snapshot
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot import app as taking
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Collected, CollectorResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Release as Listed

ASKED = ("--service", "eks", "--accelerator", "h100", "--intent", "training")
SECRETS = "/api/v1/secrets"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


def rows(gpufleet: Command, *argv: str) -> dict[str, dict[str, Any]]:
    ended = gpufleet("upgrade-check", *argv, "--format", "json")
    assert ended.code == 0, ended.err
    return {row["component"]: row for row in json.loads(ended.out)["components"]}


def changed(path: Path, **versions: str) -> Path:
    """Write the same recipe with other versions of components."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    for ref in data["componentRefs"]:
        ref["version"] = versions.get(ref["name"].replace("-", "_"), ref.get("version"))
    place = path.with_name("older.yaml")
    place.write_text(yaml.safe_dump(data), encoding="utf-8")
    return place


@pytest.fixture
def recipe(gpufleet: Command, tmp_path: Path) -> Path:
    """The recipe of the release in a file."""
    assert gpufleet("recipe", *ASKED, "-o", str(tmp_path / "recipe.yaml")).code == 0
    return tmp_path / "recipe.yaml"


@pytest.fixture
def older(recipe: Path) -> Path:
    """The same with versions of a year ago."""
    return changed(recipe, cert_manager="v1.17.2", gpu_operator="v26.3.0", nodewright_operator="v0.15.0", nfd="0.18.0")


def test_from_a_file_to_the_recipe_of_the_flags(gpufleet: Command, older: Path) -> None:
    found = rows(gpufleet, str(older), *ASKED)
    verdicts = {name: row["verdict"] for name, row in found.items() if row["verdict"] != "same"}
    assert verdicts == {
        "cert-manager": "blocked",
        "gpu-operator": "safe",
        "nodewright-operator": "manual",
        "nfd": "unknown",
    }
    assert found["gpu-operator"]["sources"] and found["cert-manager"]["sources"]
    assert all(row["support"] == "" and row["at_risk"] is None for row in found.values())
    ended = gpufleet("upgrade-check", str(older), *ASKED, "--exit-code")
    assert (ended.code, ended.err) == (8, "")
    lines = ended.out.splitlines()
    assert "cert-manager v1.17.2 -> v1.20.2: blocked" in lines
    assert "  do: install 1.18, then 1.19 first (overrides or a recipe directory pins the version)" in ended.out
    assert "gpu-operator v26.3.0 -> v26.7.0: safe" in lines
    assert any(line.startswith("  nothing that is recorded lies between (asked: docs.nvidia.com") for line in lines)
    assert lines[-1] == f"{len(found)} components: {len(found) - 4} same, 1 safe, 1 manual, 1 blocked, 1 unknown"


def test_the_same_recipe_needs_nobody(gpufleet: Command, recipe: Path) -> None:
    ended = gpufleet("upgrade-check", str(recipe), *ASKED, "--exit-code")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("same version: ")
    # In both directions: what goes back is blocked, and what is safe is no reason to end with 8.
    safe = changed(recipe, gpu_operator="v26.3.0")
    assert gpufleet("upgrade-check", str(safe), str(recipe), "--exit-code").code == 0
    assert rows(gpufleet, str(recipe), str(safe))["gpu-operator"]["verdict"] == "blocked"
    assert gpufleet("upgrade-check", str(recipe), str(safe), "--exit-code").code == 8
    assert gpufleet("upgrade-check", str(recipe), str(safe)).code == 0


def test_what_own_data_change_is_asked_without_a_second_recipe(gpufleet: Command, tmp_path: Path) -> None:
    newer = tmp_path / "newer" / "overlays" / "newer.yaml"
    newer.parent.mkdir(parents=True)
    layer = {
        "apiVersion": "gpufleet.bringup/v1",
        "kind": "RecipeMetadata",
        "metadata": {"name": "newer"},
        "spec": {
            "criteria": {"intent": "training"},
            "componentRefs": [{"name": "kube-prometheus-stack", "version": "88.5.3"}],
        },
    }
    newer.write_text(yaml.safe_dump(layer), encoding="utf-8")
    ended = gpufleet("upgrade-check", *ASKED, "--data", str(tmp_path / "newer"))
    assert "kube-prometheus-stack 84.4.0 -> 88.5.3: unknown" in ended.out
    assert "prometheus-operator-crds 28.0.1, kube-prometheus-stack 88.5.3: they belong together" in ended.err
    for wrong, words in (((), "nothing to compare with"), (("a", "b", "c"), "two at most")):
        ended = gpufleet("upgrade-check", *wrong, *ASKED)
        assert (ended.code, ended.err.startswith("gpufleet upgrade-check: "), words in ended.err) == (2, True, True)


def test_a_kubernetes_that_the_wanted_version_is_not_for_is_said(gpufleet: Command, recipe: Path) -> None:
    asked = ("upgrade-check", str(recipe), *ASKED, "--exit-code")
    ended = gpufleet(*asked, "--kubernetes", "1.36")
    assert (ended.code, "cert-manager v1.20.2 (its project supports 1.32 to 1.35)" in ended.out) == (8, True)
    found = rows(gpufleet, str(recipe), *ASKED, "--kubernetes", "1.36")["cert-manager"]
    assert (found["verdict"], found["support"]) == ("same", "not met")
    assert gpufleet(*asked, "--kubernetes", "1.35").code == 0
    assert gpufleet(*asked, "--kubernetes", "newest").code == 2


def test_what_goes_says_that_only_the_cluster_knows_what_of_others_goes_with_it(
    gpufleet: Command, recipe: Path, tmp_path: Path
) -> None:
    data = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    data["componentRefs"] = [ref for ref in data["componentRefs"] if ref["name"] != "kai-scheduler"]
    data["deploymentOrder"].remove("kai-scheduler")
    less = tmp_path / "less.yaml"
    less.write_text(yaml.safe_dump(data), encoding="utf-8")
    found = rows(gpufleet, str(recipe), str(less))["kai-scheduler"]
    assert (found["verdict"], found["at_risk"]["objects"]) == ("removed", {})
    assert "--snapshot cluster" in found["at_risk"]["unknown"]
    ended = gpufleet("upgrade-check", str(recipe), str(less), "--exit-code")
    assert (ended.code, "  objects of others at risk: not known: only the cluster knows" in ended.out) == (0, True)
    assert rows(gpufleet, str(less), str(recipe))["kai-scheduler"]["verdict"] == "added"


def releases(recipe: Path) -> dict[str, Release]:
    """What helm lists after a run installed that recipe."""
    refs = yaml.safe_load(recipe.read_text(encoding="utf-8"))["componentRefs"]
    charts = [ref for ref in refs if ref.get("chart")]
    return {
        f"{ref['namespace']}/{ref['name']}": Release(
            ref["name"], ref["namespace"], 1, "deployed", ref["chart"].rpartition("/")[2], ref["version"]
        )
        for ref in charts
    }


@pytest.mark.parametrize("whole", [True, False])
def test_from_a_snapshot_to_a_recipe(gpufleet: Command, older: Path, recipe: Path, tmp_path: Path, whole: bool) -> None:
    api = everything([node("gpu01")], [])
    api.objects["/version"] = {**api.objects["/version"], "gitVersion": "v1.36.1-eks-113cf36"}
    seen = collect_cluster(cluster_of(api), "gpufleet.bringup 0.0.0")
    result = CollectorResult(state=Collected.WHOLE if whole else Collected.FAILED, reason="" if whole else "no helm")
    listed = {
        key: Listed(chart=each.chart, version=each.chart_version, status=each.status, owner="gpufleet.bringup")
        for key, each in releases(older).items()
    }
    seen = replace(seen, collectors={**seen.collectors, "releases": result}, releases=listed if whole else {})
    place = tmp_path / "snapshot.json"
    write_snapshot(seen, str(place), lambda: cluster_of(api))
    by_flags = rows(gpufleet, "--snapshot", str(place), "--intent", "training")
    assert rows(gpufleet, str(recipe), "--snapshot", str(place))["nfd"] == by_flags["nfd"]
    if not whole:
        assert {row["verdict"] for row in by_flags.values()} == {"unknown"}
        assert "what is installed is not known: no helm" in by_flags["nfd"]["reason"]
        return
    assert by_flags["cert-manager"]["verdict"] == "blocked" and by_flags["cert-manager"]["support"] == "not met"
    assert (by_flags["nfd"]["verdict"], by_flags["nfd"]["found"]) == ("unknown", "0.18.0")
    assert by_flags["gpu-operator"]["verdict"] == "safe" and by_flags["aws-efa"]["verdict"] == "same"
    # Two that are named are compared with each other, and the snapshot says the rest.
    named = rows(gpufleet, str(recipe), str(recipe), "--snapshot", str(place))
    assert {row["verdict"] for row in named.values()} == {"same"}


class Answering(Cluster):
    """A cluster that answers in place of a socket."""

    api: PagedApi

    def __init__(self, _connection: Any, **_how: Any) -> None:
        self.transport = cluster_of(self.api).transport


class Program:
    """Helm, which lists releases and what each brought."""

    listed: dict[str, Release]

    def __init__(self, _connection: Any, **_how: Any) -> None:
        pass

    def releases(self) -> dict[str, Release]:
        return self.listed

    def manifest(self, _name: str, _namespace: str) -> str:
        return ""


@pytest.fixture
def cluster(older: Path, monkeypatch: pytest.MonkeyPatch) -> PagedApi:
    """A cluster on which a run of ours installed the older recipe, and a chart that no recipe has."""
    api = everything([node("gpu01")], [])
    listed = {**releases(older), "mpi/mpi": Release("mpi", "mpi", 1, "deployed", "mpi", "1.0.0")}
    labels = {"gpufleet.io/managed-by": "gpufleet.bringup", "owner": "helm", "version": "1"}
    api.lists[SECRETS] = [
        {"metadata": {"name": key, "namespace": key.partition("/")[0], "labels": {**labels, "name": each.name}}}
        for key, each in listed.items()
    ]
    for plural in ("daemonsets", "deployments", "statefulsets"):
        api.lists[f"/apis/apps/v1/{plural}"] = []
    monkeypatch.setattr(Answering, "api", api, raising=False)
    monkeypatch.setattr(Program, "listed", listed, raising=False)
    for room in (kube, taking):
        monkeypatch.setattr(room, "Cluster", Answering)
    for room in (programs, taking):
        monkeypatch.setattr(room, "Helm", Program)
    return api


def test_the_cluster_is_asked_what_is_installed_and_what_of_others_would_go(
    gpufleet: Command, cluster: PagedApi, recipe: Path, tmp_path: Path
) -> None:
    data = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    data["componentRefs"] = [ref for ref in data["componentRefs"] if ref["name"] != "gpu-operator"]
    for ref in data["componentRefs"]:
        ref["dependencyRefs"] = [name for name in ref.get("dependencyRefs") or () if name != "gpu-operator"]
    data["deploymentOrder"].remove("gpu-operator")
    less = tmp_path / "less.yaml"
    less.write_text(yaml.safe_dump(data), encoding="utf-8")
    cluster.objects["/apis/nvidia.com"] = {"versions": [{"version": "v1"}, {"version": "v1alpha1"}]}
    cluster.lists[POLICIES] = [{"metadata": {"name": "of-a-team"}}]
    found = rows(gpufleet, str(less), "--snapshot", "cluster")
    assert {name for name, row in found.items() if row["verdict"] == "removed"} == {"gpu-operator", "mpi"}
    assert found["cert-manager"]["verdict"] == "blocked"
    risk = found["gpu-operator"]["at_risk"]
    assert (risk["objects"]["clusterpolicies.nvidia.com"], risk["unknown"]) == (["of-a-team"], "")
    assert "not recorded" in found["mpi"]["at_risk"]["unknown"]
    said = gpufleet("upgrade-check", str(less), "--snapshot", "cluster").out
    assert "  objects of others at risk: 1 of clusterpolicies.nvidia.com (of-a-team); none of nvidiadrivers" in said
    cluster.refused[POLICIES] = UnavailableError("Kubernetes API list clusterpolicies", "forbidden.")
    said = gpufleet("upgrade-check", str(less), "--snapshot", "cluster").out
    assert "none of nvidiadrivers.nvidia.com; not known: Kubernetes API list clusterpolicies: forbidden" in said


def test_releases_that_may_not_be_read_are_unknown(gpufleet: Command, cluster: PagedApi, recipe: Path) -> None:
    cluster.refused[SECRETS] = UnavailableError("Kubernetes API list secrets", "forbidden.")
    ended = gpufleet("upgrade-check", str(recipe), "--snapshot", "cluster", "--exit-code")
    assert (ended.code, "same" in ended.out, "added" in ended.out) == (8, False, False)
    # Once, for all of them.
    assert ended.out.count("what is installed is not known: Kubernetes API list secrets: forbidden") == 1
    first, *rest = ended.out.splitlines()
    listed = yaml.safe_load(recipe.read_text(encoding="utf-8"))["deploymentOrder"]
    assert first.endswith(": unknown") and all(f"{name} (not known) -> " in first for name in listed)
    assert not any(line.startswith(name) for line in rest for name in listed)
