# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate nodes as a whole: a healthy fleet passes; each fault gives its check, cause and subject, and no other fails."""

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
    lost,
    no_fabric_manager,
    said,
    slow_link,
    tool,
    weak_links,
)

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit import load_growth
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import observe_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import load_catalogue

CHECKS = len(
    [check for check in all_checks() if check.spec.gate == "nodes" and check.observer.key == observe_hosts.OBSERVER.key]
)


def test_healthy_fleet_passes_every_check(fleet: AnyFleet) -> None:
    outcomes = fleet.judge()
    assert {o.status for o in outcomes} == {Status.PASSED}, [o for o in outcomes if o.status is not Status.PASSED]
    assert len(outcomes) == CHECKS * len(fleet.hosts)
    assert all(o.summary and o.evidence for o in outcomes if o.check != "host-reached" or o.evidence)


def both(one: Mutate, other: Mutate) -> Mutate:
    def mutate(fleet: AnyFleet) -> None:
        one(fleet)
        other(fleet)

    return mutate


def persistence_stated(fleet: AnyFleet) -> None:
    fleet.settings["gpu-persistence"] = {"expected": "Enabled"}


WARNING = [{"warning": "it is bad", "error_id": 6, "error_category": 10, "error_severity": 2}]
HEAT = [{"warning": "GPU 2 Thermal violations totaling 13.3 seconds started at 9.7 seconds into the test for GPU 2"}]
SETTING = [{"warning": "Persistence mode for GPU 0 is disabled."}]
FAILS: dict[str, tuple[Mutate, tuple[str, str, str]]] = {
    "gone from pci": (gpu(2, on_pci=False), ("pci-census", "gpu-not-on-pci", "gpu02/gpu2")),
    "dead on pci": (gpu(2, revision="ff"), ("pci-census", "pci-device-dead", "gpu02/gpu2")),
    "not listed": (gpu(2, listed=False), ("gpu-census", "gpu-missing", "gpu02/gpu2")),
    "first not listed": (gpu(0, listed=False), ("gpu-census", "gpu-missing", "gpu02/gpu0")),
    "lost": (lost(1), ("gpu-census", "gpu-lost", "gpu02/gpu1")),
    "product": (gpu(1, product="NVIDIA H100 PCIe"), ("gpu-census", "gpu-wrong-product", "gpu02/gpu1")),
    "memory": (gpu(1, memory="40960 MiB"), ("gpu-census", "gpu-wrong-memory", "gpu02/gpu1")),
    "driver": (host(driver="570.148.08"), ("driver-uniform", "driver-mismatch", "gpu02")),
    "no driver": (
        tool("nvidia_smi_xml", rc=9, stdout="It couldn't communicate with the NVIDIA driver. Make sure it is loaded"),
        ("gpu-census", "driver-not-loaded", "gpu02"),
    ),
    "library": (
        tool("nvidia_smi_xml", rc=18, stdout="Failed to initialize NVML: Driver/library version mismatch"),
        ("gpu-census", "driver-library-mismatch", "gpu02"),
    ),
    "no devices": (
        tool("nvidia_smi_xml", rc=6, stdout="No devices were found\n"), ("gpu-census", "gpu-missing", "gpu02"),
    ),
    "inforom": (
        lambda fleet: fleet.hosts["gpu02"].tools.__setitem__(
            "nvidia_smi_xml",
            replace(
                fleet.hosts["gpu02"].evidence().tools["nvidia_smi_xml"],
                rc=14,
                stdout=fleet.hosts["gpu02"].evidence().tools["nvidia_smi_xml"].stdout
                + "WARNING: infoROM is corrupted at gpu 0000:21:00.0\n",
            ),
        ),
        ("gpu-census", "gpu-inforom-corrupted", "gpu02"),
    ),
    "ecc": (gpu(3, unc="5", agg_unc="8"), ("gpu-ecc", "ecc-uncorrectable", "gpu02/gpu3")),
    "ecc off": (gpu(3, ecc="Disabled"), ("gpu-ecc", "ecc-disabled", "gpu02/gpu3")),
    "sram": (gpu(3, threshold="Yes"), ("gpu-ecc", "ecc-sram-threshold", "gpu02/gpu3")),
    "repair": (gpu(3, repair="Yes"), ("gpu-ecc", "ecc-repair-pending", "gpu02/gpu3")),
    "remap failure": (gpu(3, remap_failure="Yes"), ("gpu-row-remap", "row-remap-failure", "gpu02/gpu3")),
    "remap pending": (gpu(3, remap_pending="Yes"), ("gpu-row-remap", "row-remap-pending", "gpu02/gpu3")),
    "retirement": (gpu(3, retire_pending="Yes"), ("gpu-row-remap", "page-retirement-pending", "gpu02/gpu3")),
    "retired pages": (gpu(2, retired="63"), ("gpu-row-remap", "pages-retired", "gpu02/gpu2")),
    "retired pages of both kinds": (
        gpu(2, retired="50", retired_double="13"),
        ("gpu-row-remap", "pages-retired", "gpu02/gpu2"),
    ),
    "recovery": (gpu(0, action="Drain and Reset"), ("gpu-recovery-action", "gpu-recovery-required", "gpu02/gpu0")),
    "width": (gpu(0, width="8x"), ("gpu-pcie-link", "pcie-width-reduced", "gpu02/gpu0")),
    "mig": (gpu(0, mig="Enabled"), ("mig-mode", "mig-mode-mismatch", "gpu02/gpu0")),
    "mig pending": (gpu(0, mig_pending="Enabled"), ("mig-mode", "mig-mode-pending", "gpu02/gpu0")),
    "links": (weak_links, ("nvlink", "nvlink-inactive", "gpu02/gpu1")),
    "link rate": (slow_link, ("nvlink", "nvlink-rate-reduced", "gpu02/gpu1")),
    "fabric state": (gpu(1, state="N/A", status="N/A"), ("nvlink", "nvlink-fabric-not-ready", "gpu02/gpu1")),
    "fabric failure": (gpu(1, status="Failure"), ("nvlink", "nvlink-fabric-not-ready", "gpu02/gpu1")),
    "fabric health": (gpu(1, health="Unhealthy"), ("nvlink", "nvlink-fabric-unhealthy", "gpu02/gpu1")),
    "power limit": (gpu(1, limit="400.00 W"), ("gpu-power-limit", "power-limit-lowered", "gpu02/gpu1")),
    "heat": (gpu(1, slow="hw_thermal_slowdown"), ("gpu-throttle", "gpu-throttled-heat", "gpu02/gpu1")),
    "power brake": (gpu(1, slow="hw_power_brake_slowdown"), ("gpu-throttle", "gpu-throttled-power", "gpu02/gpu1")),
    "hot without work": (gpu(1, temp="92", margin="N/A"), ("gpu-temperature", "gpu-hot", "gpu02/gpu1")),
    "hot under load": (gpu(1, temp="84", margin="2 C", draw="690.00 W"), ("gpu-temperature", "gpu-hot", "gpu02/gpu1")),
    "persistence": (
        both(persistence_stated, gpu(1, persistence="Disabled")),
        ("gpu-persistence", "persistence-mode-wrong", "gpu02/gpu1"),
    ),
    "fabric manager": (no_fabric_manager, ("fabric-manager", "fabric-manager-inactive", "gpu02")),
    "topology": (
        host(topo_words={(0, 1): "SYS", (1, 2): "SYS", (1, 3): "SYS"}), ("topology", "topology-nvlink", "gpu02/gpu1"),
    ),
    "nic": (host(nic_words={3: "SYS"}), ("topology", "topology-nic-far", "gpu02/gpu3")),
    "hca down": (hca("mlx5_2", state="Down", physical="Polling"), ("hca-state", "hca-down", "gpu02/mlx5_2")),
    "no sm": (hca("mlx5_2", state="Initializing", sm="0"), ("hca-state", "no-subnet-manager", "gpu02/mlx5_2")),
    "rate": (hca("mlx5_2", rate="200"), ("hca-state", "hca-rate-reduced", "gpu02/mlx5_2")),
    "layer": (hca("mlx5_2", layer="Ethernet"), ("hca-state", "hca-wrong-link-layer", "gpu02/mlx5_2")),
    "no hca": (lambda fleet: fleet.hosts["gpu02"].hcas.pop("mlx5_2"), ("hca-state", "hca-missing", "gpu02/mlx5_2")),
    "xid": (kernel(XID.format(79, "GPU has fallen off the bus.")), ("kernel-xid", "xid-fatal", "gpu02/gpu1")),
    "nvlink xid": (
        kernel(XID.format(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01")), ("kernel-xid", "xid-fatal", "gpu02/gpu1"),
    ),
    "xid action": (
        kernel(XID.format(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")),
        ("kernel-xid", "xid-fatal", "gpu02/gpu1"),
    ),
    "off the bus": (
        kernel("NVRM: The NVIDIA GPU 0000:21:00.0", "NVRM: (PCI ID: 10de:2330) has", "NVRM: fallen off the bus"),
        ("kernel-xid", "gpu-off-bus", "gpu02/gpu1"),
    ),
    "sxid": (
        kernel("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up"),
        ("kernel-xid", "sxid-fatal", "gpu02"),
    ),
    "no time": (host(leap="Not synchronised", offset="0.000000000 seconds fast"),
                ("clock-sync", "clock-not-synchronised", "gpu02")),
    "slow clock": (host(offset="0.250000000 seconds slow"), ("clock-sync", "clock-offset", "gpu02")),
    "no chronyd": (
        tool("chronyc", rc=1, stdout="506 Cannot talk to daemon\n"), ("clock-sync", "clock-daemon-down", "gpu02"),
    ),
    "diag": (diag("memory", 2, "Fail", warnings=WARNING), ("dcgm-diag", "dcgm-diag-failed", "gpu02/gpu2")),
    "diag heat": (
        diag("memory", 2, "Fail", warnings=HEAT), ("dcgm-diag", "dcgm-diag-thermal", "gpu02/gpu2"),
    ),
    "diag setting with DCGM's numbers": (
        diag("software", 0, "Fail", warnings=[{**SETTING[0], "error_severity": 1, "error_category": 3}]),
        ("dcgm-diag", "dcgm-diag-configuration", "gpu02/gpu0"),
    ),
    "machine check": (
        kernel("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: fe00000000800400"),
        ("kernel-hardware", "machine-check", "gpu02"),
    ),
    "system memory": (
        kernel("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)"),
        ("kernel-hardware", "memory-uncorrected", "gpu02"),
    ),
    "pcie": (
        kernel("pcieport 0000:98:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
        ("kernel-hardware", "pcie-fatal", "gpu02"),
    ),
    "hot module": (
        kernel("mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature"),
        ("kernel-hardware", "transceiver-hot", "gpu02"),
    ),
    "dead adapter": (
        kernel("mlx5_core 0000:d2:00.0: poll_health:174: device's health compromised - reached miss count."),
        ("kernel-hardware", "adapter-dead", "gpu02"),
    ),
    "dead drive": (
        kernel("nvme nvme2: Removing after probe failure status: -19"),
        ("kernel-hardware", "drive-dead", "gpu02"),
    ),
    "diag setting": (
        diag("software", 0, "Fail", warnings=SETTING), ("dcgm-diag", "dcgm-diag-configuration", "gpu02/gpu0"),
    ),
}  # fmt: skip


@pytest.mark.quickly(12)
@pytest.mark.parametrize("name", FAILS)
def test_fault_fails_with_its_cause_and_subject_and_nothing_else_fails(fleet: AnyFleet, name: str) -> None:
    mutate, expected = FAILS[name]
    mutate(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.FAILED) == {expected}
    assert not said(outcomes, Status.OTHER)
    failed = next(o for o in outcomes if o.status is Status.FAILED)
    assert failed.hint
    assert failed.subjects[0].name == "gpu02"
    spec = next(check.spec for check in all_checks() if check.spec.id == failed.check)
    assert failed.cause in spec.causes
    # The other hosts are not drawn into it.
    assert all(o.status is Status.PASSED for o in outcomes if o.subjects[0].name != "gpu02")


def test_every_cause_that_a_check_names_is_shown_by_a_fault() -> None:
    shown = {(check, cause) for _mutate, (check, cause, _subject) in FAILS.values()}
    elsewhere = {
        ("cpu-governor", "cpu-governor-wrong"), ("driver-uniform", "driver-split"),
        ("efa-devices", "efa-device-down"), ("gpu-census", "gpu-driver-unfit"),
        ("gpu-census", "gpu-duplicate-serial"), ("gpu-census", "gpu-extra"),
        ("gpu-census", "gpu-start-failed"), ("gpu-ecc", "ecc-unrepairable"),
        ("hca-state", "hca-names-wrong"), ("imex-domain", "imex-running"),
        ("network-mounts", "mount-missing"), ("nvlink", "nvlink-domain-not-joined"),
        ("nvlink", "nvlink-domain-split"), ("partition-keys", "partition-key-missing"),
        ("pci-census", "accelerator-other-maker"), ("pci-census", "gpu-extra-on-pci"),
        ("pci-census", "pci-device-wrong"), ("roce-ecn", "roce-ecn-off"),
        ("roce-setup", "roce-pfc-wrong"), ("roce-setup", "roce-trust-wrong"),
        ("unit-limits", "memlock-limit-low"), ("unit-limits", "nofile-limit-low"),
    }  # fmt: skip
    # Every fault of a rehearsal is found in a world that it fits (test_drawn_worlds.py).
    shown |= {(fault.expect.check, fault.expect.cause) for fault in load_catalogue().values()}
    growth = {("host-state-after-diag", cause) for cause in load_growth.CAUSES}
    specs = [check.spec for check in all_checks() if check.spec.gate == "nodes" and check.observer.key == "hosts"]
    assert {(spec.id, cause) for spec in specs for cause in spec.causes} - shown == elsewhere | growth - shown


DRIVE, FILES = (("kernel-hardware", cause, "gpu02") for cause in ("drive-error", "filesystem-read-only"))


@pytest.mark.parametrize(
    ("mutate", "cause"),
    [
        (gpu(1, dram_corr="30000000"), ("gpu-ecc", "ecc-correctable-high", "gpu02/gpu1")),
        (gpu(1, low="3"), ("gpu-row-remap", "row-remap-headroom-low", "gpu02/gpu1")),
        (gpu(1, retired_double="16"), ("gpu-row-remap", "pages-retired-by-double-bit", "gpu02/gpu1")),
        (gpu(1, persistence="Disabled"), ("gpu-persistence", "persistence-mode-differs", "gpu02/gpu1")),
        (gpu(1, vbios="96.00.61.00.01"), ("vbios-uniform", "vbios-mismatch", "gpu02/gpu1")),
        (hca("mlx5_2", firmware="28.36.1010"), ("hca-firmware-uniform", "hca-firmware-mismatch", "gpu02/mlx5_2")),
        (host(release="5.15.0-112-generic"), ("kernel-uniform", "kernel-mismatch", "gpu02")),
        (host(version_id="22.04"), ("os-uniform", "os-mismatch", "gpu02")),
        (host(ofed="MLNX_OFED_LINUX-23.10-0.5.5.0"), ("ofed-uniform", "ofed-mismatch", "gpu02")),
        (tool("ofed_info", missing=True), ("ofed-uniform", "ofed-mismatch", "gpu02")),
        (diag("memory", 2, "Warn", warnings=WARNING), ("dcgm-diag", "dcgm-diag-warning", "gpu02/gpu2")),
        (diag("memory", 2, "Pass", warnings=WARNING), ("dcgm-diag", "dcgm-diag-warning", "gpu02/gpu2")),
        (kernel(XID.format(999, "new")), ("kernel-xid", "xid-unknown", "gpu02/gpu1")),
        (kernel(XID.format(61, "halt")), ("kernel-xid", "xid-marginal", "gpu02/gpu1")),
        (kernel(XID.format(145, "RLW_REMAP XC0 i0")), ("kernel-xid", "xid-marginal", "gpu02/gpu1")),
        (kernel("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"), DRIVE),
        (kernel("blk_update_request: critical medium error, dev nvme0n1, sector 8123"), DRIVE),
        (kernel("EXT4-fs (dm-17): Remounting filesystem read-only"), FILES),
        (kernel("XFS (nvme0n1p1): Filesystem has been shut down due to log error (0x2)."), FILES),
        (kernel(*["mlx5_core 0000:99:00.0 ib2: Link down"] * 6), ("hca-state", "link-flapping", "gpu02/ib2")),
        (
            kernel("mlx5_core 0000:99:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at "
                   "0000:98:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"),
            ("hca-state", "hca-pcie-limited", "gpu02"),
        ),
    ],
)  # fmt: skip
def test_doubtful_state_needs_acceptance(fleet: AnyFleet, mutate: Mutate, cause: tuple[str, str, str]) -> None:
    mutate(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.OTHER) == {cause}
    assert not said(outcomes, Status.FAILED)
    assert {o.rating for o in outcomes if o.status is Status.OTHER} == {Rating.MARGINAL}


@pytest.mark.parametrize(
    "line",
    [
        # A healthy start, an image that was damaged by whoever made it, a disc that somebody took out.
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
        "EXT4-fs (loop3): Remounting filesystem read-only",
        "critical medium error, dev sr0, sector 64",
        "nvme nvme0: Shutdown timeout set to 10 seconds",
    ],
)
def test_ordinary_lines_about_drives_are_no_event(fleet: AnyFleet, line: str) -> None:
    kernel(line)(fleet)
    assert not said(fleet.judge(), Status.OTHER)


def test_pages_below_the_limits_of_dcgm_are_no_case(fleet: AnyFleet) -> None:
    gpu(1, retired="47", retired_double="15")(fleet)
    outcomes = fleet.judge()
    assert not said(outcomes, Status.OTHER) and not said(outcomes, Status.FAILED)


UNUSABLE = {
    "missing": {"missing": True},
    "timeout": {"timed_out": True, "duration_s": 60.0},
    "empty": {"rc": 0, "stdout": " \n"},
    "garbage": {"rc": 0, "stdout": "%PDF-1.4 nonsense \x00\x01"},
    "failed": {"rc": 255, "stderr": "it broke"},
}
OWNERS = {
    "nvidia_smi_xml": ("gpu-census", "nvidia-smi"), "nvidia_smi_topo": ("topology", "nvidia-smi-topo"),
    "nvidia_smi_nvlink": ("nvlink", "nvidia-smi-nvlink"), "dcgmi_diag": ("dcgm-diag", "dcgmi-diag"),
    "lspci": ("pci-census", "lspci"), "ibstat": ("hca-state", "ibstat"), "kernel_log": ("kernel-xid", "kernel-log"),
    "chronyc": ("clock-sync", "chronyc"), "uname": ("kernel-uniform", "uname"),
    "os_release": ("os-uniform", "os-release"), "fabric_manager": ("fabric-manager", "fabric-manager"),
    "ofed_info": ("ofed-uniform", "ofed-info"),
}  # fmt: skip


# A package that is not installed is a fact, judged by ofed-uniform.
@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in OWNERS for k in UNUSABLE if (n, k) != ("ofed_info", "missing")]
)
def test_tool_without_usable_output_is_unknown_once(fleet: AnyFleet, name: str, kind: str) -> None:
    tool(name, **UNUSABLE[kind])(fleet)
    outcomes = fleet.judge()
    check, slug = OWNERS[name]
    assert said(outcomes, Status.OTHER) == {(check, f"{slug}-{kind}", "gpu02")}
    assert not said(outcomes, Status.FAILED)
    assert {o.blocked_by for o in outcomes} <= {"", check}


@pytest.mark.parametrize(("kind", "fix"), [("in-use", "dcgm-diag.disturb=true"), ("held", "after the other run")])
def test_a_host_that_is_in_use_or_held_is_not_passed_and_says_what_to_do(fleet: AnyFleet, kind: str, fix: str) -> None:
    who = "in use by python3 (pid 71)"
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ToolRun(argv=("dcgmi", "diag"), withheld=kind, stderr=who)
    outcomes = fleet.judge()
    assert said(outcomes, Status.OTHER) == {("dcgm-diag", f"dcgmi-diag-{kind}", "gpu02")}
    assert not said(outcomes, Status.FAILED)
    (outcome,) = [found for found in outcomes if found.cause == f"dcgmi-diag-{kind}"]
    assert who in outcome.summary
    assert fix in outcome.hint


def test_hanging_driver_is_one_unknown_and_the_rest_waits(fleet: AnyFleet) -> None:
    for name in ("nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_nvlink"):
        tool(name, timed_out=True, duration_s=60.0)(fleet)
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ToolRun(argv=("dcgmi",), timed_out=True, duration_s=1800.0)
    outcomes = fleet.judge()
    assert said(outcomes, Status.OTHER) == {("gpu-census", "nvidia-smi-timeout", "gpu02")}
    waiting = {o.check for o in outcomes if o.cause == "blocked-by-gpu-census"}
    assert {"gpu-ecc", "nvlink", "topology", "dcgm-diag", "driver-uniform", "mig-mode"} <= waiting
    assert not said(outcomes, Status.FAILED)


@pytest.mark.parametrize(
    ("mutate", "cause"),
    [
        (host(unreachable="Failed to connect to the host via ssh"), "host-unreachable"),
        (host(no_file=True), "evidence-missing"),
    ],
)
def test_unreached_host_is_named_once(fleet: AnyFleet, mutate: Mutate, cause: str) -> None:
    mutate(fleet)
    outcomes = fleet.judge()
    assert said(outcomes, Status.OTHER) == {("host-reached", cause, "gpu02")}
    of_host = [o for o in outcomes if o.subjects[0].name == "gpu02"]
    assert len(of_host) == CHECKS
    assert {o.cause for o in of_host} == {cause, "blocked-by-host-reached"}


def test_broken_evidence_file_is_named(fleet: AnyFleet) -> None:
    fleet.judge()
    path = fleet.run_dir / "evidence/hosts/gpu02.json"
    path.write_text(path.read_text()[:200])
    fleet.hosts["gpu02"].no_file = True
    assert said(fleet.judge(), Status.OTHER) == {("host-reached", "evidence-unreadable", "gpu02")}


def test_two_faults_on_different_hosts_are_told_apart(fleet: AnyFleet) -> None:
    gpu(3, unc="2")(fleet)
    fleet.hosts["gpu03"].gpus[0].values["width"] = "4x"
    outcomes = fleet.judge()
    assert said(outcomes, Status.FAILED) == {
        ("gpu-ecc", "ecc-uncorrectable", "gpu02/gpu3"),
        ("gpu-pcie-link", "pcie-width-reduced", "gpu03/gpu0"),
    }
    assert not said(outcomes, Status.OTHER)


def test_gpu_after_a_missing_one_keeps_its_name(fleet: AnyFleet) -> None:
    gpu(1, listed=False)(fleet)
    gpu(3, unc="2")(fleet)
    assert said(fleet.judge(), Status.FAILED) == {
        ("gpu-census", "gpu-missing", "gpu02/gpu1"),
        ("gpu-ecc", "ecc-uncorrectable", "gpu02/gpu3"),
    }


def test_host_that_lost_every_gpu_from_pci_is_told_once(fleet: AnyFleet) -> None:
    for part in fleet.hosts["gpu02"].gpus:
        part.on_pci = False
    tool("nvidia_smi_xml", rc=6, stdout="No devices were found\n")(fleet)
    outcomes = [o for o in fleet.judge() if o.check in {"pci-census", "gpu-census"}]
    assert {(check, cause) for check, cause, _part in said(tuple(outcomes), Status.FAILED)} == {
        ("pci-census", "gpu-not-on-pci")
    }
    assert {o.blocked_by for o in outcomes if o.check == "gpu-census" and o.status is Status.OTHER} == {"pci-census"}
