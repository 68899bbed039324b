# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Criteria detected on a running cluster, and several pools in one."""

from __future__ import annotations

import pytest
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.detect import (
    ClusterFacts,
    Detection,
    NodeFacts,
    detect,
    plain_detection,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import over_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.pools import Pool, pooled_data, resolve_pools

from .conftest import Tree


def node(name: str = "gpu01", product: str = "NVIDIA-H100-80GB-HBM3", **more: object) -> NodeFacts:
    """Return a GPU node."""
    facts: dict[str, object] = {"name": name, "gpus": 8, "gpu_product": product, "os_id": "ubuntu", **more}
    return NodeFacts(**facts)  # type: ignore[arg-type]


def found(own: Catalogue, facts: ClusterFacts, **stated: str) -> Detection:
    """Detect."""
    return detect(facts, own.vocabulary, parse_criteria(stated, own.vocabulary))


@pytest.mark.parametrize(
    ("facts", "service"),
    [
        (ClusterFacts(server_version="v1.33.5-eks-3025e55"), "eks"),
        (ClusterFacts(server_version="v1.33.5-gke.1080000"), "gke"),
        (ClusterFacts(server_version="v1.34.1+rke2r1"), "rke2"),
        (ClusterFacts(server_version="v1.34.1+k3s1"), "k3s"),
        (ClusterFacts(nodes=(node(provider_id="kind://docker/kind/kind-worker"),)), "kind"),
        (ClusterFacts(nodes=(node(labels={"kubernetes.azure.com/cluster": "x"}),)), "aks"),
        (ClusterFacts(nodes=(node(provider_id="ocid1.instance.oc1.iad.abc"),)), "oke"),
        (ClusterFacts(nodes=(node(labels={"node.openshift.io/os_id": "rhcos"}),)), "ocp"),
        (ClusterFacts(server_version="v1.34.0"), "any"),
    ],
)
def test_service(facts: ClusterFacts, service: str, own: Catalogue) -> None:
    assert found(own, facts).criteria.get("service") == service


OF_OCI = {"oci.oraclecloud.com/fault-domain": "FAULT-DOMAIN-1"}
OF_OKE = OF_OCI | {"oke.oraclecloud.com/node.info.private_subnet": "true"}
CONTROL = NodeFacts(name="cp01", labels={"node-role.kubernetes.io/control-plane": "true"})
INSTANCE = "ocid1.instance.oc1.iad.abc"


@pytest.mark.parametrize(
    ("version", "labels", "provider_id", "more", "service"),
    [
        ("v1.34.1", OF_OKE, INSTANCE, (), "oke"),
        ("v1.34.1", OF_OCI, "", (), "oke"),
        ("v1.34.1", OF_OCI, INSTANCE, (CONTROL,), "any"),
        ("v1.34.1+rke2r1", OF_OCI, INSTANCE, (CONTROL,), "rke2"),
        ("v1.34.1+rke2r1", OF_OCI, "", (), "rke2"),
        ("v1.34.1+k0s", OF_OCI, INSTANCE, (), "k0s"),
        ("v1.34.1", OF_OCI | {"node.openshift.io/os_id": "rhcos"}, INSTANCE, (), "ocp"),
        ("v1.33.5-eks-3025e55", {}, "aws:///us-east-1a/i-1", (), "eks"),
        ("v1.33.5-eks-3025e55", {"eks.amazonaws.com/nodegroup": "g"}, "", (), "eks"),
        ("v1.25.5-eks-c248520", {}, "tinkerbell://eksa-system/gpu01", (CONTROL,), "any"),
    ],
)
def test_a_clouds_own_controllers_and_builds_do_not_make_its_managed_service(
    version: str, labels: dict[str, str], provider_id: str, more: tuple[NodeFacts, ...], service: str, own: Catalogue
) -> None:
    worker = node(labels=labels, provider_id=provider_id)
    finding = found(own, ClusterFacts(server_version=version, nodes=(worker, *more)))
    assert finding.criteria.get("service") == service


@pytest.mark.parametrize(
    ("product", "accelerator"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA-A100-SXM4-40GB", "a100"),
        ("NVIDIA A10G", "a10"),
        ("NVIDIA-A10", "a10"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA-L40", "l40"),
        ("NVIDIA L4", "l4"),
        ("Tesla-T4", "t4"),
        ("NVIDIA-GB200", "gb200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA-GH200-480GB", "any"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx-pro-6000"),
    ],
)
def test_accelerator(product: str, accelerator: str, own: Catalogue) -> None:
    assert found(own, ClusterFacts(nodes=(node(product=product),))).criteria.get("accelerator") == accelerator


def test_fabric_domain_and_nodes_with_their_evidence(own: Catalogue) -> None:
    labels = {"nvidia.com/gpu.clique": "6f4a.1"}
    facts = ClusterFacts(
        nodes=(node("a", resources=("vpc.amazonaws.com/efa",), labels=labels), node("b", labels=labels),
               NodeFacts(name="cpu", os_id="cos"))
    )  # fmt: skip
    detection = found(own, facts)
    assert detection.criteria.to_dict() == {
        "accelerator": "h100", "os": "ubuntu", "fabric": "efa", "nvlink_domain": "rack", "nodes": "2",
    }  # fmt: skip
    evidence = {finding.dimension: finding.evidence for finding in detection.findings}
    assert evidence["accelerator"] == "node a: gpu_product is NVIDIA-H100-80GB-HBM3 (2 node(s) say so)"
    assert evidence["service"] == "no fact of the cluster tells it"
    assert detection.pools == () or len(detection.pools) == 2


def test_the_users_word_wins_and_the_report_says_so(own: Catalogue) -> None:
    detection = found(own, ClusterFacts(nodes=(node(),)), accelerator="h200")
    finding = next(finding for finding in detection.findings if finding.dimension == "accelerator")
    assert (finding.value, finding.source, finding.detected, finding.overruled) == ("h200", "stated", "h100", True)
    assert "accelerator" not in detection.detected


def test_different_nodes_are_pools(own: Catalogue) -> None:
    facts = ClusterFacts(nodes=(node("a"), node("b", product="NVIDIA-L40S"), node("c")))
    detection = found(own, facts, service="generic")
    assert detection.criteria.get("accelerator") == "any"
    assert [(pool.name, pool.nodes) for pool in detection.pools] == [
        ("h100-ubuntu", ("a", "c")),
        ("l40s-ubuntu", ("b",)),
    ]
    assert detection.pools[0].criteria.get("service") == "generic"
    told = plain_detection(detection)
    assert told["criteria"] == detection.criteria.to_dict() and told["pools"][0]["criteria"]["accelerator"] == "h100"
    for module in ("recipe", "snapshot_info"):
        assert list(misfits(told, described(module, "detection"))) == []


def two_pools(tree: Tree, **gb200: object) -> tuple[Catalogue, list[Pool]]:
    """Return a tree in which an accelerator changes the driver, and a pool for each."""
    tree.registry("gpu-operator", "imex")
    tree.overlay(
        "base", {"componentRefs": [{"name": "gpu-operator", "valuesFile": "components/gpu-operator/values.yaml"}]}
    )
    tree.write("components/gpu-operator/values.yaml", "driver: {version: '1', open: true}\nmig: {strategy: single}\n")
    tree.overlay("eks", {"criteria": {"service": "eks"}})
    h100 = {"name": "gpu-operator", "overrides": {"driver": {"version": "2"}}}
    tree.overlay("h100", {"criteria": {"service": "eks", "accelerator": "h100"}, "componentRefs": [h100]})
    other = {"name": "gpu-operator", "overrides": {"driver": {"version": "3", "args": ["x"]}, "mig": None}, **gb200}
    components = [other, {"name": "imex", "dependencyRefs": ["gpu-operator"]}]
    tree.overlay("gb200", {"criteria": {"service": "eks", "accelerator": "gb200"}, "componentRefs": components})
    catalogue = tree.load()
    pools = [
        Pool(name=name, criteria=parse_criteria({"service": "eks", "gpu": name}, catalogue.vocabulary),
             node_selector={"pool": name})
        for name in ("h100", "gb200")
    ]  # fmt: skip
    return catalogue, pools


def test_pools_share_one_recipe_and_have_parts(tree: Tree) -> None:
    catalogue, pools = two_pools(tree)
    recipe = resolve_pools(pools, catalogue)
    data = pooled_data(recipe, catalogue)
    assert data["deploymentOrder"] == ["gpu-operator", "imex"]
    common = {entry["name"]: entry["values"] for entry in data["componentRefs"]}
    assert common["gpu-operator"]["driver"] == {"version": "1", "open": True}
    h100, gb200 = data["pools"]
    assert h100["components"] == {"gpu-operator": {"values": {"driver": {"version": "2"}}}}
    assert h100["nodeSelector"] == {"pool": "h100"}
    # Laid over the common values, where null takes a key away, a pool's part gives what the pool alone would have had.
    for (_pool, alone), part in zip(recipe.pools, (h100, gb200), strict=True):
        for component in alone.components:
            changes = part["components"].get(component.name, {}).get("values", {})
            laid = over_values(common[component.name], changes, catalogue.dialect)
            assert laid == component_values(component, catalogue)


def test_pools_cannot_want_two_releases(tree: Tree) -> None:
    catalogue, pools = two_pools(tree, version="9.9.9")
    with pytest.raises(ProblemsError, match=r"pool gb200: gpu-operator has version '9\.9\.9', the others '1\.0\.0'"):
        resolve_pools(pools, catalogue)


def test_pools_need_names_and_something_in_common(tree: Tree) -> None:
    catalogue, pools = two_pools(tree)
    for wrong in ([], [pools[0], pools[0]]):
        with pytest.raises(InputError, match="a name of its own"):
            resolve_pools(wrong, catalogue)
    apart = [
        Pool(name=name, criteria=parse_criteria({"gpu": name}, catalogue.vocabulary)) for name in ("h100", "gb200")
    ]
    with pytest.raises(InputError, match="none is stated"):
        resolve_pools(apart, catalogue)
