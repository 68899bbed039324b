# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the text forms of nvidia-smi: -L, --query-gpu, topo -m, nvlink -s."""

from __future__ import annotations

from ..model.values import Gpu, Hca, Node
from .accelerators import PrintedFacts

INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inactive"
MIG_NVLINK = "Nvlink queries are not supported for Devices in MIG mode"
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
_UNDERLINE, _PLAIN = "\x1b[4m", "\x1b[0m"
_ERRORS = ("Replay Errors", "Recovery Errors", "CRC Errors")
_ERRORS_5 = (
    "Link recovery failed events", "Malformed packet Errors", "Buffer overrun Errors", "Rx Errors", "Rx remote Errors",
    "Rx General Errors", "Local link integrity Errors", "Tx discards", "Link recovery successful events",
    "Total link recovery events", "Effective Errors", "Symbol Errors", "FEC Errors - 0",
)  # fmt: skip
_CPUS = ("0-55,112-167", "56-111,168-223")


def gpu_list(node: Node) -> str:
    """Return the output of `nvidia-smi -L`."""
    return "".join(f"{_title(position, gpu)}\n" for position, gpu in enumerate(node.listed_gpus))


def _title(position: int, gpu: Gpu) -> str:
    return f"GPU {position}: {gpu.product} (UUID: {gpu.uuid})"


def query_fields(node: Node, facts: PrintedFacts) -> dict[str, tuple[str, list[str]]]:
    """Return the fields of `--query-gpu`: field to (unit, value of every GPU). The simulated tool joins them."""
    gpus = node.listed_gpus
    columns: dict[str, tuple[str, list[str]]] = {
        "index": ("", [str(position) for position in range(len(gpus))]),
        "name": ("", [gpu.product for gpu in gpus]),
        "uuid": ("", [gpu.uuid for gpu in gpus]),
        "serial": ("", [gpu.serial for gpu in gpus]),
        "pci.bus_id": ("", [gpu.pci_bus_id for gpu in gpus]),
        "driver_version": ("", [node.driver_version] * len(gpus)),
        "vbios_version": ("", [facts.vbios] * len(gpus)),
        "persistence_mode": ("", ["Enabled" if gpu.persistence else "Disabled" for gpu in gpus]),
        "ecc.mode.current": ("", ["Enabled"] * len(gpus)),
        "mig.mode.current": ("", ["Enabled" if gpu.mig else "Disabled" for gpu in gpus]),
        "pcie.link.gen.current": ("", [str(gpu.pcie_generation) for gpu in gpus]),
        "pcie.link.gen.max": ("", [str(gpu.pcie_generation) for gpu in gpus]),
        "pcie.link.width.current": ("", [str(gpu.pcie_width) for gpu in gpus]),
        "pcie.link.width.max": ("", [str(gpu.pcie_width_max) for gpu in gpus]),
        "memory.total": ("MiB", [str(gpu.memory_mib) for gpu in gpus]),
        "memory.used": ("MiB", ["0"] * len(gpus)),
        "memory.free": ("MiB", [str(gpu.memory_mib - facts.reserved_mib) for gpu in gpus]),
        "utilization.gpu": ("%", ["0"] * len(gpus)),
        "temperature.gpu": ("", [str(gpu.temperature_c) for gpu in gpus]),
        "power.draw": ("W", [f"{gpu.power_w:.2f}" for gpu in gpus]),
        "power.limit": ("W", [f"{facts.power_limit_w:.2f}"] * len(gpus)),
        "clocks.max.sm": ("MHz", [str(facts.max_clock_mhz)] * len(gpus)),
        "ecc.errors.uncorrected.volatile.total": ("", [str(gpu.ecc.volatile_uncorrectable) for gpu in gpus]),
        "ecc.errors.corrected.volatile.total": ("", [str(gpu.ecc.volatile_correctable) for gpu in gpus]),
    }
    return columns


def nvlink_status(node: Node, facts: PrintedFacts) -> str:
    """Return the output of `nvidia-smi nvlink -s`."""
    lines: list[str] = []
    for position, gpu in enumerate(node.listed_gpus):
        if not gpu.nvlinks:
            continue
        lines.append(_title(position, gpu))
        if gpu.presence == "lost" or gpu.nvlinks_up == 0:
            lines.append(INACTIVE)
        elif gpu.mig:
            lines.append(MIG_NVLINK)
        else:
            down = gpu.nvlinks - gpu.nvlinks_up
            # The first links are those that are down.
            lines += [f"\t Link {n}: <inactive>" for n in range(down)]
            slow = f"{float(facts.nvlink_gbytes_per_s) / 2:.3f}"
            rates = [slow] * gpu.nvlinks_slow + [facts.nvlink_gbytes_per_s] * gpu.nvlinks_up
            lines += [f"\t Link {n}: {rates[n - down]} GB/s" for n in range(down, gpu.nvlinks)]
    return "".join(f"{line}\n" for line in lines)


def nvlink_errors(node: Node, facts: PrintedFacts) -> str:
    """Return the output of `nvidia-smi nvlink -e`.

    For an H100 it is that in stas00/ml-engineering (debug.md), for Blackwell it has the counters of drivers 580 and
    595.
    """
    lines: list[str] = []
    for position, gpu in enumerate(node.listed_gpus):
        if not gpu.nvlinks or gpu.presence == "lost":
            continue
        fifth = facts.architecture == "Blackwell"
        names: tuple[str, ...] = _ERRORS_5 if fifth else _ERRORS
        failure = "Link recovery failed events" if fifth else "Recovery Errors"
        lines.append(_title(position, gpu))
        for link in range(gpu.nvlinks):
            values = dict.fromkeys(names, 0)
            values[failure] = gpu.nvlink_failures if link == 0 else 0
            lines += [f"\t Link {link}: {name}: {value}" for name, value in values.items()]
            lines.append("")
    return "".join(f"{line}\n" for line in lines)


def topology(node: Node) -> str:
    """Return the output of `nvidia-smi topo -m`: GPUs, then NICs, with both legends."""
    gpus, nics, count = node.listed_gpus, node.all_hcas, len(node.gpus)
    names = [f"GPU{n}" for n in range(len(gpus))] + [f"NIC{n}" for n in range(len(nics))]
    header = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\t{_UNDERLINE}{header[1:]}{_PLAIN}"]
    for row, gpu in enumerate(gpus):
        cells = [_gpu_cell(node, gpu, other) for other in gpus]
        cells += [_bus_cell(node, gpu, hca) for hca in nics]
        half = _half(gpu.index, count)
        lines.append("\t".join([f"GPU{row}", *cells, _CPUS[half], str(half), "", "N/A"]))
    for number, hca in enumerate(nics):
        cells = [_bus_cell(node, gpu, hca) for gpu in gpus]
        cells += [" X " if other is hca else _nic_cell(node, hca, other) for other in nics]
        lines.append("\t".join([f"NIC{number}", *cells, "", "", ""]))
    legend = "".join(f"  NIC{number}: {hca.name}\n" for number, hca in enumerate(nics))
    return "\n".join(lines) + "\n" + _LEGEND + (f"\nNIC Legend:\n\n{legend}" if legend else "") + "\n"


def _half(index: int, count: int) -> int:
    return 1 if index >= max(1, count // 2) else 0


def _gpu_cell(node: Node, gpu: Gpu, other: Gpu) -> str:
    if gpu is other:
        return " X "
    if node.bridged_gpus and gpu.index // node.bridged_gpus != other.index // node.bridged_gpus:
        return "SYS"
    links = min(gpu.nvlinks_up, other.nvlinks_up)
    return f"NV{links}" if links else "SYS"


def _bus_cell(node: Node, gpu: Gpu, hca: Hca) -> str:
    """Return PIX for a GPU and a NIC below the same PCIe switch.

    With fewer NICs than GPUs a NIC is beside the first of its GPUs; with more, several are beside one.
    """
    gpus, nics = len(node.gpus), len(node.hcas)
    if node.nic_view == "hidden":
        return "SYS"
    if hca in node.hcas and node.nic_view == "pairs" and hca.slot // 2 == gpu.index // 2:
        return "PXB"
    if hca in node.hcas and node.nic_view != "pairs" and hca.slot * gpus // nics == gpu.index:
        return "PIX"
    near = _side(node, hca) == _half(gpu.index, gpus) and node.nic_view != "apart"
    return "NODE" if near else "SYS"


def _nic_cell(node: Node, one: Hca, other: Hca) -> str:
    if node.nic_view == "hidden":
        return "SYS"
    return "NODE" if _side(node, one) == _side(node, other) else "SYS"


def _side(node: Node, hca: Hca) -> int:
    """Return the CPU socket of an adapter. Adapters without GPU traffic are on the first."""
    return _half(hca.slot, len(node.hcas)) if hca in node.hcas else 0


def pcie_under_load(node: Node) -> str:
    """Return the PCIe link rows of `nvidia-smi --query-gpu=... --format=csv` while the GPUs are under load."""
    names = ("utilization.gpu [%]", "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current")
    rows = [", ".join(("pci.bus_id", *names, "pcie.link.width.max"))]
    for gpu in node.listed_gpus:
        if gpu.presence == "lost":
            rows.append(", ".join([gpu.pci_bus_id, *["[GPU is lost]"] * 5]))
            continue
        generation, width = gpu.loaded_generation or gpu.pcie_generation, gpu.loaded_width or gpu.pcie_width
        rows.append(f"{gpu.pci_bus_id}, 100 %, {generation}, {gpu.pcie_generation}, {width}, {gpu.pcie_width_max}")
    return "".join(f"{row}\n" for row in rows)
