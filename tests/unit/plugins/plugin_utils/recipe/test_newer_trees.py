# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of newer upstream trees: honoured where they change an installation; else refused, or told with what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.expected_objects import (
    asserted_in,
    unknown_in,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.settings import GATE, GpuStackSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.manifest import manifests_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import SiteValues, site_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue, RecipeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.overrides import with_overrides
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

from .conftest import Tree

UPSTREAM = "aicr.run/v1beta1"
GKE = {"service": "gke", "accelerator": "h100", "os": "cos", "intent": "training"}
WRONG_WORDS = "as the upstream tool does"


@pytest.fixture(scope="module")
def july(shared: Path) -> Catalogue:
    """The catalogue of upstream's tree of July 2026."""
    return load_catalogue([shared / "upstream" / "aicr-2026-07" / "recipes"])


@pytest.fixture
def newer(tmp_path: Path) -> Tree:
    """A tree for a newer release of the upstream tool."""
    return Tree(tmp_path / "newer", UPSTREAM)


def asked(catalogue: Catalogue, **criteria: str) -> RecipeResult:
    """The recipe for a question."""
    return resolve(parse_criteria(criteria, catalogue.vocabulary), catalogue)


def entry_of(catalogue: Catalogue, name: str, **criteria: str) -> dict[str, Any]:
    """One component as an installer gets it."""
    entries: list[dict[str, Any]] = hydrated(asked(catalogue, **criteria), catalogue)["componentRefs"]
    return next(entry for entry in entries if entry["name"] == name)


def test_of_the_tree_of_july_one_key_is_told_and_what_is_lost_with_it(july: Catalogue) -> None:
    (told,) = [text for text in july.warnings if "not a known key" in text]
    assert "validators[9].dependencyAffinity" in told
    assert "this release does not know it; the validator runs where the scheduler puts it" in told
    assert not any(WRONG_WORDS in text for text in july.warnings)


def test_gke_admits_pods_of_system_priority_of_an_upstream_recipe(july: Catalogue) -> None:
    problems: list[InputError] = []
    (quota,) = manifests_of(entry_of(july, "gpu-operator", **GKE), "", problems)
    assert (problems, quota.before, quota.title) == ([], True, "ResourceQuota gpu-operator/gke-critical-pods")
    assert quota.body["spec"]["hard"] == {"pods": "10000"}
    (scope,) = quota.body["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == ["system-node-critical", "system-cluster-critical"]
    (large,) = manifests_of(entry_of(july, "gpu-operator", **GKE, nodes="1000"), "", problems)
    assert large.body["spec"]["hard"] == {"pods": "32000"}


def test_no_quota_is_made_elsewhere_or_for_other_components(july: Catalogue) -> None:
    assert "manifests" not in entry_of(july, "nfd", **GKE)
    elsewhere = entry_of(july, "gpu-operator", service="eks", accelerator="h100", intent="training")
    assert not any("gke" in item["file"] for item in elsewhere.get("manifests") or ())


def test_manifest_files_of_a_registry_entry_are_installed_where_no_layer_gives_some(newer: Tree) -> None:
    """NVIDIA/aicr: gcp-driver-installer has its whole content there."""
    newer.registry("installer", installer={"manifestFiles": ["components/installer/manifests/set.yaml"]})
    newer.write("components/installer/manifests/set.yaml", "kind: DaemonSet\n")
    newer.write("components/installer/manifests/own.yaml", "kind: Job\n")
    newer.overlay("base", {"componentRefs": [{"name": "installer"}]})
    own = {"name": "installer", "manifestFiles": ["components/installer/manifests/own.yaml"]}
    newer.overlay("gke", {"criteria": {"service": "gke"}, "componentRefs": [own]})
    newer.overlay("eks", {"criteria": {"service": "eks"}})
    catalogue = newer.load()
    assert catalogue.warnings == ()
    (item,) = entry_of(catalogue, "installer", service="eks")["manifests"]
    assert item["text"] == "kind: DaemonSet\n"
    (item,) = entry_of(catalogue, "installer", service="gke")["manifests"]
    assert item["text"] == "kind: Job\n"


def test_a_manifest_file_of_a_registry_entry_that_is_not_there_is_found(newer: Tree) -> None:
    newer.registry("nfd", "installer", installer={"manifestFiles": ["components/installer/sett.yaml"]})
    newer.write("components/installer/set.yaml", "kind: DaemonSet\n")
    newer.overlay("base", {"componentRefs": [{"name": "installer"}]})
    with pytest.raises(ProblemsError, match=r"registry.yaml:\d+: manifestFiles .*sett.yaml' does not exist .*set.yaml"):
        newer.load()


def told(catalogue: Catalogue, values: dict[str, Any], stated: dict[str, Any] | None = None, **more: Any) -> SiteValues:
    """What the charts get of what a site says."""
    return site_values(settings_for(GpuStackSettings, GATE, more), values, stated or {}, catalogue)


def test_a_storage_class_goes_where_the_registry_says(july: Catalogue) -> None:
    """No file of ours says where the chart of Dynamo reads it."""
    claim = {"enabled": True, "storageClassName": ""}
    values = {"dynamo-platform": {"nats": {"config": {"jetstream": {"fileStore": {"pvc": claim}}}}}}
    found = told(july, values, storage_class="fast").values["dynamo-platform"]
    assert found["nats"]["config"]["jetstream"]["fileStore"]["pvc"] == {"storageClassName": "fast"}
    assert told(july, {"dynamo-platform": {}}, storage_class="fast").values == {}


@pytest.mark.parametrize(
    ("key", "values", "refused"),
    [
        ("requireNodeSelector", {}, True),
        ("requireNodeSelector", {"controller": {"nodeSelector": {}}}, True),
        ("requireNodeSelector", {"controller": {"nodeSelector": {"pool": "cpu"}}}, False),
        ("requireNodeSelector", {"enabled": False}, False),
        ("requireNodeSelectorIfStorageClassSet", {}, False),
        ("requireNodeSelectorIfStorageClassSet", {"storage": {"class": "fast"}}, True),
    ],
)
def test_a_chart_that_needs_a_node_selector_is_not_installed_without(
    key: str, values: dict[str, Any], refused: bool, newer: Tree
) -> None:
    scheduling = {"system": {"nodeSelectorPaths": ["controller.nodeSelector"], key: True}}
    newer.registry("slurm", slurm={"nodeScheduling": scheduling, "storageClassPaths": ["storage.class"]})
    newer.overlay("base", {"componentRefs": [{"name": "slurm"}]})
    catalogue = newer.load()
    assert catalogue.warnings == ()
    assert told(catalogue, {"slurm": values}, system_selector={"pool": "cpu"})
    assert told(catalogue, {"slurm": values}, {"slurm": {"controller": {"nodeSelector": {}}}})
    if not refused:
        assert told(catalogue, {"slurm": values})
        return
    with pytest.raises(InputError, match=r"component slurm: needs a node selector at controller.nodeSelector"):
        told(catalogue, {"slurm": values})


def test_shared_volumes_get_a_class_of_their_own(newer: Tree) -> None:
    """NVIDIA/aicr, docs: --shared-storage-class never falls back to --storage-class."""
    newer.registry("slurm", slurm={"sharedStorageClassPaths": ["storage.home.storageClassName"]})
    newer.overlay("base", {"componentRefs": [{"name": "slurm"}]})
    catalogue = newer.load()
    assert catalogue.warnings == ()
    values = {"slurm": {"storage": {"home": {"size": "1Gi"}}}}
    assert told(catalogue, values, storage_class="fast").values == {}
    assert told(catalogue, {"slurm": {}}, shared_storage_class="rwx").values == {}
    found = told(catalogue, values, storage_class="fast", shared_storage_class="rwx").values
    assert found == {"slurm": {"storage": {"home": {"storageClassName": "rwx"}}}}
    own = {"slurm": {"storage": {"home": {"storageClassName": "mine"}}}}
    found = told(catalogue, values, own, shared_storage_class="rwx").values
    assert found["slurm"]["storage"]["home"]["storageClassName"] == "mine"


@pytest.mark.parametrize("enabled", [True, False])
def test_shared_volumes_that_the_upstream_tool_writes_beside_the_chart_are_refused(enabled: bool, newer: Tree) -> None:
    newer.registry("slinky-slurm", slinky_slurm={"sharedStorageClassPaths": ["storage.home.storageClassName"]})
    newer.overlay("base", {"componentRefs": [{"name": "slinky-slurm"}]})
    values = {"slinky-slurm": {"storage": {"enabled": enabled, "home": {"size": "1Gi"}}}}
    catalogue = newer.load()
    if not enabled:
        assert told(catalogue, values).values == {}
        return
    with pytest.raises(InputError, match=r"slinky-slurm: storage.enabled asks for shared volumes"):
        told(catalogue, values)


def test_a_component_that_is_not_to_be_installed_stays_in_the_recipe_and_is_not_installed(newer: Tree) -> None:
    """`install` of 1.0, beside `enabled` (NVIDIA/aicr pkg/recipe, ComponentRef.IsEnabled)."""
    newer.registry("nfd", "database", "other")
    refs = [{"name": "nfd", "dependencyRefs": ["database"]}, {"name": "database", "overrides": {"install": False}},
            {"name": "other", "overrides": {"install": True, "enabled": False}}]  # fmt: skip
    newer.overlay("base", {"componentRefs": refs})
    newer.overlay("gke", {"criteria": {"service": "gke"}})
    on = [{"name": "database", "overrides": {"install": True}}]
    newer.overlay("eks", {"criteria": {"service": "eks"}, "componentRefs": on})
    catalogue = newer.load()
    result = asked(catalogue, service="gke")
    assert query(result, catalogue, "components.database.enabled") is False
    recipe = hydrated(result, catalogue)
    assert [entry["name"] for entry in recipe["componentRefs"]] == ["nfd"]
    assert recipe["componentRefs"][0]["dependencyRefs"] == []
    assert recipe["metadata"]["disabled"] == ["database", "other"]
    names = {entry["name"] for entry in hydrated(asked(catalogue, service="eks"), catalogue)["componentRefs"]}
    assert names == {"nfd", "database"}


def test_whether_a_component_is_installed_is_true_or_false(newer: Tree) -> None:
    newer.registry("nfd")
    newer.overlay("base", {"componentRefs": [{"name": "nfd", "overrides": {"install": "no"}}]})
    with pytest.raises(ProblemsError, match=r"base.yaml:\d+: .*overrides.install of nfd must be true or false"):
        newer.load()


def test_an_unknown_key_of_a_component_refuses_the_recipes_that_have_it(newer: Tree) -> None:
    newer.registry("nfd", "future", future={"installWith": "flux", "storageclassPaths": ["a"]})
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    newer.overlay("gke", {"criteria": {"service": "gke"}, "componentRefs": [{"name": "future"}]})
    off = {"name": "future", "overrides": {"enabled": False}}
    newer.overlay("eks", {"criteria": {"service": "eks"}, "componentRefs": [off]})
    catalogue = newer.load()
    first, second = catalogue.warnings
    assert "components[1].installWith is not a known key: this release does not know it, and it may change" in first
    assert "Did you mean 'storageClassPaths'" in second
    with pytest.raises(InputError, match=r"registry.yaml:\d+: components\[1\].installWith"):
        asked(catalogue, service="gke")
    assert asked(catalogue, service="eks").component("future") is not None


@pytest.mark.parametrize("where", ["overlay", "mixin"])
def test_an_unknown_key_of_a_layer_refuses_the_recipes_that_it_is_in(where: str, newer: Tree) -> None:
    newer.registry("nfd")
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    odd = {"componentRefs": [{"name": "nfd", "postRender": "patch.yaml"}]}
    newer.overlay("care", odd if where == "mixin" else {}, "mixins")
    newer.overlay("gke", {"criteria": {"service": "gke"}, "mixins": ["care"], **({} if where == "mixin" else odd)})
    newer.overlay("eks", {"criteria": {"service": "eks"}})
    catalogue = newer.load()
    (warning,) = catalogue.warnings
    assert "spec.componentRefs[0].postRender is not a known key" in warning
    with pytest.raises(InputError, match=r"yaml:\d+: spec.componentRefs\[0\].postRender .* may change what is inst"):
        asked(catalogue, service="gke")
    assert asked(catalogue, service="eks").order == ("nfd",)


def test_a_key_that_changes_nothing_of_an_installation_is_told_and_no_more(newer: Tree) -> None:
    newer.registry("nfd", nfd={"upgrades": {"file": "components/nfd/upgrades.yaml"}, "ownsCRDs": True})
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    phase = {"checks": [], "retries": 3}
    profile = {"name": "gpuStack", "default": "a", "values": {"a": {}}, "description": "who installs the driver"}
    newer.overlay("gke", {"criteria": {"service": "gke"}, "validation": {"deployment": phase}, "profile": profile})
    catalogue = newer.load()
    assert asked(catalogue, service="gke").order == ("nfd",)
    words = sorted(text.partition(": ")[2] for text in catalogue.warnings)
    assert words == [
        "components[0].upgrades is not a known key: this release does not know it; what it says of an upgrade is not "
        "asked; recipes/upgrades.yaml is.",
        "spec.validation.deployment.retries is not a known key: this release does not know it; what it says has no "
        "effect here.",
    ]


def test_readiness_constraints_of_a_profile_are_judged_in_that_phase(newer: Tree) -> None:
    """NVIDIA/aicr, docs/contributor/data.md: they name what holds once all is installed."""
    newer.registry("nfd")
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    later = [{"name": "K8s.server.version", "value": ">= 1.30"}]
    values = {"a": {"readinessConstraints": later}, "b": {}}
    profile = {"name": "gpuStack", "default": "a", "values": values}
    newer.overlay("gke", {"criteria": {"service": "gke"}, "profile": profile})
    catalogue = newer.load()
    found = asked(catalogue, service="gke").validation["readiness"].constraints
    assert found is not None
    assert [(item.name, item.value) for item in found] == [("K8s.server.version", ">= 1.30")]
    other = resolve(parse_criteria({"service": "gke"}, catalogue.vocabulary), catalogue, {"gpuStack": "b"})
    assert "readiness" not in other.validation


def test_nothing_of_the_warnings_says_that_upstream_ignores_it(newer: Tree) -> None:
    newer.registry("nfd", nfd={"anything": 1})
    text = yaml.safe_dump({"apiVersion": UPSTREAM, "kind": "ValidatorCatalog", "validators": [], "odd": 1})
    newer.write("validators/catalog.yaml", text)
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}], "odd": 1})
    assert len(newer.load().warnings) == 3
    assert not any(WRONG_WORDS in text for text in newer.load().warnings)


def test_health_checks_of_the_tree_of_july_become_assertions(july: Catalogue) -> None:
    recipe = hydrated(asked(july, **GKE), july)
    assert unknown_in(recipe) == {}
    asserted = list(asserted_in(recipe))
    assert {component for component, _number, _assertion in asserted} == set(recipe["deploymentOrder"])
    operator = [(entry.kind, entry.wanted) for component, _n, entry in asserted if component == "gpu-operator"]
    assert operator[-1] == ("ClusterPolicy", {"status": {"state": "ready"}}), "its readiness.yaml"
    assert len(operator) == 9
    assert not any("checks/" in text or "readiness.yaml" in text for text in july.warnings)


def test_every_health_check_and_gate_of_the_tree_of_july_is_known(july: Catalogue) -> None:
    """Those of OLM assert nothing by themselves; their gates wait for the operator that OLM installs."""
    recipe = hydrated(asked(july, service="ocp", accelerator="h100", intent="training"), july)
    assert unknown_in(recipe) == {}
    found = {component: entry.kind for component, _number, entry in asserted_in(recipe) if component.endswith("-olm")}
    assert found == dict.fromkeys(
        ("gpu-operator-ocp-olm", "network-operator-ocp-olm", "nfd-ocp-olm"), "ClusterServiceVersion"
    )


TEST = """apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: x}
spec:
  steps:
    - try: [{assert: {resource: {apiVersion: v1, kind: %s, metadata: {name: x}}}}]
"""


def kinds(catalogue: Catalogue, service: str) -> list[str]:
    """What is asserted of the recipe of a service."""
    return [entry.kind for _c, _n, entry in asserted_in(hydrated(asked(catalogue, service=service), catalogue))]


def test_what_a_layer_says_of_a_health_check_counts_before_the_registry(newer: Tree) -> None:
    newer.registry("nfd", nfd={"healthCheck": {"assertFile": "checks/nfd/health-check.yaml"}})
    newer.write("checks/nfd/health-check.yaml", TEST % "Service")
    newer.write("components/nfd/readiness.yaml", TEST % "Node")
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    newer.overlay("gke", {"criteria": {"service": "gke"}})
    for service, more in {"eks": {"healthCheckAsserts": TEST % "Secret"}, "aks": {"healthCheckSkip": True}}.items():
        newer.overlay(service, {"criteria": {"service": service}, "componentRefs": [{"name": "nfd", **more}]})
    catalogue = newer.load()
    assert catalogue.warnings == ()
    assert kinds(catalogue, "gke") == ["Service", "Node"]
    assert kinds(catalogue, "eks") == ["Secret", "Node"]
    assert kinds(catalogue, "aks") == []


def test_a_health_check_that_is_not_there_is_found_when_the_tree_is_loaded(newer: Tree) -> None:
    newer.registry("nfd", nfd={"healthCheck": {"assertFile": "checks/nfd/health.yaml"}})
    newer.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    with pytest.raises(ProblemsError, match=r"registry.yaml:\d+: assertFile 'checks/nfd/health.yaml' does not exist"):
        newer.load()


def profiled(newer: Tree, advertiser: str = "external") -> Catalogue:
    """GKE with a profile: its own device plugin, or that of the GPU operator, gives out the GPUs."""
    newer.registry("gpu-operator", "nvidia-dra-driver-gpu")
    off = [{"name": "gpu-operator", "overrides": {"devicePlugin": {"enabled": False}}},
           {"name": "nvidia-dra-driver-gpu", "overrides": {"resources": {"gpus": {"enabled": False}}}}]  # fmt: skip
    values = {
        "gke-default": {"advertiser": advertiser, "componentRefs": off},
        "half": {"advertiser": advertiser, "componentRefs": off[:1]},
        "both": {"advertiser": advertiser},
        "bundle-installer": {},
    }
    refs = [{"name": "gpu-operator"}, {"name": "nvidia-dra-driver-gpu"}]
    newer.overlay("base", {"componentRefs": refs})
    profile = {"name": "gpuStack", "default": "gke-default", "values": values}
    newer.overlay("gke", {"criteria": {"service": "gke"}, "profile": profile})
    return newer.load()


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("gke-default", ""),
        ("bundle-installer", ""),
        ("both", r"component gpu-operator: would give out GPUs beside .* gpuStack=both.*devicePlugin.enabled"),
        ("half", r"component nvidia-dra-driver-gpu: .*gpuStack=half.*resources.gpus.enabled"),
    ],
)
def test_where_the_platform_gives_out_the_gpus_no_component_does(value: str, refused: str, newer: Tree) -> None:
    catalogue = profiled(newer)
    criteria = parse_criteria({"service": "gke"}, catalogue.vocabulary)
    if not refused:
        assert hydrated(resolve(criteria, catalogue, {"gpuStack": value}), catalogue)
        return
    with pytest.raises(InputError, match=refused):
        resolve(criteria, catalogue, {"gpuStack": value})


def test_an_override_does_not_give_them_out_twice_either(newer: Tree) -> None:
    catalogue = profiled(newer)
    over = {"gpu-operator": {"devicePlugin": {"enabled": True}}}
    result = with_overrides(asked(catalogue, service="gke"), catalogue, over, check=False)
    with pytest.raises(InputError, match=r"gpu-operator: would give out GPUs beside the platform"):
        hydrated(result, catalogue)


def test_an_advertiser_that_is_none_is_refused(newer: Tree) -> None:
    with pytest.raises(ProblemsError, match=r"gke.yaml:\d+: .*advertiser is 'External', which is not one of external"):
        profiled(newer, "External")
