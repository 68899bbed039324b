# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields that parsers read and no check looked at (findings T111): each is judged, in both directions.

Lines are those of arch/x86/mm/fault.c (show_signal_msg), of `mlnx_qos` of MLNX_OFED, and of `nvidia-smi nvlink -s` and
`c2c -s` on a GH200.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

CRASH = "{}[4711]: segfault at 0 ip 00007f2f9c8 sp 00007ffd1 error 4 in libc.so.6[7f2f9c6+195000]"


def changed(fleet: AnyFleet, tool: str, old: str, new: str) -> None:
    """Let a tool of gpu02 print something else."""
    text = fleet.hosts["gpu02"].evidence().tools[tool].stdout
    assert old in text, text[:800]
    fleet.hosts["gpu02"].tools[tool] = ToolRun(argv=(tool,), rc=0, stdout=text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("program", "held"),
    [
        ("nvidia-persiste", True),
        ("nv-hostengine", True),
        ("kubelet", True),
        ("python3", False),
        ("pt_main_thread", False),
    ],
)
def test_a_service_that_crashed_is_for_a_person_and_a_users_program_is_noted(
    fleet: AnyFleet, program: str, held: bool
) -> None:
    fleet.hosts["gpu02"].kernel.append(CRASH.format(program))
    outcomes = fleet.judge(only="kernel-hardware")
    assert said(outcomes, Status.OTHER) == ({("kernel-hardware", "service-crashed", "gpu02")} if held else set())
    assert held or any(program in outcome.summary for outcome in outcomes)


@pytest.fixture
def roce(fleet: AnyFleet) -> AnyFleet:
    """Three hosts whose adapters are Ethernet."""
    fleet.sku = replace(fleet.sku, fabric="roce")
    for host in fleet.hosts.values():
        for values in host.hcas.values():
            values["layer"] = "Ethernet"
    return fleet


SHARED = "DCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n\tprio:3 dscp:24,26,\n"
CLASS = "tc: 3 ratelimit: unlimited, tsa: ets, bw: 50%\n\t priority:  3\n"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("OS controlled", "Firmware controlled", "DCBX Firmware controlled"),
        ("dscp:24,26,", "dscp:24,46,", "dscp 46 to 3"),
        ("bw: 50%", "bw: 10%", "class 3 10 %"),
        ("unlimited", "10.0 Gbps", "at most 10.0 Gbps"),
    ],
)
def test_a_port_whose_packets_wait_elsewhere_is_for_a_person(roce: AnyFleet, old: str, new: str, says: str) -> None:
    for host in roce.hosts.values():
        text = host.evidence().tools["mlnx_qos"].stdout.replace("Priority trust state: dscp\n", SHARED)
        text = re.sub(r"(\tenabled[ 01]+\n)", lambda line: line.group(1) + CLASS, text)
        host.tools["mlnx_qos"] = ToolRun(argv=("mlnx_qos",), rc=0, stdout=text)
    assert {outcome.status for outcome in roce.judge(only="roce-setup")} == {Status.PASSED}
    changed(roce, "mlnx_qos", old, new)
    outcomes = roce.judge(only="roce-setup")
    assert {cause for _check, cause, _part in said(outcomes, Status.OTHER)} == {"roce-pfc-differs"}
    assert any(says in outcome.summary for outcome in outcomes)


def test_a_gpu_beside_other_processors_than_on_most_hosts_is_for_a_person(fleet: AnyFleet) -> None:
    assert {outcome.status for outcome in fleet.judge(only="slot-map-uniform")} == {Status.PASSED}
    changed(fleet, "nvidia_smi_topo", "0-47", "48-95")
    assert said(fleet.judge(only="slot-map-uniform"), Status.OTHER) == {
        ("slot-map-uniform", "slot-map-mismatch", "gpu02/gpu0")
    }


@pytest.mark.parametrize(("speed", "held"), [("44.712 GB/s", False), ("22.356 GB/s", True), ("<inactive>", True)])
def test_a_link_to_the_processor_that_is_slower_than_the_others_fails(fleet: AnyFleet, speed: str, held: bool) -> None:
    lines = fleet.hosts["gpu02"].evidence().tools["nvidia_smi_nvlink"].stdout.splitlines()
    gpus = [n for n, line in enumerate(lines) if line.startswith("GPU ")]
    for place in reversed(gpus):
        first = place == gpus[0]
        lines[place + 1 : place + 1] = [f"\t C2C Link 0: {speed if first else '44.712 GB/s'}"]
    fleet.hosts["gpu02"].tools["nvidia_smi_nvlink"] = ToolRun(argv=("x",), rc=0, stdout="\n".join(lines) + "\n")
    expected = {("nvlink", "nvlink-rate-reduced", "gpu02/gpu0")} if held else set()
    assert said(fleet.judge(only="nvlink"), Status.FAILED) == expected
