# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tools print of a broken part in elements and lines that are easily overlooked (findings/captures-fails)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

XML, KERNEL, NVME, DIAG = "nvidia_smi_xml", "kernel_log", "nvme_health", "dcgmi_diag"
FAILED, OTHER, PASSED = Status.FAILED, Status.OTHER, Status.PASSED
Judged = Callable[..., set[tuple[Status, str]]]

# Tool, file, check, status and cause, and an edit that takes the fault away.
OVERLOOKED = [
    (XML, "P102-unrepairable-memory.xml", "gpu-ecc", FAILED, "ecc-unrepairable",
     ("<unrepairable_memory>Yes", "<unrepairable_memory>No")),
    (XML, "P113-ecc-off-after-reboot.xml", "gpu-ecc", OTHER, "ecc-mode-pending",
     ("<pending_ecc>Disabled", "<pending_ecc>Enabled")),
    (KERNEL, "P103-xid45-caused-by-previous-149.log", "kernel-xid", OTHER, "xid-quoted",
     (" caused by previous Xid", " after Xid")),
    (KERNEL, "P131-reset-required-without-xid.log", "kernel-xid", OTHER, "gpu-reset-required",
     ("NV_ERR_RESET_REQUIRED", "NV_ERR_BUSY_RETRY")),
    (XML, "P101-fabric-status-unknown-error.xml", "nvlink", FAILED, "nvlink-fabric-not-ready",
     ("<status>Unknown Error", "<status>Success")),
    (XML, "P120-inforom-corrupted.xml", "gpu-census", OTHER, "gpu-inforom-warning",
     ("WARNING: infoROM is corrupted at gpu 0000:32:00.0", "")),
    (NVME, "P130-media-errors.txt", "nvme-health", OTHER, "nvme-media-errors",
     ('"media_errors": 812', '"media_errors": 0')),
]  # fmt: skip


@pytest.fixture
def judged(fleet: AnyFleet) -> Judged:
    """Judges one check of a host whose tool printed a text; returns what is not passed."""

    def of(tool: str, text: str, check: str) -> set[tuple[Status, str]]:
        (name,) = list(fleet.hosts)[:1]
        fleet.hosts = {name: fleet.hosts[name]}
        argv = ("dcgmi", "diag", "-r", "3", "-j") if tool == DIAG else (tool,)
        fleet.hosts[name].tools[tool] = ToolRun(argv=argv, rc=0, stdout=text)
        outcomes: tuple[Outcome, ...] = fleet.judge(only=check)
        assert outcomes
        return {(outcome.status, outcome.cause) for outcome in outcomes if outcome.status is not PASSED}

    return of


@pytest.mark.parametrize(("tool", "name", "check", "status", "cause", "mended"), OVERLOOKED)
def test_it_is_found_and_nothing_is_where_it_is_not(
    judged: Judged, shared: Path, tool: str, name: str, check: str, status: Status, cause: str, mended: tuple[str, str]
) -> None:
    text = (shared / "findings" / "captures-fails" / name).read_text(encoding="utf-8")
    assert (status, cause) in judged(tool, text, check)
    assert mended[0] in text
    assert judged(tool, text.replace(*mended), check) == set()


@pytest.mark.parametrize("condition", ["bandwidth>Degraded", "route_unhealthy>True", "access_timeout_recovery>True"])
def test_a_condition_of_the_fabric_counts_beside_a_good_summary(fleet: AnyFleet, condition: str) -> None:
    tag, _sep, word = condition.partition(">")
    gpus = fleet.hosts["gpu02"].gpus

    def reported(summary: str, words: str) -> None:
        """Let the driver report that of GPU 1, and no value of the others: it prints the same elements of all."""
        for number, gpu in enumerate(gpus):
            value = words if number == 1 else "N/A"
            gpu.values["health"] = f"{summary}</summary><{tag}>{value}</{tag}><summary>"

    for summary in ("Healthy", "N/A"):
        reported(summary, word)
        outcomes = fleet.judge(only="nvlink")
        assert said(outcomes, FAILED) == {("nvlink", "nvlink-fabric-unhealthy", "gpu02/gpu1")}
        assert any(condition.replace(">", " ") in outcome.summary for outcome in outcomes)
    for good in ("N/A", "Full" if tag == "bandwidth" else "False"):
        reported("Healthy", good)
        assert {outcome.status for outcome in fleet.judge(only="nvlink")} == {PASSED}


def test_sram_errors_of_a_life_count_where_the_driver_has_no_threshold(judged: Judged, shared: Path) -> None:
    text = (shared / "findings/captures-fails/P113-ecc-off-after-reboot.xml").read_text(encoding="utf-8")
    text = text.replace("<pending_ecc>Disabled", "<pending_ecc>Enabled")
    zero, five = (f"<aggregate><sram_correctable>0</sram_correctable><sram_uncorrectable_parity>{n}<" for n in (0, 5))
    assert zero in text
    past = text.replace(zero, five, 1)
    assert judged(XML, past, "gpu-ecc") == set(), "the driver has a threshold, and it is not exceeded"
    threshold = "<sram_threshold_exceeded>No</sram_threshold_exceeded>"
    assert judged(XML, past.replace(threshold, ""), "gpu-ecc") == {(OTHER, "ecc-sram-past")}
    assert judged(XML, text.replace(threshold, ""), "gpu-ecc") == set()


def test_a_severity_without_the_line_of_its_sxid_is_told(judged: Judged) -> None:
    line = "2026-11-21T08:10:11+00:00 n1 kernel: nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 24007, {}\n"
    alone = line.format("Severity {} Engine instance 31 Sub-engine instance 00")
    assert judged(KERNEL, alone.format(1), "kernel-xid") == {(OTHER, "sxid-unknown")}
    assert judged(KERNEL, alone.format(0), "kernel-xid") == set()
    both = line.format("Fatal, Link 31 TS crumbstore MCTO") + alone.format(1)
    assert judged(KERNEL, both, "kernel-xid") == {(FAILED, "sxid-fatal")}


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('"avail_spare": 100', '"avail_spare": 9', "nvme-spare-low"),
        ('critical_warning_summary": 0', 'critical_warning_summary": 4', "nvme-endurance-group"),
        ('"media_errors": 0', '"media_errors": "812"', "nvme-media-errors"),
    ],
)
def test_what_a_drive_reports_without_a_critical_warning(
    judged: Judged, shared: Path, old: str, new: str, cause: str
) -> None:
    text = (shared / "findings/captures-fails/P130-media-errors.txt").read_text(encoding="utf-8")
    healthy = text.replace('"media_errors": 812', '"media_errors": 0')
    assert judged(NVME, healthy.replace(old, new, 1), "nvme-health") == {(OTHER, cause)}


def test_a_port_that_the_tool_calls_bad_is_not_passed(judged: Judged, shared: Path) -> None:
    text = (shared / "findings/captures-fails/P127-bad-signal-integrity.txt").read_text(encoding="utf-8")
    quiet = text.replace("8E-6,1E-9,1E-9,1E-9", "1E-9,1E-9,1E-9,1E-9").replace(": 2E-6", ": 1E-9")
    assert judged("mlxlink", quiet, "link-quality") == {(OTHER, "link-reported-bad")}
    healthy = quiet.replace(": 15\n", ": 0\n")
    assert judged("mlxlink", healthy, "link-quality") == set()
    young = healthy.replace("[Min]        : 4096.2", "[Min]        : 0.1")
    assert young != healthy
    assert judged("mlxlink", young, "link-quality") == {(OTHER, "link-counters-young")}
    faulty = healthy.replace("Vendor Name ", "Rx LOS [per lane] : 0,1,0,0\nVendor Name ", 1)
    assert judged("mlxlink", faulty, "link-quality") == {(OTHER, "link-reported-bad")}


def test_a_module_without_thresholds_has_no_limit(judged: Judged, shared: Path) -> None:
    text = (shared / "findings/captures-fails/P129-module-without-threshold.txt").read_text(encoding="utf-8")
    assert judged("mlxlink", text, "link-quality") == set()
    assert judged("mlxlink", text.replace("54 [0..0]", "80 [-5..75]"), "link-quality") == {(FAILED, "cable-module-hot")}


def test_dcgm_complains_of_what_a_host_does_not_have(judged: Judged, fleet: AnyFleet, shared: Path) -> None:
    """NVIDIA/NVSentinel#1471 and #1481: IMEX on hosts without a domain, NVLinks of GPUs that have none."""
    text = (shared / "findings/captures-fails/P105-imex-on-a-host-without-domain.json").read_text(encoding="utf-8")
    assert judged("dcgmi_health", text, "dcgm-health") == set()
    imex = "IMEX daemon status is -3 (not READY). Check the installation and the configuration of IMEX."
    assert imex in text
    down = text.replace(imex, "NvLink link 0 is currently down")
    assert judged("dcgmi_health", down, "dcgm-health") == {(FAILED, "dcgm-health-failure")}
    fleet.sku = load_hardware([RECIPES / "hardware"])["bm-gpu-l40s-4"]
    assert judged("dcgmi_health", down, "dcgm-health") == set()
    other = text.replace(imex, "GPU 0 has an uncorrectable memory error")
    assert judged("dcgmi_health", other, "dcgm-health") == {(FAILED, "dcgm-health-failure")}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # B200 and GB200 log them all day; gpud's copy of NVIDIA's sheet ignores each of 144 to 148 that is Nonfatal.
        (["145, pid=1, RLW_RSPCOL Nonfatal XC0 i0 Link 04"], set()),
        (["152, pid=1, DLA"], set()),
        (["145, pid=1, RLW_RSPCOL Nonfatal XC0", "145, pid=1, RLW_REMAP Fatal XC0"], {(FAILED, "xid-fatal")}),
        (["145, pid=1, RLW_RSPCOL Nonfatal XC0", "145, pid=1, RLW_RSPCOL XC0"], {(OTHER, "xid-marginal")}),
    ],
)
def test_an_nvlink_error_that_calls_itself_nonfatal_is_a_note(
    judged: Judged, lines: list[str], expected: set[tuple[Status, str]]
) -> None:
    stamp = "2026-11-21T08:10:11+00:00 n1 kernel: NVRM: Xid (PCI:0000:43:00): "
    assert judged(KERNEL, "".join(f"{stamp}{line}\n" for line in lines), "kernel-xid") == expected


def test_a_fault_without_a_text_beside_a_complaint_about_imex_is_not_passed(judged: Judged, shared: Path) -> None:
    text = (shared / "findings/captures-fails/P105-imex-on-a-host-without-domain.json").read_text(encoding="utf-8")
    report = json.loads(text)
    gpu = report["body"]["GPU"]["children"]["0"]
    gpu["value"] = gpu["children"]["NVLink"]["value"] = "Failure"
    assert judged("dcgmi_health", json.dumps(report), "dcgm-health") == set(), "words over the complaint"
    gpu["children"]["Memory"] = {"value": "Failure"}
    assert judged("dcgmi_health", json.dumps(report), "dcgm-health") == {(FAILED, "dcgm-health-failure")}


def test_what_a_link_counted_before_the_gate_is_not_passed(judged: Judged, shared: Path) -> None:
    """The link of incident gb200-xid149-link14 flapped for five days before it failed for good."""
    text = (shared / "findings/captures-fails/P116-link-failed-412-times-before.txt").read_text(encoding="utf-8")
    tool, found = "nvidia_smi_nvlink_errors", {(OTHER, "nvlink-errors-before")}
    failed, rate = "Link recovery failed events: 412", "Symbol BER: 2e-9"
    assert failed in text and rate in text
    assert judged(tool, text, "nvlink") == found
    assert judged(tool, text.replace(failed, failed.replace("412", "0")), "nvlink") == found, "the rate alone"
    assert judged(tool, text.replace(rate, "Symbol BER: 15e-255"), "nvlink") == found, "the counter alone"
    healthy = (
        text.replace(failed, failed.replace("412", "0"))
        .replace(rate, "Symbol BER: 15e-255")
        .replace("BER: 3e-7", "BER: 15e-255")
    )
    assert judged(tool, healthy, "nvlink") == set(), "recoveries that succeeded and corrected symbols are no fault"


def test_a_diagnostic_that_found_no_quiet_moment_blames_no_gpu(judged: Judged, shared: Path) -> None:
    text = (shared / "findings/captures-fails/P106-nvbandwidth-not-idle.json").read_text(encoding="utf-8")
    assert judged(DIAG, text, "dcgm-diag") == {(OTHER, "dcgm-diag-disturbed")}
    words = "This may affect the results of the nvbandwidth test."
    assert words in text
    assert judged(DIAG, text.replace(words, "Bandwidth is below its minimum."), "dcgm-diag") == {
        (FAILED, "dcgm-diag-failed")
    }
    assert judged(DIAG, text.replace('"Fail"', '"Pass"'), "dcgm-diag") == {(OTHER, "dcgm-diag-warning")}


def test_a_bank_of_memory_that_waits_for_a_reset_is_as_a_row(judged: Judged, shared: Path) -> None:
    """Driver 615 on Rubin: NVIDIA/k8s-test-infra, qx-vrnvl72.xml."""
    text = (shared / "findings/captures-fails/P113-ecc-off-after-reboot.xml").read_text(encoding="utf-8")
    banks = (
        "<remapped_banks><bank_remapper_pending>{}</bank_remapper_pending><bank_remapper_histogram>"
        "<bank_remapper_histogram_none>{} group(s)</bank_remapper_histogram_none></bank_remapper_histogram>"
        "</remapped_banks><remapped_rows>"
    )

    def with_banks(pending: str, without: int) -> str:
        first = text.replace("<remapped_rows>", banks.format("No", 0))
        return first.replace(banks.format("No", 0), banks.format(pending, without), 1)

    assert "<remapped_rows>" in text
    assert judged(XML, with_banks("No", 0), "gpu-row-remap") == set()
    assert judged(XML, with_banks("Yes", 0), "gpu-row-remap") == {(FAILED, "row-remap-pending")}
    assert judged(XML, with_banks("No", 1), "gpu-row-remap") == {(OTHER, "row-remap-headroom-low")}
