# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapters among others on real hosts: storage, management, bridges; links that are lost; slots that are too slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

FAR = {"beside": "-1"}
STORAGE = {"mlx5_8": FAR, "mlx5_9": FAR}
MANAGEMENT = {
    "mlx5_10": {"layer": "Ethernet", "rate": "100", "type": "MT4125", **FAR},
    "mlx5_11": {"layer": "Ethernet", "state": "Down", "physical": "Disabled", "rate": "40", "type": "MT4125", **FAR},
}
DOWN = {"state": "Down", "physical": "Polling", "rate": "10"}
# As the IB core prints it (linux-rdma, "Add log messages for IB device state changes").
LOST = "mlx5_core 0000:08:00.0 {}: Port: 1 Link DOWN"
LIMITED = (
    "mlx5_core 0000:99:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:98:01.0 "
    "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
)


def held(fleet: Any) -> list[Outcome]:
    return [o for o in fleet.judge(only="hca-state") if o.status is not Status.PASSED]


def add(fleet: Any, hcas: dict[str, dict[str, str]]) -> None:
    for host in fleet.hosts.values():
        host.hcas |= {name: dict(values) for name, values in hcas.items()}


def test_storage_and_management_beside_good_adapters_pass(fleet: Any) -> None:
    add(fleet, STORAGE | MANAGEMENT)
    assert not held(fleet)


def test_good_storage_adapters_do_not_stand_in_for_dead_ones(fleet: Any) -> None:
    add(fleet, STORAGE)
    fleet.hosts["gpu02"].hcas["mlx5_1"] |= DOWN
    fleet.hosts["gpu02"].hcas["mlx5_3"] |= DOWN
    (found,) = held(fleet)
    assert found.cause == "hca-down"
    assert {subject.name for subject in found.subjects} == {"gpu02", "gpu02/mlx5_1", "gpu02/mlx5_3"}


def test_a_dead_adapter_brings_no_advice_about_management_ports(fleet: Any) -> None:
    add(fleet, MANAGEMENT)
    fleet.hosts["gpu02"].hcas["mlx5_1"] |= DOWN
    (found,) = held(fleet)
    assert found.cause == "hca-down" and "LINK_TYPE" not in found.hint


def test_adapters_of_which_nothing_tells_the_role_are_not_known(fleet: Any) -> None:
    add(fleet, STORAGE)
    for host in fleet.hosts.values():
        host.tools["nvidia_smi_topo"] = ToolRun(argv=("nvidia-smi", "topo", "-m"), missing=True)
    found = held(fleet)
    assert {(o.cause, o.status, o.rating) for o in found} == {("adapters-not-known", Status.OTHER, Rating.UNKNOWN)}
    assert "6 adapters fit" in found[0].summary and "gpufleet_hcas" in found[0].hint
    fleet.stated_hcas = tuple(f"mlx5_{n}" for n in range(4))
    assert not held(fleet)


def test_an_adapter_that_is_missing_among_others_is_one_fault(fleet: Any) -> None:
    add(fleet, STORAGE | MANAGEMENT)
    fleet.hosts["gpu02"].hcas.pop("mlx5_2")
    outcomes = [o for o in fleet.judge() if o.status is not Status.PASSED and not o.blocked_by]
    assert [(o.check, o.cause) for o in outcomes] == [("hca-state", "hca-missing")]
    assert "no mlx5_2, nothing beside GPU2" in outcomes[0].summary
    (waits,) = [o for o in fleet.judge(only="topology") if o.status is not Status.PASSED]
    assert waits.blocked_by == "hca-state"


def test_stated_adapters_that_are_not_beside_the_gpus_wait_for_a_person(fleet: Any) -> None:
    add(fleet, STORAGE)
    fleet.stated_hcas = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_8")
    found = held(fleet)
    assert {(o.cause, o.rating) for o in found} == {("adapters-disputed", Rating.MARGINAL)}
    assert "gpufleet_hcas states mlx5_8; beside the GPUs are mlx5_3" in found[0].summary


def test_an_sku_of_which_no_source_counts_the_adapters_does_not_pass(fleet: Any) -> None:
    fleet.sku = replace(fleet.sku, fabric="roce", compute_hcas=0, hca_rate_gbps=0)
    assert {o.cause for o in held(fleet)} == {"fact-not-known"}


def test_an_adapter_that_loses_its_link_is_found_in_the_kernels_own_words(fleet: Any) -> None:
    fleet.hosts["gpu02"].kernel += [LOST.format("mlx5_1")] * 6
    (found,) = held(fleet)
    assert (found.cause, found.rating) == ("link-flapping", Rating.MARGINAL)
    assert "gpu02/mlx5_1" in {subject.name for subject in found.subjects}


def test_links_of_other_adapters_may_come_and_go(fleet: Any) -> None:
    add(fleet, MANAGEMENT)
    fleet.hosts["gpu02"].kernel += [LOST.format("mlx5_11")] * 9
    assert not held(fleet)


@pytest.mark.parametrize(("minute", "lost"), [(5, False), (29, False), (31, True)])
def test_links_settle_within_half_an_hour_of_the_boot(fleet: Any, minute: int, lost: bool) -> None:
    stamp = "2026-11-21T08:{:02d}:00+00:00 gpu02 kernel: {}"
    lines = [stamp.format(0, "Linux version 6.8.0-79-generic"), *[stamp.format(minute, LOST.format("mlx5_1"))] * 6]
    fleet.hosts["gpu02"].tools["kernel_log"] = ToolRun(argv=("journalctl",), rc=0, stdout="\n".join(lines) + "\n")
    assert [o.cause for o in held(fleet)] == (["link-flapping"] if lost else [])
    # A log that begins later, such as a ring buffer that went round, cannot tell when the boot was.
    cut = ToolRun(argv=("journalctl",), rc=0, stdout="\n".join(lines[1:]) + "\n")
    fleet.hosts["gpu02"].tools["kernel_log"] = cut
    assert [o.cause for o in held(fleet)] == ["link-flapping"]


@pytest.mark.parametrize("model", ["ConnectX-7", None])
def test_a_slot_that_is_too_slow_is_found_also_where_the_sku_names_no_model(fleet: Any, model: str | None) -> None:
    fleet.sku = replace(fleet.sku, hca_model=model)
    fleet.hosts["gpu02"].kernel.append(LIMITED)
    assert [o.cause for o in held(fleet)] == ["hca-pcie-limited"]
    fleet.hosts["gpu02"].kernel[-1] = (
        "mlx5_core 0000:99:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16)"
    )
    assert not held(fleet)


@pytest.mark.parametrize(("word", "declared"), [("infiniband", True), ("roce", True), ("efa", False), ("", False)])
def test_the_check_is_declared_where_hosts_have_such_adapters(word: str, declared: bool) -> None:
    hosts = (Host(name="gpu01", sku="x", node_name="gpu01"),)
    site = make_site(hosts, capabilities=("host_access", *filter(None, [word])))
    found = declare("nodes", site)
    assert any(check.id == "hca-state" for check in found.checks) is declared
    left_out = {entry.id: entry.reason for entry in found.not_declared}
    assert declared or left_out["hca-state"] == "needs infiniband or roce: the inventory has none"


@pytest.mark.parametrize(
    ("times", "place", "word"), [(9, "99:00.2", "unplugged"), (1, "99:00.2", ""), (9, "77:00.0", "")]
)
def test_a_cable_that_comes_and_goes_without_an_interface(fleet: Any, times: int, place: str, word: str) -> None:
    """An InfiniBand port without a network interface has no line `Link down`, only events of its module."""
    line = f"mlx5_core 0000:{place}: Port module event: module 2, Cable unplugged"
    fleet.hosts["gpu02"].kernel += [line] * times
    found = held(fleet)
    assert [o.cause for o in found] == (["link-flapping"] if word else [])
    assert all(word in o.summary for o in found)
