# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of the inventory and the criteria of the recipe are one statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import answer_for, hardware_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host, Site

GENERIC = {"service": "generic", "intent": "training", "os": "ubuntu"}


@pytest.fixture(scope="module")
def hardware(repository: Path) -> dict[str, Sku]:
    return dict(load_hardware([repository / "recipes/hardware"]))


@pytest.fixture(scope="module")
def catalogue(repository: Path) -> Catalogue:
    return load_catalogue([repository / "recipes"])


def _site(*skus: str, **criteria: str) -> Site:
    hosts = [Host(name=f"gpu{n}", sku=sku, node_name=f"gpu{n}") for n, sku in enumerate(skus, 1)]
    return make_site(hosts, criteria=criteria, driver_owner=DriverOwner.OPERATOR)


@pytest.mark.parametrize(
    ("sku", "said"),
    [
        ("dgx-h100", {"accelerator": "h100", "fabric": "infiniband"}),
        ("dgx-gb200", {"accelerator": "gb200", "fabric": "infiniband", "nvlink_domain": "rack"}),
    ],
)
def test_what_the_hardware_says_alike_chooses_layers(
    sku: str, said: dict[str, str], hardware: dict[str, Sku], catalogue: Catalogue
) -> None:
    if sku not in hardware:
        sku = next(name for name, facts in hardware.items() if facts.nvlink_domain == "rack" and facts.fabric != "none")
        said = {"accelerator": str(hardware[sku].accelerator), "fabric": hardware[sku].fabric, "nvlink_domain": "rack"}
    found = hardware_criteria(_site(sku, sku, **GENERIC), hardware, catalogue)
    assert found == {**GENERIC, **said}


def test_a_fabric_without_a_layer_is_left_out(hardware: dict[str, Sku], catalogue: Catalogue) -> None:
    found = hardware_criteria(_site("dgx-h100", service="eks"), hardware, catalogue)
    assert "fabric" not in found
    assert found["accelerator"] == "h100"


def test_hosts_that_differ_say_nothing(hardware: dict[str, Sku], catalogue: Catalogue) -> None:
    mixed = _site("dgx-h100", "dgx-a100", **GENERIC)
    assert "accelerator" not in hardware_criteria(mixed, hardware, catalogue)
    stated = _site("dgx-h100", "dgx-a100", **GENERIC, accelerator="a100")
    assert hardware_criteria(stated, hardware, catalogue)["accelerator"] == "a100"


@pytest.mark.parametrize("wrong", [{"accelerator": "h200"}, {"fabric": "roce"}, {"nvlink_domain": "rack"}])
def test_a_criterion_that_contradicts_the_hardware_is_refused_with_both_sources(
    wrong: dict[str, str], hardware: dict[str, Sku], catalogue: Catalogue
) -> None:
    ((dimension, value),) = wrong.items()
    with pytest.raises(ProblemsError) as caught:
        hardware_criteria(_site("dgx-h100", **GENERIC, **wrong), hardware, catalogue)
    (problem,) = caught.value.problems
    assert problem.subject == f"gpufleet_criteria.{dimension}"
    assert f"is {value};" in problem.reason
    assert "gpufleet_sku of host gpu1 is dgx-h100" in problem.reason


@pytest.mark.parametrize(
    "less", [{"fabric": "none"}, {"fabric": "ib"}, {"nvlink_domain": "node"}, {"accelerator": "H100"}]
)
def test_less_than_there_is_and_other_names_of_it_are_no_contradiction(
    less: dict[str, str], hardware: dict[str, Sku], catalogue: Catalogue
) -> None:
    found = hardware_criteria(_site("dgx-h100", **GENERIC, **less), hardware, catalogue)
    ((dimension, value),) = less.items()
    assert found[dimension] == value


def _slurm(site: Site, hardware: dict[str, Sku], **overrides: Any) -> dict[str, Any]:
    answered = answer_for(site, {"recipe_data": [], "overrides": overrides}, hardware)
    entry = next(entry for entry in answered.result.components if entry.name == "slinky-slurm")
    worker: dict[str, Any] = component_values(entry, answered.catalogue)["nodesets"]["slinky"]
    return worker


def test_a_worker_of_slurm_asks_for_the_gpus_of_a_host(hardware: dict[str, Sku]) -> None:
    sku = next(name for name, facts in hardware.items() if facts.gpus == 4)
    worker = _slurm(_site(sku, service="generic", intent="training", platform="slurm"), hardware)
    assert worker["slurmd"]["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert worker["extraConfMap"]["Gres"] == ["gpu:4"]


def test_the_sites_own_word_about_slurm_is_not_overruled(hardware: dict[str, Sku]) -> None:
    sku = next(name for name, facts in hardware.items() if facts.gpus == 4)
    own = {"slinky-slurm": {"nodesets": {"slinky": {"replicas": 3}}}}
    worker = _slurm(_site(sku, service="generic", intent="training", platform="slurm"), hardware, **own)
    assert worker["replicas"] == 3
    assert worker["slurmd"]["resources"]["limits"] == {"nvidia.com/gpu": 8}
