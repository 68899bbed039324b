# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real host, a virtual machine with one H100 passed through, as host_probe read it: what it has is healthy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fleet_faults import AnyFleet
from real_gpus import printed, with_one_gpu

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import HostEvidence
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

# It has neither DCGM, chrony, systemd, ipmitool nor nvme-cli, and its hypervisor shows no SMBIOS.
NOT_TOLD = {
    "bios-uniform": "dmidecode-failed",
    "bmc-sensors": "ipmitool-missing",
    "clock-sync": "chronyc-missing",
    "dcgm-diag": "dcgmi-diag-missing",
    "dcgm-health": "blocked-by-dcgm-diag",
    "gpu-pcie-load": "blocked-by-dcgm-diag",
    # The fleet of these tests declares checks of adapters, and this machine has none; nor its driver in /lib/modules.
    "gpu-direct": "modinfo-failed",
    "hca-firmware-uniform": "blocked-by-hca-state",
    "host-state-after-diag": "blocked-by-dcgm-diag",
    "nvme-health": "nvme-cli-missing",
    "unit-limits": "systemctl-show-missing",
}
SEEN = {"gpu-census", "pci-census", "gpu-ecc", "gpu-row-remap", "gpu-pcie-link", "gpu-throttle", "gpu-power-limit",
        "gpu-temperature", "gpu-recovery-action", "mig-mode", "kernel-xid", "kernel-hardware", "gpu-kernel-module",
        "topology", "driver-uniform", "pcie-acs"}  # fmt: skip


def evidence_of(name: str) -> HostEvidence:
    return from_plain(HostEvidence, json.loads(printed(name)), name)


def judged(fleet: AnyFleet, name: str) -> list[Outcome]:
    fleet.sku = with_one_gpu(load_hardware([RECIPES / "hardware"])["dgx-h100"])
    (host,) = list(fleet.hosts)[:1]
    fleet.hosts = {host: fleet.hosts[host]}
    fleet.hosts[host].tools = dict(evidence_of(name).tools)
    return list(fleet.judge())


@pytest.mark.parametrize("name", ["h100-host-idle.json", "h100-host-busy.json"])
def test_what_a_real_host_shows_of_its_gpu_passes(fleet: AnyFleet, name: str) -> None:
    told = {outcome.check: outcome for outcome in judged(fleet, name)}
    bad = {check: outcome.cause for check, outcome in told.items() if outcome.status is not Status.PASSED}
    if name == "h100-host-busy.json":
        # It was asked while it trained. The fleet of these tests makes up the readings after a diagnostic.
        expected = {**NOT_TOLD, "dcgm-diag": "dcgmi-diag-in-use", "dcgm-health": "dcgmi-health-missing"}
        del expected["host-state-after-diag"]
        assert bad == expected
        return
    assert bad == NOT_TOLD
    assert {check for check, outcome in told.items() if outcome.status is Status.PASSED} >= SEEN


def test_a_gpu_that_left_a_real_host_is_missed(fleet: AnyFleet) -> None:
    evidence = evidence_of("h100-host-idle.json")
    assert "10de:2330" in evidence.tools["lspci"].stdout
    told = judged(fleet, "h100-host-idle.json")
    assert any(outcome.check == "pci-census" and outcome.status is Status.PASSED for outcome in told)
    (host,) = fleet.hosts
    without = "".join(line for line in evidence.tools["lspci"].stdout.splitlines(True) if "10de:" not in line)
    fleet.hosts[host].tools["lspci"] = replace(evidence.tools["lspci"], stdout=without)
    (census,) = [outcome for outcome in fleet.judge(only="pci-census") if outcome.status is not Status.PASSED]
    assert (census.status, census.cause) == (Status.FAILED, "gpu-not-on-pci")
