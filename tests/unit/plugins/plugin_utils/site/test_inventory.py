# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The site from the inventory: right when right, and all problems at once when not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings import setting
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    SITE,
    Layer,
    load_settings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.inventory import (
    InventoryFacts,
    component_problems,
    site_from_inventory,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, load_profiles

CHECKS = {
    "gpu-census": SubjectKind.NODE,
    "facility-power": SubjectKind.RACK,
    "link-errors": SubjectKind.SITE,
    "component-health": SubjectKind.COMPONENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Of the settings of check cluster-autoscaling the one that is read here."""

    added: bool = setting("Whether nodes are added.")


SETTINGS: dict[str, tuple[type[Any], ...]] = {"facility": (), "gpu-census": (), "cluster-autoscaling": (Added,)}
SHIPPED = Layer("shipped", {"cluster-autoscaling": {"added": True}})
HOSTS = {f"gpu0{n}": {"gpufleet_sku": "h100", "gpufleet_rack": "a1"} for n in (1, 2, 3)}
DECISION = {"check": "gpu-census", "subject": "gpu01", "reason": "r", "who": "ada", "until": "2026-12-31"}
QUARANTINE = {"node": "gpu02", "reason": "r", "ticket": "T-1", "who": "ada"}


OWN = [f"mlx5_{number}" for number in (2, 3, 4, 5, 8, 9, 10, 11)]


def hcas(names: Any) -> dict[str, Any]:
    return {"gpu01": HOSTS["gpu01"] | {"gpufleet_hcas": names}}


@pytest.fixture
def site_of(repository: Path) -> Any:
    """Make the site from hosts and options."""
    recipes = repository / "recipes"

    def make(hosts: dict[str, Any] | None = None, **options: Any) -> Site:
        return site_from_inventory(
            InventoryFacts(
                group="gpu_nodes",
                groups=options.pop("groups", ("all", "gpus")),
                hosts=HOSTS if hosts is None else hosts,
                options=options,
                default_gates=("facility", "nodes", "gpu_stack"),
                profiles=load_profiles([recipes]),
                checks=CHECKS,
                problems=tuple(load_settings(SETTINGS, [SHIPPED, Layer(SITE, options.get("settings") or {})])[1]),
                hardware=load_hardware([recipes / "hardware"]),
            )
        )

    return make


def test_a_right_inventory_becomes_a_site(site_of: Any) -> None:
    site = site_of(waivers=[DECISION], quarantine=[QUARANTINE], minimum_nodes=2)
    assert [host.name for host in site.in_scope] == ["gpu01", "gpu03"]
    assert site.gates == ("facility", "nodes", "gpu_stack")
    assert {"infiniband", "multi_node", "nvswitch", "facility_record"} <= set(site.capabilities)
    assert site.hosts[0].node_name == "gpu01"


def test_names_of_adapters_come_from_the_inventory(site_of: Any) -> None:
    assert site_of(hcas(OWN)).hosts[0].hcas == tuple(OWN)
    assert site_of().hosts[0].hcas == ()


def test_one_host_is_no_fabric_of_several(site_of: Any) -> None:
    assert "multi_node" not in site_of({"gpu01": HOSTS["gpu01"]}).capabilities


@pytest.mark.parametrize(
    ("stated", "word", "why"),
    [
        (None, None, "is not given"),
        ({}, "node_autoscaler", ""),
        ({"added": True}, "node_autoscaler", ""),
        ({"added": False}, "fixed_nodes", "nobody adds nodes"),
    ],
)
def test_a_site_says_whether_nodes_are_added(site_of: Any, stated: Any, word: str | None, why: str) -> None:
    site = site_of(settings={} if stated is None else {"cluster-autoscaling": stated})
    assert {"node_autoscaler", "fixed_nodes"} & set(site.capabilities) == ({word} if word else set())
    assert why in site.missing["node_autoscaler"]


@pytest.mark.parametrize(
    ("hosts", "options", "words"),
    [
        ({}, {}, ["'gpu_nodes'", "matches no host", "all, gpus", "put the GPU hosts into that group"]),
        ({}, {"groups": ("all", "ungrouped")}, ["matches no host", "name the inventory of the site: -i INVENTORY"]),
        ({"gpu01": {"gpufleet_sku": "h10", "gpufleet_rack": "a1"}}, {}, ["gpu01", "'h10'", "h100"]),
        ({"gpu01": {"gpufleet_rack": "a1"}}, {}, ["gpu01", "no gpufleet_sku"]),
        ({"gpu01": {"gpufleet_sku": "h100"}}, {}, ["gpu01", "no gpufleet_rack"]),
        (hcas(["mlx5_0"]), {}, ["gpu01: gpufleet_hcas", "has 1 names", "8 ports", "correct gpufleet_hcas"]),
        (hcas("mlx5_0"), {}, ["gpu01: gpufleet_hcas", "'mlx5_0'", "expected a list"]),
        (hcas([*OWN[:7], "mlx5_2"]), {}, ["gpu01: gpufleet_hcas", "mlx5_2 twice"]),
        (hcas([*OWN[:7], "mlx5 9"]), {}, ["gpu01: gpufleet_hcas", "'mlx5 9'"]),
        ({n: HOSTS["gpu01"] | {"gpufleet_node_name": "same"} for n in ("a", "b")}, {}, ["'same'", "host a"]),
        (None, {"gates": ["node"]}, ["'node'", "did you mean nodes?"]),
        (None, {"gates": ["telemetry"]}, ["telemetry", "no check"]),
        (None, {"waivers": [DECISION | {"who": ""}]}, ["missing who"]),
        (None, {"waivers": [DECISION | {"until": "soon"}]}, ["'soon'"]),
        (None, {"waivers": [DECISION | {"tll": "x"}]}, ["gpufleet_waivers[0]", "tll"]),
        (None, {"waivers": DECISION}, ["gpufleet_waivers", "expected a list"]),
        (None, {"quarantine": [QUARANTINE | {"node": "gpu04"}]}, ["'gpu04'", "did you mean"]),
        (None, {"quarantine": [QUARANTINE], "minimum_nodes": 3}, ["2 of 3", "gpufleet_minimum_nodes is 3"]),
        (None, {"quarantine": [QUARANTINE], "minimum_nodes": 7}, ["gpufleet_minimum_nodes: is 7", "has 3 hosts"]),
        (None, {"minimum_nodes": 7}, ["gpufleet_minimum_nodes: is 7", "the inventory has 3 hosts", "lower it"]),
        (None, {"waivers": [DECISION | {"check": "gpu-cencus"}]}, ["waivers[0].check", "did you mean 'gpu-census'?"]),
        (
            None,
            {"waivers": [DECISION | {"subject": "gpu22"}]},
            ["waivers[0].subject: 'gpu22' matches no host", "'gpu02'"],
        ),
        (None, {"waivers": [DECISION | {"subject": "node*"}]}, ["'node*' matches no host of the group"]),
        (None, {"waivers": [DECISION | {"subject": "node1/gpu3"}]}, ["'node1/gpu3' matches no host of the group"]),
        (
            None,
            {"waivers": [DECISION | {"subject": "gpu01/gpu8"}]},
            ["'gpu01/gpu8' is no GPU: that host has 8, gpu0 to gpu7"],
        ),
        (
            None,
            {"acceptances": [DECISION | {"subject": "gpu04"}]},
            ["gpufleet_acceptances[0].subject", "matches no host"],
        ),
        (
            None,
            {"waivers": [DECISION | {"check": "facility-power", "subject": "a2"}]},
            ["'a2' matches no rack of the hosts", "a1"],
        ),
        (
            None,
            {"waivers": [DECISION | {"check": "link-errors", "subject": "lab"}]},
            ["'lab' matches no site, host or rack"],
        ),
        (
            None,
            {"orchestrator": "slurm", "gates": ["nodes", "gpu_stack", "telemetry", "training_acceptance"]},
            [
                "'slurm': this release has gates 1 to 6 over Slurm, and not yet training_acceptance: what they run is",
                "gpufleet_gates: [nodes, gpu_stack, telemetry]",
            ],
        ),
        (
            None,
            {"orchestrator": "slurm", "gates": ["nodes", "fabric_validation"], "settings": {"continuous": {}}},
            ["continuous.slurm_dir: is not stated, and jobs of gate fabric_validation", "continuous.slurm_dir=/shared"],
        ),
        (
            None,
            {"orchestrator": "slurm", "driver_owner": "operator", "gates": ["gpu_stack"]},
            ["gpufleet_driver_owner: is operator, and there is no GPU operator without Kubernetes"],
        ),
        (
            None,
            {"orchestrator": "slurm", "criteria": {"platform": "Kueue"}},
            ["gpufleet_orchestrator: is slurm, and gpufleet_criteria.platform is kueue"],
        ),
        (None, {"pools": [{"criteria": {}}]}, ["gpufleet_recipe_pools: entry 1 has no name"]),
        (None, {"pools": [{"name": "a"}, {"name": "a"}]}, ["entry 2 has the name of another one, 'a'"]),
        (None, {"settings": {"gpu-cencus": {}}}, ["gpufleet_settings.gpu-cencus", "did you mean 'gpu-census'?"]),
        (None, {"settings": {"facility": "x"}}, ["gpufleet_settings.facility", "expected options"]),
    ],
)
def test_each_mistake_is_named_with_its_fix(site_of: Any, hosts: Any, options: Any, words: list[str]) -> None:
    with pytest.raises(ProblemsError) as caught:
        site_of(hosts, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        ("gpu-census", "gpu0[12]"),
        ("gpu-census", "*"),
        ("gpu-census", "gpu01/gpu3"),
        ("facility-power", "a1"),
        ("link-errors", "cluster"),
        ("link-errors", "leaf1:3 - spine1:2"),
        ("component-health", "gpu-operator"),
    ],
)
def test_what_can_apply_is_taken(site_of: Any, check: str, subject: str) -> None:
    site = site_of(waivers=[DECISION | {"check": check, "subject": subject}])
    assert site.waivers[0].subject == subject


def test_a_waiver_of_a_component_that_the_recipe_lacks_is_a_problem(site_of: Any) -> None:
    waivers = site_of(waivers=[DECISION | {"check": "component-health", "subject": "gpu-operatr"}]).waivers
    (problem,) = component_problems("gpufleet_waivers", waivers, CHECKS, ["gpu-operator", "nfd"])
    assert "'gpu-operatr' matches no component of the recipe. Fix: did you mean 'gpu-operator'?" in str(problem)
    assert component_problems("gpufleet_waivers", waivers, CHECKS, ["gpu-operatr"]) == []


def test_all_mistakes_come_in_one_list(site_of: Any) -> None:
    with pytest.raises(ProblemsError) as caught:
        site_of({"gpu01": {"gpufleet_sku": "x"}}, gates=["nope"], settings={"zzz": {}}, waivers=3)
    assert len(caught.value.problems) == 4


def test_a_day_that_yaml_read_as_a_date_is_taken(site_of: Any) -> None:
    from datetime import date

    assert site_of(waivers=[DECISION | {"until": date(2026, 12, 31)}]).waivers[0].until == "2026-12-31"
