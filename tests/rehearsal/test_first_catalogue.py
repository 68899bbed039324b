# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recipes of the first catalogue met at charts, controllers and clusters; those of today do not meet it.

tests/data/first_catalogue.json has what these recipes resolved to. Each test gives both to the same stand-in.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from chart_registry import ChartRegistry
from crd_schema import crd_schema
from first_catalogue import Pair, Stack, first_and_today, only_the_first
from helm_program import helm_program
from operator_view import a_deployment, a_policy, changes_of, meta, operand_sets, view_of
from real_behaviour import (
    VOLCANO_ENDS,
    devices_for_pods,
    left_untainted,
    loaded_by_nobody,
    refused_by_google,
    refused_by_openshift,
    unknown_fields,
    unplaced,
)
from rehearsal_harness import ROOT
from served import served

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.chart import chart_source
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    KAI_POD_GROUPS,
    KAI_QUEUES,
    NATIVE_POD_GROUPS,
    NIC_CLUSTER_POLICIES,
    RUNTIME_CLASSES,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import Renderer, rendered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import KAI, Queue, choose
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.chart import (
    FAULT_ANNOTATION,
    stand_in_for,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import (
    gpu_operator,
    kai_scheduler,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterFacts,
    cluster_facts_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes

pytestmark = pytest.mark.long("what an earlier catalogue met, which no change brings back but one of a stand-in")

Json = dict[str, Any]
GPU_NODE = {"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return first_and_today(helm_program(), tmp_path_factory.mktemp("mirror"))


@pytest.fixture(scope="module")
def facts() -> ClusterFacts:
    skus = load_hardware([ROOT / "recipes" / "hardware"])
    return cluster_facts_of(build_model(ModelSpec(name="t", seed=3, nodes=numbered_nodes(2, "dgx-h100")), skus), skus)


def test_kai_was_asked_for_at_an_address_without_its_name(pair: Pair) -> None:
    """ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler is where its chart is (README.md, installation)."""
    _first, today = pair("service=generic")
    component = today.component("kai-scheduler")
    (package,) = build_mirror(today.mirror, [component])
    named = chart_source(component["name"], component["chart"], component["version"], component["source"])
    with served(ChartRegistry({"kai-scheduler/kai-scheduler/kai-scheduler": package.read_bytes()})) as registry:

        def pulled(reference: str) -> str:
            here = reference.replace("ghcr.io", f"127.0.0.1:{registry.server_port}")
            argv = [str(today.helm), "show", "chart", here, "--version", component["version"], "--plain-http"]
            return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout

        assert "name" in pulled(named.reference)
        # The first client left the name out where the address ended with the same word.
        assert pulled(component["source"]) == ""


def test_the_controller_of_claims_waited_for_a_node_of_the_control_plane(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        return unplaced(
            stack.pod("nvidia-dra-driver-gpu", "nvidia-dra-driver-gpu-controller"), {"kubernetes.io/os": "linux"}
        )

    only_the_first(pair, "service=generic", met, "didn't match Pod's node affinity")


@pytest.mark.parametrize(
    ("component", "workload"),
    [
        ("nvidia-dra-driver-gpu", "nvidia-dra-driver-gpu-controller"),
        ("nvidia-dra-driver-gpu", "nvidia-dra-driver-gpu-kubelet-plugin"),
        ("volcano", "volcano-scheduler"),
    ],
)
def test_google_refused_critical_pods_outside_of_kube_system(component: str, workload: str, pair: Pair) -> None:
    def met(stack: Stack) -> str:
        return refused_by_google(stack.pod(component, workload), stack.manifests(component, "ResourceQuota"))

    only_the_first(pair, "service=gke,platform=volcano", met, "insufficient quota")


def test_a_tainted_node_of_google_got_no_plugin_for_claims(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        pod = stack.pod("nvidia-dra-driver-gpu", "nvidia-dra-driver-gpu-kubelet-plugin")
        return unplaced(pod, GPU_NODE, [GPU_TAINT])

    only_the_first(pair, "service=gke,platform=volcano", met, "untolerated taint {nvidia.com/gpu: present}")


def _policy(stack: Stack) -> Json:
    (found,) = stack.objects("gpu-operator", "ClusterPolicy")
    return found


def test_the_driver_waited_for_drivers_of_the_nics(pair: Pair, facts: ClusterFacts) -> None:
    def met(stack: Stack) -> str:
        policy = a_policy(**_policy(stack)["spec"])
        made = (RUNTIME_CLASSES, {"metadata": meta("nvidia"), "handler": "nvidia"})
        nics = [
            (NIC_CLUSTER_POLICIES, {**one, "metadata": meta("nics")}) for one in stack.manifests("network-operator")
        ]
        view = view_of(a_deployment("gpu-operator"), made, policy, *nics, *operand_sets(policy[1]))
        status = changes_of(gpu_operator.reconcile(view, facts), CLUSTER_POLICIES)[0].body["status"]
        return str(status["conditions"]) if status["state"] != "ready" else ""

    only_the_first(pair, "service=generic,fabric=infiniband", met, "states not ready: [state-driver")


def test_dynamo_refused_keys_that_it_had_removed(pair: Pair) -> None:
    leaf = "intent=inference,platform=dynamo"
    only_the_first(pair, leaf, lambda stack: stack.template("dynamo-platform")[1], ".enabled' has been removed")


def test_kuberay_looked_for_volcano(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        (operator,) = stack.objects("kuberay-operator", "Deployment")
        return str(operator["spec"]["template"]["metadata"].get("annotations", {}).get(FAULT_ANNOTATION, ""))

    only_the_first(pair, "platform=ray", met, "CrashLoopBackOff")


def test_what_kustomize_builds_was_no_component(pair: Pair) -> None:
    """The first installer took charts and plain manifests: what Kustomize has to build was neither."""
    _first, today = pair("intent=training,platform=mpi-operator")
    component = today.component("mpi-operator")
    assert component["type"] == "Kustomize" and not component.get("chart")
    build_mirror(today.mirror, [component])
    recipe = {
        **today.recipe,
        "componentRefs": [{**component, "dependencyRefs": []}],
        "deploymentOrder": ["mpi-operator"],
    }
    (built,) = rendered(recipe, Renderer(helm=str(today.helm), mirror=str(today.mirror)))["componentRefs"]
    assert "kind" in str(built["manifests"])


def test_gangs_asked_kai_for_a_queue_that_it_does_not_make(pair: Pair, facts: ClusterFacts) -> None:
    _first, today = pair("service=generic")
    queues = [{**one, "metadata": meta(one["metadata"]["name"])} for one in today.objects("kai-scheduler", "Queue")]

    def met(queue: str) -> str:
        group = (KAI_POD_GROUPS, {"metadata": meta("gang", "ns"), "spec": {"minMember": 3, "queue": queue}})
        view = view_of(a_deployment("kai-scheduler-default"), *((KAI_QUEUES, one) for one in queues), group)
        changes = kai_scheduler.reconcile(view, facts)
        return "" if changes_of(changes, NATIVE_POD_GROUPS) else str([change.body for change in changes])

    # `default` was in the thresholds of the first release.
    assert "QueueDoesNotExist" in met("default")
    there = (Queue(name=one["metadata"]["name"], parent=one["spec"].get("parentQueue", "")) for one in queues)
    assert met(choose(KAI, "", there).name) == ""


def test_nodes_were_used_before_they_were_tuned(pair: Pair) -> None:
    fresh = {"feature.node.kubernetes.io/pci-10de.present": "true"}

    def met(stack: Stack) -> list[str]:
        found = (left_untainted(one, fresh) for one in stack.manifests("nodewright-customizations", "Skyhook"))
        return [text for text in found if text]

    only_the_first(pair, "service=eks,accelerator=h100,intent=training", met, "without runtimeRequired")


def test_volcano_was_older_than_the_kubernetes_that_recipes_ask_for(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        wanted = int(_constraint(stack).rpartition(".")[2])
        newest = VOLCANO_ENDS[stack.component("volcano")["version"].removeprefix("v").rpartition(".")[0]]
        return f"ends at 1.{newest}" if newest < wanted else ""

    only_the_first(pair, "service=gke,platform=volcano", met, "ends at 1.33")


def _constraint(stack: Stack) -> str:
    """Return the oldest Kubernetes that a recipe asks for."""
    stated = stack.recipe["constraints"]
    pairs = stated.items() if isinstance(stated, dict) else ((entry["name"], entry["value"]) for entry in stated)
    return next(str(value).removeprefix(">= ") for name, value in pairs if name == "K8s.server.version")


def test_openshift_refused_the_adapter_its_user_and_its_view(pair: Pair) -> None:
    leaf = "service=ocp,os=rhel"
    only_the_first(
        pair, leaf, lambda stack: refused_by_openshift(stack.pod("prometheus-adapter", "prometheus-adapter")),
        "restricted-v2: .spec.securityContext.fsGroup",
    )  # fmt: skip

    def unseen(stack: Stack) -> str:
        bound = [one["roleRef"]["name"] for one in stack.manifests("prometheus-adapter", "ClusterRoleBinding")]
        return "" if "cluster-monitoring-view" in bound else "401 of thanos-querier"

    only_the_first(pair, leaf, unseen, "401")
    # resource.k8s.io/v1 is served from 1.34 on (kubernetes.io, blog: v1.34, DRA has graduated to GA).
    only_the_first(
        pair, leaf, lambda stack: "no claims" if int(_constraint(stack).rpartition(".")[2]) < 34 else "", "no claims"
    )


def test_on_openshift_kueue_came_before_what_signs_its_webhooks(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        needs = stack.component("kueue").get("dependencyRefs") or []
        return "" if "cert-manager-ocp-olm" in needs else f"kueue waits for {needs} alone"

    only_the_first(pair, "service=ocp,platform=kueue", met, "alone")


def test_slurm_had_no_volume_no_partition_and_no_gpus(pair: Pair) -> None:
    leaf = "intent=training,platform=slurm"

    def unbound(stack: Stack) -> list[str]:
        sets = stack.objects("slinky-slurm", "StatefulSet")
        claims = [claim for one in sets for claim in one["spec"].get("volumeClaimTemplates") or ()]
        return [f"{claim['metadata']['name']}: no storage class" for claim in claims
                if not claim["spec"].get("storageClassName")]  # fmt: skip

    def without_gpus(stack: Stack) -> list[str]:
        sets = [one for one in stack.objects("slinky-slurm", "StatefulSet") if "worker" in one["metadata"]["name"]]
        limits = [one["spec"]["template"]["spec"]["containers"][0]["resources"].get("limits") or {} for one in sets]
        return ["slurmd without GPUs"] if not limits or any("nvidia.com/gpu" not in one for one in limits) else []

    def closed(stack: Stack) -> list[str]:
        found = stack.values("slinky-slurm").get("partitions") or {}
        return [] if any(one.get("enabled") for one in found.values()) else ["no partition"]

    for met, says in ((unbound, "no storage class"), (without_gpus, "without GPUs"), (closed, "no partition")):
        only_the_first(pair, leaf, met, says)


def test_gpus_were_given_out_twice(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        plugin = stack.pod("nvidia-dra-driver-gpu", "nvidia-dra-driver-gpu-kubelet-plugin")
        claims = "gpus" in [entry["name"] for entry in plugin["containers"]]
        return "device plugin and claims" if claims and _policy(stack)["spec"]["devicePlugin"]["enabled"] else ""

    only_the_first(pair, "service=generic", met, "device plugin and claims")


def test_on_aks_the_collector_asked_for_a_runtime_class_that_nobody_makes(pair: Pair, facts: ClusterFacts) -> None:
    def met(stack: Stack) -> str:
        wanted = stack.pod("nvsentinel", "metadata-collector")["runtimeClassName"]
        policy = a_policy(**_policy(stack)["spec"])
        changes = gpu_operator.reconcile(view_of(a_deployment("gpu-operator"), policy), facts)
        made = [change.name for change in changes_of(changes, RUNTIME_CLASSES)]
        return "" if wanted in made else f'pod rejected: RuntimeClass "{wanted}" not found'

    only_the_first(pair, "service=aks", met, 'RuntimeClass "nvidia" not found')


def test_pods_got_no_devices_of_the_fabric(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        rendered_too = stack.objects("network-operator", "NicClusterPolicy")
        offered = devices_for_pods([*rendered_too, *stack.manifests("network-operator", "NicClusterPolicy")])
        return "" if offered else "Insufficient rdma/rdma_shared_device_a"

    only_the_first(pair, "service=generic,fabric=infiniband", met, "Insufficient rdma")


@pytest.mark.parametrize(
    ("leaf", "dropped"),
    [("service=generic", "driver.maxParallelUpgrades"), ("service=kind", "devicePlugin.affinity")],
)
def test_the_policy_had_fields_that_its_definition_drops(leaf: str, dropped: str, pair: Pair, shared: Path) -> None:
    schema = crd_schema(shared, "gpu-operator/clusterpolicies.nvidia.com", "v1")["properties"]["spec"]

    def met(stack: Stack) -> list[str]:
        # The chart reads dcgmExporter.config.create itself, and makes a ConfigMap of it.
        return [one for one in unknown_fields(_policy(stack)["spec"], schema) if one != "dcgmExporter.config.create"]

    only_the_first(pair, leaf, met, dropped)


def test_a_kubernetes_that_the_recipe_took_was_refused_by_a_chart(pair: Pair) -> None:
    def met(stack: Stack) -> str:
        return stack.template("nvidia-dra-driver-gpu", kubernetes=f"{_constraint(stack)}.0")[1]

    only_the_first(pair, "service=kind", met, "kubeVersion: >=1.32.0-0")


def test_modules_beside_the_operators_driver_were_asked_for_without_it(pair: Pair) -> None:
    only_the_first(pair, "service=oke,fabric=roce", lambda stack: loaded_by_nobody(_policy(stack)), "gdrcopy")


def test_a_control_plane_that_nobody_reaches_was_scraped(pair: Pair) -> None:
    def met(stack: Stack) -> list[str]:
        return [one["metadata"]["name"] for one in stack.objects("kube-prometheus-stack", "ServiceMonitor")]

    only_the_first(pair, "service=eks", met, "kube-scheduler")


@pytest.mark.parametrize(
    ("leaf", "name", "path"),
    [
        ("service=generic,fabric=infiniband", "network-operator", "nicConfigurationOperator.enabled"),
        ("intent=inference,platform=vllm", "vllm-stack", "routerSpec.tolerations"),
        ("intent=inference,platform=vllm", "vllm-stack", "routerSpec.nodeSelector"),
        ("intent=inference,platform=dynamo", "dynamo-platform", "dynamo-operator.controllerManager.nodeSelector"),
    ],
)
def test_what_a_user_set_changed_nothing(leaf: str, name: str, path: str, pair: Pair) -> None:
    """tests/unit/catalogue/test_values.py shows that it is refused today."""
    _first, today = pair(leaf)
    value: Any = "set"
    for step in reversed(path.split(".")):
        value = {step: value}
    assert today.template(name, values=value) == today.template(name)


def test_an_object_of_the_cluster_was_put_into_a_namespace(pair: Pair) -> None:
    scopes = {crd.kind: crd.scope for crd in stand_in_for("skyhook-operator").crds}

    def met(stack: Stack) -> list[str]:
        made = stack.manifests("nodewright-customizations")
        return [one["kind"] for one in made if scopes[one["kind"]] == "Cluster" and "namespace" in one["metadata"]]

    only_the_first(pair, "service=eks,accelerator=h100,intent=training", met, "Skyhook")


def test_an_image_moved(pair: Pair) -> None:
    def met(stack: Stack) -> list[str]:
        containers = stack.pod("vllm-stack", "vllm-stack-deployment-router")["containers"]
        return [entry["image"] for entry in containers if entry["image"].endswith(":latest")]

    only_the_first(pair, "intent=inference,platform=vllm", met, ":latest")


def test_a_name_that_nothing_reads_and_a_neighbour_that_nothing_needs_were_stated(pair: Pair) -> None:
    only_the_first(
        pair, "service=aks", lambda stack: [key for key in stack.values("nvsentinel") if key == "fullnameOverride"],
        "fullnameOverride",
    )  # fmt: skip
    leaf = "service=gke,platform=volcano"
    only_the_first(pair, leaf, lambda stack: stack.component("volcano").get("dependencyRefs"), "cert-manager")


def test_claims_looked_for_a_driver_where_the_hosts_is_not(pair: Pair) -> None:
    """The driver's owner chooses the layer today (unit test test_driver_layer.py). Here: what a recipe says of both."""

    def met(stack: Stack) -> str:
        root = stack.values("nvidia-dra-driver-gpu")["nvidiaDriverRoot"]
        owner = "operator" if _policy(stack)["spec"]["driver"]["enabled"] else "host"
        return "" if (root == "/run/nvidia/driver") is (owner == "operator") else f"{root}: driver of the {owner}"

    first, today = pair("service=generic")
    assert met(today) == met(first) == ""
    hosts = {"driver": {"enabled": False}}
    assert "driver of the host" in met(_overridden(first, hosts))


def _overridden(stack: Stack, values: Json) -> Stack:
    """Return a recipe with the hosts' driver, as the first catalogue took it: by an override of one component."""
    entries = [
        {**entry, "values": merged_values(entry["values"], values)} if entry["name"] == "gpu-operator" else entry
        for entry in stack.recipe["componentRefs"]
    ]
    return Stack({**stack.recipe, "componentRefs": entries}, stack.helm, stack.mirror)
