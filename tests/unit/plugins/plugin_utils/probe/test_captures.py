# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fact that the description of the captures states is found by the parser of its tool."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    chronyc,
    dcgmi_diag,
    ibstat,
    kernel_log,
    lspci,
    lspci_bridges,
    nvidia_smi_nvlink,
    nvidia_smi_topo,
    nvidia_smi_xml,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.nvidia_smi_xml import SmiLog

# File, DTD, driver, CUDA, attached, listed, product, memory in MiB, largest histogram bin (None: no remapping).
XML = [
    ("a100-sxm4-1gpu-570.xml", "v12", "570.148.08", "12.8", 1, 1, "NVIDIA A100-SXM4-40GB", 40960, 640),
    ("a100-sxm4-80gb-mig4-535.xml", "v12", "535.54.03", "12.2", 4, 1, "NVIDIA A100-SXM4-80GB", 81920, None),
    ("a10g-1gpu-515.xml", "v11", "515.105.01", "11.7", 1, 1, "NVIDIA A10G", 23028, 192),
    ("gb200-4gpu-580.xml", "v13", "580.173.02", "13.0", 4, 4, "NVIDIA GB200", 189471, 3968),
    ("h100-sxm-8gpu-580.xml", "v13", "580.105.08", "13.0", 8, 8, "NVIDIA H100 80GB HBM3", 81559, 2560),
    ("l40s-1gpu-595.xml", "v13", "595.91.07", "13.2", 1, 1, "NVIDIA L40S", 46068, 192),
]


def smi(shared: Path, name: str) -> SmiLog:
    return nvidia_smi_xml.parse((shared / "captures/nvidia-smi-xml" / name).read_text())


def text(shared: Path, name: str) -> str:
    return (shared / "captures" / name).read_text()


@pytest.mark.parametrize(("name", "schema", "driver", "cuda", "attached", "listed", "product", "memory", "bins"), XML)
def test_xml(
    shared: Path, name: str, schema: str, driver: str, cuda: str, attached: int, listed: int, product: str, memory: int,
    bins: int | None,
) -> None:  # fmt: skip
    log = smi(shared, name)
    assert (log.schema, log.driver_version, log.cuda_version) == (schema, driver, cuda)
    assert (log.attached_gpus, len(log.gpus)) == (attached, listed)
    assert log.count_agrees is (attached == listed)
    for gpu in log.gpus:
        assert (gpu.product, gpu.memory_total_mib, gpu.trouble) == (product, memory, "")
        if bins is None:
            assert gpu.remapped_rows is None
        else:
            assert gpu.remapped_rows is not None
            assert gpu.remapped_rows.histogram["max"] == bins
            assert (gpu.remapped_rows.correctable, gpu.remapped_rows.uncorrectable) == (0, 0)
            assert not gpu.remapped_rows.pending and not gpu.remapped_rows.failure


def test_xml_a100_virtual_machine(shared: Path) -> None:
    (gpu,) = smi(shared, "a100-sxm4-1gpu-570.xml").gpus
    assert (gpu.fabric.state, gpu.fabric.status) == (None, None)
    assert gpu.reset_status is None and gpu.recovery_action == "None"
    assert (gpu.link_gen_current, gpu.link_gen_max, gpu.link_width_current) == (4, 4, 16)
    assert (gpu.temperature_c, gpu.power_w) == (33, 49.68)


def test_xml_mig(shared: Path) -> None:
    (gpu,) = smi(shared, "a100-sxm4-80gb-mig4-535.xml").gpus
    assert gpu.mig_current == "Enabled"
    assert [device.memory_mib for device in gpu.mig_devices] == [19968] * 4
    assert gpu.fabric.state is None and gpu.memory_used_mib == 50 and gpu.clock_events == ()


def test_xml_a10g_old_names(shared: Path) -> None:
    (gpu,) = smi(shared, "a10g-1gpu-515.xml").gpus
    assert gpu.clock_events == ("gpu_idle",) and gpu.power_w == 25.58
    assert (gpu.link_gen_current, gpu.link_gen_max, gpu.link_width_current) == (1, 4, 8)
    assert gpu.fabric.state is None and gpu.processes == 1


def test_xml_gb200_domain(shared: Path) -> None:
    gpus = smi(shared, "gb200-4gpu-580.xml").gpus
    assert {(g.fabric.state, g.fabric.status, g.fabric.clique_id, g.fabric.health) for g in gpus} == {
        ("Completed", "Success", "2", "Healthy")
    }
    assert {g.fabric.cluster_uuid for g in gpus} == {"00000001-0000-0000-0000-000000000001"}
    assert len({g.serial for g in gpus}) == 2
    assert [g.bus_id for g in gpus] == ["0000:29:00.0", "0000:3f:00.0", "0000:9c:00.0", "0000:b2:00.0"]
    assert [g.power_w for g in gpus] == [165.93, 168.57, 156.48, 171.61]
    assert all(g.remapped_rows and g.remapped_rows.correctable_inactive == 0 for g in gpus)
    assert all(g.remapped_rows and g.remapped_rows.uncorrectable_inactive == 0 for g in gpus)
    assert {g.replay_count for g in gpus} == {0}


def test_xml_h100_node(shared: Path) -> None:
    gpus = smi(shared, "h100-sxm-8gpu-580.xml").gpus
    assert [g.replay_count for g in gpus] == [150, 144, 174, 158, 145, 172, 162, 106]
    assert [g.temperature_c for g in gpus] == [29, 30, 29, 32, 32, 29, 31, 29]
    assert {g.clock_events for g in gpus} == {("gpu_idle",)} and {g.mig_current for g in gpus} == {"Disabled"}
    assert {(g.fabric.state, g.fabric.status, g.fabric.health) for g in gpus} == {("Completed", "Success", None)}
    assert {(g.link_gen_current, g.link_gen_max, g.link_width_current) for g in gpus} == {(5, 5, 16)}
    assert {g.ecc_current for g in gpus} == {"Enabled"}
    assert all(g.ecc_volatile.dram_uncorrectable is not None and g.ecc_volatile.uncorrectable == 0 for g in gpus)
    powers = [g.power_w or 0.0 for g in gpus]
    assert powers[0] == 68.92 and max(powers) == 71.77


def test_xml_l40s(shared: Path) -> None:
    (gpu,) = smi(shared, "l40s-1gpu-595.xml").gpus
    assert gpu.mig_current is None and gpu.fabric.state is None
    assert (gpu.link_width_current, gpu.link_width_max) == (8, 16)
    assert (gpu.power_w, gpu.temperature_c) == (66.16, 29)
    assert gpu.remapped_rows is not None and gpu.remapped_rows.correctable_inactive == 0


def test_xml_injected_faults(shared: Path) -> None:
    bad, good = smi(shared, "gb200-mock-ecc-uncorrectable-rowremap-failure.xml").gpus
    assert (bad.bus_id, good.bus_id) == ("0000:0a:00.0", "0000:0b:00.0")
    assert (bad.ecc_volatile.dram_uncorrectable, bad.ecc_aggregate.dram_uncorrectable) == (5, 8)
    assert bad.remapped_rows is not None and bad.remapped_rows.failure and bad.remapped_rows.uncorrectable == 1
    assert good.ecc_volatile.uncorrectable == 0 and good.remapped_rows is not None and not good.remapped_rows.failure


def test_xml_lost_gpu(shared: Path) -> None:
    first, lost = smi(shared, "gb200-mock-gpu-is-lost.xml").gpus
    assert (lost.bus_id, lost.trouble) == ("0000:0b:00.0", "GPU is lost")
    assert first.trouble == "" and first.ecc_volatile.dram_uncorrectable == 5


def test_topo(shared: Path) -> None:
    a100 = nvidia_smi_topo.parse(text(shared, "nvidia-smi-topo/a100-8gpu-topo-m.txt"))
    assert Counter(a100.paths.values()) == {"NV12": 56, "X": 8}
    assert [a100.numa[f"GPU{n}"] for n in range(8)] == ["0"] * 4 + ["1"] * 4
    assert (a100.cpu_affinity["GPU0"], a100.cpu_affinity["GPU4"]) == ("0-23", "24-47")
    dgx = nvidia_smi_topo.parse(text(shared, "nvidia-smi-topo/h100-dgx-8gpu-10nic-topo-m.txt"))
    assert dgx.nics == tuple(f"mlx5_{n}" for n in range(10))
    assert all(dgx.paths[(f"GPU{n}", f"mlx5_{n}")] == "PIX" for n in range(8))
    assert [dgx.paths[(f"GPU{n}", "mlx5_8")] for n in range(8)] == ["NODE"] * 4 + ["SYS"] * 4
    assert [dgx.paths[(f"GPU{n}", "mlx5_9")] for n in range(8)] == ["SYS"] * 4 + ["NODE"] * 4
    assert sum(1 for word in dgx.paths.values() if word == "NV18") == 56
    assert dgx.cpu_affinity["GPU0"] == "0-47,96-143" and dgx.numa["GPU7"] == "1"
    oci = nvidia_smi_topo.parse(text(shared, "nvidia-smi-topo/oci-h100-4gpu-4nic-legend-topo-m.txt"))
    pairs = (("GPU0", "mlx5_0"), ("GPU1", "mlx5_3"), ("GPU2", "mlx5_2"), ("GPU3", "mlx5_1"))
    assert [oci.paths[pair] for pair in pairs] == ["PXB"] * 4
    assert sum(1 for word in oci.paths.values() if word == "NV18") == 12


@pytest.mark.parametrize(("name", "cpus"), [("h100-mig-590-topo-m.txt", "0-19"), ("h200-590-topo-m.txt", "0-23")])
def test_topo_with_underlined_header(shared: Path, name: str, cpus: str) -> None:
    topo = nvidia_smi_topo.parse(text(shared, f"nvidia-smi-topo/{name}"))
    assert (topo.gpus, topo.nics, topo.cpu_affinity["GPU0"], topo.numa["GPU0"]) == (("GPU0",), (), cpus, "0")


def test_topo_p2p(shared: Path) -> None:
    topo = nvidia_smi_topo.parse(text(shared, "nvidia-smi-topo/l4-2gpu-topo-p2p-r-CNS.txt"))
    assert topo.paths[("GPU0", "GPU1")] == topo.paths[("GPU1", "GPU0")] == "CNS"


def test_nvlink(shared: Path) -> None:
    a100 = nvidia_smi_nvlink.parse(text(shared, "nvidia-smi-nvlink/a100-8gpu-nvlink-s.txt")).gpus
    assert [gpu.active for gpu in a100] == [12] * 8
    assert {speed for gpu in a100 for _number, speed in gpu.links} == {25.0}
    (bad,) = nvidia_smi_nvlink.parse(text(shared, "nvidia-smi-nvlink/a100-BAD-all-links-inactive.txt")).gpus
    assert (bad.index, bad.active, bad.mig) == (6, 0, False)
    (mig,) = nvidia_smi_nvlink.parse(text(shared, "nvidia-smi-nvlink/h100-mig-590-nvlink-s.txt")).gpus
    assert mig.mig and mig.links == ()
    (h200,) = nvidia_smi_nvlink.parse(text(shared, "nvidia-smi-nvlink/h200-590-nvlink-s.txt")).gpus
    assert h200.links == tuple((n, 26.562) for n in range(18))
    c2c = nvidia_smi_nvlink.parse(text(shared, "nvidia-smi-nvlink/gb200-4gpu-c2c-s.txt")).gpus
    speeds = [speed for gpu in c2c for _number, speed in gpu.c2c]
    assert [len(gpu.c2c) for gpu in c2c] == [5] * 4 and (min(speeds), max(speeds)) == (44.712, 44.731)
    assert all(gpu.links == () for gpu in c2c)


def statuses(report: dcgmi_diag.DiagReport, name: str) -> dict[int, str]:
    return {n: r.status for test in report.tests if test.name == name for r in test.results for n in r.gpus}


def test_diag_of_dcgm_3(shared: Path) -> None:
    two = dcgmi_diag.parse(text(shared, "dcgmi-diag/dcgm3-r2-t4.json"))
    assert (two.schema, two.version, len(two.tests)) == ("3", "", 11)
    assert {r.status for test in two.tests for r in test.results} == {"pass"}
    assert all(r.gpus == () for test in two.tests if test.category == "Deployment" for r in test.results)
    assert any("13.15 GB/s" in line for test in two.tests for r in test.results for line in r.info)
    three = dcgmi_diag.parse(text(shared, "dcgmi-diag/dcgm3-r3-t4.json"))
    assert Counter(r.status for test in three.tests for r in test.results) == {"pass": 15, "skip": 1}
    assert [test.name for test in three.tests if test.results[0].status == "skip"] == ["EUD Test"]


def test_diag_per_gpu(shared: Path) -> None:
    report = dcgmi_diag.parse(text(shared, "dcgmi-diag/dcgm3-per-gpu-4gpu-fail-warn-skip.json"))
    assert report.version == "1.7"
    assert statuses(report, "Denylist") == dict.fromkeys(range(4), "pass")
    assert statuses(report, "memory") == {0: "skip", 1: "pass", 2: "pass", 3: "pass"}
    assert statuses(report, "sm_stress") == {0: "fail", 1: "pass", 2: "fail", 3: "fail"}
    for name in ("diagnostic", "memory_bandwidth", "targeted_stress", "targeted_power"):
        assert statuses(report, name) == dict.fromkeys(range(4), "skip")
    ids = {t.name: w.error_id for t in report.tests for r in t.results for w in r.warnings}
    assert ids == {"memory": 55, "diagnostic": 1, "memory_bandwidth": 48, "sm_stress": 50}


def test_diag_of_dcgm_4(shared: Path) -> None:
    report = dcgmi_diag.parse(text(shared, "dcgmi-diag/dcgm4.5.3-persistence-mode-fail.json"))
    assert (report.schema, report.version, report.driver) == ("4", "4.5.3", "580.126.09")
    assert {test.key: test.results[0].status for test in report.tests} == {
        "software": "fail", "memory": "pass", "pcie": "pass",
    }  # fmt: skip
    assert "Persistence mode for GPU 0 is disabled" in report.tests[0].results[0].warnings[0].text
    fragment = text(shared, "dcgmi-diag/dcgm4-r4-8gpu-diagnostic-FRAGMENT.json.txt").strip().rstrip(",")
    with pytest.raises(InputError):
        dcgmi_diag.parse(fragment)
    whole = f'{{"DCGM Diagnostic":{{"test_categories":[{{"category":"Hardware","tests":[{fragment}]}}]}}}}'
    (test,) = dcgmi_diag.parse(whole).tests
    assert statuses(dcgmi_diag.parse(whole), "diagnostic") == dict.fromkeys(range(8), "pass")
    assert [len(r.info) for r in test.results] == [3, 3, 2, 0, 0, 0, 0, 0]


def test_diag_with_wrong_nesting_is_refused(shared: Path) -> None:
    with pytest.raises(InputError, match="is a list"):
        dcgmi_diag.parse(text(shared, "dcgmi-diag/dcgm3-malformed-nesting-cuda-lib-fail.json"))


def test_ibstat(shared: Path) -> None:
    hcas = ibstat.parse(text(shared, "ibstat/cx6-2hca-rate100.txt"))
    assert [(h.name, h.kind) for h in hcas] == [("mlx5_6", "MT4123"), ("mlx5_7", "MT4123")]
    ports = [port for hca in hcas for port in hca.ports]
    assert {(p.state, p.physical_state, p.rate_gbps, p.sm_lid) for p in ports} == {("Active", "LinkUp", 100, 104)}
    assert [p.base_lid for p in ports] == [25, 184]


def log(shared: Path, name: str) -> kernel_log.KernelLog:
    return kernel_log.parse(text(shared, f"kernel-log/{name}"))


def test_kernel_log_without_numbers(shared: Path) -> None:
    assert log(shared, "gpu-fallen-off-the-bus-multiline.log").off_bus == ("0000:b3:00.0",)
    assert Counter(device for device, _time in log(shared, "ib-link-flap-syslog-6flaps.log").flaps) == {"ib6": 6}
    benign = log(shared, "kmsg-peermem-invalid-context.log")
    assert (benign.xids, benign.sxids, benign.off_bus) == ((), (), ())
    (limit,) = log(shared, "mlx5-pcie-limited-x8.log").pcie_limits
    assert (limit.address, limit.at, limit.available_gbps, limit.capable_gbps) == (
        "0001:43:00.0", "0001:42:01.0", 63.008, 126.016,
    )  # fmt: skip
    crash = log(shared, "nccl-segfault-kern-iso.log")
    assert crash.segfaults == (("pt_main_thread", "libnccl.so.2"),) * 2 and crash.xids == ()


def test_kernel_log_sxid(shared: Path) -> None:
    seen = log(shared, "sxid20034-nvswitch-ltssm-fault.log")
    assert [(x.address, x.number) for x in seen.xids] == [("0000:91:00.0", 79)]
    links = [(x.address, x.text) for x in seen.sxids]
    assert links == [
        ("0000:06:00.0", "Fatal, Link 48 LTSSM Fault Up"),
        ("0000:05:00.0", "Fatal, Link 63 LTSSM Fault Up"),
        ("0000:07:00.0", "Fatal, Link 37 LTSSM Fault Up"),
        ("0000:05:00.0", "Fatal, Link 62 LTSSM Fault Up"),
    ]
    assert {x.number for x in seen.sxids} == {20034}


def test_kernel_log_xids(shared: Path) -> None:
    gsp = log(shared, "xid119-gsp-timeout-h100.log")
    assert {(x.address, x.number) for x in gsp.xids} == {("0000:9b:00.0", 119)}
    assert "pid=2024380, name=nvidia-smi" in gsp.xids[0].text
    application = log(shared, "xid13-sm-exceptions-kern-iso.log")
    assert {x.number for x in application.xids} == {13, 43} and {x.address for x in application.xids} == {
        "0000:38:00.0"
    }
    assert application.xids[0].time == "2025-01-21T04:41:44,283302+00:00"
    links = log(shared, "xid149-154-gb200-nvlink-netir.log")
    assert Counter(x.address for x in links.xids if x.number == 149) == {"0009:01:00.0": 3, "0008:01:00.0": 2}
    last = {x.address: x.action for x in links.xids if x.number == 154}
    assert last == {
        "0009:01:00.0": "Drain and Reset", "0008:01:00.0": "GPU Reset Required", "0018:01:00.0": "GPU Reset Required",
        "0019:01:00.0": "GPU Reset Required",
    }  # fmt: skip


def test_chronyc(shared: Path) -> None:
    bad = chronyc.parse(text(shared, "chronyc/tracking-NOT-synchronised.txt"))
    assert (bad.leap_status, bad.stratum, bad.offset_s, bad.reference) == ("Not synchronised", 0, 0.0, "00000000 ()")
    good = chronyc.parse(text(shared, "chronyc/tracking-synced.txt"))
    assert (good.leap_status, good.stratum, good.offset_s, good.last_offset_s) == ("Normal", 3, 4.709e-06, 4.989e-06)
    assert good.reference.startswith("83E17991")


def test_lspci(shared: Path) -> None:
    devices = lspci.parse(text(shared, "lspci/xe9680-h100-lspci-vvv-excerpt.txt"))
    assert len(devices) == 80
    bridges = lspci_bridges.parse(text(shared, "lspci/xe9680-h100-lspci-vvv-excerpt.txt"))
    controls = {bridge.address: bridge.acs for bridge in bridges}
    redirecting = {"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"}
    assert {a for a, on in controls.items() if redirecting <= set(on)} == {f"0000:82:0{n}.0" for n in range(4)}
    assert {a for a, on in controls.items() if set(on) == {"SrcValid"}} == {"0000:00:0c.0", "0000:00:0e.0"}
    above = [bridge for bridge in bridges if bridge.leads_to("0000:19:00.0")]
    assert [(bridge.address, bridge.port) for bridge in above] == [
        ("0000:15:01.0", "root"), ("0000:16:00.0", "upstream"), ("0000:17:01.0", "downstream")
    ]  # fmt: skip
    gpus = [device for device in devices if device.is_nvidia_gpu]
    assert gpus and all(gpu.name.startswith("NVIDIA Corporation Device 2330") for gpu in gpus)
