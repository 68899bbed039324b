# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Patching the model: a fault changes the values that its patch names, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from ...hardware.sku import Sku
from ...outcome.codec import from_plain, to_plain
from ...outcome.errors import BringupError, InputError, NotFoundError
from ...runtime.strict import nearest_hint
from .derive import derived_cluster
from .infiniband import InfiniBand
from .site import FacilityRecord, Nccl, Stack
from .spec import Change, Fault, ModelSpec, Shape
from .values import ClusterModel, Node, Rack, Rail

# Dictionaries whose keys are free words take new ones; records do not.
_FREE_WORDS = ("tools", "services", "diag", "components", "printed", "smi_xml", "sysctls", "busbw_gbps", "adapters")
_OPERATIONS = ("set", "append", "add", "multiply")


def healthy_cluster(spec: ModelSpec, hardware: Mapping[str, Sku]) -> ClusterModel:
    """Return the cluster as its world has it, without the faults of the file.

    Raises:
        NotFoundError: a SKU that recipes/hardware/ does not have, or a shape that matches nothing.
        InputError: the adapter names of a host do not fit its SKU, or a patch names something that the model has not.
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
    """Return the name of everything of that kind (see SubjectWord) that a fault can hit."""
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
    """The parts that a patch can start from, as plain data that can be changed."""
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
    """Fill `{gpu.serial}` and the like in the texts of a value; `peer` is the next GPU of the same node."""
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
    """Return the node with the firmware of a rail in its adapter there."""
    hcas = (replace(hca, firmware=rail.firmware) if hca.index == rail.index else hca for hca in node.hcas)
    return replace(node, hcas=tuple(hcas))


def _structured(kind: type[Any], data: Any, source: str) -> Any:
    try:
        return from_plain(kind, data, source)
    except BringupError as problem:
        raise InputError(source, f"the patched {kind.__name__} is not valid: {problem.reason}", "") from None
