# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults at random places of random healthy fleets: each is found with its subject, and without it the fleet passes.

The run's seed draws twelve of the faults, and for each the size, idle values and versions of a fleet and who is hit
(tests/support/seeds.py); GPUFLEET_TEST_CASES=all takes every fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fleet_faults import AnyFleet, Mutate, diag, gpu, hca, host, kernel, lost, no_fabric_manager, said, tool
from seeds import drawing, run_seed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

# By name: the fault of a GPU or of the host, and the check and cause that name it.
OF_GPU: dict[str, tuple[Callable[[int], Mutate], str, str]] = {
    "gone": (lambda n: gpu(n, on_pci=False), "pci-census", "gpu-not-on-pci"),
    "dead": (lambda n: gpu(n, revision="ff"), "pci-census", "pci-device-dead"),
    "not listed": (lambda n: gpu(n, listed=False), "gpu-census", "gpu-missing"),
    "lost": (lost, "gpu-census", "gpu-lost"),
    "product": (lambda n: gpu(n, product="NVIDIA H100 PCIe"), "gpu-census", "gpu-wrong-product"),
    "memory": (lambda n: gpu(n, memory="40960 MiB"), "gpu-census", "gpu-wrong-memory"),
    "ecc": (lambda n: gpu(n, unc="5", agg_unc="8"), "gpu-ecc", "ecc-uncorrectable"),
    "ecc off": (lambda n: gpu(n, ecc="Disabled"), "gpu-ecc", "ecc-disabled"),
    "sram": (lambda n: gpu(n, threshold="Yes"), "gpu-ecc", "ecc-sram-threshold"),
    "repair": (lambda n: gpu(n, repair="Yes"), "gpu-ecc", "ecc-repair-pending"),
    "remap failure": (lambda n: gpu(n, remap_failure="Yes"), "gpu-row-remap", "row-remap-failure"),
    "remap pending": (lambda n: gpu(n, remap_pending="Yes"), "gpu-row-remap", "row-remap-pending"),
    "retirement": (lambda n: gpu(n, retire_pending="Yes"), "gpu-row-remap", "page-retirement-pending"),
    "reset": (lambda n: gpu(n, action="Reset"), "gpu-recovery-action", "gpu-recovery-required"),
    "width": (lambda n: gpu(n, width="4x"), "gpu-pcie-link", "pcie-width-reduced"),
    "generation": (lambda n: gpu(n, gen="1", gen_max="4"), "gpu-pcie-link", "pcie-generation-low"),
    "mig": (lambda n: gpu(n, mig="Enabled"), "mig-mode", "mig-mode-mismatch"),
    "fabric state": (lambda n: gpu(n, state="N/A", status="N/A"), "nvlink", "nvlink-fabric-not-ready"),
    "fabric health": (lambda n: gpu(n, health="Unhealthy"), "nvlink", "nvlink-fabric-unhealthy"),
    "power limit": (lambda n: gpu(n, limit="400.00 W"), "gpu-power-limit", "power-limit-lowered"),
    "heat": (lambda n: gpu(n, slow="hw_thermal_slowdown"), "gpu-throttle", "gpu-throttled-heat"),
    "power brake": (lambda n: gpu(n, slow="hw_power_brake_slowdown"), "gpu-throttle", "gpu-throttled-power"),
    "diagnostic": (lambda n: diag("memory", n, "Fail"), "dcgm-diag", "dcgm-diag-failed"),
}
OF_HCA: dict[str, tuple[Callable[[str], Mutate], str, str]] = {
    "down": (lambda name: hca(name, state="Down", physical="Polling"), "hca-state", "hca-down"),
    "no subnet manager": (lambda name: hca(name, state="Initializing", sm="0"), "hca-state", "no-subnet-manager"),
    "rate": (lambda name: hca(name, rate="200"), "hca-state", "hca-rate-reduced"),
    "link layer": (lambda name: hca(name, layer="Ethernet"), "hca-state", "hca-wrong-link-layer"),
}
OF_HOST: dict[str, tuple[Mutate, str, str]] = {
    "driver": (host(driver="550.54.15"), "driver-uniform", "driver-mismatch"),
    "fabric manager": (no_fabric_manager, "fabric-manager", "fabric-manager-inactive"),
    "clock": (host(offset="0.250000000 seconds slow"), "clock-sync", "clock-offset"),
    "no chronyd": (
        tool("chronyc", rc=1, stdout="506 Cannot talk to daemon\n"), "clock-sync", "clock-daemon-down",
    ),
    "switch": (
        kernel("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up"),
        "kernel-xid", "sxid-fatal",
    ),
    "machine check": (
        kernel("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: fe00000000800400"),
        "kernel-hardware", "machine-check",
    ),
}  # fmt: skip


def grown(make_fleet: Callable[[int], AnyFleet], draw: random.Random) -> AnyFleet:
    """Return a healthy fleet: what differs between sites is alike on its hosts, what differs between GPUs is not."""
    fleet = make_fleet(draw.randint(3, 5))
    driver, release = draw.choice(["570.148.08", "580.105.08"]), draw.choice(["6.8.0-45-generic", "5.15.0-1077-oracle"])
    ofed = draw.choice(["MLNX_OFED_LINUX-24.10-1.1.4.0", "OFED-internal-25.04-0.6.1"])
    for one in fleet.hosts.values():
        one.driver, one.release, one.ofed = driver, release, ofed
        one.kernel = [f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {driver}"]
        room = draw.randint(27, 40)
        one.offset = f"0.00000{draw.randint(1000, 9999)} seconds {draw.choice(['fast', 'slow'])}"
        for part in one.gpus:
            # Links train down at idle, replays are counted over years, rooms differ.
            part.values |= {
                "gen": draw.choice(["1", "3", "5"]), "replay": str(draw.randint(0, 200)),
                "temp": str(room + draw.randint(0, 8)), "draw": f"{draw.randint(65, 140)}.00 W",
            }  # fmt: skip
    return fleet


def broken(name: str, draw: random.Random) -> tuple[Mutate, tuple[str, str], str]:
    """Return the fault at a place that is drawn, who must name it, and the part, empty for the whole host."""
    if name in OF_GPU:
        number = draw.randrange(4)
        gpu_fault, check, cause = OF_GPU[name]
        return gpu_fault(number), (check, cause), f"gpu{number}"
    if name in OF_HCA:
        adapter = f"mlx5_{draw.randrange(4)}"
        hca_fault, check, cause = OF_HCA[name]
        return hca_fault(adapter), (check, cause), adapter
    host_fault, check, cause = OF_HOST[name]
    return host_fault, (check, cause), ""


@pytest.mark.drawn(12)
@pytest.mark.parametrize("name", [*OF_GPU, *OF_HCA, *OF_HOST])
def test_a_fault_at_a_random_place_is_found_and_without_it_the_fleet_passes(
    make_fleet: Callable[[int], AnyFleet], name: str
) -> None:
    draw = drawing(f"random fleet with {name}")
    fleet = grown(make_fleet, draw)
    healthy = fleet.judge()
    assert [(o.check, o.cause) for o in healthy if o.status is not Status.PASSED] == [], f"seed {run_seed()}"
    hit = draw.choice(list(fleet.hosts))
    fault, expected, part = broken(name, draw)
    # The faults of tests/support are about gpu02: they get the host that was drawn by that name.
    fault(SimpleNamespace(hosts={"gpu02": fleet.hosts[hit]}, sku=fleet.sku))
    outcomes = fleet.judge()
    found = said(outcomes, Status.FAILED) | said(outcomes, Status.OTHER)
    assert found == {(*expected, f"{hit}/{part}" if part else hit)}, f"seed {run_seed()}"
    assert {o.subjects[0].name for o in outcomes if o.status is not Status.PASSED} == {hit}


@pytest.mark.parametrize("hosts", [2, 4])
def test_no_gpu_is_the_odd_one_where_half_of_them_or_all_are_able_to_less(
    make_fleet: Callable[[int], AnyFleet], hosts: int
) -> None:
    fleet = make_fleet(4)
    for one in list(fleet.hosts.values())[:hosts]:
        for part in one.gpus:
            part.values |= {"gen": "1", "gen_max": "4"}
    held = [outcome for outcome in fleet.judge(only="gpu-pcie-link") if outcome.status is not Status.PASSED]
    # What the SKU has is known without a majority: stas00/ml-engineering, eight H100 behind a switch of generation 4.
    assert {(outcome.status, outcome.cause) for outcome in held} == {(Status.OTHER, "pcie-generation-low")}
    assert {outcome.subjects[0].node for outcome in held} == set(list(fleet.hosts)[:hosts])
    fleet.sku = replace(fleet.sku, pcie_generation=None)
    assert {outcome.status for outcome in fleet.judge(only="gpu-pcie-link")} == {Status.PASSED}
