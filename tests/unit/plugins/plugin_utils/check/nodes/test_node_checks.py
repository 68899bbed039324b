# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single checks of gate nodes: what is a fault, what is the machine type, and what the site has settled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet_faults import (
    XID,
    AnyFleet,
    Mutate,
    diag,
    gpu,
    hca,
    host,
    kernel,
    no_fabric_manager,
    said,
    same_serial,
    same_uuid,
    tool,
)

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner


@pytest.mark.parametrize(
    ("mutate", "cause"), [(same_uuid, "gpu-duplicate-uuid"), (same_serial, "gpu-duplicate-serial")]
)
def test_identity_used_twice_names_both_gpus(fleet: AnyFleet, mutate: Mutate, cause: str) -> None:
    mutate(fleet)
    assert said(fleet.judge(only="gpu-census"), Status.FAILED) == {
        ("gpu-census", cause, "gpu01/gpu3"), ("gpu-census", cause, "gpu02/gpu0"),
    }  # fmt: skip


def test_shared_board_serial_within_a_host_is_no_duplicate(fleet: AnyFleet) -> None:
    gpus = fleet.hosts["gpu02"].gpus
    gpus[1].serial = gpus[0].serial
    assert not said(fleet.judge(only="gpu-census"), Status.FAILED)


def test_more_gpus_than_the_sku_has(fleet: AnyFleet) -> None:
    fleet.sku = replace(fleet.sku, gpus=3, compute_hcas=3)
    outcomes = fleet.judge()
    assert ("gpu-census", "gpu-extra", "gpu02") in said(outcomes, Status.FAILED)
    assert ("pci-census", "gpu-extra-on-pci", "gpu02") in said(outcomes, Status.FAILED)


def test_other_device_than_the_skus(fleet: AnyFleet) -> None:
    fleet.sku = replace(fleet.sku, gpu_pci_id="10de:2901")
    causes = {cause for _check, cause, _subject in said(fleet.judge(only="pci-census"), Status.FAILED)}
    assert causes == {"pci-device-wrong"}


def test_driver_tie_names_no_culprit_and_a_stated_version_does(fleet: AnyFleet) -> None:
    fleet.hosts.pop("gpu03")
    host(driver="570.148.08")(fleet)
    assert {cause for _c, cause, _s in said(fleet.judge(), Status.FAILED)} == {"driver-split"}
    fleet.settings["driver-uniform"] = {"version": "580.105.08"}
    assert said(fleet.judge(), Status.FAILED) == {("driver-uniform", "driver-mismatch", "gpu02")}


def test_narrow_links_everywhere_are_the_machine_types_and_not_a_nodes_fault(fleet: AnyFleet) -> None:
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values["width"] = "8x"
    outcomes = fleet.judge(only="gpu-pcie-link")
    assert {o.cause for o in outcomes} == {"pcie-width-below-sku"}
    assert {o.rating for o in outcomes} == {Rating.MARGINAL}
    fleet.settings["gpu-pcie-link"] = {"width": 8}
    assert {o.status for o in fleet.judge(only="gpu-pcie-link")} == {Status.PASSED}


def test_a_width_that_the_driver_does_not_report_is_not_passed(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].gpus[0].values["width"] = "N/A"
    outcomes = fleet.judge(only="gpu-pcie-link")
    (unknown,) = [o for o in outcomes if o.status is not Status.PASSED]
    assert (unknown.cause, unknown.rating) == ("pcie-width-unknown", Rating.MARGINAL)
    assert {subject.name for subject in unknown.subjects} == {"gpu02", "gpu02/gpu0"}


def test_generation_at_idle_and_replays_are_no_fault(fleet: AnyFleet) -> None:
    gpu(0, gen="1", replay="4711")(fleet)
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


def test_absent_features_are_no_fault(fleet: AnyFleet) -> None:
    """A kind of GPU of which nothing is stated: no fabric, MIG or row remapping; an older driver has no action."""
    other = Accelerator(name="a100", title="A100", product_pattern="H100")
    fleet.sku = replace(fleet.sku, nvlink_generation=3, nvswitches=0, gpu=other)
    for one in fleet.hosts.values():
        one.driver = "535.54.03"
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values |= {"state": "N/A", "status": "N/A", "mig": "N/A", "remap": "N/A", "action": "N/A"}
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


def test_mig_wanted(fleet: AnyFleet) -> None:
    fleet.settings["mig-mode"] = {"expected": "enabled"}
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values["mig"] = "Enabled"
        one.tools["nvidia_smi_nvlink"] = ToolRun(
            argv=("nvidia-smi",), rc=0,
            stdout="GPU 0: NVIDIA H100 (UUID: GPU-0)\nNvlink queries are not supported for Devices in MIG mode\n",
        )  # fmt: skip
    assert {o.status for o in fleet.judge(only="mig-mode")} == {Status.PASSED}
    assert {o.status for o in fleet.judge(only="nvlink")} == {Status.PASSED}
    fleet.settings.clear()
    assert {o.cause for o in fleet.judge(only="nvlink")} == {"blocked-by-mig-mode"}


def test_required_test_skipped_or_absent_is_unknown(fleet: AnyFleet) -> None:
    diag("targeted_power", 1, "Skip")(fleet)
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-skipped", "gpu02")}
    fleet.hosts["gpu02"].diag = {}
    text = fleet.hosts["gpu02"].evidence().tools["dcgmi_diag"].stdout
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ToolRun(
        argv=("dcgmi", "diag", "-r", "3", "-j"), rc=0, stdout=text.replace('"targeted_stress"', '"other_test"')
    )
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-incomplete", "gpu02")}


def test_diagnostic_of_an_unknown_level_is_not_passed(fleet: AnyFleet) -> None:
    run = fleet.hosts["gpu02"].evidence().tools["dcgmi_diag"]
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = replace(run, argv=run.argv[:2])
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-level", "gpu02")}


def test_diagnostic_that_did_not_run_or_ran_at_a_lower_level_is_unknown(fleet: AnyFleet) -> None:
    good = fleet.hosts["gpu02"].evidence().tools["dcgmi_diag"]
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = replace(good, argv=("dcgmi", "diag", "-r", "1", "-j"))
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-level", "gpu02")}
    tool("dcgmi_diag", rc=226, stdout='{"DCGM Diagnostic":{"runtime_error":"no GPUs"}}')(fleet)
    assert said(fleet.judge(only="dcgm-diag"), Status.OTHER) == {("dcgm-diag", "dcgm-diag-not-run", "gpu02")}


def test_harmless_xids_are_told_and_a_withdrawn_action_counts_no_more(fleet: AnyFleet) -> None:
    change = "NVRM: Xid (PCI:0000:21:00): 154, GPU recovery action changed from {} to {}"
    kernel(
        XID.format(13, "Graphics Exception"),
        change.format("0x0 (None)", "0x1 (GPU Reset Required)"),
        change.format("0x1 (GPU Reset Required)", "0x0 (None)"),
        "nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 19084, Non-fatal, Link 10 AN1 Heartbeat Timeout Error",
    )(fleet)
    outcomes = fleet.judge(only="kernel-xid")
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert "XID 13" in next(o.summary for o in outcomes if o.subjects[0].name == "gpu02")


def test_cut_log_passes_nothing(fleet: AnyFleet) -> None:
    text = fleet.hosts["gpu02"].evidence().tools["kernel_log"].stdout
    tool("kernel_log", rc=0, stdout=text, truncated=True)(fleet)
    assert said(fleet.judge(), Status.OTHER) == {("kernel-xid", "kernel-log-cut", "gpu02")}
    tool("nvidia_smi_topo", rc=0, stdout="GPU0", truncated=True)(fleet)
    assert ("topology", "nvidia-smi-topo-garbage", "gpu02") in said(fleet.judge(), Status.OTHER)


def test_storage_adapter_does_not_stand_in_for_a_compute_one(fleet: AnyFleet) -> None:
    for one in fleet.hosts.values():
        one.hcas |= {"mlx5_8": {"rate": "200"}, "mlx5_9": {"state": "Down", "physical": "Polling"}}
    assert {o.status for o in fleet.judge(only="hca-state")} == {Status.PASSED}
    hca("mlx5_1", rate="200")(fleet)
    failed = said(fleet.judge(only="hca-state"), Status.FAILED)
    assert any(cause == "hca-rate-reduced" and "gpu02/mlx5_1" in subject for _check, cause, subject in failed)
    fleet.settings["hca-state"] = {"hcas": [f"mlx5_{n}" for n in range(4)]}
    assert said(fleet.judge(only="hca-state"), Status.FAILED) == {("hca-state", "hca-rate-reduced", "gpu02/mlx5_1")}


def test_rate_can_be_left_to_the_fabric_gate(fleet: AnyFleet) -> None:
    hca("mlx5_1", rate="26")(fleet)
    fleet.settings["hca-state"] = {"rate_gbps": 0}
    assert {o.status for o in fleet.judge(only="hca-state")} == {Status.PASSED}


def test_rack_wide_domain(fleet: AnyFleet) -> None:
    fleet.sku = replace(fleet.sku, nvlink_domain="rack", nvswitches=0, nvlink_domain_gpus=72)
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values |= {"clique": "2", "cluster": "00000001-0000-0000-0000-000000000001"}
    assert {o.status for o in fleet.judge(only="nvlink")} == {Status.PASSED}
    gpu(1, clique="3")(fleet)
    gpu(2, clique="0", cluster="00000000-0000-0000-0000-000000000000")(fleet)
    assert said(fleet.judge(only="nvlink"), Status.FAILED) == {
        ("nvlink", "nvlink-domain-split", "gpu02/gpu1"), ("nvlink", "nvlink-domain-not-joined", "gpu02/gpu2"),
    }  # fmt: skip


def test_of_a_rack_in_two_halves_both_are_named(fleet: AnyFleet) -> None:
    """None of them is the other one: which cluster has the larger UUID says nothing."""
    fleet.sku = replace(fleet.sku, nvlink_domain="rack", nvswitches=0, nvlink_domain_gpus=72)
    for one in fleet.hosts.values():
        for place, part in enumerate(one.gpus):
            part.values |= {"clique": str(2 + place % 2), "cluster": "00000001-0000-0000-0000-000000000001"}
    everywhere = {f"{host}/gpu{place}" for host in fleet.hosts for place in range(4)}
    found = said(fleet.judge(only="nvlink"), Status.FAILED)
    assert {cause for _check, cause, _names in found} == {"nvlink-domain-split"}
    assert {name for _check, _cause, names in found for name in names.split(",")} == everywhere


def test_a_tray_has_no_fabric_manager_of_its_own_to_wait_for(fleet: AnyFleet) -> None:
    """It runs in the rack's switch trays, so nothing else would report a GPU that is not in the fabric."""
    fleet.sku = replace(fleet.sku, nvlink_domain="rack", nvswitches=0, nvlink_domain_gpus=72)
    no_fabric_manager(fleet)
    failed = {
        (cause, names.partition("/")[0]) for _check, cause, names in said(fleet.judge(only="nvlink"), Status.FAILED)
    }
    assert ("nvlink-fabric-not-ready", "gpu02") in failed


def test_operator_owns_the_driver(fleet: AnyFleet) -> None:
    fleet.owner = DriverOwner.OPERATOR
    here, later = fleet.judge("nodes"), fleet.judge("gpu_stack")
    assert {o.status for o in here if o.check not in ("os-uniform", "ofed-uniform")} == {Status.PASSED}
    assert not {"gpu-census", "dcgm-diag"} & {o.check for o in here}
    assert {o.status for o in later} == {Status.PASSED}
    assert {"gpu-census", "gpu-ecc", "nvlink", "topology", "dcgm-diag", "driver-uniform"} <= {o.check for o in later}
    gpu(1, listed=False)(fleet)
    assert said(fleet.judge("gpu_stack"), Status.FAILED) == {("gpu-census", "gpu-missing", "gpu02/gpu1")}


def test_operator_without_a_pod_on_a_node_is_one_unknown(fleet: AnyFleet) -> None:
    fleet.owner = DriverOwner.OPERATOR
    fleet.judge("gpu_stack")
    (fleet.run_dir / "evidence/drivers/gpu02.json").unlink()
    fleet.hosts["gpu02"].no_file = True
    outcomes = fleet.judge("gpu_stack")
    assert said(outcomes, Status.OTHER) == {("gpu-census", "nvidia-smi-not-collected", "gpu02")}
    assert not said(outcomes, Status.FAILED)
