# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""EFA devices that libfabric reaches, counted by their domains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

CHECK = "efa-devices"
ENTRY = (
    "provider: efa\n    fabric: {}\n    domain: rdmap{}s0-rdm\n    version: 201.0\n    type: FI_EP_RDM\n"
    "    protocol: FI_PROTO_EFA\n"
)
GROWTH = "host-state-after-diag"
COUNTER = "/sys/class/infiniband/rdmap{}s0/ports/1/hw_counters/{}:{}\n"
LINK = "link rdmap{}s0/1 state {} physical_state LINK_UP \n"


@pytest.fixture
def efa(fleet: AnyFleet) -> AnyFleet:
    """Three hosts with four EFA devices each."""
    fleet.sku = replace(fleet.sku, fabric="efa", hca_model="EFA")
    for host in fleet.hosts.values():
        host.tools["fi_info"] = printed("".join(ENTRY.format(f, n) for f in ("efa-direct", "efa") for n in range(4)))
        host.tools["rdma_link"] = printed("".join(LINK.format(n, "ACTIVE") for n in range(4)))
        host.tools["efa_counters"] = counters()
    return fleet


def counters(**grown: int) -> ToolRun:
    """The counters of all devices; those of the third one have grown."""
    usual = {"rx_drops": 7, "retrans_pkts": 90, "retrans_timeout_events": 3}
    rows = ((n, usual | (grown if n == 2 else {})) for n in range(4))
    return printed("".join(COUNTER.format(n, name, value) for n, row in rows for name, value in row.items()))


def printed(text: str) -> ToolRun:
    return ToolRun(argv=("tool",), rc=0, stdout=text)


def judged(fleet: AnyFleet) -> tuple[Outcome, ...]:
    outcomes: tuple[Outcome, ...] = fleet.judge(only=CHECK)
    return outcomes


def test_two_entries_of_a_device_are_one_device(efa: AnyFleet) -> None:
    outcomes = judged(efa)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    assert {outcome.summary for outcome in outcomes} == {"4 EFA devices by libfabric"}


def test_two_devices_with_two_entries_each_are_not_four(efa: AnyFleet) -> None:
    efa.hosts["gpu02"].tools["fi_info"] = printed(
        "".join(ENTRY.format(f, n) for f in ("efa-direct", "efa") for n in range(2))
    )
    assert said(judged(efa), Status.FAILED) == {(CHECK, "efa-device-missing", "gpu02")}


def test_a_host_without_any_device_fails(efa: AnyFleet) -> None:
    nothing = ToolRun(argv=("fi_info",), rc=61, stderr="fi_getinfo: -61 (No data available)")
    efa.hosts["gpu02"].tools["fi_info"] = nothing
    assert said(judged(efa), Status.FAILED) == {(CHECK, "efa-device-missing", "gpu02")}


@pytest.mark.parametrize(("devices", "status"), [(4, Status.PASSED), (3, Status.FAILED)])
def test_without_libfabric_the_kernels_devices_are_counted(efa: AnyFleet, devices: int, status: Status) -> None:
    host = efa.hosts["gpu02"]
    host.tools["fi_info"] = ToolRun(argv=("fi_info",), missing=True)
    host.tools["rdma_link"] = printed("".join(LINK.format(n, "ACTIVE") for n in range(devices)))
    (outcome,) = [outcome for outcome in judged(efa) if outcome.subjects[0].name == "gpu02"]
    assert outcome.status is status and "the kernel" in outcome.summary


def test_a_device_that_is_down_fails(efa: AnyFleet) -> None:
    lines = [LINK.format(n, "DOWN" if n == 2 else "ACTIVE") for n in range(4)]
    efa.hosts["gpu02"].tools["rdma_link"] = printed("".join(lines))
    assert said(judged(efa), Status.FAILED) == {(CHECK, "efa-device-down", "gpu02/rdmap2s0")}


@pytest.mark.parametrize("run", [{"missing": True}, {"rc": 0, "stdout": "provider: efa\n"}])
def test_what_nobody_tells_is_open(efa: AnyFleet, run: dict[str, Any]) -> None:
    host = efa.hosts["gpu02"]
    host.tools["fi_info"] = ToolRun(argv=("fi_info",), **run)
    host.tools["rdma_link"] = ToolRun(argv=("rdma",), missing=True)
    kind = "missing" if run.get("missing") else "garbage"
    assert said(judged(efa), Status.OTHER) == {(CHECK, f"fi-info-{kind}", "gpu02")}


def test_a_number_that_no_source_states_is_open(efa: AnyFleet) -> None:
    efa.sku = replace(efa.sku, compute_hcas=0, hca_rate_gbps=0)
    assert {outcome.cause for outcome in judged(efa)} == {"fact-not-known"}


@pytest.mark.parametrize("name", ["rx_drops", "retrans_timeout_events"])
def test_packets_that_are_lost_under_load_are_for_a_person(efa: AnyFleet, name: str) -> None:
    """Those of before the load are not."""
    assert {outcome.status for outcome in efa.judge(only=GROWTH)} == {Status.PASSED}
    efa.hosts["gpu02"].after["efa_counters"] = counters(**{name: 318})
    (held,) = [outcome for outcome in efa.judge(only=GROWTH) if outcome.status is not Status.PASSED]
    assert (held.status, held.cause) == (Status.OTHER, "port-errors-under-load")
    assert "gpu02/rdmap2s0" in {subject.name for subject in held.subjects}
    assert f"rdmap2s0:1: {name} +" in held.summary and "rdma -p statistic show" in held.hint


def test_packets_that_are_sent_again_are_read_and_not_judged(efa: AnyFleet) -> None:
    efa.hosts["gpu02"].after["efa_counters"] = counters(retrans_pkts=400)
    assert {outcome.status for outcome in efa.judge(only=GROWTH)} == {Status.PASSED}


def test_a_site_may_allow_more(efa: AnyFleet) -> None:
    efa.settings[GROWTH] = {"port_counters": {"rx_drops": 500}}
    efa.hosts["gpu02"].after["efa_counters"] = counters(rx_drops=318)
    assert {outcome.status for outcome in efa.judge(only=GROWTH)} == {Status.PASSED}


@pytest.mark.parametrize(
    "run", [{"rc": 1}, {"rc": 0, "stdout": ""}, {"rc": 0, "stdout": "nonsense"}, {"missing": True}]
)
def test_counters_that_one_reading_lacks_leave_the_host_open(efa: AnyFleet, run: dict[str, Any]) -> None:
    efa.hosts["gpu02"].after["efa_counters"] = ToolRun(argv=("find",), **run)
    (held,) = [outcome for outcome in efa.judge(only=GROWTH) if outcome.status is not Status.PASSED]
    assert (held.status, held.cause, held.subjects[0].name) == (Status.OTHER, "host-state-unreadable", "gpu02")


def test_a_device_that_only_one_reading_has_leaves_the_host_open(efa: AnyFleet) -> None:
    text = "".join(COUNTER.format(n, "rx_drops", 7) for n in range(3))
    efa.hosts["gpu02"].after["efa_counters"] = printed(text)
    (held,) = [outcome for outcome in efa.judge(only=GROWTH) if outcome.status is not Status.PASSED]
    assert (held.status, held.cause) == (Status.OTHER, "counters-not-comparable")


def test_a_driver_without_such_counters_is_not_asked_for_them(efa: AnyFleet) -> None:
    """Before Linux 5.14 the counters are of the device and not of its port."""
    for host in efa.hosts.values():
        host.tools["efa_counters"] = printed("")
    assert {outcome.status for outcome in efa.judge(only=GROWTH)} == {Status.PASSED}


def test_commands_that_a_device_refused_are_noted(efa: AnyFleet) -> None:
    """aws/aws-ofi-nccl#22"""
    efa.hosts["gpu02"].kernel += [
        "infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 err -12"
    ]
    outcomes = judged(efa)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    noted = {outcome.subjects[0].name: outcome.summary for outcome in outcomes if "noted" in outcome.summary}
    assert list(noted) == ["gpu02"] and "efa_0 refused ALLOC_PD 1 time" in noted["gpu02"]
