# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site says of nodes, storage, registry and proxy reaches the charts that read it, and others are named."""

from __future__ import annotations

from typing import Any

import pytest
from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.settings import GATE, GpuStackSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import (
    SiteValues,
    site_paths,
    site_values,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

QUESTION = {"service": "generic", "accelerator": "h100", "intent": "training", "os": "ubuntu"}
TAINT = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([ROOT / "recipes"])


def told(catalogue: Catalogue, stated: dict[str, Any] | None = None, **settings: Any) -> SiteValues:
    """What the charts of a recipe get."""
    result = resolve(parse_criteria(QUESTION, catalogue.vocabulary), catalogue)
    values = {entry.name: component_values(entry, catalogue) for entry in result.components}
    return site_values(settings_for(GpuStackSettings, GATE, settings), values, stated or {}, catalogue)


def test_a_site_that_says_nothing_changes_nothing(catalogue: Catalogue) -> None:
    assert told(catalogue) == SiteValues(values={}, warnings=())


def test_taints_of_gpu_nodes_reach_what_runs_there_beside_what_it_tolerates_anyway(catalogue: Catalogue) -> None:
    found = told(catalogue, tolerations=["team=ml:NoSchedule"])
    given = found.values["gpu-operator"]["daemonsets"]["tolerations"]
    assert TAINT in given
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in given, "the chart's own default is replaced by the list"
    assert "nvidia-dra-driver-gpu" not in found.values, "it tolerates everything"
    assert found.warnings == ()


def test_the_taint_that_tuning_waits_for_is_that_of_the_site() -> None:
    catalogue = load_catalogue([ROOT / "recipes"])
    settings = settings_for(GpuStackSettings, GATE, {"tolerations": ["own.example/tuned=runtime-required:NoSchedule"]})
    found = site_values(settings, {"nodewright-operator": {}}, {}, catalogue)
    manager = found.values["nodewright-operator"]["controllerManager"]["manager"]
    assert manager["env"]["runtimeRequiredTaint"] == "own.example/tuned=runtime-required:NoSchedule"
    other = site_values(settings_for(GpuStackSettings, GATE, {"tolerations": ["a=b"]}), {"nodewright-operator": {}}, {},
                        catalogue)  # fmt: skip
    assert other.values == {}


def test_system_nodes_are_selected_and_their_taints_tolerated(catalogue: Catalogue) -> None:
    found = told(catalogue, system_selector={"pool": "system"}, system_tolerations=["team=ml:NoSchedule"])
    operator = found.values["cert-manager"]
    assert operator["nodeSelector"] == operator["webhook"]["nodeSelector"] == {"pool": "system"}
    assert TAINT in operator["cainjector"]["tolerations"]
    assert found.values["kube-prometheus-stack"]["prometheus"]["prometheusSpec"]["nodeSelector"] == {"pool": "system"}


def test_what_has_no_path_is_named(catalogue: Catalogue) -> None:
    found = told(catalogue, image_registry="mirror.lab", pull_secrets=["own"], proxy={"https": "http://proxy.lab:3128"})
    assert found.values["kube-prometheus-stack"]["global"] == {
        "imageRegistry": "mirror.lab", "imagePullSecrets": [{"name": "own"}],
    }  # fmt: skip
    assert found.values["gpu-operator"]["driver"] == {
        "imagePullSecrets": ["own"], "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.lab:3128"}],
    }  # fmt: skip
    assert found.values["cert-manager"]["https_proxy"] == "http://proxy.lab:3128"
    registry, proxy, secrets = sorted(found.warnings)
    assert registry.startswith("gpu_stack.image_registry is not handed to ")
    assert "gpu-operator" in registry and "kube-prometheus-stack" not in registry
    assert "network-operator" in secrets and "cert-manager" not in secrets
    assert "kube-prometheus-stack" in proxy and "cert-manager" not in proxy


@pytest.mark.parametrize(
    ("component", "place"),
    [
        ("nvidia-dra-driver-gpu", ("imagePullSecrets",)),
        ("kuberay-operator", ("imagePullSecrets",)),
        ("slinky-slurm-operator", ("imagePullSecrets",)),
        ("kai-scheduler", ("global", "imagePullSecrets")),
        ("kueue", ("controllerManager", "imagePullSecrets")),
    ],
)
def test_pull_secrets_stand_where_each_chart_reads_them(
    catalogue: Catalogue, component: str, place: tuple[str, ...]
) -> None:
    settings = settings_for(GpuStackSettings, GATE, {"pull_secrets": ["own"]})
    found: Any = site_values(settings, {component: {}}, {}, catalogue)
    given = found.values[component]
    for step in place:
        given = given[step]
    assert (given, found.warnings) == ([{"name": "own"}], ())


def test_volcano_takes_a_registry_and_no_list_of_secrets(catalogue: Catalogue) -> None:
    settings = settings_for(GpuStackSettings, GATE, {"pull_secrets": ["own"], "image_registry": "mirror.lab"})
    found = site_values(settings, {"volcano": {}}, {}, catalogue)
    assert found.values == {"volcano": {"basic": {"image_registry": "mirror.lab"}}}
    (warning,) = found.warnings
    assert warning.startswith("gpu_stack.pull_secrets is not handed to volcano")


def test_a_storage_class_is_written_where_the_recipe_asks_for_a_volume(catalogue: Catalogue) -> None:
    assert "kube-prometheus-stack" not in told(catalogue, storage_class="fast").values, "it keeps an emptyDir"
    claim = {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "50Gi"}}}}}
    values = {"kube-prometheus-stack": {"prometheus": {"prometheusSpec": {"storageSpec": claim}}}}
    settings = settings_for(GpuStackSettings, GATE, {"storage_class": "fast"})
    found = site_values(settings, values, {}, catalogue).values["kube-prometheus-stack"]
    spec = found["prometheus"]["prometheusSpec"]["storageSpec"]["volumeClaimTemplate"]["spec"]
    assert spec == {"storageClassName": "fast"}


def test_the_sites_own_overrides_are_never_overruled(catalogue: Catalogue) -> None:
    own = {"gpu-operator": {"daemonsets": {"tolerations": [{"key": "only-this"}]}}}
    found = told(catalogue, own, tolerations=["team=ml:NoSchedule"])
    assert found.values["gpu-operator"]["daemonsets"]["tolerations"] == [{"key": "only-this"}]


def test_every_component_with_paths_is_one_of_the_catalogue(catalogue: Catalogue) -> None:
    assert set(site_paths()) <= set(catalogue.registry)
