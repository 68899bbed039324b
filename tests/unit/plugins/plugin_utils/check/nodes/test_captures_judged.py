# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real machines printed is judged as its description says: the bad is found with its cause, the healthy passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_faults import AnyFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

XML, NVLINK, DIAG, KERNEL = "nvidia_smi_xml", "nvidia_smi_nvlink", "dcgmi_diag", "kernel_log"
FAILED, OTHER = Status.FAILED, Status.OTHER
STATES = ("mig-mode", "gpu-recovery-action")
KERNEL_CHECKS = ("kernel-xid", "kernel-hardware")
GB200 = "nvidia-smi-xml/gb200-mock-"

# Tool, capture, SKU of the host, checks that pass.
HEALTHY = [
    (XML, "nvidia-smi-xml/h100-sxm-8gpu-580.xml", "dgx-h100", ("gpu-ecc", "gpu-row-remap", "gpu-pcie-link", *STATES)),
    (XML, "nvidia-smi-xml/gb200-4gpu-580.xml", "gb200-nvl72", ("gpu-ecc", "gpu-row-remap", *STATES)),
    (XML, "nvidia-smi-xml/l40s-1gpu-595.xml", "g6e-48xlarge", ("gpu-ecc", "gpu-row-remap", *STATES)),
    (XML, "nvidia-smi-xml/a100-sxm4-1gpu-570.xml", "p4d-24xlarge", ("gpu-ecc", "gpu-row-remap", *STATES)),
    (NVLINK, "nvidia-smi-nvlink/a100-8gpu-nvlink-s.txt", "dgx-a100", ("nvlink",)),
    (KERNEL, "kernel-log/kmsg-peermem-invalid-context.log", "dgx-h100", KERNEL_CHECKS),
    (KERNEL, "kernel-log/xid13-sm-exceptions-kern-iso.log", "dgx-h100", KERNEL_CHECKS),
    (KERNEL, "kernel-log/nccl-segfault-kern-iso.log", "dgx-h100", KERNEL_CHECKS),
    ("chronyc", "chronyc/tracking-synced.txt", "dgx-h100", ("clock-sync",)),
]

# Tool, capture, exit status, SKU of the host, check, status, cause.
BAD = [
    (XML, "nvidia-smi-xml/a100-sxm4-80gb-mig4-535.xml", 0, "dgx-a100", "gpu-census", FAILED, "gpu-missing"),
    (XML, f"{GB200}ecc-uncorrectable-rowremap-failure.xml", 0, "gb200-nvl72", "gpu-ecc", FAILED, "ecc-uncorrectable"),
    (
        XML, f"{GB200}ecc-uncorrectable-rowremap-failure.xml", 0, "gb200-nvl72", "gpu-row-remap", FAILED,
        "row-remap-failure",
    ),
    (XML, f"{GB200}gpu-is-lost.xml", 0, "gb200-nvl72", "gpu-census", FAILED, "gpu-lost"),
    # It was asked for one GPU alone (`-i 6`), so it does not speak for the host.
    (NVLINK, "nvidia-smi-nvlink/a100-BAD-all-links-inactive.txt", 0, "dgx-a100", "nvlink", OTHER, "inconsistent"),
    (NVLINK, "nvidia-smi-nvlink/h100-mig-590-nvlink-s.txt", 0, "dgx-h100", "nvlink", OTHER, "blocked-by-mig-mode"),
    (DIAG, "dcgmi-diag/dcgm3-malformed-nesting-cuda-lib-fail.json", 0, "dgx-h100", "dcgm-diag", OTHER, "garbage"),
    (DIAG, "dcgmi-diag/dcgm3-per-gpu-4gpu-fail-warn-skip.json", 226, "dgx-h100", "dcgm-diag", FAILED, "dcgm-diag-"),
    (DIAG, "dcgmi-diag/dcgm3-r2-t4.json", 0, "dgx-h100", "dcgm-diag", OTHER, "dcgm-diag-incomplete"),
    # The diagnostic of one GPU, on a host of four.
    (DIAG, "dcgmi-diag/dcgm3-r3-t4.json", 0, "dgx-h100", "dcgm-diag", OTHER, "dcgm-diag-incomplete"),
    (
        DIAG, "dcgmi-diag/dcgm4.5.3-persistence-mode-fail.json", 226, "dgx-h100", "dcgm-diag", FAILED,
        "dcgm-diag-configuration",
    ),
    (KERNEL, "kernel-log/gpu-fallen-off-the-bus-multiline.log", 0, "dgx-h100", "kernel-xid", FAILED, "gpu-off-bus"),
    (KERNEL, "kernel-log/sxid20034-nvswitch-ltssm-fault.log", 0, "dgx-h100", "kernel-xid", FAILED, "sxid-fatal"),
    (KERNEL, "kernel-log/sxid20034-nvswitch-ltssm-fault.log", 0, "dgx-h100", "kernel-xid", FAILED, "xid-fatal"),
    (KERNEL, "kernel-log/xid119-gsp-timeout-h100.log", 0, "dgx-h100", "kernel-xid", FAILED, "xid-fatal"),
    (KERNEL, "kernel-log/xid149-154-gb200-nvlink-netir.log", 0, "gb200-nvl72", "kernel-xid", FAILED, "xid-fatal"),
    (
        "chronyc", "chronyc/tracking-NOT-synchronised.txt", 0, "dgx-h100", "clock-sync", FAILED,
        "clock-not-synchronised",
    ),
    # Of one GPU, on a host of four; and a test cut out of a report.
    (NVLINK, "nvidia-smi-nvlink/h200-590-nvlink-s.txt", 0, "hgx-h200", "nvlink", OTHER, "inconsistent"),
    (DIAG, "dcgmi-diag/dcgm4-r4-8gpu-diagnostic-FRAGMENT.json.txt", 0, "dgx-h100", "dcgm-diag", OTHER, "garbage"),
    (KERNEL, "kernel-log/ib-link-flap-syslog-6flaps.log", 0, "dgx-h100", "hca-state", OTHER, "link-flapping"),
    # Output of `nvidia-smi c2c`, of `nvidia-smi topo -p2p`, and of one GPU of a kind that no SKU has.
    (NVLINK, "nvidia-smi-nvlink/gb200-4gpu-c2c-s.txt", 0, "gb200-nvl72", "nvlink", FAILED, "nvlink-inactive"),
    ("nvidia_smi_topo", "nvidia-smi-topo/l4-2gpu-topo-p2p-r-CNS.txt", 0, "pcie-l4", "topology", OTHER, "inconsistent"),
    (XML, "nvidia-smi-xml/a10g-1gpu-515.xml", 0, "pcie-a10", "gpu-census", FAILED, "gpu-wrong-product"),
    ("ibstat", "ibstat/cx6-2hca-rate100.txt", 0, "dgx-a100", "hca-state", FAILED, "hca-rate-reduced"),
]  # fmt: skip


@pytest.fixture
def judged(shared: Path, fleet: AnyFleet) -> Callable[..., tuple[Outcome, ...]]:
    """Judges one check of a host whose tool printed a capture."""

    hardware = load_hardware([RECIPES / "hardware"])

    def of(tool: str, capture: str, sku: str, check: str, rc: int = 0) -> tuple[Outcome, ...]:
        (name,) = list(fleet.hosts)[:1]
        fleet.hosts = {name: fleet.hosts[name]}
        fleet.sku = hardware[sku]
        text = (shared / "captures" / capture).read_text()
        fleet.hosts[name].tools[tool] = ToolRun(argv=(tool,), rc=rc, stdout=text)
        return tuple(fleet.judge(only=check))

    return of


@pytest.mark.parametrize(("tool", "capture", "sku", "checks"), HEALTHY, ids=lambda value: str(value)[-30:])
def test_what_a_healthy_machine_printed_passes(
    judged: Callable[..., tuple[Outcome, ...]], tool: str, capture: str, sku: str, checks: tuple[str, ...]
) -> None:
    for check in checks:
        outcomes = judged(tool, capture, sku, check)
        assert [outcome.status for outcome in outcomes] == [Status.PASSED], outcomes


@pytest.mark.parametrize(("tool", "capture", "rc", "sku", "check", "status", "cause"), BAD)
def test_what_a_broken_machine_printed_is_found(
    judged: Callable[..., tuple[Outcome, ...]], tool: str, capture: str, rc: int, sku: str, check: str, status: Status,
    cause: str,
) -> None:  # fmt: skip
    outcomes = judged(tool, capture, sku, check, rc)
    assert Status.PASSED not in {outcome.status for outcome in outcomes}
    assert any(outcome.status is status and cause in outcome.cause for outcome in outcomes), outcomes
