# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with which there is little to measure: closed ones, the only one of a kind, one GPU, no RDMA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from nccl_fleet import Fleet
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

MakeFleet = Callable[..., Fleet]
BETWEEN = {"job-networking", "nccl-pair-bw", "nccl-transport", "nccl-all-nodes-bw"}


def closed(plan: Plan) -> Plan:
    reason = "0 of 8 GPUs are free on {}, 8 are needed"
    return replace(plan, hosts=tuple(replace(host, closed=reason.format(host.node)) for host in plan.hosts))


@pytest.mark.parametrize("count", [4, 64])
def test_a_cluster_without_gpus_is_one_cause(fleet: MakeFleet, count: int) -> None:
    here = fleet(count, plan_change=closed)
    outcomes = here.outcomes()
    named = [o for o in outcomes if not o.blocked_by]
    assert [(o.check, o.cause, len(o.subjects)) for o in named] == [("nccl-results", "no-capacity", count)]
    assert len(outcomes) == 5
    assert not [o for o in outcomes if o.status is Status.PASSED]


def test_hosts_that_are_closed_for_different_reasons_are_told_apart(fleet: MakeFleet) -> None:
    def some(plan: Plan) -> Plan:
        reasons = ("cordoned", "taint ours", "cordoned", "", "", "")
        return replace(plan, hosts=tuple(replace(h, closed=r) for h, r in zip(plan.hosts, reasons, strict=True)))

    named = [o for o in fleet(6, plan_change=some).outcomes() if o.cause == "no-capacity"]
    assert sorted(tuple(s.name for s in o.subjects) for o in named) == [("gpu01", "gpu03"), ("gpu02",)]


def test_the_only_host_of_its_kind_is_not_asked_for_a_partner() -> None:
    kinds = ("dgx-h100", "dgx-h100", "pcie-t4")
    hosts = tuple(Host(name=f"gpu{n}", sku=sku, node_name=f"gpu{n}") for n, sku in enumerate(kinds))
    declaration = declare(
        "fabric_validation", make_site(hosts, name="mixed", capabilities=("kubernetes", "multi_node"))
    )
    asked = {check.id: check.subjects for check in declaration.checks}
    assert asked["nccl-pair-bw"] == asked["nccl-transport"] == ("gpu0", "gpu1")
    assert asked["nccl-results"] == ("gpu0", "gpu1", "gpu2")
    left_out = {entry.id: entry.reason for entry in declaration.not_declared if "of one SKU" in entry.reason}
    assert set(left_out) == BETWEEN
    assert "gpu2 is the only pcie-t4" in left_out["nccl-pair-bw"]


def test_where_no_host_has_an_equal_nothing_is_measured_between_hosts() -> None:
    hosts = tuple(Host(name=sku, sku=sku, node_name=sku) for sku in ("dgx-h100", "pcie-t4"))
    declaration = declare(
        "fabric_validation", make_site(hosts, name="mixed", capabilities=("kubernetes", "multi_node"))
    )
    assert not BETWEEN & {check.id for check in declaration.checks}


def one_gpu(fleet: Fleet) -> Fleet:
    sku = replace(fleet.hardware["dgx-h100"], gpus=1, compute_hcas=1, nvlink_domain_gpus=0, hca_names=())
    fleet.hardware = {**fleet.hardware, "dgx-h100": sku}
    fleet.gpus = 1
    return fleet


@pytest.mark.parametrize("count", [1, 2, 8])
def test_hosts_with_one_gpu_can_pass(fleet: MakeFleet, count: int) -> None:
    outcomes = one_gpu(fleet(count)).outcomes()
    assert [o for o in outcomes if o.status is not Status.PASSED] == []
    within = {o.summary for o in outcomes if o.check == "nccl-intra-node-bw"}
    assert within == {"one GPU: there is nothing within the host to measure"}


def test_a_slow_host_with_one_gpu_is_found(fleet: MakeFleet) -> None:
    outcomes = one_gpu(fleet(8, nics={("gpu03", 0): 0.5})).outcomes()
    found = [o for o in outcomes if o.status is Status.FAILED]
    assert [(o.check, o.subjects[0].name) for o in found] == [("nccl-pair-bw", "gpu03")]


TCP = (
    "NET/Socket : Using [0]eth0:10.0.0.2<0>\nUsing network Socket\nChannel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"
)


def without_fabric(hardware: dict[str, Sku]) -> dict[str, Sku]:
    sku = replace(hardware["dgx-h100"], fabric="none", compute_hcas=0, hca_rate_gbps=0, hca_names=())
    return {**hardware, "dgx-h100": sku}


def test_tcp_where_there_is_no_fabric_claims_nothing_about_rdma(fleet: MakeFleet) -> None:
    here = fleet(4)
    here.hardware = without_fabric(here.hardware)
    here.says = dict.fromkeys(here.hosts, TCP)
    found = [o for o in here.outcomes() if o.check == "nccl-transport"]
    assert {o.status for o in found} == {Status.PASSED}
    assert all("no fabric with RDMA" in o.summary and "GPUDirect" not in o.summary for o in found)
    here.says = dict.fromkeys(here.hosts, "")
    assert {o.cause for o in here.outcomes() if o.check == "nccl-transport"} == {"transport-unproven"}


NO_PLUGIN = "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n" + TCP


def test_an_image_without_the_plugin_is_no_fault_of_any_host(fleet: MakeFleet) -> None:
    here = fleet(8)
    here.says = dict.fromkeys(here.hosts, NO_PLUGIN)
    found = [o for o in here.outcomes() if o.check == "nccl-transport"]
    assert [(o.status, o.cause) for o in found] == [(Status.OTHER, "net-plugin-missing")]
    assert {s.name for s in found[0].subjects} == {"here", *here.hosts}
    assert "image" in found[0].hint
    assert not [o for o in here.outcomes() if o.status is Status.FAILED]


def test_a_host_that_cannot_load_what_the_same_image_has_elsewhere_is_at_fault(fleet: MakeFleet) -> None:
    found = [o for o in fleet(8, says={"gpu03": NO_PLUGIN}).outcomes() if o.status is Status.FAILED]
    assert [(o.cause, o.subjects[0].name) for o in found] == [("net-plugin-missing", "gpu03")]


@pytest.mark.parametrize(
    ("offered", "count", "cause"), [(7, 0, "rdma-resource-short"), (7, 7, ""), (8, 0, ""), (1, 0, "")]
)
def test_a_node_that_offers_fewer_adapters_than_it_has_is_held(
    fleet: MakeFleet, offered: int, count: int, cause: str
) -> None:
    def fewer(plan: Plan) -> Plan:
        return replace(plan, hosts=(replace(plan.hosts[0], rdma_offered=offered), *plan.hosts[1:]))

    here = fleet(4, plan_change=fewer, settings={"rdma_count": count})
    # What pods do not get carries nothing: theirs on one host, or on all where the site states the count.
    few = here.hosts if count else here.hosts[:1]
    here.nics = {(name, rail): 7 / 8 for name in few for rail in range(8) if offered == 7}
    found = [(o.cause, o.subjects[0].name) for o in here.outcomes() if o.status is not Status.PASSED]
    assert found == ([(cause, "gpu01")] if cause else [])


@pytest.mark.parametrize("count", [2, 3])
def test_a_host_without_partner_waits_for_what_is_said_of_the_others(fleet: MakeFleet, count: int) -> None:
    here = fleet(count, state=lambda want: ("succeeded", 0) if want.hosts == ("gpu01",) else ("timeout", None))
    named = [
        (o.check, o.cause, o.subjects[0].name)
        for o in here.outcomes()
        if o.status is not Status.PASSED and not o.blocked_by
    ]
    assert named == [("nccl-results", "run-hung", f"gpu{n:02d}") for n in range(2, count + 1)]
