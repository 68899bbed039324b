# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders `nvidia-smi -q -x` of the 580 driver branch from the cluster model."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from ...outcome.errors import InputError
from ...runtime.strict import read_yaml
from ..model.values import Gpu, Node
from .accelerators import PrintedFacts

LOST = "GPU is lost"
ABSENT = "(absent)"
_IDLE_CLOCK_MHZ, _CLOCK_STEP_MHZ = 345, 15
_SLOWDOWNS = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")
# As a whole document of a GB200 prints it (NVIDIA/k8s-test-infra); a host with NVSwitches of its own prints 0.
_RACK_CLIQUE = "2"
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


class XmlRenderer:
    """Templates compiled once from the outline in recipes/rehearsal/, filled once per GPU."""

    def __init__(self, directory: Path) -> None:
        path = directory / "nvidia_smi_580.yaml"
        outline = read_yaml(path)
        if not isinstance(outline, dict) or set(outline) != {"dtd", "gpu", "lost"}:
            raise InputError(str(path), "must have exactly the keys dtd, gpu, lost.", "correct the file")
        self._dtd = str(outline["dtd"])
        self._outline = outline
        self._templates: dict[tuple[bool, tuple[tuple[str, str], ...]], str] = {}
        self._clocks: dict[tuple[int, int], str] = {}
        self._compressed: dict[str, bytes] = {}

    def render(self, node: Node, facts: PrintedFacts, timestamp: str) -> str:
        """Return the whole document for a node."""
        gpus = node.listed_gpus
        head = (
            f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "{self._dtd}">\n<nvidia_smi_log>\n'
            f"\t<timestamp>{timestamp}</timestamp>\n\t<driver_version>{escape(node.driver_version)}</driver_version>\n"
            f"\t<cuda_version>{node.cuda_version}</cuda_version>\n\t<attached_gpus>{len(gpus)}</attached_gpus>\n"
        )
        blocks = [self._block(node, gpu, position, facts) for position, gpu in enumerate(gpus)]
        return head + "\n".join(blocks) + "</nvidia_smi_log>\n"

    def render_compressed(self, node: Node, facts: PrintedFacts, timestamp: str) -> bytes:
        """Return the document as gzip; the long list of clocks, the same for every GPU, is compressed only once."""
        clocks = self._supported_clocks(facts)
        if clocks not in self._compressed:
            self._compressed[clocks] = _compressed(clocks)
        # A gzip file may consist of several members, one after the other.
        return self._compressed[clocks].join(
            _compressed(part) for part in self.render(node, facts, timestamp).split(clocks)
        )

    def _block(self, node: Node, gpu: Gpu, position: int, facts: PrintedFacts) -> str:
        template = self._template(node, gpu)
        words = {**_identity(node, gpu, position, facts), **_state(gpu, facts), **_health(gpu, facts)}
        words["fabric_health"] = facts.fabric_health if gpu.fabric_state != "N/A" else "N/A"
        words["supported_clocks"] = self._supported_clocks(facts)
        return f'\t<gpu id="{gpu.pci_bus_id}">\n{template.format_map(words)}\t</gpu>\n'

    def _template(self, node: Node, gpu: Gpu) -> str:
        """The text to fill in for a GPU: whether it still answers, and what the node prints in another way."""
        key = gpu.presence == "lost", tuple(sorted(node.smi_xml.items()))
        if key not in self._templates:
            tree = self._outline["gpu"]
            for path, text in node.smi_xml.items():
                tree = _changed(tree, path.split("/"), text, path)
            lost = frozenset(self._outline["lost"]) if key[0] else frozenset()
            self._templates[key] = "".join(_lines(tree, "", 2, lost))
        return self._templates[key]

    def _supported_clocks(self, facts: PrintedFacts) -> str:
        key = (facts.mem_clock_mhz, facts.max_clock_mhz)
        if key not in self._clocks:
            blocks = [
                _clock_block(rate, facts.max_clock_mhz) for rate in (facts.mem_clock_mhz, facts.mem_clock_low_mhz)
            ]
            self._clocks[key] = "\n" + "".join(blocks) + "\t\t"
        return self._clocks[key]


def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=1, mtime=0)


def _clock_block(mem_clock_mhz: int, max_clock_mhz: int) -> str:
    indent = "\t" * 4
    rows = [f"\t\t\t<supported_mem_clock>\n{indent}<value>{mem_clock_mhz} MHz</value>\n"]
    for rate in range(max_clock_mhz, _IDLE_CLOCK_MHZ - 1, -_CLOCK_STEP_MHZ):
        rows.append(f"{indent}<supported_graphics_clock>{rate} MHz</supported_graphics_clock>\n")
    return "".join([*rows, "\t\t\t</supported_mem_clock>\n"])


def _changed(tree: dict[str, Any], way: list[str], text: str, path: str) -> dict[str, Any]:
    """Return the outline with another text at one place, or without it; a place that it does not have is added."""
    first, *rest = way
    if not rest:
        return {k: v for k, v in tree.items() if k != first} if text == ABSENT else {**tree, first: text}
    inner = tree.get(first)
    if not isinstance(inner, dict):
        raise InputError(f"smi_xml {path}", f"the document has no {first!r} with elements.", "correct the path")
    return {**tree, first: _changed(inner, rest, text, path)}


def _lines(tree: dict[str, Any], path: str, depth: int, lost: frozenset[str]) -> list[str]:
    found: list[str] = []
    indent = "\t" * depth
    for name, value in tree.items():
        here = f"{path}/{name}" if path else name
        if here in lost or f"{path}/*" in lost:
            found.append(f"{indent}<{name}>{LOST}</{name}>\n")
        elif isinstance(value, dict):
            found += [f"{indent}<{name}>\n", *_lines(value, here, depth + 1, lost), f"{indent}</{name}>\n"]
        elif value is None:
            found.append(f"{indent}<{name}>\n{indent}</{name}>\n")
        elif str(value).startswith("|"):
            found.append(f"{indent}<{name}>\n{indent}\t{str(value)[1:]}\n{indent}</{name}>\n")
        else:
            found.append(f"{indent}<{name}>{value}</{name}>\n")
    return found


def _word(value: bool) -> str:
    return "Yes" if value else "No"


def _switch(value: bool) -> str:
    return "Enabled" if value else "Disabled"


def _identity(node: Node, gpu: Gpu, position: int, facts: PrintedFacts) -> dict[str, object]:
    domain, bus, _slot = gpu.pci_bus_id.split(":")
    vendor, _colon, device = node.gpu_pci_id.partition(":")
    return {
        "product": escape(gpu.product),
        "architecture": facts.architecture,
        "serial": gpu.serial,
        "uuid": gpu.uuid,
        "pdi": "0x" + gpu.uuid.replace("-", "")[-16:],
        "position": position,
        "vbios": gpu.vbios or facts.vbios,
        "board_id": f"0x{int(bus, 16) << 8:x}",
        "board_part": facts.board_part,
        "gpu_part": facts.gpu_part,
        "module_id": gpu.module_id,
        "inforom": facts.inforom,
        "driver_version": node.driver_version,
        "gsp_firmware": node.driver_version if gpu.gsp else "N/A",
        "pci_bus": bus,
        "pci_domain": domain[-4:],
        "pci_device_id": (device + vendor).upper(),
        "pci_bus_id": gpu.pci_bus_id,
        "pci_sub_system_id": facts.pci_sub_system_id,
    }


def _state(gpu: Gpu, facts: PrintedFacts) -> dict[str, object]:
    in_fabric = gpu.fabric_state != "N/A"
    return {
        "persistence": _switch(gpu.persistence),
        "mig": _switch(gpu.mig),
        "recovery_action": gpu.recovery_action,
        "pcie_generation": gpu.pcie_generation,
        "pcie_width": gpu.pcie_width,
        "pcie_width_max": gpu.pcie_width_max,
        "replay_counter": gpu.replay_counter,
        "util": "N/A" if gpu.mig else "0 %",
        "fb_total": gpu.memory_mib,
        "fb_reserved": facts.reserved_mib,
        "fb_free": gpu.memory_mib - facts.reserved_mib,
        "bar1_total": facts.bar1_mib,
        "bar1_free": facts.bar1_mib - 1,
        "temperature": gpu.temperature_c,
        "tlimit": 87 - gpu.temperature_c,
        "memory_temperature": gpu.temperature_c + 8,
        "power": f"{gpu.power_w:.2f}",
        "power_limit": f"{facts.power_limit_w:.2f}",
        "power_limit_now": f"{facts.power_limit_w * gpu.power_limit:.2f}",
        "compute_mode": gpu.compute_mode,
        "clock_limited": "Active" if gpu.clock_limit_mhz else "Not Active",
        "application_clock": gpu.clock_limit_mhz or facts.max_clock_mhz,
        **{name: "Active" if gpu.slowdown == name else "Not Active" for name in _SLOWDOWNS},
        "power_limit_min": f"{facts.power_limit_min_w:.2f}",
        "max_clock": facts.max_clock_mhz,
        "mem_clock": facts.mem_clock_mhz,
        "fabric_state": gpu.fabric_state,
        "fabric_status": gpu.fabric_status,
        "fabric_clique": (_RACK_CLIQUE if gpu.fabric_cluster else "0") if in_fabric else "N/A",
        "fabric_cluster": (gpu.fabric_cluster or _NO_CLUSTER) if in_fabric else "N/A",
    }


def _health(gpu: Gpu, facts: PrintedFacts) -> dict[str, object]:
    rows = gpu.remapped_rows
    used = 1 if rows.failure else 0
    return {
        "ecc_volatile_correctable": gpu.ecc.volatile_correctable,
        "ecc_volatile_uncorrectable": gpu.ecc.volatile_uncorrectable,
        "ecc_aggregate_correctable": gpu.ecc.aggregate_correctable,
        "ecc_aggregate_uncorrectable": gpu.ecc.aggregate_uncorrectable,
        "sram_threshold_exceeded": _word(gpu.ecc.sram_threshold_exceeded),
        "remapped_correctable": rows.correctable,
        "remapped_uncorrectable": rows.uncorrectable,
        "remap_pending": _word(rows.pending),
        "remap_failure": _word(rows.failure),
        "banks_max": facts.remap_banks - used,
        "banks_high": 0,
        "banks_none": used,
    }
