# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every recipe of the upstream tool has its counterpart in ours: the same components, none older."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import parse_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue, RecipeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import not_honoured

from .conftest import Recipe

# Renamed or replaced since 0.11. Their versions were begun anew, so they are not compared with the old ones.
SUCCESSORS = {
    "skyhook-operator": "nodewright-operator",
    "skyhook-customizations": "nodewright-customizations",
    "kgateway-crds": "agentgateway-crds",
    "kgateway": "agentgateway",
    "dynamo-crds": "dynamo-platform",
}
# The newest that upstream is known to pin (0.22).
NEWEST = {
    "gpu-operator": "v26.7.0",
    "network-operator": "26.4.1",
    "cert-manager": "v1.20.2",
    "nfd": "0.19.0",
    "kai-scheduler": "v0.16.9",
    "nvsentinel": "v1.20.0",
    "nodewright-operator": "v0.19.0",
    "kube-prometheus-stack": "84.4.0",
    "prometheus-operator-crds": "28.0.1",
    "dynamo-platform": "1.4.2",
    "grove": "v0.1.0-alpha.12",
    "agentgateway": "v1.5.0",
    "agentgateway-crds": "v1.5.0",
    "kubeflow-trainer": "2.2.0",
    "kueue": "0.19.3",
    "k8s-nim-operator": "3.1.0",
    "slinky-slurm": "1.2.0",
    "slinky-slurm-operator": "1.2.0",
    "slinky-slurm-operator-crds": "1.2.0",
    "aws-ebs-csi-driver": "2.59.0",
    "aws-efa": "v0.5.29",
    "prometheus-adapter": "5.3.0",
    "k8s-ephemeral-storage-metrics": "1.19.2",
}


@pytest.fixture(scope="module")
def upstream(shared: Path) -> Catalogue:
    return load_catalogue([shared / "upstream/aicr-0.11.1/recipes"])


def leaves(upstream: Catalogue) -> list[dict[str, str]]:
    found = [layer.criteria.to_dict() for layer in upstream.layers.values() if layer.criteria is not None]
    return [stated for stated in found if stated]


def version(text: str) -> tuple[int, ...]:
    return parse_version(text).padded


def compare(theirs: RecipeResult, mine: RecipeResult) -> list[str]:
    """What ours lacks or has in an older version."""
    wrong = []
    for component in theirs.components:
        name = SUCCESSORS.get(component.name, component.name)
        ours = mine.component(name)
        if ours is None or not ours.enabled:
            wrong.append(f"no {name}")
        elif name == component.name and component.version and version(ours.version) < version(component.version):
            wrong.append(f"{name} {ours.version}, upstream {component.version}")
        elif not (ours.version or ours.tag or ours.manifest_files):
            wrong.append(f"{name} installs nothing")
    return wrong


def test_every_leaf_of_the_tree_has_its_counterpart(upstream: Catalogue, catalogue: Catalogue) -> None:
    found = leaves(upstream)
    assert len(found) > 30
    for stated in found:
        question = parse_criteria(stated, catalogue.vocabulary)
        assert not_honoured(question, catalogue) == (), question
        theirs = resolve(parse_criteria(stated, upstream.vocabulary), upstream)
        assert compare(theirs, resolve(question, catalogue)) == [], question


def test_the_comparison_sees_what_is_missing_or_older(upstream: Catalogue, catalogue: Catalogue) -> None:
    stated = {"service": "eks", "accelerator": "h100", "intent": "training"}
    theirs = resolve(parse_criteria(stated, upstream.vocabulary), upstream)
    poorer = resolve(parse_criteria({"service": "generic"}, catalogue.vocabulary), catalogue)
    assert "no aws-efa" in compare(theirs, poorer)
    newer = resolve(parse_criteria(stated, catalogue.vocabulary), catalogue)
    assert any("upstream" in line for line in compare(newer, theirs))


def combinations(services: str, accelerators: str, rest: str) -> list[dict[str, str]]:
    """`gke`, `a100 b200`, `os=cos intent=training` as questions."""
    more = dict(item.split("=") for item in rest.split())
    return [{"service": s, "accelerator": a, **more} for s in services.split() for a in accelerators.split()]


# Upstream's later leaf matrix (0.22).
LATER = [
    *combinations("eks", "a100 gb200 gb300 h100 h200 rtx-pro-6000", "os=ubuntu intent=training platform=kubeflow"),
    *combinations("eks", "gb200 gb300 h100 rtx-pro-6000", "os=ubuntu intent=inference platform=dynamo"),
    *combinations("eks", "h100 rtx-pro-6000", "os=ubuntu intent=inference platform=nim"),
    *combinations("eks", "gb200 gb300 h100", "os=ubuntu intent=training platform=slurm"),
    *combinations("eks", "h100", "os=ubuntu intent=training platform=kueue"),
    *combinations("eks", "h200", "os=ubuntu intent=inference"),
    *combinations("eks", "gb200 gb300 h100", "os=amazonlinux intent=inference"),
    *combinations("gke", "a100 b200 gb200 gb300 h100", "os=cos intent=training platform=kubeflow"),
    *combinations("gke", "b200 gb200 gb300 h100", "os=cos intent=inference platform=dynamo"),
    *combinations("gke", "gb200 h100", "os=cos intent=training platform=slurm"),
    *combinations("gke", "h100", "os=cos intent=training platform=kueue"),
    *combinations("aks", "a100 h100", "os=ubuntu intent=training platform=kubeflow"),
    *combinations("aks", "h100", "os=ubuntu intent=inference platform=dynamo"),
    *combinations("aks", "h100", "os=ubuntu intent=training platform=slurm"),
    *combinations("oke", "a100 gb200", "os=ubuntu intent=training platform=kubeflow"),
    *combinations("oke", "gb200", "os=ubuntu intent=inference platform=dynamo"),
    *combinations("oke", "l40s", "os=ol intent=training platform=kubeflow"),
    *combinations("oke", "l40s", "os=ol intent=inference"),
    *combinations("bcm", "h100", "os=ubuntu intent=training platform=kubeflow"),
    {"service": "bcm", "intent": "inference"},
    *combinations("kind", "h100", "intent=training platform=kubeflow"),
    *combinations("kind", "h100", "intent=training platform=slurm"),
    *combinations("kind", "h100", "intent=training platform=kueue"),
    *combinations("kind", "h100", "intent=inference platform=dynamo"),
    *combinations("rke2", "vr200", "intent=training platform=kubeflow"),
    *combinations("rke2", "vr200", "intent=inference platform=dynamo"),
    *combinations("k0s", "h200", "intent=training"),
    *combinations("lke", "rtx-pro-6000", "intent=training platform=kubeflow"),
    *combinations("lke", "rtx-pro-6000", "intent=inference"),
    {"service": "ocp", "intent": "training"},
    {"service": "ocp", "intent": "inference", "platform": "nim"},
    *combinations("togetherai", "b200", "intent=training"),
    *combinations("togetherai", "b200", "intent=inference"),
    *combinations("generic", "gb300", "intent=training"),
]


@pytest.mark.parametrize("stated", LATER, ids=lambda stated: "-".join(stated.values()))
def test_every_leaf_of_the_later_matrix(stated: dict[str, str], recipe: Callable[..., Recipe]) -> None:
    found = recipe(**stated)
    operator = "gpu-operator-ocp" if stated["service"] == "ocp" else "gpu-operator"
    assert {operator, "nvidia-dra-driver-gpu"} <= set(found["deploymentOrder"])


@pytest.mark.parametrize(
    "accelerator", ["a100", "b200", "gb200", "gb300", "h100", "h200", "l40", "l40s", "rtx-pro-6000"]
)
def test_the_floors_without_a_service(accelerator: str, catalogue: Catalogue) -> None:
    """Upstream's floors are the four deployment checks; ours are in base, where every recipe has them."""
    found = resolve(parse_criteria({"accelerator": accelerator}, catalogue.vocabulary), catalogue)
    assert len(found.validation["deployment"].checks or ()) == 4


@pytest.mark.parametrize("name", NEWEST)
def test_no_version_is_older_than_upstreams_newest(name: str, catalogue: Catalogue) -> None:
    mine = catalogue.registry[name].default("helm", "defaultVersion")
    assert version(mine) >= version(NEWEST[name])
    assert mine.startswith("v") == NEWEST[name].startswith("v")
