# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public incidents of GPUs, driver and NVLink, as what the tools of the host showed: the confirmed cause is named.

Sources: threads of dstackai/dstack, NVIDIA/nccl-tests, siderolabs/extensions, NVIDIA/open-gpu-kernel-modules,
NVIDIA/NVSentinel, NVIDIA/k8s-device-plugin and lyulyul/shine-cluster; stas00/ml-engineering (debug.md).
"""

from __future__ import annotations

from fleet_faults import AnyFleet, diag, gpu, kernel, said, tool

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner


def _fabric_waits(fleet: AnyFleet, manager: str) -> None:
    fleet.hosts["gpu02"].fabric_manager = manager
    for part in fleet.hosts["gpu02"].gpus:
        part.values |= {"state": "In Progress", "status": "N/A"}


def test_fabric_manager_older_than_the_driver(fleet: AnyFleet) -> None:
    """The service does not start; nvidia-smi lists all GPUs, and CUDA says that the system is not initialised."""
    _fabric_waits(fleet, "failed")
    outcomes = fleet.judge()
    assert said(outcomes, Status.FAILED) == {("fabric-manager", "fabric-manager-inactive", "gpu02")}
    assert "its version must be the driver's" in next(o.hint for o in outcomes if o.status is Status.FAILED)


def test_fabric_manager_not_enabled(fleet: AnyFleet) -> None:
    _fabric_waits(fleet, "inactive")
    assert said(fleet.judge(), Status.FAILED) == {("fabric-manager", "fabric-manager-inactive", "gpu02")}


def test_fabric_manager_bound_to_the_wrong_port(fleet: AnyFleet) -> None:
    """It runs, and the GPUs never finish their registration; the bridges of the NVSwitches are no compute adapters."""
    _fabric_waits(fleet, "active")
    for one in fleet.hosts.values():
        one.hcas |= {f"mlx5_{n}": {"rate": "100", "type": "MT4129"} for n in range(8, 12)}
    failed = said(fleet.judge(), Status.FAILED)
    assert {(check, cause) for check, cause, _subject in failed} == {("nvlink", "nvlink-fabric-not-ready")}


def test_gsp_timeouts_of_one_driver_on_many_hosts(fleet: AnyFleet) -> None:
    for one in fleet.hosts.values():
        one.kernel.append("NVRM: Xid (PCI:0000:21:00): 119, pid=1, name=nvidia-smi, Timeout waiting for RPC from GSP!")
    failed = [o for o in fleet.judge() if o.status is Status.FAILED]
    assert {o.cause for o in failed} == {"xid-fatal"}
    assert all("look for a fixed driver release first" in o.hint for o in failed)


def test_gpu_off_the_bus_without_an_xid(fleet: AnyFleet) -> None:
    kernel(
        "NVRM: The NVIDIA GPU 0000:21:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
    )(fleet)
    gpu(1, listed=False)(fleet)
    failed = said(fleet.judge(), Status.FAILED)
    assert ("kernel-xid", "gpu-off-bus", "gpu02/gpu1") in failed
    assert ("gpu-census", "gpu-missing", "gpu02/gpu1") in failed


def test_contained_memory_error_before_the_device_plugin_gives_the_gpu_up(fleet: AnyFleet) -> None:
    kernel("NVRM: Xid (PCI:0000:21:00): 94, pid=7194, Contained: CE User Channel (0x9)")(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.OTHER) == {("kernel-xid", "xid-marginal", "gpu02/gpu1")}
    assert not said(outcomes, Status.FAILED)


def test_row_that_waits_for_a_reset(fleet: AnyFleet) -> None:
    """The error was correctable: neither an uncorrectable error nor a GPU to be replaced."""
    kernel(
        "NVRM: Xid (PCI:0000:21:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate."
    )(fleet)
    gpu(1, remap_pending="Yes", dram_corr="177")(fleet)
    assert said(fleet.judge(), Status.FAILED) == {("gpu-row-remap", "row-remap-pending", "gpu02/gpu1")}


def test_thermal_violations_under_the_name_of_the_memory_test(fleet: AnyFleet) -> None:
    text = "GPU 0 Thermal violations totaling 13.3 seconds started at 9.7 seconds into the test for GPU 0"
    diag("memory", 0, "Fail", warnings=[{"warning": text}])(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.FAILED) == {("dcgm-diag", "dcgm-diag-thermal", "gpu02/gpu0")}
    assert "replace" not in next(o.hint for o in outcomes if o.status is Status.FAILED)


NOUVEAU = (
    "Module                  Size  Used by\nnouveau              3096576  8\ndrm_kms_helper        270336  1 nouveau\n"
)


def test_nouveau_holds_the_gpus(fleet: AnyFleet) -> None:
    """Where the operator brings the driver, the node may crash when its pod starts: somebody has to look first."""
    tool("lsmod", rc=0, stdout=NOUVEAU)(fleet)
    assert said(fleet.judge(), Status.FAILED) == {("gpu-kernel-module", "nouveau-loaded", "gpu02")}
    fleet.owner = DriverOwner.OPERATOR
    outcomes = fleet.judge(only="gpu-kernel-module")
    assert said(outcomes, Status.OTHER) == {("gpu-kernel-module", "nouveau-before-the-driver", "gpu02")}


def test_nouveau_beside_the_driver_holds_no_gpu(fleet: AnyFleet) -> None:
    tool("lsmod", rc=0, stdout=f"{NOUVEAU}nvidia              11534336  2\n")(fleet)
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


def test_modules_that_were_not_listed_are_unknown(fleet: AnyFleet) -> None:
    for text, cause in (
        ("", "lsmod-empty"),
        ("Module  Size  Used by\n", "lsmod-garbage"),
        (NOUVEAU[40:], "lsmod-garbage"),
    ):
        tool("lsmod", rc=0, stdout=text)(fleet)
        assert said(fleet.judge(), Status.OTHER) == {("gpu-kernel-module", cause, "gpu02")}


def test_list_of_modules_that_contradicts_the_driver_is_unknown(fleet: AnyFleet) -> None:
    tool("lsmod", rc=0, stdout="Module                  Size  Used by\nmlx5_core            2265088  1 mlx5_ib\n")(
        fleet
    )
    assert said(fleet.judge(), Status.OTHER) == {("gpu-kernel-module", "modules-contradict", "gpu02")}
    tool("nvidia_smi_xml", rc=9, stdout="It couldn't communicate with the NVIDIA driver. Make sure it is loaded")(fleet)
    assert said(fleet.judge(), Status.FAILED) == {("gpu-census", "driver-not-loaded", "gpu02")}
    assert not said(fleet.judge(), Status.OTHER)


def test_driver_library_upgraded_under_running_jobs(fleet: AnyFleet) -> None:
    tool("nvidia_smi_xml", rc=18, stdout="Failed to initialize NVML: Driver/library version mismatch\n")(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.FAILED) == {("gpu-census", "driver-library-mismatch", "gpu02")}
