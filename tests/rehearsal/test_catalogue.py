# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of the catalogue that the seed draws, installed in turn on one cluster; `make rehearse-catalogue`: all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from catalogue_bench import LIMITS, CatalogueBench, Leaf, catalogue_bench, leaves, not_ready
from google_admission import NAME
from real_charts import POLICY, STEPS, found_charts, site_of
from seeds import drawing
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import (
    LOCAL_QUEUE,
    QUEUE,
    open_queue,
    why_held,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import kueue

DRAWN = 4
WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Chart.Name }}", labels: {chart: "{{ .Chart.Version }}"}}
spec:
  selector: {matchLabels: {app: tiny}}
  template: {metadata: {labels: {app: tiny}}, spec: {containers: [{name: tiny, image: "registry.example/works:1"}]}}
"""
CONVERTED = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: turns.tiny.example}
spec:
  group: tiny.example
  names: {kind: Turn, plural: turns}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: nobody, namespace: default}}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
    - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
"""
DAEMONS = WORKLOAD.replace("kind: Deployment", "kind: DaemonSet")
HOOK = """apiVersion: batch/v1
kind: Job
metadata: {name: first, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: first, image: "registry.example/first:1"}]}}}
"""
TURN = "apiVersion: tiny.example/v1beta1\nkind: Turn\nmetadata: {name: turn}\n"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogueBench]:
    with catalogue_bench(tmp_path_factory.mktemp("catalogue")) as made:
        yield made


def test_recipes_that_are_drawn_are_installed(bench: CatalogueBench) -> None:
    for leaf in drawing("catalogue").sample(leaves(), DRAWN):
        assert not_ready(bench.become(leaf.recipe)) == [], leaf.name
    # What is there already goes on where new pods are refused: the tests after this one begin with nothing.
    bench.clear()


def test_critical_pods_on_google_need_the_quotas_that_recipes_bring(bench: CatalogueBench) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "service=gke,platform=volcano")
    wanted = {"nvidia-dra-driver-gpu": "nvidia-dra-driver-gpu-controller", "volcano": "volcano-scheduler"}
    entries = [{**entry, "dependencyRefs": []} for entry in leaf["componentRefs"] if entry["name"] in wanted]
    spoiled = [{key: value for key, value in entry.items() if key not in ("manifests", "preManifestFiles")}
               for entry in entries]  # fmt: skip
    alone = {**leaf, "deploymentOrder": sorted(wanted)}
    wrong = not_ready(bench.become({**alone, "componentRefs": spoiled}, replace(LIMITS, ready_s=6)))
    assert [line.partition(": ")[0] for line in wrong] == sorted(wanted), wrong
    assert all(": not-ready" in line for line in wrong), wrong
    for entry in entries:
        live = bench.cluster.find(DEPLOYMENTS, wanted[entry["name"]], entry["namespace"]) or {}
        said = {one["type"]: one.get("message", "") for one in (live.get("status") or {}).get("conditions") or ()}
        assert NAME in said.get("ReplicaFailure", ""), said
    assert not_ready(bench.become({**alone, "componentRefs": entries})) == []


def test_the_controller_of_claims_is_placed_on_a_cluster_without_nodes_of_the_control_plane(
    bench: CatalogueBench,
) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "service=generic")
    name = "nvidia-dra-driver-gpu"
    entry = next({**entry, "dependencyRefs": []} for entry in leaf["componentRefs"] if entry["name"] == name)
    # What an empty mapping leaves of the chart's own.
    kept = {**entry, "values": merged_values({**entry["values"], "controller": {}}, {"controller": {"affinity": {}}})}
    alone = {**leaf, "deploymentOrder": [name]}
    (wrong,) = not_ready(bench.become({**alone, "componentRefs": [kept]}, replace(LIMITS, ready_s=6)))
    assert "didn't match Pod's node affinity" in wrong
    assert not_ready(bench.become({**alone, "componentRefs": [entry]})) == []


def test_a_pod_that_kai_groups_itself_is_in_no_gang_of_ours(bench: CatalogueBench) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "service=generic")
    entry = next({**entry, "dependencyRefs": []} for entry in leaf["componentRefs"] if entry["name"] == "kai-scheduler")
    assert not_ready(bench.become({**leaf, "deploymentOrder": ["kai-scheduler"], "componentRefs": [entry]})) == []
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "ranks", "uid": "1", "controller": True}

    def group(owners: list[dict[str, Any]], **more: str) -> Any:
        body = {
            "metadata": {
                "name": "rank-0",
                "ownerReferences": owners,
                "annotations": {"pod-group-name": "ranks", **more},
            },
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "rank", "image": "rehearsal/x:1"}]},
        }
        made = bench.cluster.transport.json("POST", f"{PODS.path('', 'default')}?dryRun=All", body=body)
        return (made["spec"].get("schedulingGroup") or {}).get("podGroupName")

    ours = {"kai.scheduler/skip-podgrouper": "true"}
    # The binding of a policy counts a moment after it was made.
    eventually(lambda: group([owner], **ours) == "ranks", what=lambda: group([owner], **ours))
    assert group([owner]) is None
    assert group([]) == "ranks"


def test_kueue_holds_a_job_of_a_test_until_its_queue_has_gpus_for_it(bench: CatalogueBench) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "platform=kueue")
    entry = next({**entry, "dependencyRefs": []} for entry in leaf["componentRefs"] if entry["name"] == "kueue")
    assert not_ready(bench.become({**leaf, "deploymentOrder": ["kueue"], "componentRefs": [entry]})) == []
    cluster = bench.cluster
    quota = {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}]
    cluster.apply(kueue.CLUSTER_QUEUES, {"metadata": {"name": "gpus"}, "spec": {"resourceGroups": groups}})

    def inactive() -> str:
        queue = cluster.find(kueue.CLUSTER_QUEUES, "gpus") or {}
        return next((one["message"] for one in queue.get("status", {}).get("conditions", ())), "")

    eventually(lambda: "missing ResourceFlavor(s): h100" in inactive(), what=inactive)
    cluster.apply(NAMESPACES, {"metadata": {"name": "held"}})
    with pytest.raises(InputError, match="admits no workloads"):
        open_queue(cluster, "held", {}, "gpus")
    cluster.apply(kueue.FLAVORS, {"metadata": {"name": "h100"}})
    eventually(lambda: "Can admit" in inactive(), what=inactive)
    open_queue(cluster, "held", {}, "gpus")
    # The webhook of a chart counts a moment after it was made.
    eventually(lambda: _create(cluster, "first", dry_run=True)["spec"].get("suspend"), what="a Job that is suspended")
    _create(cluster, "first")
    eventually(lambda: not _job(cluster, "first")["spec"]["suspend"], what=lambda: _job(cluster, "first"))
    _create(cluster, "second")
    said = eventually(lambda: why_held(cluster, "held", "second"), what=lambda: cluster.list_objects(kueue.WORKLOADS))
    assert "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed" in str(said)
    assert _job(cluster, "second")["spec"]["suspend"] is True


def _create(cluster: Cluster, name: str, *, dry_run: bool = False) -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "rank", "image": "rehearsal/x:1", **limits}]}
    metadata = {"name": name, "labels": {QUEUE: LOCAL_QUEUE}}
    body = {"metadata": metadata, "spec": {"template": {"spec": pod}}}
    return cluster.create(JOBS, body, "held", dry_run=dry_run)


def _job(cluster: Cluster, name: str) -> dict[str, Any]:
    return cluster.find(JOBS, name, "held") or {"spec": {"suspend": True}}


def test_a_component_that_kustomize_builds_is_installed_alone(bench: CatalogueBench) -> None:
    (leaf,) = (leaf.recipe for leaf in leaves() if leaf.name == "intent=training,platform=mpi-operator")
    entry = next(entry for entry in leaf["componentRefs"] if entry["name"] == "mpi-operator")
    assert entry["type"] == "Kustomize"
    alone = {**leaf, "deploymentOrder": ["mpi-operator"], "componentRefs": [{**entry, "dependencyRefs": []}]}
    assert not_ready(bench.become(alone)) == []
    assert bench.cluster.find(DEPLOYMENTS, "mpi-operator", entry["namespace"]) is not None
    (again,) = bench.become(alone)
    assert again.action.value == "unchanged"


def _tree(directory: Path, name: str, version: str, *templates: str, **about: Any) -> None:
    tree = directory / f"{name}-{version}"
    (tree / "templates").mkdir(parents=True)
    (tree / "Chart.yaml").write_text(json.dumps({"apiVersion": "v2", "name": name, "version": version, **about}))
    for number, text in enumerate(templates):
        (tree / "templates" / f"{number}.yaml").write_text(text)


@pytest.mark.long("seven charts installed, upgraded, put back and removed, of which three wait for what never comes")
def test_real_charts_take_the_place_of_stand_ins_and_what_a_site_refuses_is_told(
    bench: CatalogueBench, tmp_path: Path
) -> None:
    for version in ("1.0.0", "1.2.0"):
        _tree(
            tmp_path, "works", version, WORKLOAD, DAEMONS, HOOK, dependencies=[{"name": "nowhere", "version": "1.0.0"}]
        )
    _tree(tmp_path, "refused", "0.0.0-dev", WORKLOAD.replace("works:1", "works:refused"))
    _tree(tmp_path, "full", "1.0.0", WORKLOAD)
    _tree(tmp_path, "restricted", "1.0.0", WORKLOAD)
    _tree(tmp_path, "converted", "1.0.0", TURN)
    (tmp_path / "converted-1.0.0" / "crds").mkdir()
    (tmp_path / "converted-1.0.0" / "crds" / "turns.yaml").write_text(CONVERTED)
    names = ("works", "refused", "full", "restricted", "converted", "lws")
    level = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    bench.cluster.apply(NAMESPACES, {"metadata": {"name": "restricted", **level}})
    bench.cluster.apply(NAMESPACES, {"metadata": {"name": "full"}})
    quotas = Kind("v1", "ResourceQuota", "resourcequotas")
    bench.cluster.apply(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}, "full")
    refs = [{"name": name, "namespace": name, "chart": name, "version": "1.0.0", "type": "Helm", "source": "",
             "values": {}, "dependencyRefs": []} for name in names]  # fmt: skip
    recipe = {"criteria": {}, "componentRefs": refs, "deploymentOrder": list(names)}
    with site_of(bench, found_charts(tmp_path)) as site:
        rows = {row.component: row for row in site.life(Leaf("tiny", recipe), replace(LIMITS, ready_s=8))}
        assert site.lacking == {"works": "nowhere"}
    for name in ("works", "lws"):
        said = ["ready", "unchanged", "ready", "ready", "removed"]
        assert (rows[name].message, [rows[name].said[step] for step in STEPS]) == ("", said)
    for name, state, words in (
        ("refused", "failed", POLICY), ("full", "not-ready", "exceeded quota: none"),
        ("restricted", "not-ready", "violates PodSecurity"), ("converted", "failed", "conversion webhook"),
    ):  # fmt: skip
        assert rows[name].said["installed"] == state, rows[name]
        assert words in rows[name].message
        assert rows[name].said["removed"] in ("removed", "absent"), rows[name]
