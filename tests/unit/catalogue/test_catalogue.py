# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recipes of our catalogue say for the environments that the field runs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.dra_offer import (
    recipe_offers_gpus_by_dra,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import Criteria, parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import (
    not_honoured,
    supported_combinations,
)

from .conftest import Recipe

Ask = Callable[..., Recipe]
ON_PREMISES = ("generic", "rke2", "k3s", "k0s")
OWN_DRIVER = "/run/nvidia/driver"


def value(recipe: Recipe, component: str, path: str) -> Any:
    found = recipe["components"][component]["values"]
    for step in path.split("."):
        found = found[step]
    return found


def criteria(catalogue: Catalogue, **stated: str) -> Criteria:
    return parse_criteria(stated, catalogue.vocabulary)


@pytest.mark.parametrize("accelerator", ["a100", "h100", "h200", "b200", "l40s"])
def test_the_rehearsal_installs_the_same_few_components_for_every_sku(accelerator: str, recipe: Ask) -> None:
    found = recipe(service="generic", accelerator=accelerator, intent="training", os="ubuntu", platform="volcano")
    assert found["deploymentOrder"] == [
        "cert-manager", "nfd", "network-operator", "prometheus-operator-crds", "kube-prometheus-stack",
        "gpu-operator", "nvidia-dra-driver-gpu", "prometheus-adapter", "volcano",
    ]  # fmt: skip
    # Two schedulers would count the same free GPUs.
    assert found["metadata"]["disabled"] == ["kai-scheduler"]
    files = [*(ref.get(key) for ref in found["componentRefs"] for key in ("manifestFiles", "preManifestFiles"))]
    assert list(filter(None, files)) == [["components/kube-prometheus-stack/manifests/slo-rules.yaml"]]


def test_explain_prints_the_chain(catalogue: Catalogue) -> None:
    question = criteria(catalogue, service="eks", accelerator="h100", intent="training", os="ubuntu")
    lines = explain(resolve(question, catalogue), catalogue, "").lines()
    assert lines[0] == "base → eks → eks-training → h100-eks-training → h100-eks-ubuntu-training"


def test_training_against_inference(catalogue: Catalogue) -> None:
    """Both from the same base: components are swapped and values change."""
    same = {"service": "eks", "accelerator": "h100", "os": "ubuntu"}
    training = resolve(criteria(catalogue, **same, intent="training", platform="kubeflow"), catalogue)
    inference = resolve(criteria(catalogue, **same, intent="inference", platform="dynamo"), catalogue)
    found = difference(training, catalogue, inference, catalogue)
    assert set(found.components_removed) == {"kubeflow-trainer"}
    gateway = {"agentgateway", "agentgateway-crds", "gateway-api", "gateway-api-inference-extension"}
    assert set(found.components_added) == {*gateway, "grove", "dynamo-platform"}
    changed = {change.path for change in found.changes}
    values = "components.gpu-operator.values"
    assert f"{values}.mig.strategy" in changed
    assert not found.versions
    shared = {c.name for c in training.components} & {c.name for c in inference.components}
    assert {"gpu-operator", "kai-scheduler", "aws-efa", "nvidia-dra-driver-gpu"} <= shared


@pytest.mark.parametrize("service", ON_PREMISES)
@pytest.mark.parametrize("accelerator", ["a100", "l40s", "h100", "gb300"])
@pytest.mark.parametrize("os", ["ubuntu", "rhel", "rocky", "alma", "sles"])
def test_on_premises(service: str, accelerator: str, os: str, recipe: Ask) -> None:
    found = recipe(service=service, accelerator=accelerator, os=os, intent="training", fabric="infiniband")
    names = set(found["components"])
    assert {"gpu-operator", "network-operator", "nvidia-dra-driver-gpu", "kai-scheduler"} <= names
    assert not {name for name in names if name.startswith(("aws", "gke"))}
    constraints = {item["name"]: item["value"] for item in found["constraints"]}
    assert constraints["OS.release.ID"] == {"alma": "almalinux"}.get(os, os)
    assert "OS.release.VERSION_ID" in constraints
    # The open modules reach the NICs by DMA-BUF; nvidia_peermem would wait for an OFED that nothing here brings.
    assert not value(found, "gpu-operator", "driver.rdma.enabled")
    # Its module is loaded beside the operator's driver, and by nothing else.
    assert value(found, "gpu-operator", "gdrcopy.enabled") is value(found, "gpu-operator", "driver.enabled")
    assert found["components"]["network-operator"]["manifestFiles"]


def test_distributions_with_a_containerd_of_their_own(recipe: Ask) -> None:
    sockets = {
        "rke2": "/run/k3s/containerd/containerd.sock",
        "k3s": "/run/k3s/containerd/containerd.sock",
        "k0s": "/run/k0s/containerd.sock",
    }
    for service, socket in sockets.items():
        env = value(recipe(service=service, accelerator="h100"), "gpu-operator", "toolkit.env")
        settings = {item["name"]: item["value"] for item in env}
        assert settings["RUNTIME_SOCKET"] == socket
        assert service in settings["RUNTIME_CONFIG"]
        # The list replaces that of the values file, so it must say again what that says.
        assert settings["ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"] == "false"


def test_efa_and_nvlink_of_a_rack_at_once(recipe: Ask) -> None:
    found = recipe(
        service="eks", accelerator="gb200", intent="training", os="ubuntu", fabric="efa", nvlink_domain="rack"
    )
    assert {"aws-efa", "nvidia-dra-driver-gpu"} <= set(found["deploymentOrder"])
    assert value(found, "nvidia-dra-driver-gpu", "resources.computeDomains.enabled") is True
    assert "rack-scale" in found["metadata"]["appliedMixins"]


@pytest.mark.parametrize(
    ("stated", "there", "gone"),
    [
        ({"service": "gke", "accelerator": "h100", "intent": "training"}, "gke-nccl-tcpxo", "gke-nccl-tcpx"),
        (
            {"service": "gke", "accelerator": "h100", "intent": "training", "os": "ubuntu"},
            "gpu-operator",
            "gke-nccl-tcpxo",
        ),
        (
            {"service": "gke", "accelerator": "h100", "os": "cos", "fabric": "tcpxo"},
            "gke-nccl-tcpxo",
            "gke-nccl-tcpx",
        ),
        (
            {"service": "gke", "accelerator": "h100", "intent": "training", "os": "cos", "fabric": "tcpx"},
            "gke-nccl-tcpx",
            "gke-nccl-tcpxo",
        ),
        ({"service": "gke", "accelerator": "h200", "fabric": "roce"}, "gpu-operator", "gke-nccl-tcpxo"),
        ({"service": "eks", "fabric": "none"}, "aws-ebs-csi-driver", "aws-efa"),
        ({"service": "eks", "fabric": "efa"}, "aws-efa", "network-operator"),
        ({"service": "aks", "fabric": "infiniband"}, "network-operator", "aws-efa"),
        ({"service": "oke", "fabric": "roce"}, "network-operator", "aws-efa"),
        ({"service": "generic", "fabric": "roce"}, "network-operator", "aws-efa"),
        ({"service": "generic", "fabric": "none"}, "gpu-operator", "network-operator"),
    ],
)
def test_fabrics(stated: dict[str, str], there: str, gone: str, recipe: Ask) -> None:
    order = recipe(**stated)["deploymentOrder"]
    assert there in order
    assert gone not in order


def test_openshift_takes_its_operators_from_operatorhub(recipe: Ask, repository: Path) -> None:
    found = recipe(service="ocp", accelerator="h100", os="rhel", intent="training")
    order = found["deploymentOrder"]
    disabled = {"cert-manager", "nfd", "gpu-operator", "kube-prometheus-stack", "prometheus-operator-crds"}
    assert disabled <= set(found["metadata"]["disabled"])
    chain = ["nfd-ocp-olm", "nfd-ocp", "gpu-operator-ocp-olm", "gpu-operator-ocp", "nvidia-dra-driver-gpu"]
    assert [name for name in order if name in chain] == chain
    for name in order:
        for file in found["components"][name].get("manifestFiles", ()):
            assert list(yaml.safe_load_all((repository / "recipes" / file).read_text(encoding="utf-8")))


DRIVER_OWNERS = [
    ({"service": "generic", "os": "ubuntu"}, True),
    ({"service": "generic", "os": "rhel"}, True),
    ({"service": "generic", "os": "rocky"}, False),
    ({"service": "generic", "os": "talos"}, False),
    ({"service": "eks", "os": "ubuntu"}, True),
    ({"service": "eks", "os": "amazonlinux"}, False),
    ({"service": "eks", "os": "bottlerocket", "intent": "training"}, False),
    ({"service": "gke", "os": "cos"}, False),
    ({"service": "gke", "os": "ubuntu"}, True),
    ({"service": "gke"}, False),
    ({"service": "aks", "os": "ubuntu"}, True),
    ({"service": "oke", "os": "ol"}, False),
    ({"service": "bcm", "os": "ubuntu"}, False),
    ({"service": "kind"}, False),
]


@pytest.mark.parametrize(("stated", "operators"), DRIVER_OWNERS)
def test_who_owns_the_driver(stated: dict[str, str], operators: bool, recipe: Ask) -> None:
    """The DRA driver looks for libraries where the owner puts them."""
    found = recipe(**stated)
    assert value(found, "gpu-operator", "driver.enabled") is operators
    assert (value(found, "nvidia-dra-driver-gpu", "nvidiaDriverRoot") == OWN_DRIVER) is operators


def test_no_kernel_module_for_bottlerocket(recipe: Ask) -> None:
    found = recipe(service="eks", os="bottlerocket", intent="training")
    assert value(found, "gpu-operator", "gdrcopy.enabled") is False
    assert value(found, "gpu-operator", "devicePlugin.enabled") is False
    assert value(recipe(service="eks", os="ubuntu", intent="training"), "gpu-operator", "gdrcopy.enabled") is True


@pytest.mark.parametrize(("intent", "strategy"), [("training", "single"), ("inference", "mixed")])
@pytest.mark.parametrize("service", ["eks", "gke", "aks", "oke", *ON_PREMISES])
def test_the_mig_strategy_is_stated(service: str, intent: str, strategy: str, recipe: Ask) -> None:
    found = recipe(service=service, accelerator="a100", intent=intent)
    assert value(found, "gpu-operator", "mig.strategy") == strategy


PLATFORMS = {
    "kubeflow": ("training", "kubeflow-trainer"),
    "volcano": ("training", "volcano"),
    "mpi-operator": ("training", "mpi-operator"),
    "kueue": ("training", "kueue"),
    "ray": ("inference", "kuberay-operator"),
    "dynamo": ("inference", "dynamo-platform"),
    "vllm": ("inference", "vllm-stack"),
    "nim": ("inference", "k8s-nim-operator"),
    "slurm": ("training", "slinky-slurm"),
}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("service", ["eks", "gke", "aks", "oke", "ocp", "kind", *ON_PREMISES])
def test_platforms(platform: str, service: str, recipe: Ask) -> None:
    intent, component = PLATFORMS[platform]
    order = recipe(service=service, accelerator="h100", intent=intent, platform=platform)["deploymentOrder"]
    assert component in order


@pytest.mark.parametrize(
    "stated",
    [
        {"service": "gke", "accelerator": "l40s"},
        {"service": "aks", "accelerator": "b200"},
        {"service": "eks", "fabric": "infiniband"},
        {"service": "generic", "fabric": "efa"},
        {"service": "gke", "os": "sles"},
        {"service": "gke", "accelerator": "h100", "os": "ubuntu", "fabric": "tcpxo"},
        {"service": "gke", "accelerator": "t4", "os": "cos", "fabric": "tcpxo"},
        {"service": "eks", "intent": "training", "platform": "dynamo"},
        {"service": "metal3"},
        {"accelerator": "h100"},
    ],
)
def test_what_nobody_offers_is_not_claimed(stated: dict[str, str], catalogue: Catalogue) -> None:
    assert not_honoured(criteria(catalogue, **stated), catalogue)


def test_no_layer_types_in_a_threshold(repository: Path) -> None:
    for directory in ("overlays", "mixins"):
        for path in (repository / "recipes" / directory).rglob("*.yaml"):
            phases = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"].get("validation") or {}
            assert not (phases.get("performance") or {}).get("constraints"), path


def test_every_recipe_declares_the_deployment_checks(catalogue: Catalogue) -> None:
    wanted = {"operator-health", "expected-resources", "gpu-operator-version", "check-nvidia-smi"}
    for layer in catalogue.layers.values():
        if layer.criteria is not None and layer.criteria.stated:
            phase = resolve(layer.criteria, catalogue).validation["deployment"]
            assert wanted <= set(phase.checks or ())


def test_no_recipe_gives_out_gpus_twice(catalogue: Catalogue) -> None:
    """The device plugin and claims do not know of each other."""
    twice = set()
    for criteria in supported_combinations(catalogue):
        data = hydrated(resolve(criteria, catalogue), catalogue)
        values = {entry["name"]: entry.get("values") or {} for entry in data["componentRefs"]}
        plugin = (values.get("gpu-operator", {}).get("devicePlugin") or {}).get("enabled", True)
        if plugin and recipe_offers_gpus_by_dra(data):
            twice.add(dict(criteria.stated).get("service"))
    assert twice == set()


def test_the_page_tells_the_truth(catalogue: Catalogue) -> None:
    from tools.catalog_docs import accelerators_of, page, services

    accelerators = accelerators_of(catalogue)
    assert {"t4", "a100", "vr200", "rtx-pro-6000"} <= set(accelerators)
    rows = [line.split(" | ") for line in page(catalogue).splitlines() if line.startswith("| gke | ")]
    assert rows[0][1 + accelerators.index("a100")] == "x"
    assert rows[0][1 + accelerators.index("l40s")].strip() == ""
    assert {"eks", "gke", "aks", "oke", "kind", "ocp", *ON_PREMISES} <= set(services(catalogue))


def test_the_layer_that_the_guide_shows_is_a_layer_of_the_catalogue(repository: Path) -> None:
    guide = (repository / "docs/recipes.md").read_text(encoding="utf-8")
    block = guide[guide.index("    apiVersion: gpufleet.bringup/v1") :].split("\n\n", 1)[0]
    shown = yaml.safe_load(textwrap.dedent(block))
    (file,) = (repository / "recipes/overlays").rglob(f"{shown['metadata']['name']}.yaml")
    assert yaml.safe_load(file.read_text(encoding="utf-8")) == shown
