# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Patches the model: a fault changes the values that its patch names, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, hca_names_problem, sku_or_error
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import nearest_hint

from .bmc import bmc_of
from .site import FacilityRecord, Nccl, Stack
from .spec import Change, Fault, ModelSpec, OtherAdapter, PlannedNode, Shape
from .values import Cable, ClusterModel, Gpu, Hca, InfiniBand, KubernetesNode, LogLine, Node, Rack, Rail, Switch, Uplink
from .wiring import wire

# Derives a healthy cluster from the model file and the SKU facts. Serials, UUIDs and bus ids follow from the seed.

# PCI buses of the GPUs of an 8-GPU HGX machine, and of the adapter next to each.
_GPU_BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
_HCA_BUSES = ("18", "40", "4F", "5E", "9A", "C0", "CE", "DC")
_MODULE_IDS = (3, 1, 2, 4, 7, 5, 6, 8)
_CA_TYPES = {"ConnectX-6": "MT4123", "ConnectX-7": "MT4129", "ConnectX-8": "MT4131"}
_FIRMWARE = {"ConnectX-6": "20.43.2566", "ConnectX-7": "28.43.2566", "ConnectX-8": "40.45.1200"}
# Adapters without GPU traffic are on other buses.
_OTHER_BUS, _OTHER_LID = 0xE0, 40000
_HEADROOM = 1.25
# For a host whose SKU lacks the figure. Not zero, so that a fault can lower the room's limit.
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
    # The trays of a rack share one NVLink fabric with its own id.
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
    # NVSwitches of NVLink 5 are no PCIe devices, and this driver does not list them.
    if sku.nvswitches and (sku.nvlink_generation or 0) < 5:
        lines += [(12.0 + n / 10, f"nvidia-nvswitch{n}: using MSI") for n in range(sku.nvswitches)]
    # A normal line that has nothing to do with GPUs.
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


# Dictionaries with free keys accept new keys; records do not.
_FREE_WORDS = ("tools", "services", "diag", "components", "printed", "smi_xml", "sysctls", "busbw_gbps", "adapters")
_OPERATIONS = ("set", "append", "add", "multiply")


def healthy_cluster(spec: ModelSpec, hardware: Mapping[str, Sku]) -> ClusterModel:
    """Return the cluster of the reference site, without the faults of the file.

    Raises:
        NotFoundError: a SKU that recipes/hardware/ does not have, or a shape that matches nothing.
        InputError: the adapter names of a host do not fit its SKU, or a patch names something that the model does not
            have.
    """
    model = derived_cluster(spec, hardware)
    for shape in spec.shapes:
        model = _shaped(model, shape)
    return model


def _shaped(model: ClusterModel, shape: Shape) -> ClusterModel:
    matching = [name for name in subject_names(model, shape.kind) if fnmatchcase(name, shape.match)]
    if not matching:
        hint = nearest_hint(shape.match, subject_names(model, shape.kind)[:200])
        raise NotFoundError("shape of the world", f"no {shape.kind} matches {shape.match!r}.", hint)
    for name in matching:
        model = apply_fault(model, Fault(id="of the world", kind=shape.kind, subject=name, patch=shape.patch))
    return model


def build_model(spec: ModelSpec, hardware: Mapping[str, Sku]) -> ClusterModel:
    """Return the whole model with the faults of the file in it.

    Raises:
        NotFoundError: a SKU or a fault's subject that does not exist.
        InputError: a patch names something that the model does not have.
    """
    model = healthy_cluster(spec, hardware)
    for fault in spec.faults:
        model = apply_fault(model, fault)
    return model


def apply_fault(model: ClusterModel, fault: Fault) -> ClusterModel:
    """Return the model with one more fault.

    Raises:
        NotFoundError: the subject does not exist.
        InputError: the patch names something that the model does not have, or a value of the wrong type.
    """
    parts = _parts(model, fault)
    for change in fault.patch:
        _change(parts, change, f"fault {fault.id} on {fault.subject}")
    return _put_back(model, parts, f"fault {fault.id}")


def subject_names(model: ClusterModel, kind: str) -> tuple[str, ...]:
    """Return the name of every part of that kind (see SubjectWord) that a fault can hit."""
    if kind == "cluster":
        return (model.name,)
    if kind == "switch":
        return tuple(switch.name for switch in model.infiniband.switches)
    if kind == "link":
        return tuple(uplink.name for uplink in model.infiniband.uplinks)
    if kind == "rack":
        return tuple(rack.name for rack in model.racks)
    if kind == "rail":
        return tuple(rail.name for rail in model.rails)
    if kind == "node":
        return tuple(node.name for node in model.nodes)
    if kind == "gpu":
        return tuple(f"{node.name}/gpu{gpu.index}" for node in model.nodes for gpu in node.gpus)
    return tuple(f"{node.name}/{hca.name}" for node in model.nodes for hca in node.hcas)


def _parts(model: ClusterModel, fault: Fault) -> dict[str, Any]:
    """Return the parts that a patch can start from, as plain data that can be changed."""
    if fault.subject not in subject_names(model, fault.kind):
        known = subject_names(model, fault.kind)
        hint = nearest_hint(fault.subject, known[:200])
        raise NotFoundError(f"fault {fault.id}", f"there is no {fault.kind} {fault.subject!r}.", hint)
    parts: dict[str, Any] = {
        "cluster": {
            "facility": to_plain(model.facility),
            "stack": to_plain(model.stack),
            "infiniband": to_plain(model.infiniband),
            "nccl": to_plain(model.nccl),
        },
        "rack": None,
        "rail": None,
        "node": None,
    }
    if fault.kind == "rack":
        parts["rack"] = to_plain(next(rack for rack in model.racks if rack.name == fault.subject))
    elif fault.kind in ("switch", "link"):
        fabric = parts["cluster"]["infiniband"]
        entries = fabric["switches" if fault.kind == "switch" else "uplinks"]
        parts[fault.kind] = next(entry for entry in entries if entry["name"] == fault.subject)
    elif fault.kind == "rail":
        parts["rail"] = to_plain(next(rail for rail in model.rails if rail.name == fault.subject))
    elif fault.kind != "cluster":
        _add_node_parts(parts, model, fault)
    return parts


def _add_node_parts(parts: dict[str, Any], model: ClusterModel, fault: Fault) -> None:
    name, _mark, piece = fault.subject.partition("/")
    node = to_plain(model.node(name))
    node["kernel_log"] = list(node["kernel_log"])
    parts["node"] = node
    if fault.kind == "gpu":
        index = int(piece.removeprefix("gpu"))
        parts["gpu"] = node["gpus"][index]
        parts["peer"] = dict(node["gpus"][(index + 1) % len(node["gpus"])])
    elif fault.kind == "hca":
        parts["hca"] = next(hca for hca in node["hcas"] if hca["name"] == piece)


def _change(parts: dict[str, Any], change: Change, source: str) -> None:
    operation, value = _operation(change, source)
    value = _filled(value, parts)
    *way, last = change.at.split(".")
    if not way:
        raise InputError(source, f"{change.at!r} names a part and nothing in it.", "correct the patch")
    place: Any = parts
    for word in way:
        place = _step(place, word, change, source)
    if operation == "set":
        _refuse_unknown(place, last, way, change, source)
        place[last] = value
        return
    old = _step(place, last, change, source)
    if operation == "append":
        place[last] = [*old, value]
    else:
        place[last] = _calculated(operation, old, value, change, source)


def _operation(change: Change, source: str) -> tuple[str, Any]:
    given = [name for name in _OPERATIONS if getattr(change, name) is not None]
    if len(given) != 1:
        reason = f"the change at {change.at!r} has {len(given)} operations, expected one of {', '.join(_OPERATIONS)}."
        raise InputError(source, reason, "correct the patch")
    return given[0], getattr(change, given[0])


def _calculated(operation: str, old: Any, value: float, change: Change, source: str) -> int | float:
    if isinstance(old, bool) or not isinstance(old, (int, float)):
        raise InputError(source, f"{change.at!r} is {old!r}, expected a number to {operation}.", "correct the patch")
    result = old + value if operation == "add" else old * value
    return round(result) if isinstance(old, int) else result


def _step(place: Any, word: str, change: Change, source: str) -> Any:
    if isinstance(place, list) and word.isdecimal() and int(word) < len(place):
        return place[int(word)]
    if isinstance(place, dict) and place.get(word) is not None:
        return place[word]
    known = [str(key) for key in place] if isinstance(place, dict) else []
    raise InputError(source, f"{change.at!r} has no {word!r} in the model.", nearest_hint(word, known))


def _refuse_unknown(place: Any, last: str, way: list[str], change: Change, source: str) -> None:
    if way[-1] not in _FREE_WORDS and last not in place:
        raise InputError(source, f"{change.at!r} has no {last!r} in the model.", nearest_hint(last, list(place)))


def _filled(value: Any, parts: Mapping[str, Any]) -> Any:
    """Fill in `{gpu.serial}` and the like in the texts of a value. `peer` is the next GPU of the same node."""
    if isinstance(value, dict):
        return {key: _filled(inner, parts) for key, inner in value.items()}
    if not isinstance(value, str) or "{" not in value:
        return value
    for name in ("gpu", "peer", "hca", "node", "rack", "switch"):
        for key, inner in (parts.get(name) or {}).items():
            if isinstance(inner, (str, int, float)):
                value = value.replace(f"{{{name}.{key}}}", str(inner))
    if "gpu" in parts:
        # The kernel names a GPU by its bus without the function: 0000:1b:00.
        value = value.replace("{gpu.pci}", parts["gpu"]["pci_bus_id"][-12:-2].lower())
    return value


def _put_back(model: ClusterModel, parts: dict[str, Any], source: str) -> ClusterModel:
    cluster = parts["cluster"]
    facility = _structured(FacilityRecord, cluster["facility"], source)
    stack = _structured(Stack, cluster["stack"], source)
    infiniband = _structured(InfiniBand, cluster["infiniband"], source)
    nccl = _structured(Nccl, cluster["nccl"], source)
    racks, rails, nodes = model.racks, model.rails, model.nodes
    if parts["rack"] is not None:
        changed_rack = _structured(Rack, parts["rack"], source)
        racks = tuple(changed_rack if rack.name == changed_rack.name else rack for rack in racks)
    if parts["rail"] is not None:
        changed_rail = _structured(Rail, parts["rail"], source)
        rails = tuple(changed_rail if rail.name == changed_rail.name else rail for rail in rails)
        nodes = tuple(_with_rail(node, changed_rail) for node in nodes) if changed_rail.firmware else nodes
    if parts["node"] is not None:
        changed = _structured(Node, parts["node"], source)
        nodes = tuple(changed if node.name == changed.name else node for node in nodes)
    return replace(
        model, facility=facility, stack=stack, infiniband=infiniband, nccl=nccl, racks=racks, rails=rails, nodes=nodes
    )


def _with_rail(node: Node, rail: Rail) -> Node:
    """Return the node whose adapter on a rail has the rail's firmware."""
    hcas = (replace(hca, firmware=rail.firmware) if hca.index == rail.index else hca for hca in node.hcas)
    return replace(node, hcas=tuple(hcas))


def _structured(kind: type[Any], data: Any, source: str) -> Any:
    try:
        return from_plain(kind, data, source)
    except BringupError as problem:
        raise InputError(source, f"the patched {kind.__name__} is not valid: {problem.reason}", "") from None
