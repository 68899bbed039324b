# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values with which a real chart would refuse, wait for ever or do nothing: the sources stand beside the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cloud_storage import CLASSES

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.chart import chart_source
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.overrides import with_overrides
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations

from .conftest import Recipe

Ask = Callable[..., Recipe]
Json = dict[str, Any]
MANAGED = ("eks", "gke", "aks", "oke", "lke", "togetherai")


@pytest.fixture(scope="module")
def every(catalogue: Catalogue) -> list[tuple[dict[str, str], dict[str, Json]]]:
    """Every supported question with its components, by name, with their values."""
    found = []
    for criteria in supported_combinations(catalogue):
        data = hydrated(resolve(criteria, catalogue), catalogue)
        found.append((criteria.to_dict(), {entry["name"]: entry for entry in data["componentRefs"]}))
    return found


def values(component: Json) -> Json:
    found: Json = component.get("values") or {}
    return found


def documents(directory: Path) -> Iterator[Json]:
    for path in sorted(directory.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def test_the_address_of_kai_ends_with_its_name_twice(catalogue: Catalogue) -> None:
    entry = catalogue.registry["kai-scheduler"]
    source, version = entry.default("helm", "defaultRepository"), entry.default("helm", "defaultVersion")
    found = chart_source("kai-scheduler", "kai-scheduler", version, source)
    assert found.reference == "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"


def test_the_dra_driver_needs_no_node_of_the_control_plane_and_minds_no_taint(every: Any) -> None:
    for question, components in every:
        found = values(components["nvidia-dra-driver-gpu"])
        # An empty mapping is merged over the chart's own affinity and changes nothing.
        assert found["controller"]["affinity"] is None, question
        for part in ("controller", "kubeletPlugin"):
            assert {"operator": "Exists"} in found[part]["tolerations"], question


def test_no_recipe_waits_for_a_driver_of_the_nics_that_nothing_brings(every: Any) -> None:
    for question, components in every:
        for entry in components.values():
            if entry["name"] == "gpu-operator":
                assert values(entry)["driver"]["rdma"] == {"enabled": False, "useHostMofed": False}, question
            assert "ofedDriver" not in str(entry.get("manifests")).replace("no ofedDriver", "")


def test_dynamo_gets_no_key_that_its_chart_removed(recipe: Ask) -> None:
    found = values(recipe(service="eks", intent="inference", platform="dynamo")["components"]["dynamo-platform"])
    assert not {"etcd", "nats", "grove", "kai-scheduler"} & set(found)
    assert found["global"]["grove"] == found["global"]["kai-scheduler"] == {"install": False, "enabled": True}
    assert not found["global"]["etcd"]["install"]
    assert not found["global"]["nats"]["install"]


def test_kuberay_asks_for_the_scheduler_that_the_recipe_has(every: Any) -> None:
    asked = 0
    for question, components in every:
        if "kuberay-operator" in components:
            assert values(components["kuberay-operator"])["batchScheduler"] == {"name": "kai-scheduler"}
            assert question.get("service", "any") == "any" or "kai-scheduler" in components
            asked += 1
    assert asked


def test_a_node_is_tainted_until_it_is_tuned(repository: Path) -> None:
    directory = repository / "recipes/components/nodewright-customizations/manifests"
    found = {doc["metadata"]["name"] + str(number): doc for number, doc in enumerate(documents(directory))}
    assert len(found) == 5
    for doc in found.values():
        # Cluster-scoped, and matched by what is known before any GPU pod runs.
        assert "namespace" not in doc["metadata"]
        assert set(doc["spec"]["nodeSelectors"]["matchLabels"]) == {"feature.node.kubernetes.io/pci-10de.present"}
        if doc["spec"]["packages"]:
            assert doc["spec"]["runtimeRequired"]
            assert doc["spec"]["autoTaintNewNodes"]


def test_volcano_serves_the_kubernetes_that_recipes_ask_for(catalogue: Catalogue, recipe: Ask) -> None:
    found = recipe(service="generic", platform="volcano")
    assert found["components"]["volcano"]["version"] == "1.15.1"
    assert values(found["components"]["volcano"])["basic"]["image_tag_version"] == "v1.15.1"
    assert not found["components"]["volcano"]["dependencyRefs"]


def test_every_recipe_asks_for_a_kubernetes_that_serves_claims(every: Any, catalogue: Catalogue) -> None:
    for criteria in supported_combinations(catalogue):
        constraints = {item.name: item.value for item in resolve(criteria, catalogue).constraints}
        assert constraints["K8s.server.version"] == ">= 1.34", criteria


def test_openshift_gives_the_adapter_its_user_and_its_view(recipe: Ask) -> None:
    found = recipe(service="ocp", os="rhel")["components"]["prometheus-adapter"]
    assert values(found)["podSecurityContext"] == {"fsGroup": None}
    assert values(found)["securityContext"] == {"runAsUser": None}
    (binding,) = (yaml.safe_load(one["text"]) for one in found["manifests"])
    assert binding["roleRef"]["name"] == "cluster-monitoring-view"


@pytest.mark.parametrize(
    ("intent", "platform", "component"),
    [
        ("training", "kueue", "kueue"),
        ("training", "slurm", "slinky-slurm-operator"),
        ("inference", "nim", "k8s-nim-operator"),
        ("training", "kubeflow", "kubeflow-trainer"),
        ("inference", "dynamo", "dynamo-platform"),
        ("inference", "vllm", "agentgateway"),
    ],
)
def test_on_openshift_cert_manager_comes_first_too(intent: str, platform: str, component: str, recipe: Ask) -> None:
    found = recipe(service="ocp", intent=intent, platform=platform)
    assert "cert-manager-ocp-olm" in found["components"][component]["dependencyRefs"]
    order = found["deploymentOrder"]
    assert order.index("cert-manager-ocp-olm") < order.index(component)


def test_slurm_has_a_partition_gpus_and_a_volume_only_where_there_is_a_class(recipe: Ask) -> None:
    stated = {"intent": "training", "platform": "slurm"}
    found = values(recipe(service="generic", **stated)["components"]["slinky-slurm"])
    assert found["partitions"]["all"]["enabled"]
    assert "AutoDetect=nvidia" in found["configFiles"]["gres.conf"]
    assert found["nodesets"]["slinky"]["slurmd"]["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert found["nodesets"]["slinky"]["extraConfMap"]["Gres"] == ["gpu:8"]
    assert found["controller"]["persistence"] == {"enabled": False}
    cloud = values(recipe(service="eks", **stated)["components"]["slinky-slurm"])
    assert cloud["controller"]["persistence"] == {"enabled": True, "storageClassName": "gp3"}


def _classes_named(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            if key == "storageClassName" and below:
                yield str(below)
            yield from _classes_named(below)


def test_every_volume_is_of_a_class_that_the_cluster_has(every: Any) -> None:
    asked = 0
    for question, components in every:
        brought = {
            entry["name"] for entry in values(components.get("aws-ebs-csi-driver", {})).get("storageClasses", ())
        }
        there = {*CLASSES.get(question.get("service", ""), ()), *brought}
        for entry in components.values():
            named = set(_classes_named(values(entry)))
            assert named <= there, (question, entry["name"])
            asked += len(named)
    assert asked


def test_on_aks_everything_asks_for_the_runtime_class_that_the_operator_makes(recipe: Ask) -> None:
    found = recipe(service="aks", accelerator="h100")["components"]
    made = values(found["gpu-operator"])["operator"]["runtimeClass"]
    assert values(found["nvsentinel"])["metadata-collector"]["runtimeClassName"] == made


@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
@pytest.mark.parametrize("service", ["generic", "rke2", "k3s", "k0s", "bcm"])
def test_an_rdma_fabric_comes_with_devices_for_pods(service: str, fabric: str, recipe: Ask) -> None:
    found = recipe(service=service, fabric=fabric)["components"]["network-operator"]
    (policy,) = (yaml.safe_load(one["text"]) for one in found["manifests"])
    assert policy["kind"] == "NicClusterPolicy"
    assert "rdma_shared_device_a" in policy["spec"]["rdmaSharedDevicePlugin"]["config"]
    assert ("nicConfigurationOperator" in policy["spec"]) is (fabric == "roce")
    assert "nicConfigurationOperator" not in values(found)


def test_a_module_of_the_operators_driver_is_not_asked_for_beside_the_hosts(every: Any) -> None:
    for question, components in every:
        found = values(components.get("gpu-operator", {}))
        if found and not found["driver"]["enabled"]:
            assert not found["gdrcopy"]["enabled"], question


def test_the_clouds_control_planes_are_not_scraped(recipe: Ask) -> None:
    for service in MANAGED:
        found = values(recipe(service=service)["components"]["kube-prometheus-stack"])
        for name in ("kubeControllerManager", "kubeEtcd", "kubeScheduler"):
            assert found[name] == {"enabled": False}, service
    own = values(recipe(service="generic")["components"]["kube-prometheus-stack"])
    assert not {"kubeControllerManager", "kubeEtcd", "kubeScheduler"} & set(own)


def test_google_admits_pods_of_system_priority_by_a_quota(recipe: Ask) -> None:
    found = recipe(service="gke", platform="volcano")["components"]
    for name in ("gpu-operator", "nvidia-dra-driver-gpu", "volcano"):
        quotas = [yaml.safe_load(one["text"]) for one in found[name]["manifests"] if one["when"] == "before"]
        assert [doc["metadata"]["namespace"] for doc in quotas] == [found[name]["namespace"]]
    other = recipe(service="eks", platform="volcano")["components"]
    assert not other["volcano"].get("manifests")


def test_no_image_of_ours_moves(recipe: Ask) -> None:
    found = values(recipe(service="generic", intent="inference", platform="vllm")["components"]["vllm-stack"])
    assert found["routerSpec"]["tag"] not in ("", "latest")


DEAD = {
    "gpu-operator": [
        "daemonsets.nodeSelector", "dcgmExporter.affinity", "devicePlugin.affinity", "gfd.affinity",
        "operator.defaultRuntime", "validator.affinity",
    ],
    "network-operator": ["nicConfigurationOperator.enabled"],
    "dynamo-platform": ["dynamo-operator.controllerManager.nodeSelector"],
    "vllm-stack": ["routerSpec.nodeSelector", "routerSpec.tolerations"],
}  # fmt: skip


@pytest.mark.parametrize("name", DEAD)
def test_a_path_that_the_chart_does_not_read_is_not_in_the_registry(name: str, catalogue: Catalogue) -> None:
    data = str(catalogue.registry[name].data)
    assert not [path for path in DEAD[name] if repr(path) in data]


@pytest.mark.parametrize("name", DEAD)
def test_an_override_of_such_a_path_is_refused(name: str, catalogue: Catalogue) -> None:
    platform = {"dynamo-platform": "dynamo", "vllm-stack": "vllm"}.get(name)
    stated = {"service": "generic", "intent": "inference", **({"platform": platform} if platform else {})}
    result = resolve(parse_criteria(stated, catalogue.vocabulary), catalogue)
    for path in DEAD[name]:
        given: Any = {}
        for step in reversed(path.split(".")):
            given = {step: given or {"a": "b"}}
        with pytest.raises((InputError, ProblemsError), match="is not a known value"):
            with_overrides(result, catalogue, {name: given})


def test_upgrades_of_drivers_are_limited_where_the_operator_reads_it(recipe: Ask) -> None:
    driver = values(recipe(service="generic", os="ubuntu")["components"]["gpu-operator"])["driver"]
    assert driver["upgradePolicy"] == {"maxParallelUpgrades": 5}
    assert "maxParallelUpgrades" not in driver


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield str(key)
            yield from _keys(below)
    elif isinstance(value, list):
        for entry in value:
            yield from _keys(entry)


def test_kind_keeps_operands_off_its_control_plane_by_a_label_and_no_affinity(recipe: Ask, repository: Path) -> None:
    for name in ("gpu-operator", "nvidia-dra-driver-gpu"):
        found = values(recipe(service="kind")["components"][name])
        affinities = [key for key in _keys(found) if key.lower().endswith("affinity")]
        # The DRA driver's own is taken away, everywhere.
        assert affinities == (["affinity"] if name == "nvidia-dra-driver-gpu" else [])
    told = (repository / "recipes/overlays/kind.yaml").read_text(encoding="utf-8")
    assert "nvidia.com/gpu.deploy.operands=false" in told


def test_google_is_told_whose_device_plugin_counts_and_its_fabrics_are_for_its_own_image(
    every: Any, repository: Path
) -> None:
    told = (repository / "recipes/overlays/gke/gke.yaml").read_text(encoding="utf-8")
    assert "gke-no-default-nvidia-gpu-device-plugin=true" in told
    fabrics = [question for question, _components in every if question.get("fabric") in ("tcpx", "tcpxo")]
    assert len(fabrics) == 2
    for question in fabrics:
        assert question["os"] == "cos"
        assert question["accelerator"] == "h100"


@pytest.mark.parametrize("intent", ["training", "inference"])
def test_nodes_on_which_nothing_can_be_installed_are_not_tuned(intent: str, recipe: Ask) -> None:
    for system, tuned in (("bottlerocket", False), ("ubuntu", True), ("amazonlinux", True)):
        found = recipe(service="eks", accelerator="h100", os=system, intent=intent)
        assert ("nodewright-customizations" in found["deploymentOrder"]) is tuned, system
        assert "gpu-operator" in found["deploymentOrder"]


def test_grace_hosts_with_ubuntu_need_a_newer_release(recipe: Ask) -> None:
    def asked(accelerator: str) -> set[str]:
        found = recipe(service="eks", accelerator=accelerator, os="ubuntu")
        return {entry["value"] for entry in found["constraints"] if entry["name"].startswith("OS.")}

    assert asked("gb200") == {"ubuntu", ">= 24.04", ">= 6.8"}
    assert asked("h100") == {"ubuntu", ">= 22.04", ">= 5.15"}
