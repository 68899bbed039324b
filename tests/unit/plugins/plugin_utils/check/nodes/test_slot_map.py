# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts sit in the same places on all hosts of a SKU: module numbers of GPUs, adapters beside them, NUMA nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fleet_faults import AnyFleet, lost, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

CHECK = "slot-map-uniform"


def modules(fleet: AnyFleet, usual: Sequence[int], odd: Sequence[int]) -> None:
    """Number the modules of all hosts, and those of gpu02 otherwise."""
    for name, host in fleet.hosts.items():
        for gpu, module in zip(host.gpus, odd if name == "gpu02" else usual, strict=True):
            gpu.values["modes"] = f"<platformInfo><module_id>{module}</module_id></platformInfo>"


def found(fleet: AnyFleet) -> set[tuple[str, str, str]]:
    return said(fleet.judge(only=CHECK), Status.OTHER)


def test_two_gpus_in_each_others_place_are_for_a_person(fleet: AnyFleet) -> None:
    modules(fleet, (3, 1, 2, 4), (1, 3, 2, 4))
    assert found(fleet) == {(CHECK, "slot-map-mismatch", "gpu02/gpu0,gpu02/gpu1")}


def test_a_module_number_that_no_other_host_has_is_for_a_person_on_bare_metal_alone(fleet: AnyFleet) -> None:
    modules(fleet, (3, 1, 2, 4), (3, 1, 2, 7))
    assert found(fleet) == {(CHECK, "slot-map-mismatch", "gpu02/gpu3")}
    fleet.hosts["gpu02"].tools["virtualisation"] = ToolRun(argv=("systemd-detect-virt",), rc=0, stdout="kvm\n")
    assert found(fleet) == set()


def test_two_adapters_in_each_others_place_are_for_a_person(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].slots = {"mlx5_0": 2, "mlx5_1": 1, "mlx5_2": 0, "mlx5_3": 3}
    assert found(fleet) == {(CHECK, "slot-map-mismatch", "gpu02/gpu0,gpu02/gpu2")}


@pytest.mark.parametrize("stated", [(), ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")])
def test_hosts_with_the_same_places_pass(fleet: AnyFleet, stated: tuple[str, ...]) -> None:
    modules(fleet, (3, 1, 2, 4), (3, 1, 2, 4))
    fleet.stated_hcas = stated
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_a_host_that_calls_its_adapters_otherwise_is_no_peer(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].hcas = {f"mlx5_{n + 4}": {} for n in range(4)}
    fleet.hosts["gpu02"].slots = {f"mlx5_{n + 4}": n for n in range(4)}
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_a_host_without_one_of_its_gpus_is_compared_at_the_places_of_the_others(fleet: AnyFleet) -> None:
    """Its other GPUs are counted otherwise then; who waives the missing one waives no second result."""
    modules(fleet, (3, 1, 2, 4), (3, 1, 2, 4))
    fleet.hosts["gpu02"].gpus[1].listed = False
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}
    fleet.hosts["gpu02"].slots = {"mlx5_0": 2, "mlx5_1": 1, "mlx5_2": 0, "mlx5_3": 3}
    assert found(fleet) == {(CHECK, "slot-map-mismatch", "gpu02/gpu0,gpu02/gpu2")}


def test_a_host_whose_gpu_does_not_answer_waits_for_gpu_census(fleet: AnyFleet) -> None:
    lost(1)(fleet)
    assert [(o.subjects[0].name, o.blocked_by) for o in fleet.judge(only=CHECK) if o.status is not Status.PASSED] == [
        ("gpu02", "gpu-census")
    ]


@pytest.mark.parametrize("odd", ["gpu01", "gpu03"])
def test_where_two_hosts_differ_neither_says_where_the_gpus_of_a_third_are(fleet: AnyFleet, odd: str) -> None:
    """The order of hosts in the inventory decides nothing."""
    fleet.hosts[odd].gpus[3].bus = "0000:99:00.0"
    fleet.hosts["gpu02"].gpus[1].listed = False
    blocked = [o for o in fleet.judge(only=CHECK) if o.blocked_by]
    assert [(o.subjects[0].name, o.blocked_by) for o in blocked] == [("gpu02", "gpu-census")]
