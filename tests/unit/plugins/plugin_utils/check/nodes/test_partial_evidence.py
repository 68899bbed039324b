# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence that covers a part of a host passes nothing: missing GPUs, elements, exit codes and compared pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fleet_faults import AnyFleet, diag, gpu, kernel, said, tool

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status


def _edit(fleet: AnyFleet, name: str, change: Callable[[str], str], rc: int = 0) -> None:
    run = fleet.hosts["gpu02"].evidence().tools[name]
    fleet.hosts["gpu02"].tools[name] = replace(run, stdout=change(run.stdout), rc=rc)


def _report(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    def edited(text: str) -> str:
        document = json.loads(text[text.index("{") :])
        change(document)
        return json.dumps(document)

    return edited


def _first_gpu_only(document: dict[str, Any]) -> None:
    for category in document["DCGM Diagnostic"]["test_categories"]:
        for test in category["tests"]:
            test["results"] = test["results"][:1]


def test_diagnostic_of_one_gpu_does_not_speak_for_all(fleet: AnyFleet) -> None:
    _edit(fleet, "dcgmi_diag", _report(_first_gpu_only))
    outcomes = fleet.judge(only="dcgm-diag")
    assert said(outcomes, Status.OTHER) == {("dcgm-diag", "dcgm-diag-incomplete", "gpu02")}
    assert "expected 4 GPUs" in next(o.summary for o in outcomes if o.status is Status.OTHER)


def test_diagnostic_that_ends_badly_without_a_failed_test_is_unknown(fleet: AnyFleet) -> None:
    _edit(fleet, "dcgmi_diag", str, rc=226)
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-exit-status", "gpu02")}


def test_warning_that_only_the_summary_has_is_marginal(fleet: AnyFleet) -> None:
    def warn(document: dict[str, Any]) -> None:
        test = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]
        test["test_summary"]["warnings"] = [{"warning": "something about the whole node", "error_id": 1}]

    _edit(fleet, "dcgmi_diag", _report(warn))
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-warning", "gpu02")}


# As DCGM 4.5.3 prints it, and as releases do that state severity and category.
_PERSISTENCE = "Persistence Mode: Persistence mode for GPU 0 is disabled."


@pytest.mark.parametrize("more", [{}, {"error_id": 25, "error_category": 3, "error_severity": 1}])
def test_persistence_mode_that_the_diagnostic_asks_for_is_a_setting_and_no_broken_gpu(
    fleet: AnyFleet, more: dict[str, int]
) -> None:
    diag("software", 0, "Fail", warnings=[{"warning": _PERSISTENCE, **more}])(fleet)
    (found,) = [o for o in fleet.judge(only="dcgm-diag") if o.status is not Status.PASSED]
    assert (found.status, found.cause) == (Status.FAILED, "dcgm-diag-configuration")
    assert "nvidia-smi -pm 1" in found.hint and "replace" not in found.hint and "reset" not in found.hint


@pytest.mark.parametrize(
    ("test", "warnings"),
    [
        ("software", [{"warning": _PERSISTENCE}, {"warning": "GPU 0 has uncorrectable memory errors", "error_id": 6}]),
        ("memory", [{"warning": "GPU 0: memory mismatch", "error_id": 6, "error_severity": 2}]),
    ],
)
def test_hardware_that_fails_beside_such_a_setting_is_no_setting(
    fleet: AnyFleet, test: str, warnings: list[dict[str, Any]]
) -> None:
    diag(test, 0, "Fail", warnings=warnings)(fleet)
    assert said(fleet.judge(only="dcgm-diag"), Status.FAILED) == {("dcgm-diag", "dcgm-diag-failed", "gpu02/gpu0")}


def test_gpu_is_named_by_the_serial_that_dcgm4_prints_at_the_root(fleet: AnyFleet) -> None:
    """DCGM numbers the GPUs in another order than the driver."""
    serials = [part.serial for part in fleet.hosts["gpu02"].gpus]

    def reversed_numbers(document: dict[str, Any]) -> None:
        entities = [{"entity_id": n, "serial_num": serial} for n, serial in enumerate(reversed(serials))]
        document["entity_groups"] = [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}]

    diag("memory", 0, "Fail", warnings=[{"warning": "bad"}])(fleet)
    _edit(fleet, "dcgmi_diag", _report(reversed_numbers), rc=226)
    assert said(fleet.judge(only="dcgm-diag"), Status.FAILED) == {("dcgm-diag", "dcgm-diag-failed", "gpu02/gpu3")}


@pytest.mark.parametrize(
    ("values", "check", "cause"),
    [
        ({"ecc": "N/A", "unc": "N/A"}, "gpu-ecc", "ecc-mode-not-reported"),
        ({"unc": "N/A"}, "gpu-ecc", "ecc-not-reported"),
        ({"remap": "N/A"}, "gpu-row-remap", "row-remap-not-reported"),
        ({"action": "N/A"}, "gpu-recovery-action", "gpu-recovery-not-reported"),
        ({"mig": "N/A"}, "mig-mode", "mig-mode-not-reported"),
    ],
)
def test_what_the_generation_reports_must_be_reported(
    fleet: AnyFleet, values: dict[str, str], check: str, cause: str
) -> None:
    gpu(1, **values)(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.OTHER) == {(check, cause, "gpu02/gpu1")}
    assert not said(outcomes, Status.FAILED)


def test_fabric_health_must_be_reported_where_the_kind_has_it(fleet: AnyFleet) -> None:
    kind = Accelerator(name="b200", title="B200", product_pattern="H100", fabric_health=True)
    fleet.sku = replace(fleet.sku, gpu=kind)
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values["health"] = "Healthy"
    assert {o.status for o in fleet.judge(only="nvlink")} == {Status.PASSED}
    gpu(1, health="N/A")(fleet)
    assert said(fleet.judge(only="nvlink"), Status.OTHER) == {("nvlink", "nvlink-fabric-health-unknown", "gpu02")}


def test_row_remapping_is_not_asked_of_a_gpu_in_mig_mode(fleet: AnyFleet) -> None:
    """A whole document of an A100 with MIG (driver 535) prints N/A for it."""
    fleet.settings["mig-mode"] = {"expected": "enabled"}
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values |= {"mig": "Enabled", "remap": "N/A"}
    assert {o.status for o in fleet.judge(only="gpu-row-remap")} == {Status.PASSED}


def test_errors_of_a_mig_device_count(fleet: AnyFleet) -> None:
    device = (
        "<mig_devices><mig_device><index>2</index><gpu_instance_id>3</gpu_instance_id><fb_memory_usage><total>9856 MiB"
        "</total></fb_memory_usage><ecc_error_count><volatile_count><sram_uncorrectable>4</sram_uncorrectable>"
        "</volatile_count></ecc_error_count></mig_device></mig_devices>"
    )
    _edit(fleet, "nvidia_smi_xml", lambda text: text.replace("</gpu>", device + "</gpu>", 1))
    assert said(fleet.judge(only="gpu-ecc"), Status.FAILED) == {("gpu-ecc", "ecc-uncorrectable", "gpu02/gpu0")}


def test_document_with_an_exit_status_of_trouble_does_not_pass(fleet: AnyFleet) -> None:
    _edit(fleet, "nvidia_smi_xml", str, rc=255)
    assert said(fleet.judge(only="gpu-census"), Status.OTHER) == {("gpu-census", "nvidia-smi-exit-status", "gpu02")}


def test_matrix_of_fewer_gpus_than_the_driver_lists_is_unknown(fleet: AnyFleet) -> None:
    rows = "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\nGPU0\t X \tNV18\tPIX\tSYS\nGPU1\tNV18\t X \tSYS\tPIX\n"
    tool("nvidia_smi_topo", rc=0, stdout=rows)(fleet)
    assert said(fleet.judge(only="topology"), Status.OTHER) == {("topology", "nvidia-smi-inconsistent", "gpu02")}


def test_summary_of_the_topology_says_only_what_was_compared(fleet: AnyFleet) -> None:
    fleet.sku = replace(fleet.sku, compute_hcas=2)
    assert all("not judged" in o.summary for o in fleet.judge(only="topology"))


@pytest.mark.parametrize(
    ("name", "once"),
    [
        ("nvidia_smi_nvlink", "\t Link 3: 26.562 GB/s\n"),
        ("lspci", "0000:99:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [ConnectX-7] [15b3:1021]\n"),
    ],
)
def test_what_is_listed_twice_is_no_second_one(fleet: AnyFleet, name: str, once: str) -> None:
    _edit(fleet, name, lambda text: text.replace(once, once + once, 1))
    owners = {"nvidia_smi_nvlink": ("nvlink", "nvidia-smi-nvlink-garbage"), "lspci": ("pci-census", "lspci-garbage")}
    check, cause = owners[name]
    assert (check, cause, "gpu02") in said(fleet.judge(), Status.OTHER)


def test_adapter_without_a_link_layer_is_not_judged_by_its_rate(fleet: AnyFleet) -> None:
    _edit(fleet, "ibstat", lambda text: text.replace("\t\tLink layer: InfiniBand\n", "", 1))
    assert said(fleet.judge(only="hca-state"), Status.OTHER) == {("hca-state", "ibstat-garbage", "gpu02")}


@pytest.mark.parametrize(
    "line",
    [
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 9: 9c00000000010090",
        "EDAC MC: Ver: 3.0.0",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
        "RAS: Correctable Errors collector initialized.",
        "mlx5_core 0000:1b:00.0: mlx5_pcie_event:326:(pid 165): Detected insufficient power on the PCIe slot (27W).",
        "mlx5_core 0000:63:00.1: Port module event: module 1, Cable unplugged",
        "pcieport 0000:98:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
    ],
)
def test_ordinary_lines_of_healthy_hosts_are_no_broken_hardware(fleet: AnyFleet, line: str) -> None:
    kernel(line)(fleet)
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


@pytest.mark.parametrize(
    "line",
    [
        "<6>[   12.500000] NVRM: Xid (PCI:0000:21:00): 79, pid=1, GPU has fallen off the bus.",
        "[   12.500000] NVRM: Xid (0000:21:00): 79, Channel 00000001",
        "[   12.500000] NVRM: Xid (PCI:0000:21:00): 7\x009, GPU has fallen off the bus.",
    ],
)
def test_xid_is_found_in_every_form_of_the_log(fleet: AnyFleet, line: str) -> None:
    tool("kernel_log", rc=0, stdout=f"[    1.000000] Linux version 6.8\n{line}\n")(fleet)
    assert ("kernel-xid", "xid-fatal", "gpu02/gpu1") in said(fleet.judge(), Status.FAILED)
