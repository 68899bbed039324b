# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access control of PCIe switches: what NVIDIA/nccl#304 showed fails on bare metal; virtual machines need it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

# Of the incident: before and after `setpci`.
BROKEN = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
MENDED = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
# What NVIDIA has set on hosts of virtual machines, where adapters translate addresses by themselves (ATS).
TRANSLATED = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+"
GPUS = ("0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0")
ADAPTER, ALONE = "0000:1a:00.0", ("0000:90:00.0", "0000:91:00.0", "0000:92:00.0")
ROOT, UP = "Root Port (Slot-)", "Upstream Port"
DOWN = "Downstream Port (Slot+)"


def _bridge(address: str, buses: str, port: str, control: str) -> str:
    primary, first, last = buses.split()
    return (
        f"{address} PCI bridge [0604]: Broadcom / LSI PEX890xx [1000:c030] (rev b0)\n"
        f"\tBus: primary={primary}, secondary={first}, subordinate={last}, sec-latency=0\n"
        f"\tCapabilities: [68] Express (v2) {port}, MSI 00\n\tCapabilities: [f24 v1] Access Control Services\n"
        f"\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+\n\t\tACSCtl:\t{control}\n"
    )


def _tree(**controls: str) -> str:
    """One GPU and an adapter below a switch, the other GPUs at root ports, and a switch without GPUs."""
    acs = dict.fromkeys(("root", "up", "gpu", "nic", "far"), MENDED) | controls
    blocks = [
        _bridge("0000:15:01.0", "15 16 1b", ROOT, acs["root"]),
        _bridge("0000:16:00.0", "16 17 1b", UP, acs["up"]),
        _bridge("0000:17:00.0", "17 1a 1a", DOWN, acs["nic"]),
        _bridge("0000:17:01.0", "17 1b 1b", DOWN, acs["gpu"]),
        _bridge("0000:80:01.0", "80 81 8f", ROOT, acs["root"]),
        _bridge("0000:82:00.0", "82 83 83", DOWN, acs["far"]),
    ]
    blocks += [_bridge(f"0000:{bus}:01.0", f"{bus} {bus} {bus}", ROOT, acs["root"]) for bus in ("43", "52", "61")]
    return "".join(blocks)


def _judged(fleet: AnyFleet, tree: str, virtual: str = "none", gone: str = "", **run: object) -> tuple[Outcome, ...]:
    """Judge a host with that tree; `gone` is a device that `lspci -Dnn` does not list."""
    host = fleet.hosts["gpu02"]
    for gpu, bus in zip(host.gpus, GPUS, strict=True):
        gpu.bus = bus
    listed = [line for line in tree.splitlines() if not line[0].isspace()]
    host.tools["lspci"] = ToolRun(
        argv=("lspci", "-Dnn"), rc=0,
        stdout="".join(
            [f"{bus} 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n" for bus in GPUS]
            + [f"{bus} Infiniband controller [0207]: Mellanox MT2910 [15b3:1021]\n" for bus in (ADAPTER, *ALONE)]
            + [f"{line}\n" for line in listed]
        ),
    )  # fmt: skip
    if gone:
        host.tools["lspci"] = replace(
            host.tools["lspci"], stdout=re.sub(f"{gone} .*\n", "", host.tools["lspci"].stdout)
        )
    host.tools["lspci_bridges"] = ToolRun(argv=("lspci",), rc=0, stdout=tree)
    host.tools["virtualisation"] = ToolRun(argv=("systemd-detect-virt",), rc=int(virtual == "none"), stdout=virtual)
    host.tools |= run
    outcomes: tuple[Outcome, ...] = fleet.judge(only="pcie-acs")
    return tuple(outcome for outcome in outcomes if outcome.subjects[0].name == "gpu02")


def test_switches_without_acs_pass(fleet: AnyFleet) -> None:
    (outcome,) = _judged(fleet, _tree())
    assert outcome.status is Status.PASSED and outcome.summary.startswith("3 PCIe switch ports between")


@pytest.mark.parametrize("place", ["gpu", "nic", "up"])
def test_a_switch_that_redirects_between_gpu_and_adapter_fails(fleet: AnyFleet, place: str) -> None:
    (outcome,) = _judged(fleet, _tree(**{place: BROKEN}))
    assert (outcome.status, outcome.cause) == (Status.FAILED, "acs-enabled")
    assert "ReqRedir+" in outcome.summary and "setpci" in outcome.hint
    assert [subject.name for subject in outcome.subjects[1:]] == (["gpu02/gpu0"] if place != "nic" else [])


@pytest.mark.parametrize(("gone", "cause"), [(GPUS[1], "blocked-by-pci-census"), (ADAPTER, "acs-unclear")])
def test_where_the_bus_lacks_a_device_its_switches_are_not_passed(fleet: AnyFleet, gone: str, cause: str) -> None:
    """What is not listed may be behind a switch that redirects; one that is seen to redirect fails all the same."""
    (outcome,) = _judged(fleet, _tree(), gone=gone)
    assert (outcome.status, outcome.cause) == (Status.OTHER, cause)
    (outcome,) = _judged(fleet, _tree(gpu=BROKEN), gone=gone)
    assert outcome.cause == "acs-enabled"


@pytest.mark.parametrize("bus", ["0000:16:00.0", "0000:17:00.0", "0000:17:01.0"])
def test_a_port_of_a_switch_whose_kind_is_not_said_is_not_passed_over(fleet: AnyFleet, bus: str) -> None:
    blocks = _tree().split("0000:")
    cut = [re.sub(r"\tCapabilities: \[68\].*\n", "", b) if f"0000:{b}".startswith(bus) else b for b in blocks]
    (outcome,) = _judged(fleet, "0000:".join(cut))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "acs-unclear") and bus in outcome.summary


def test_many_ports_are_one_outcome(fleet: AnyFleet) -> None:
    (outcome,) = _judged(fleet, _tree(gpu=BROKEN, nic=BROKEN, up=BROKEN))
    assert "3 PCIe switch ports" in outcome.summary and "and 2 more" in outcome.summary


@pytest.mark.parametrize("control", [TRANSLATED, MENDED.replace("SrcValid-", "SrcValid+")])
def test_switches_of_acs_that_may_be_meant_wait_for_a_person(fleet: AnyFleet, control: str) -> None:
    outcomes = _judged(fleet, _tree(gpu=control))
    assert said(outcomes, Status.OTHER) == {("pcie-acs", "acs-partly-enabled", "gpu02/gpu0")}


def test_root_ports_and_switches_without_gpus_are_told_and_pass(fleet: AnyFleet) -> None:
    """Linux with an IOMMU in pass-through sets ACS at root ports; an XE9680 has it in front of its NVSwitches."""
    (outcome,) = _judged(fleet, _tree(root=BROKEN, far=BROKEN))
    assert outcome.status is Status.PASSED and "ACS is on at 6 other bridges" in outcome.summary


@pytest.mark.parametrize("hypervisor", ["kvm", "amazon", "microsoft", "google"])
def test_virtual_machine_needs_acs(fleet: AnyFleet, hypervisor: str) -> None:
    (outcome,) = _judged(fleet, _tree(gpu=BROKEN), virtual=hypervisor)
    assert outcome.status is Status.PASSED and hypervisor in outcome.summary


def test_virtual_machine_that_shows_no_bridge_passes(fleet: AnyFleet) -> None:
    for virtual in ("microsoft", "none"):
        nothing = ToolRun(argv=("lspci",), rc=0, stdout="")
        (outcome,) = _judged(fleet, "", virtual=virtual, lspci_bridges=nothing)
        assert outcome.status is Status.PASSED


def test_without_a_word_about_virtualisation_acs_is_unknown_only_where_it_is_on(fleet: AnyFleet) -> None:
    missing = ToolRun(argv=("systemd-detect-virt",), missing=True)
    (outcome,) = _judged(fleet, _tree(), virtualisation=missing)
    assert outcome.status is Status.PASSED
    (outcome,) = _judged(fleet, _tree(gpu=BROKEN), virtualisation=missing)
    assert (outcome.status, outcome.cause) == (Status.OTHER, "systemd-detect-virt-missing")


def test_gpus_that_use_nvlink_alone_are_not_concerned(fleet: AnyFleet) -> None:
    fleet.sku = replace(fleet.sku, compute_hcas=0, hca_rate_gbps=0, fabric="none")
    (outcome,) = _judged(fleet, _tree(gpu=BROKEN))
    assert outcome.status is Status.PASSED and "GPUs use NVLink alone" in outcome.summary


def test_gpus_without_nvlink_are_concerned_without_an_adapter(fleet: AnyFleet) -> None:
    fleet.sku = replace(
        fleet.sku, compute_hcas=0, hca_rate_gbps=0, fabric="none", nvlink_links=0, nvlink_generation=None
    )
    (outcome,) = _judged(fleet, _tree(gpu=BROKEN))
    assert outcome.cause == "acs-enabled"


def _no_root(tree: str) -> str:
    lines = [line for line in tree.splitlines() if "Capab" not in line and "ACS" not in line]
    return "\n".join([*lines, "\tCapabilities: <access denied>", ""])


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (_no_root, "lspci-bridges-garbage"),
        (lambda _tree: "", "lspci-bridges-empty"),
        (lambda tree: tree[: len(tree) // 2], "acs-unclear"),
        (lambda tree: "".join(line for line in tree.splitlines(True) if "Express" not in line), "acs-unclear"),
        (lambda tree: tree.replace("Bus: primary=17, secondary=1b", "Bus: primary=17"), "lspci-bridges-garbage"),
        (lambda tree: "".join(line for line in tree.splitlines(True) if "ACSCtl" not in line), "lspci-bridges-garbage"),
        (lambda tree: tree[: tree.index("0000:82:00.0")], "acs-unclear"),
        (lambda tree: tree.replace("secondary=43, subordinate=43", "secondary=44, subordinate=44"), "acs-unclear"),
    ],
)
def test_what_was_not_seen_is_not_passed(fleet: AnyFleet, change: object, cause: str) -> None:
    assert callable(change)
    thinned = ToolRun(argv=("lspci",), rc=0, stdout=change(_tree()))
    (outcome,) = _judged(fleet, _tree(), lspci_bridges=thinned)
    assert (outcome.status, outcome.cause) == (Status.OTHER, cause)


def test_run_that_did_not_ask_is_not_passed(fleet: AnyFleet, tmp_path: Path) -> None:
    outcomes = _judged(fleet, _tree(), lspci_bridges=ToolRun(argv=("lspci",), rc=1, stderr="lspci: -d: Invalid class"))
    assert {outcome.cause for outcome in outcomes} == {"lspci-bridges-failed"}


def test_redirection_at_the_root_ports_of_grace_is_for_a_person(fleet: AnyFleet, shared: Path) -> None:
    """NVIDIA/nodewright-packages#111: GB300 with ACS at the root ports of its adapters, 361 in place of 426 GB/s."""
    place = shared / "findings" / "captures-fails"
    fleet.sku = load_hardware([RECIPES / "hardware"])["bm-gpu-gb300-4"]
    host = fleet.hosts["gpu02"]
    listed, bridges = (
        (place / f"P123-acs-on-root-ports-gb300.{tool}.txt").read_text(encoding="utf-8")
        for tool in ("lspci", "lspci-bridges")
    )
    for gpu, bus in zip(host.gpus, ("0008", "0009", "0018", "0019"), strict=True):
        gpu.bus = f"{bus}:06:00.0"
    host.tools["lspci"] = ToolRun(argv=("lspci", "-Dnn"), rc=0, stdout=listed)
    host.tools["virtualisation"] = ToolRun(argv=("systemd-detect-virt",), rc=1, stdout="none")

    def judged(tree: str) -> Outcome:
        host.tools["lspci_bridges"] = ToolRun(argv=("lspci",), rc=0, stdout=tree)
        (outcome,) = (o for o in fleet.judge(only="pcie-acs") if o.subjects[0].name == "gpu02")
        return outcome

    found = judged(bridges)
    assert (found.status, found.cause) == (Status.OTHER, "acs-on-root-ports")
    assert all(f"{domain}:00:00.0" in found.summary for domain in ("0008", "0009", "0018", "0019"))
    mended = judged(bridges.replace("ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+", f"ACSCtl:\t{MENDED[:41]}"))
    assert mended.status is Status.PASSED and "12 PCIe switch ports and 4 root ports" in mended.summary


def test_gpus_without_nvlink_reach_each_other_through_root_ports(fleet: AnyFleet) -> None:
    """NVIDIA/nccl#2079: GPUs directly below the root ports of an AMD processor, and an all-reduce that never ended."""
    fleet.sku = load_hardware([RECIPES / "hardware"])["bm-gpu-l40s-4"]
    (outcome,) = _judged(fleet, _tree(root=BROKEN))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "acs-on-root-ports")
    assert all(f"0000:{bus}:01.0" in outcome.summary for bus in ("43", "52", "61"))
    assert "0000:15:01.0" not in outcome.summary, "that GPU reaches its adapter below a switch"
    (outcome,) = _judged(fleet, _tree(root=TRANSLATED))
    assert outcome.status is Status.PASSED
