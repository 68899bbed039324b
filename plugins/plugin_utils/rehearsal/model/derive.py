# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Derives a healthy cluster from the model file and the SKU facts: serials, UUIDs and bus ids follow from the seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import NAMESPACE_DNS, uuid5

from ...hardware.sku import Sku, hca_names_problem, sku_or_error
from ...outcome.errors import InputError
from .bmc import bmc_of
from .infiniband import Cable, InfiniBand, Switch, Uplink
from .kubernetes_node import KubernetesNode
from .spec import ModelSpec, OtherAdapter, PlannedNode
from .values import ClusterModel, Gpu, Hca, LogLine, Node, Rack, Rail
from .wiring import wire

# PCI buses of the GPUs of an 8-GPU HGX machine, and of the adapter next to each.
_GPU_BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
_HCA_BUSES = ("18", "40", "4F", "5E", "9A", "C0", "CE", "DC")
_MODULE_IDS = (3, 1, 2, 4, 7, 5, 6, 8)
_CA_TYPES = {"ConnectX-6": "MT4123", "ConnectX-7": "MT4129", "ConnectX-8": "MT4131"}
_FIRMWARE = {"ConnectX-6": "20.43.2566", "ConnectX-7": "28.43.2566", "ConnectX-8": "40.45.1200"}
# Adapters that carry no GPU traffic are on buses of their own.
_OTHER_BUS, _OTHER_LID = 0xE0, 40000
_HEADROOM = 1.25
# For a host whose SKU does not state the figure; not zero, so that a fault can lower what the room grants.
_UNKNOWN_W, _UNKNOWN_KG = 10_000, 100.0
_LINK_LAYERS = {"infiniband": "InfiniBand"}


def derived_cluster(spec: ModelSpec, hardware: Mapping[str, Sku]) -> ClusterModel:
    """Return the cluster that follows from hosts and SKUs, without the shapes and faults of the file.

    Raises:
        NotFoundError: a SKU that recipes/hardware/ does not have.
        InputError: the adapter names of a host do not fit its SKU.
    """
    nodes = tuple(_node(spec, planned, index, hardware) for index, planned in enumerate(spec.nodes))
    racks: dict[str, list[PlannedNode]] = {}
    for planned in spec.nodes:
        racks.setdefault(planned.rack, []).append(planned)
    return ClusterModel(
        name=spec.name,
        seed=spec.seed,
        racks=tuple(_rack(name, members, hardware) for name, members in racks.items()),
        rails=tuple(Rail(name=f"rail{n}", index=n) for n in range(max(len(node.hcas) for node in nodes))),
        nodes=nodes,
        infiniband=_infiniband(nodes),
    )


def _infiniband(nodes: tuple[Node, ...]) -> InfiniBand:
    wiring = wire(nodes)
    return InfiniBand(
        switches=tuple(Switch(name=name) for name in wiring.switches),
        uplinks=tuple(Uplink(name=str(lower)) for lower, _upper in wiring.uplinks),
    )


def _node(spec: ModelSpec, planned: PlannedNode, index: int, hardware: Mapping[str, Sku]) -> Node:
    sku = sku_or_error(hardware, planned.sku)
    draw = random.Random(f"{spec.seed}/{planned.name}")
    return Node(
        name=planned.name,
        rack=planned.rack,
        sku=sku.name,
        fabric=sku.fabric,
        accelerator=sku.gpu_kind,
        serial=f"{draw.randrange(10**12):012d}",
        machine_id=f"{draw.getrandbits(128):032x}",
        driver_version=spec.driver_version,
        cuda_version=spec.cuda_version,
        gpu_pci_id=sku.gpu_pci_id or "10de:ffff",
        nvswitches=sku.nvswitches or 0,
        gpus=tuple(_gpu(sku, n, draw, planned.rack) for n in range(sku.gpus)),
        hcas=tuple(_hca(sku, name, n, index, draw) for n, name in enumerate(_hca_names(planned, sku))),
        unit=planned.unit,
        others=tuple(_other(other, n, draw) for n, other in enumerate(planned.others)),
        services={"containerd": "active"} | ({"nvidia-fabricmanager": "active"} if sku.nvswitches else {}),
        kernel_log=_boot_log(sku, spec.driver_version),
        kubernetes=KubernetesNode(member=not planned.outside),
        bmc=bmc_of(sku, index),
    )


def _bus(buses: tuple[str, ...], index: int, domain_digits: int) -> str:
    # After eight devices the next PCI domain begins.
    domain, place = divmod(index, len(buses))
    return f"{domain:0{domain_digits}X}:{buses[place]}:00.0"


def _gpu(sku: Sku, index: int, draw: random.Random, rack: str) -> Gpu:
    in_fabric = bool(sku.nvswitches) or sku.nvlink_domain == "rack"
    # The trays of a rack share one NVLink fabric, which has an id of its own.
    cluster = str(uuid5(NAMESPACE_DNS, rack)) if sku.nvlink_domain == "rack" else ""
    text = f"{draw.getrandbits(128):032x}"
    width = sku.pcie_width or 16
    return Gpu(
        index=index,
        uuid=f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}",
        serial=f"165{draw.randrange(10**10):010d}",
        pci_bus_id=_bus(_GPU_BUSES, index, 8),
        module_id=_MODULE_IDS[index % 8] + index // 8 * 8,
        product=sku.gpu_product,
        memory_mib=sku.gpu_memory_mib,
        nvlinks=sku.nvlink_links,
        nvlinks_up=sku.nvlink_links,
        pcie_generation=sku.pcie_generation or 4,
        pcie_width=width,
        pcie_width_max=width,
        temperature_c=draw.randint(27, 33),
        power_w=round(draw.uniform(66.0, 74.0), 2),
        replay_counter=draw.randint(100, 180),
        fabric_state="Completed" if in_fabric else "N/A",
        fabric_status="Success" if in_fabric else "N/A",
        fabric_cluster=cluster,
    )


def _hca_names(planned: PlannedNode, sku: Sku) -> tuple[str, ...]:
    wrong = hca_names_problem(planned.hcas, sku.compute_hcas)
    if wrong:
        raise InputError(f"host {planned.name}: gpufleet_hcas", wrong, "correct it, or the SKU of the host")
    return planned.hcas or sku.hca_names or tuple(f"mlx5_{number}" for number in range(sku.compute_hcas))


def _hca(sku: Sku, name: str, index: int, node_index: int, draw: random.Random) -> Hca:
    model = sku.hca_model or "ConnectX-7"
    return Hca(
        index=index,
        name=name,
        guid=f"0x9c0591{draw.getrandbits(40):010x}",
        pci=_bus(_HCA_BUSES, index, 4).lower(),
        model=_CA_TYPES.get(model, "MT4129"),
        firmware=_FIRMWARE.get(model, "28.43.2566"),
        rate_gbps=sku.hca_rate_gbps,
        lid=2 + node_index * max(1, sku.compute_hcas) + index if sku.fabric == "infiniband" else 0,
        link_layer=_LINK_LAYERS.get(sku.fabric, "Ethernet"),
        sm_lid=1 if sku.fabric == "infiniband" else 0,
    )


def _other(other: OtherAdapter, index: int, draw: random.Random) -> Hca:
    infiniband = other.link_layer == "InfiniBand"
    return Hca(
        index=index,
        name=other.name,
        guid=f"0x9c0591{draw.getrandbits(40):010x}",
        pci=f"0000:{_OTHER_BUS + index:02x}:00.0",
        model=other.model,
        firmware=_FIRMWARE["ConnectX-7"],
        rate_gbps=other.rate_gbps,
        lid=_OTHER_LID + index if infiniband else 0,
        link_layer=other.link_layer,
        state=other.state,
        physical_state=other.physical_state,
        sm_lid=1 if infiniband else 0,
        cable=Cable(up=other.cabled),
    )


def _boot_log(sku: Sku, driver_version: str) -> tuple[LogLine, ...]:
    lines = [
        (0.0, "Linux version 6.8.0-79-generic (buildd@lcy02-amd64-052) #79-Ubuntu SMP PREEMPT_DYNAMIC"),
        (9.1, "nvidia: loading out-of-tree module taints kernel."),
        (9.4, f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {driver_version}  Release Build"),
        (11.8, "nvidia-uvm: Loaded the UVM driver, major device number 511."),
    ]
    # Those of NVLink 5 are no PCIe devices, and this driver does not see them.
    if sku.nvswitches and (sku.nvlink_generation or 0) < 5:
        lines += [(12.0 + n / 10, f"nvidia-nvswitch{n}: using MSI") for n in range(sku.nvswitches)]
    # An ordinary line that has nothing to do with GPUs.
    lines.append((86400.0, "perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate"))
    return tuple(LogLine(at_s=at_s, text=text) for at_s, text in lines)


def _rack(name: str, members: list[PlannedNode], hardware: Mapping[str, Sku]) -> Rack:
    skus = [sku_or_error(hardware, planned.sku) for planned in members]
    return Rack(
        name=name,
        power_w=round(sum(sku.power_max_w or _UNKNOWN_W for sku in skus) * _HEADROOM),
        cooling_w=round(sum(sku.heat_max_w or _UNKNOWN_W for sku in skus) * _HEADROOM),
        floor_load_kg=round(sum(sku.weight_kg or _UNKNOWN_KG for sku in skus) * _HEADROOM, 1),
        nodes=tuple(planned.name for planned in members),
    )
