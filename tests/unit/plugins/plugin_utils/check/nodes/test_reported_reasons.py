# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that are missing, with the reason that driver, kernel log or PCI bus report (findings/captures-fails)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet_faults import AnyFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import driver_start

FAILED, PASSED = Status.FAILED, Status.PASSED
NO_DEVICES = ToolRun(argv=("nvidia-smi", "-q", "-x"), rc=6, stdout="No devices were found\n")
LOADING = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08"
INIT = "NVRM: GPU 0000:10:00.0: RmInitAdapter failed! (0x22:0x56:1017)"


def capture(shared: Path, name: str) -> str:
    return (shared / "findings/captures-fails" / name).read_text(encoding="utf-8")


def one(fleet: AnyFleet, check: str) -> Outcome:
    """The outcome of gpu02."""
    (found,) = [outcome for outcome in fleet.judge(only=check) if outcome.subjects[0].node == "gpu02"]
    return found


def test_a_driver_that_wants_other_modules_is_no_broken_gpu(fleet: AnyFleet, shared: Path) -> None:
    host = fleet.hosts["gpu02"]
    host.tools["nvidia_smi_xml"] = NO_DEVICES
    assert one(fleet, "gpu-census").cause == "gpu-missing", "a log that says nothing"
    log = capture(shared, "P122-driver-says-why-no-gpu.log")
    host.tools["kernel_log"] = ToolRun(argv=("journalctl",), rc=0, stdout=log)
    found = one(fleet, "gpu-census")
    assert (found.status, found.cause) == (FAILED, "gpu-driver-unfit")
    assert "requires use of the NVIDIA open kernel modules" in found.summary and "open" in found.hint
    assert "gpu02/gpu0" in {str(subject.name) for subject in found.subjects}
    loaded_again = log + log.splitlines()[0] + "\n"
    host.tools["kernel_log"] = ToolRun(argv=("journalctl",), rc=0, stdout=loaded_again)
    assert one(fleet, "gpu-census").cause == "gpu-missing", "what was before the last start of the driver is over"


@pytest.mark.parametrize(
    ("lines", "cause", "word"),
    [
        # NVIDIA/nvtrust#58 and #55, NVIDIA/open-gpu-kernel-modules#1027
        ([INIT, "NVRM: kfspPollForResponse_IMPL: FSP command timed out"], "gpu-start-failed", "confidential computing"),
        ([INIT, "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM"], "gpu-start-failed", "/lib/firmware/nvidia"),
        (["NVRM: installed in this system is not supported by the NVIDIA 550.90.07 driver release."],
         "gpu-driver-unfit", "release"),
        (["NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"], "gpu-start-failed", "4G"),
        ([INIT], "gpu-start-failed", "power-cycle"),
    ],
)  # fmt: skip
def test_the_first_reason_counts_and_not_its_consequence(
    fleet: AnyFleet, lines: list[str], cause: str, word: str
) -> None:
    host = fleet.hosts["gpu02"]
    host.tools["nvidia_smi_xml"] = NO_DEVICES
    host.kernel = [LOADING, *lines]
    found = one(fleet, "gpu-census")
    assert (found.cause, word in found.hint) == (cause, True)


def test_one_gpu_that_did_not_start_has_the_reason_of_its_own_place(fleet: AnyFleet) -> None:
    host = fleet.hosts["gpu02"]
    gone = host.gpus[2]
    gone.listed = False
    host.kernel = [LOADING, f"NVRM: GPU {gone.bus}: RmInitAdapter failed! (0x24:0x65:1589)"]
    found = one(fleet, "gpu-census")
    assert (found.cause, "RmInitAdapter" in found.summary) == ("gpu-start-failed", True)
    host.kernel = [LOADING, "NVRM: GPU 0000:77:00.0: RmInitAdapter failed! (0x24:0x65:1589)"]
    assert one(fleet, "gpu-census").cause == "gpu-missing", "another device"


def test_lines_of_a_driver_that_starts_all_gpus_change_nothing(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].kernel = [LOADING, INIT]
    assert one(fleet, "gpu-census").status is PASSED
    found = one(fleet, "kernel-xid")
    assert found.status is PASSED and "the driver did not start 0000:10:00.0 at once" in found.summary
    assert driver_start.start_failures(["NVRM: GPU 0000:10:00.0: is fine", "RmInitAdapter failed"]) == ()


def test_fabric_manager_of_another_version_is_named_by_the_kernel(fleet: AnyFleet) -> None:
    """incident fm-unattended-upgrade"""
    host = fleet.hosts["gpu02"]
    host.fabric_manager = "failed"
    line = "NVRM: API mismatch: the client has the version 580.126.09, but"
    host.kernel = [LOADING, line]
    found = one(fleet, "fabric-manager")
    assert found.cause == "fabric-manager-inactive" and line.removeprefix("NVRM: ") in found.summary


@pytest.mark.parametrize("words", ["", "for GPU 0000:B1:00.0: GPU is lost.  Reboot the system to recover this GPU"])
def test_a_gpu_without_a_handle_is_named(fleet: AnyFleet, shared: Path, words: str) -> None:
    said = capture(shared, "P119-device-handle.stdout")
    if words:
        said = f"Unable to determine the device handle {words}\n"
    host = fleet.hosts["gpu02"]
    for name in fleet.hosts:
        fleet.hosts[name].gpus[3].bus = "0000:b1:00.0"
    host.tools["nvidia_smi_xml"] = ToolRun(argv=("nvidia-smi", "-q", "-x"), rc=255, stdout=said)
    found = one(fleet, "gpu-census")
    assert (found.status, found.cause) == (FAILED, "gpu-lost")
    assert [str(subject.name) for subject in found.subjects][-1] == "gpu02/gpu3"
    host.tools["nvidia_smi_xml"] = ToolRun(argv=("nvidia-smi", "-q", "-x"), rc=255, stdout="Segmentation fault\n")
    assert one(fleet, "gpu-census").status is Status.OTHER


def test_accelerators_of_another_maker_are_named(fleet: AnyFleet, shared: Path) -> None:
    host = fleet.hosts["gpu02"]
    amd = capture(shared, "P124-mi300x.lspci.txt")
    host.tools["lspci"] = ToolRun(argv=("lspci",), rc=0, stdout=amd)
    found = one(fleet, "pci-census")
    assert (found.status, found.cause) == (FAILED, "accelerator-other-maker")
    assert "2 accelerators by AMD" in found.summary and "gpufleet_sku" in found.hint
    names = amd.replace(" [1200]", "").replace(" [1002:74a1]", "")
    host.tools["lspci"] = ToolRun(argv=("lspci",), rc=0, stdout=names)
    assert one(fleet, "pci-census").cause == "accelerator-other-maker"
    display = "0000:03:00.0 VGA compatible controller [0300]: ASPEED Technology ASPEED Graphics Family [1a03:2000]\n"
    host.tools["lspci"] = ToolRun(argv=("lspci",), rc=0, stdout=display)
    assert one(fleet, "pci-census").cause == "gpu-not-on-pci"


def test_a_document_that_has_only_the_version_of_the_kernels_part(fleet: AnyFleet) -> None:
    host = fleet.hosts["gpu02"]
    text = host.evidence().tools["nvidia_smi_xml"].stdout
    old = "<driver_version>580.105.08</driver_version>"
    assert old in text
    for new, status in (
        ("<kmd_version>580.105.08</kmd_version>", PASSED),
        ("", Status.OTHER),
        (f"<kmd_version>1.2</kmd_version>{old}", PASSED),
    ):
        host.tools["nvidia_smi_xml"] = ToolRun(argv=("nvidia-smi",), rc=0, stdout=text.replace(old, new))
        assert one(fleet, "gpu-census").status is status
