# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The model file of a rehearsal: its hosts and faults. The whole cluster model is derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import decode, read_yaml

from .values import SCHEMA_VERSION, PhysicalState, PortState

NODES_PER_RACK = 4
SubjectWord = Literal["cluster", "rack", "rail", "node", "gpu", "hca", "switch", "link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAdapter:
    """A port of an adapter without GPU traffic: storage, management, or the NVSwitches' own."""

    name: str
    link_layer: Literal["InfiniBand", "Ethernet"] = "Ethernet"
    rate_gbps: int = 200
    state: PortState = "Active"
    physical_state: PhysicalState = "LinkUp"
    model: str = "MT4129"
    cabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A host to simulate.

    - `hcas`: its compute adapters in the order of the rails; empty: those of the SKU.
    - `outside`: it is not in the inventory, and not in Kubernetes.
    - `unit`: hosts of different units share no leaf switch.
    """

    name: str
    sku: str
    rack: str
    hcas: tuple[str, ...] = ()
    others: tuple[OtherAdapter, ...] = ()
    outside: bool = False
    unit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a patch.

    - `at`: dotted path whose first word is the part it starts from (cluster, rack, rail, node, gpu, hca).
    - `set`, `append`, `add`, `multiply`: exactly one of them is given.
    """

    at: str
    set: Any = None
    append: Any = None
    add: float | None = None
    multiply: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A patch to the model.

    `subject` names the affected part (`gpu03`, `gpu03/gpu5`, `gpu03/mlx5_0`, `rack-a1`, `rail3`, or the cluster's
    name).
    """

    id: str
    kind: SubjectWord
    subject: str
    patch: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A difference of a healthy cluster from the derived one.

    It patches every part of that kind whose name matches (`*`, `gpu0?`, `*/mlx5_1`).
    """

    kind: SubjectWord
    patch: tuple[Change, ...]
    match: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The model file. The same file always gives the same model. `shapes` are those of its reference site."""

    name: str
    seed: int
    nodes: tuple[PlannedNode, ...]
    driver_version: str = "580.105.08"
    cuda_version: str = "13.0"
    faults: tuple[Fault, ...] = ()
    shapes: tuple[Shape, ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            reason = f"schema_version is {self.schema_version}, this release reads {SCHEMA_VERSION}."
            raise InputError(f"cluster model {self.name!r}", reason, "start the rehearsal again")
        names = [node.name for node in self.nodes]
        if not names or len(set(names)) != len(names):
            raise InputError(f"cluster model {self.name!r}", "needs at least one node, and every name once.")


def rack_name(index: int) -> str:
    """Return the name of the rack of node number `index` (from 0): rack-a1 to rack-a8, rack-b1, ..."""
    number = index // NODES_PER_RACK
    row, place = divmod(number, 8)
    letters = ""
    while True:
        row, letter = divmod(row, 26)
        letters = chr(ord("a") + letter) + letters
        if row == 0:
            return f"rack-{letters}{place + 1}"
        row -= 1


def numbered_nodes(count: int, sku: str) -> tuple[PlannedNode, ...]:
    """Return `count` hosts of one SKU, named gpu01, gpu02, ..., four per rack.

    Raises:
        InputError: count is less than 1.
    """
    if count < 1:
        raise InputError(
            "gpufleet_rehearsal_nodes", f"is {count}, expected 1 or more.", "-e gpufleet_rehearsal_nodes=16"
        )
    width = max(2, len(str(count)))
    return tuple(PlannedNode(name=f"gpu{n + 1:0{width}d}", sku=sku, rack=rack_name(n)) for n in range(count))


def write_spec(spec: ModelSpec, path: Path) -> None:
    """Write the model file, readable by its owner only."""
    import yaml

    header = "# The cluster model of a rehearsal. Only the simulators read it.\n---\n"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(_plain(spec), Dumper=dumper, sort_keys=False, width=119, default_flow_style=None)
    write_atomic(path, header + text, mode=0o600)


def read_spec(path: Path) -> ModelSpec:
    """Read a model file.

    Raises:
        InputError: it cannot be read, or a key is unknown, missing or of the wrong type.
    """
    return decode(ModelSpec, read_yaml(path), str(path))


def file_version(path: Path) -> str:
    """Return a text that differs for every write of a file, also within one tick of the clock; empty without a file."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns}-{found.st_ino}"


def applied_file(path: Path) -> Path:
    """Return the file in which the simulated operators record the version of the model that they applied."""
    return path.with_name(f"{path.stem}.seen")


def _plain(spec: ModelSpec) -> dict[str, Any]:
    return {
        "schema_version": spec.schema_version,
        "name": spec.name,
        "seed": spec.seed,
        "driver_version": spec.driver_version,
        "cuda_version": spec.cuda_version,
        "faults": [_plain_fault(fault) for fault in spec.faults],
        "shapes": [{"kind": s.kind, "match": s.match, "patch": plain_patch(s.patch)} for s in spec.shapes],
        "nodes": [_plain_node(node) for node in spec.nodes],
    }


def _plain_node(node: PlannedNode) -> dict[str, Any]:
    row: dict[str, Any] = {"name": node.name, "sku": node.sku, "rack": node.rack}
    row |= {"hcas": list(node.hcas)} if node.hcas else {}
    row |= {"outside": True} if node.outside else {}
    row |= {"unit": node.unit} if node.unit else {}
    return row | {"others": [to_plain(other) for other in node.others]} if node.others else row


def _plain_fault(fault: Fault) -> dict[str, Any]:
    return {"id": fault.id, "kind": fault.kind, "subject": fault.subject, "patch": plain_patch(fault.patch)}


def plain_patch(patch: Sequence[Change]) -> list[dict[str, Any]]:
    """Return a patch as plain data, each change with only the keys that it uses."""
    words = ("at", "set", "append", "add", "multiply")
    rows = [{word: getattr(change, word) for word in words} for change in patch]
    return [{word: value for word, value in row.items() if value is not None} for row in rows]
