# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small fleet that tests can break: it prints what the tools print, and all of gate nodes judges it from files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from node_tools import network_texts
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import observe_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    HOSTS,
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import AFTER, tools_asked_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner, Host, Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA

SKU = Sku(
    name="test-h100",
    title="A machine for tests",
    accelerator="h100",
    gpu_product="NVIDIA H100 80GB HBM3",
    gpu_product_label="NVIDIA-H100-80GB-HBM3",
    gpus=4,
    gpu_memory_mib=81559,
    sources=("made for tests",),
    gpu_pci_id="10de:2330",
    nvlink_links=18,
    nvlink_generation=4,
    nvswitches=4,
    nvlink_domain_gpus=4,
    compute_hcas=4,
    hca_rate_gbps=400,
    hca_model="ConnectX-7",
    fabric="infiniband",
    pcie_generation=5,
    pcie_width=16,
    gpu=Accelerator(name="h100", title="H100", product_pattern="H100", mig=True, nvls=True, ecc=True, row_remap=True),
)
_NVLINK_ERRORS = ("Replay", "Recovery", "CRC")
_OWN = tuple(tool.name for tool in load_host_tools().used_by("host_probe") if not tool.asks_driver)
_ROOT = "0000:00:{}.0"
_OTHER_CLOCKS = ("timedatectl", "phc2sys", "ntpq")
_AGAIN = tuple(tool.name for tool in tools_asked_again())
_DRIVER_TOOLS = tuple(tool.name for tool in load_host_tools().tools if tool.asks_driver)


@dataclass
class FakeGpu:
    """One GPU, healthy until a test changes it."""

    bus: str
    uuid: str
    serial: str
    product: str = "NVIDIA H100 80GB HBM3"
    memory: str = "81559 MiB"
    values: dict[str, str] = field(default_factory=dict)
    links: int = 18
    link_gbps: str = "26.562"
    listed: bool = True
    on_pci: bool = True
    revision: str = "a1"

    def link_rate(self, link: int) -> str:
        """What `nvidia-smi nvlink -s` prints of a link; the first has the rate that a test changes."""
        return "<inactive>" if link >= self.links else f"{self.link_gbps if link == 0 else '26.562'} GB/s"

    def xml(self) -> str:
        """Its element in `nvidia-smi -q -x`."""
        v = {
            "ecc": "Enabled", "unc": "0", "dram_corr": "0", "threshold": "No", "repair": "No", "agg_unc": "0",
            "remap_failure": "No", "remap_pending": "No", "low": "0", "retired": "N/A", "mig": "Disabled",
            "retire_pending": "N/A", "retired_double": "N/A",
            "mig_pending": "", "state": "Completed", "status": "Success", "health": "N/A", "width": "16x", "gen": "5",
            "action": "None", "replay": "150", "clique": "0", "cluster": "00000000-0000-0000-0000-000000000000",
            "remap": "", "persistence": "Enabled", "temp": "31", "margin": "56 C", "limit": "700.00 W",
            "draw": "70.00 W", "vbios": "96.00.99.00.01", "slow": "", "gen_max": "5", "modes": "",
        } | self.values  # fmt: skip
        remap = v["remap"] or (
            "<remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>"
            f"<remapped_row_pending>{v['remap_pending']}</remapped_row_pending>"
            f"<remapped_row_failure>{v['remap_failure']}</remapped_row_failure><row_remapper_histogram>"
            f"<row_remapper_histogram_max>2560 bank(s)</row_remapper_histogram_max>"
            f"<row_remapper_histogram_low>{v['low']} bank(s)</row_remapper_histogram_low></row_remapper_histogram>"
        )
        errors = "<sram_correctable>0</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>"
        return (
            f'<gpu id="0000{self.bus}"><product_name>{self.product}</product_name><serial>{self.serial}</serial>'
            f"<uuid>{self.uuid}</uuid><persistence_mode>{v['persistence']}</persistence_mode>"
            f"{v['modes']}<vbios_version>{v['vbios']}</vbios_version>{self._reasons(v['slow'])}"
            f"<temperature><gpu_temp>{v['temp']} C</gpu_temp><gpu_temp_tlimit>{v['margin']}</gpu_temp_tlimit>"
            f"</temperature><gpu_power_readings><instant_power_draw>{v['draw']}</instant_power_draw>"
            f"<current_power_limit>{v['limit']}</current_power_limit>"
            "<default_power_limit>700.00 W</default_power_limit></gpu_power_readings>"
            f"<mig_mode><current_mig>{v['mig']}</current_mig>"
            f"<pending_mig>{v['mig_pending'] or v['mig']}</pending_mig></mig_mode>"
            f"<gpu_recovery_action>{v['action']}</gpu_recovery_action><pci><pci_gpu_link_info><pcie_gen>"
            f"<max_link_gen>{v['gen_max']}</max_link_gen><current_link_gen>{v['gen']}</current_link_gen></pcie_gen><link_widths>"
            f"<max_link_width>16x</max_link_width><current_link_width>{v['width']}</current_link_width></link_widths>"
            f"</pci_gpu_link_info><replay_counter>{v['replay']}</replay_counter></pci>"
            f"<fb_memory_usage><total>{self.memory}</total><used>0 MiB</used></fb_memory_usage>"
            f"<ecc_mode><current_ecc>{v['ecc']}</current_ecc><pending_ecc>{v['ecc']}</pending_ecc></ecc_mode>"
            f"<ecc_errors><volatile>{errors}<dram_correctable>{v['dram_corr']}</dram_correctable>"
            f"<dram_uncorrectable>{v['unc']}</dram_uncorrectable></volatile><aggregate>{errors}"
            f"<dram_correctable>0</dram_correctable><dram_uncorrectable>{v['agg_unc']}</dram_uncorrectable>"
            f"<sram_threshold_exceeded>{v['threshold']}</sram_threshold_exceeded></aggregate>"
            f"<channel_repair_pending>{v['repair']}</channel_repair_pending></ecc_errors>"
            f"<retired_pages><multiple_single_bit_retirement><retired_count>{v['retired']}</retired_count>"
            "</multiple_single_bit_retirement><double_bit_retirement>"
            f"<retired_count>{v['retired_double']}</retired_count></double_bit_retirement>"
            f"<pending_retirement>{v['retire_pending']}</pending_retirement></retired_pages>"
            f"<remapped_rows>{remap}</remapped_rows><fabric><state>{v['state']}</state><status>{v['status']}</status>"
            f"<cliqueId>{v['clique']}</cliqueId><clusterUuid>{v['cluster']}</clusterUuid>"
            f"<health><summary>{v['health']}</summary></health></fabric></gpu>"
        )

    @staticmethod
    def _reasons(active: str) -> str:
        names = ("gpu_idle", "applications_clocks_setting", "hw_slowdown", "hw_thermal_slowdown",
                 "hw_power_brake_slowdown", "sw_thermal_slowdown")  # fmt: skip
        tag, on = "clocks_event_reason", ("gpu_idle", active)
        lines = "".join(f"<{tag}_{name}>{'' if name in on else 'Not '}Active</{tag}_{name}>" for name in names)
        return f"<{tag}s>{lines}</{tag}s>" if active != "none" else ""


@dataclass
class FakeHost:
    """One host; `tools` replaces what a tool printed, `after` what it printed after the diagnostic."""

    name: str
    gpus: list[FakeGpu]
    driver: str = "580.105.08"
    hcas: dict[str, dict[str, str]] = field(default_factory=dict)
    kernel: list[str] = field(default_factory=lambda: ["NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08"])
    leap: str = "Normal"
    offset: str = "0.000004709 seconds fast"
    diag: dict[tuple[str, int], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    fabric_manager: str = "active"
    release: str = "6.8.0-45-generic"
    version_id: str = "24.04"
    ofed: str = "MLNX_OFED_LINUX-24.10-1.1.4.0"
    tools: dict[str, ToolRun] = field(default_factory=dict)
    topo_words: dict[tuple[int, int], str] = field(default_factory=dict)
    nic_words: dict[int, str] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=lambda: {f"mlx5_{n}": n for n in range(4)})
    after: dict[str, ToolRun] = field(default_factory=dict)
    unreachable: str = ""
    no_file: bool = False
    clock_off_s: tuple[float, ...] = ()

    @property
    def listed(self) -> list[FakeGpu]:
        """The GPUs that the driver lists."""
        return [gpu for gpu in self.gpus if gpu.listed and gpu.on_pci]

    def evidence(self, tools: tuple[str, ...] | None = None) -> HostEvidence:
        """What host_probe would have collected."""
        if self.unreachable:
            return unreached(self.name, self.unreachable)
        texts = self._texts()
        texts |= _simulated(frozenset((*texts, "dcgmi_diag", *_OTHER_CLOCKS)))
        runs = {name: ToolRun(argv=(name,), rc=0, stdout=text) for name, text in texts.items()}
        diag = ("dcgmi", "diag", "-r", "3", "-j")
        runs["dcgmi_diag"] = ToolRun(argv=diag, rc=226 if self.diag else 0, stdout=self._diag())
        if self.fabric_manager != "active":
            runs["fabric_manager"] = ToolRun(argv=("systemctl",), rc=3, stdout=f"{self.fabric_manager}\n")
        runs |= {name: ToolRun(argv=(name,), missing=True) for name in _OTHER_CLOCKS}
        runs |= self.tools
        runs |= {name + AFTER: self.after.get(name, runs[name]) for name in _AGAIN if name in runs}
        if "dcgmi_diag" not in runs or runs["dcgmi_diag"].missing:
            runs = {name: run for name, run in runs.items() if not name.endswith(AFTER)}
        return HostEvidence(
            host=self.name, reached=True, clock_off_s=self.clock_off_s,
            tools={k: v for k, v in runs.items() if tools is None or k.removesuffix(AFTER) in tools},
        )  # fmt: skip

    def _texts(self) -> dict[str, str]:
        lines = [f"2026-11-21T08:00:0{n % 10}+00:00 {self.name} kernel: {line}" for n, line in enumerate(self.kernel)]
        return {
            "nvidia_smi_xml": (
                '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>'
                f"<driver_version>{self.driver}</driver_version><cuda_version>13.0</cuda_version>"
                f"<attached_gpus>{len(self.listed)}</attached_gpus>{''.join(gpu.xml() for gpu in self.listed)}"
                "</nvidia_smi_log>\n"
            ),
            "nvidia_smi_topo": self._topo(),
            "nvidia_smi_nvlink": "".join(
                f"GPU {n}: {gpu.product} (UUID: {gpu.uuid})\n"
                + "".join(f"\t Link {k}: {gpu.link_rate(k)}\n" for k in range(18))
                for n, gpu in enumerate(self.listed)
            ),
            "nvidia_smi_nvlink_errors": "".join(
                f"GPU {n}: {gpu.product} (UUID: {gpu.uuid})\n"
                + "".join(f"\t Link {k}: {name} Errors: 0\n" for k in range(18) for name in _NVLINK_ERRORS)
                for n, gpu in enumerate(self.listed)
            ),
            "port_counters": "".join(
                f"/sys/class/infiniband/{name}/ports/1/counters/{counter}:{value}\n"
                for name in self.hcas
                for counter, value in (("link_downed", 7), ("symbol_error", 0), ("port_xmit_discards", 0))
            ),
            "lspci": "0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2] (rev 20)\n"
            + "".join(
                f"{gpu.bus} 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] "
                f"(rev {gpu.revision})\n"
                for gpu in self.gpus
                if gpu.on_pci
            )
            + "".join(f"{_ROOT.format(gpu.bus[5:7])} PCI bridge [0604]: Intel [8086:352a]\n" for gpu in self.gpus)
            + "".join(
                f"0000:99:00.{n} Infiniband controller [0207]: Mellanox Technologies MT2910 [ConnectX-7] [15b3:1021]\n"
                for n in range(max(len(self.hcas), 1))
            ),
            "lspci_bridges": "".join(_bridge(gpu.bus[5:7]) for gpu in self.gpus),
            "virtualisation": "none\n",
            "ibstat": "".join(_ca(name, values) for name, values in self.hcas.items()),
            "kernel_log": "\n".join(lines) + "\n",
            "chronyc": (
                f"Reference ID    : 83E17991 (ntp)\nStratum         : {0 if self.leap != 'Normal' else 3}\n"
                f"System time     : {self.offset} of NTP time\nLast offset     : +0.000004989 seconds\n"
                "Root delay      : 0.000411626 seconds\nRoot dispersion : 0.018570010 seconds\n"
                f"Leap status     : {self.leap}\n"
            ),
            "uname": f"{self.release}\n",
            "os_release": f'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="{self.version_id}"\nPRETTY_NAME="Ubuntu"\n',
            "fabric_manager": f"{self.fabric_manager}\n",
            "ofed_info": f"{self.ofed}:\n",
            "pcie_under_load": "pci.bus_id, utilization.gpu [%], pcie.link.gen.current, pcie.link.gen.max, "
            "pcie.link.width.current, pcie.link.width.max\n"
            + "".join(f"0000{gpu.bus}, 98 %, 5, 5, 16, 16\n" for gpu in self.listed),
            **network_texts(self.hcas),
        }

    def _topo(self) -> str:
        count, nics = len(self.listed), list(self.hcas)
        rows = ["\t" + "\t".join([*(f"GPU{n}" for n in range(count)), *nics, "CPU Affinity", "NUMA Affinity"])]
        for row in range(count):
            cells = [" X " if row == col else self._gpu_word(row, col) for col in range(count)]
            slot = self.gpus.index(self.listed[row])  # where its adapter is, whichever other GPU is gone
            cells += ["PIX" if self._slot(nic) == slot and row not in self.nic_words else "SYS" for nic in nics]
            rows.append(f"GPU{row}\t" + "\t".join([*cells, "0-47", "0"]))
        return "\n".join(rows) + "\n\nLegend:\n\n  X    = Self\n"

    def _slot(self, nic: str) -> int:
        """Beside which GPU an adapter is: stated, else as many as the names before it."""
        stated = self.hcas[nic].get("beside")
        return int(stated) if stated is not None else self.slots.get(nic, list(self.hcas).index(nic))

    def _gpu_word(self, row: int, col: int) -> str:
        return self.topo_words.get((min(row, col), max(row, col)), "NV18")

    def _diag(self) -> str:
        names = (("Deployment", "software"), ("Hardware", "memory"), ("Hardware", "diagnostic"),
                 ("Integration", "pcie"), ("Stress", "targeted_stress"), ("Stress", "targeted_power"))  # fmt: skip
        categories = []
        for category, name in names:
            results = []
            for n in range(len(self.listed)):
                status, more = self.diag.get((name, n), ("Pass", {}))
                results.append({"entity_group": "GPU", "entity_group_id": 1, "entity_id": n, "status": status} | more)
            words = {str(result["status"]) for result in results}
            summary = next((word for word in ("Fail", "Warn", "Skip") if word in words), "Pass")
            test = {"name": name, "results": results, "test_summary": {"status": summary}}
            categories.append({"category": category, "tests": [test]})
        root = {"test_categories": categories}
        return "a line before the document\n" + json.dumps({"DCGM Diagnostic": root, "metadata": {"version": "4.2.3"}})


def _bridge(bus: str) -> str:
    """The root port above a GPU in `lspci -Dnnvvv -d ::0604`."""
    return (
        f"{_ROOT.format(bus)} PCI bridge [0604]: Intel [8086:352a]\n"
        f"\tBus: primary=00, secondary={bus}, subordinate={bus}, sec-latency=0\n"
        "\tCapabilities: [40] Express (v2) Root Port (Slot-), MSI 00\n"
    )


@cache
def _simulated(known: frozenset[str]) -> dict[str, str]:
    """What the simulated hosts' own scripts print for tools that no test changes."""
    found = {}
    for tool in load_host_tools().used_by("host_probe"):
        if tool.name not in known:
            script = DATA / "tools" / f"{tool.programs[0]}.sh"
            # Tools of the operating system are not simulated; grep ends with 2 for files that nobody may read.
            command = ["sh", str(script), *tool.commands[0][1:]] if script.is_file() else list(tool.commands[0])
            found[tool.name] = subprocess.run(
                command, capture_output=True, text=True, check=not tool.rc_is_answer
            ).stdout
    return found


def _ca(name: str, values: dict[str, str]) -> str:
    v = {
        "state": "Active",
        "physical": "LinkUp",
        "rate": "400",
        "sm": "1",
        "layer": "InfiniBand",
        "type": "MT4129",
        "firmware": "28.39.1002",
    } | values
    guid = f"0x9c0591f8f7{int(''.join(filter(str.isdigit, name)) or 0):06x}"
    return (
        f"CA '{name}'\n\tCA type: {v['type']}\n\tNumber of ports: 1\n\tFirmware version: {v['firmware']}\n"
        f"\tNode GUID: {guid}\n\tPort 1:\n"
        f"\t\tState: {v['state']}\n\t\tPhysical state: {v['physical']}\n\t\tRate: {v['rate']}\n\t\tBase lid: 7\n"
        f"\t\tSM lid: {v['sm']}\n\t\tPort GUID: {guid}\n\t\tLink layer: {v['layer']}\n"
    )


class Fleet:
    """Hosts gpu01.. of one SKU in one rack, and the verdicts of gate nodes about them; those in `others` have a SKU of
    that name, with the same facts."""

    def __init__(self, run_dir: Path, count: int = 3) -> None:
        self.run_dir = run_dir
        self.sku = SKU
        self.others: dict[str, str] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.owner = DriverOwner.HOST
        self.stated_hcas: tuple[str, ...] = ()
        self.hosts = {f"gpu{n + 1:02d}": self._host(n) for n in range(count)}

    def _host(self, n: int) -> FakeHost:
        gpus = [
            FakeGpu(f"0000:{0x10 + 0x11 * k:02x}:00.0", f"GPU-{n:04d}-{k}", f"16500000{n:02d}{k:03d}") for k in range(4)
        ]
        return FakeHost(f"gpu{n + 1:02d}", gpus, hcas={f"mlx5_{k}": {} for k in range(4)})

    @property
    def site(self) -> Site:
        """The site of these hosts."""
        return make_site(
            tuple(
                Host(
                    name=name, sku=self.others.get(name, "h100"), node_name=name, rack="rack-a1", hcas=self.stated_hcas
                )
                for name in self.hosts
            ),
            name="test",
            capabilities=("host_access", self.sku.fabric, "nvswitch", "multi_node"),
            driver_owner=self.owner,
            settings=self.settings,
        )

    def judge(self, gate: str = "nodes", only: str = "", *, in_service: bool = False) -> tuple[Outcome, ...]:
        """Write the evidence, observe, restore through JSON and judge every check of the gate."""
        for host in self.hosts.values():
            if host.no_file:
                continue
            if self.owner is DriverOwner.HOST:
                write_evidence(self.run_dir, host.evidence())
                continue
            write_evidence(self.run_dir, host.evidence(_OWN), HOSTS)
            write_evidence(self.run_dir, host.evidence(_DRIVER_TOOLS), DRIVERS)
        today = date(2026, 11, 21)
        hardware = {"h100": self.sku} | {other: replace(self.sku, name=other) for other in self.others.values()}
        context = JudgeContext(gate=gate, site=self.site, today=today, hardware=hardware, in_service=in_service)
        seen = observe_hosts.observe(ObserveContext(site=self.site, run_dir=self.run_dir, today=today))
        value = observe_hosts.OBSERVER.restore(json.loads(dumps(seen)), self.run_dir, self.site)
        checks = [check for check in checks_of(gate, self.site) if check.observer.key == observe_hosts.OBSERVER.key]
        assert checks, f"no check of gate {gate} judges hosts"
        return tuple(
            outcome for check in checks if only in ("", check.spec.id) for outcome in check.judge(value, context)
        )


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Three healthy hosts."""
    return Fleet(tmp_path)


@pytest.fixture
def make_fleet(tmp_path: Path) -> Callable[[int], Fleet]:
    """Makes a healthy fleet of any size."""
    return lambda count: Fleet(tmp_path, count)
