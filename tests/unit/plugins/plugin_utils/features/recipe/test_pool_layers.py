# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of the inventory: each host belongs to one by its SKU, and the site's recipe has what each needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import answer_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.pool_layers import recipe_data_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host, Site, SitePool

GENERIC = {"service": "generic", "intent": "training", "os": "ubuntu"}
BIG = SitePool(name="big", criteria={"accelerator": "h100", "fabric": "ib"}, node_selector={"pool": "big"})
OLD = SitePool(name="old", criteria={"accelerator": "a100", "fabric": "none"}, node_selector={"pool": "old"})


@pytest.fixture(scope="module")
def hardware(repository: Path) -> dict[str, Sku]:
    return dict(load_hardware([repository / "recipes/hardware"]))


def site(*pools: SitePool, skus: tuple[str, ...] = ("dgx-h100", "dgx-a100", "dgx-h100")) -> Site:
    hosts = [Host(name=f"gpu{n}", sku=sku, node_name=f"gpu{n}") for n, sku in enumerate(skus, 1)]
    made = make_site(hosts, criteria=GENERIC, driver_owner=DriverOwner.OPERATOR)
    return replace(made, pools=pools)


def test_the_recipe_of_a_run_has_the_workloads_of_the_sites_own_entries_alone(tmp_path: Path) -> None:
    entry = {
        "name": "acme-tuner", "displayName": "ACME tuner", "workloads": [{"kind": "Deployment", "name": "acme-main"}],
        "helm": {"defaultRepository": "https://charts.example", "defaultChart": "acme-tuner", "defaultVersion": "1.0.0",
                 "defaultNamespace": "acme"},
    }  # fmt: skip
    head = {"apiVersion": "gpufleet.bringup/v1", "kind": "ComponentRegistry"}
    (tmp_path / "registry.yaml").write_text(json.dumps({**head, "components": [entry]}), encoding="utf-8")
    (tmp_path / "overlays").mkdir()
    layer = {
        "apiVersion": "gpufleet.bringup/v1", "kind": "RecipeMetadata", "metadata": {"name": "acme"},
        "spec": {"criteria": {"intent": "training"}, "componentRefs": [{"name": "acme-tuner"}]},
    }  # fmt: skip
    (tmp_path / "overlays" / "acme.yaml").write_text(json.dumps(layer), encoding="utf-8")
    given = make_site(criteria=GENERIC)
    answered = answer_for(given, {"recipe_data": [str(tmp_path)], "overrides": {}}, {})
    references = recipe_data_of(answered, given, {})["componentRefs"]
    stated = {ref["name"]: ref["workloads"] for ref in references if "workloads" in ref}
    assert stated == {"acme-tuner": [{"kind": "Deployment", "name": "acme-main"}]}


def recipe_of(given: Site, hardware: dict[str, Sku], **overrides: Any) -> dict[str, Any]:
    answered = answer_for(given, {"recipe_data": [], "overrides": overrides}, hardware)
    return recipe_data_of(answered, given, hardware)


def policies(recipe: dict[str, Any]) -> list[str]:
    texts = [item["text"] for entry in recipe["componentRefs"] for item in entry.get("manifests") or ()]
    return [text for text in texts if "kind: NicClusterPolicy" in text]


def test_one_recipe_has_what_each_pool_needs_and_names_its_hosts(hardware: dict[str, Sku]) -> None:
    recipe = recipe_of(site(BIG, OLD), hardware)
    assert [(pool["name"], pool["hosts"], pool["nodeSelector"]) for pool in recipe["pools"]] == [
        ("big", ["gpu1", "gpu3"], {"pool": "big"}),
        ("old", ["gpu2"], {"pool": "old"}),
    ]
    # The fabric of one pool brings the devices of its adapters.
    assert policies(recipe)
    assert "pools" not in recipe_of(site(), hardware)


def test_the_sites_overrides_hold_for_its_one_recipe(hardware: dict[str, Sku]) -> None:
    given, own = site(BIG, OLD), {"nfd": {"master": {"nodeSelector": {"a": "b"}}}}
    answered = answer_for(given, {"recipe_data": [], "overrides": own}, hardware)
    (entry,) = (entry for entry in answered.result.components if entry.name == "nfd")
    assert component_values(entry, answered.catalogue)["master"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize(
    ("pools", "subject", "says"),
    [
        ((BIG,), "host gpu2", ("gpufleet_sku is dgx-a100", "accelerator a100", "big: accelerator=h100")),
        ((replace(BIG, criteria={"accelerator": "h100", "fabric": "roce"}), OLD), "host gpu1", ("fabric infiniband",)),
        (
            (BIG, OLD, SitePool(name="more", criteria={"accelerator": "b200"})),
            "gpufleet_recipe_pools: more",
            ("is for accelerator=b200, and no host in scope is", "dgx-a100, dgx-h100"),
        ),
    ],
)
def test_pools_and_hardware_that_contradict_each_other_are_refused_with_both_sources(
    pools: tuple[SitePool, ...], subject: str, says: tuple[str, ...], hardware: dict[str, Sku]
) -> None:
    with pytest.raises(ProblemsError) as caught:
        recipe_of(site(*pools), hardware)
    problem = caught.value.problems[0]
    assert problem.subject == subject
    assert all(text in problem.reason for text in says), problem.reason


def test_hosts_that_differ_without_pools_are_told(hardware: dict[str, Sku]) -> None:
    options: dict[str, Any] = {"recipe_data": [], "overrides": {}}
    (told,) = (text for text in answer_for(site(), options, hardware).warnings if "the hosts differ" in text)
    assert "gpu1 (dgx-h100)" in told
    assert "gpu2 (dgx-a100)" in told
    assert "gpufleet_recipe_pools" in told
    alike = answer_for(site(skus=("dgx-h100", "dgx-h100")), options, hardware)
    assert not [text for text in alike.warnings if "the hosts differ" in text]


def _selector(recipe: dict[str, Any]) -> Any:
    (driver,) = (entry for entry in recipe["componentRefs"] if entry["name"] == "nvidia-dra-driver-gpu")
    return driver["values"]["kubeletPlugin"].get("nodeSelector")


def test_labels_that_all_pools_share_select_the_nodes_of_what_runs_beside_gpus(hardware: dict[str, Sku]) -> None:
    big, old = (replace(pool, node_selector={**pool.node_selector, "gpus": "yes"}) for pool in (BIG, OLD))
    assert _selector(recipe_of(site(big, old), hardware)) == {"gpus": "yes"}
    own = {"nvidia-dra-driver-gpu": {"kubeletPlugin": {"nodeSelector": {"gpus": "own"}}}}
    assert _selector(recipe_of(site(big, old), hardware, **own)) == {"gpus": "own"}
    answered = answer_for(site(big, old), {"recipe_data": [], "overrides": {}}, hardware)
    assert not [text for text in answered.warnings if "one selector" in text]


def test_a_chart_takes_one_selector_and_pools_without_a_common_label_are_told(hardware: dict[str, Sku]) -> None:
    assert _selector(recipe_of(site(BIG, OLD), hardware)) is None
    answered = answer_for(site(BIG, OLD), {"recipe_data": [], "overrides": {}}, hardware)
    (told,) = (text for text in answered.warnings if "one selector" in text)
    assert "big: pool=big; old: pool=old" in told
    assert "nvidia-dra-driver-gpu runs on every node with GPUs" in told
    unlabelled = [replace(pool, node_selector={}) for pool in (BIG, OLD)]
    silent = answer_for(site(*unlabelled), {"recipe_data": [], "overrides": {}}, hardware)
    assert not [text for text in silent.warnings if "one selector" in text]
