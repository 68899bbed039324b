# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes a snapshot of a cluster: collectors side by side, each with its time limit; what one cannot see, it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ..clients.kube.cluster import Cluster
from ..clients.kube.dra import dra_kinds
from ..clients.kube.identity import cluster_identity, is_simulated
from ..clients.kube.kinds import NODES, PODS, Kind
from ..clients.kube.listing import Keep, list_kept
from ..clients.kube.node_object import Cleaner, read_node
from ..outcome.errors import BringupError, NotFoundError
from ..runtime.clock import Deadline, now_utc
from ..runtime.pool import map_bounded
from ..snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Server,
    Snapshot,
)
from ..snapshot.node import Attributes, Node
from .snapshot_objects import (
    SliceDevices,
    newest,
    read_fields,
    read_pod,
    read_slice,
    workloads_of,
)
from .snapshot_rights import CLASSES, POLICIES

LIMIT_S = 30.0
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
T = TypeVar("T")
Parts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """What a collector has: the cluster, when it has to be done, and what kinds the server did not know."""

    cluster: Cluster
    deadline: Deadline
    not_served: list[str]

    def all_of(self, kind: Kind, keep: Keep[T]) -> list[T] | None:
        """Return what is kept of every object of a kind, None where the server does not serve it."""
        try:
            return list_kept(self.cluster.transport, kind, keep, deadline=self.deadline)[0]
        except NotFoundError:
            self.not_served.append(kind.title)
            return None


Collector = Callable[[Look], Parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What one collector gave: parts of the snapshot, and what became of it."""

    name: str
    parts: Parts
    result: CollectorResult


def collect_cluster(
    cluster: Cluster, made_by: str, limit_s: float = LIMIT_S, only: frozenset[str] | None = None
) -> Snapshot:
    """Return the snapshot of a cluster; collectors that are no business of this function are `not-asked`.

    Args:
        cluster: its requests and their patience should be limited to `limit_s`, too.
        made_by: program and version.
        limit_s: seconds a collector may take.
        only: the collectors that are asked; None for all.

    Raises:
        BringupError: not even one collector got an answer.
    """
    taken = now_utc()
    asked = [entry for entry in _COLLECTORS.items() if only is None or entry[0] in only]
    found = map_bounded(lambda entry: run_collector(*entry, cluster, limit_s), asked, 3)
    reasons = [entry.result for entry in found if entry.result.state is Collected.FAILED]
    if len(reasons) == len(found):
        raise BringupError("snapshot", f"no collector got an answer; the first: {reasons[0].reason}", reasons[0].hint)
    not_asked = CollectorResult(state=Collected.NOT_ASKED, reason="it was not part of this snapshot")
    parts: Parts = {}
    for entry in found:
        parts |= entry.parts
    # Nodes of KWOK are no hardware, whether or not this release started the cluster.
    if parts.pop("simulated", False):
        parts["rehearsal"] = True
    devices: dict[str, dict[str, Attributes]] = parts.pop("devices", {})
    nodes = parts.get("nodes", {})
    shared: dict[str, Attributes] = parts.setdefault("shared_devices", {})
    for name, own in devices.items():
        if name in nodes:
            nodes[name] = replace(nodes[name], devices=own)
        else:
            shared |= own
    results = dict.fromkeys(COLLECTORS, not_asked) | {entry.name: entry.result for entry in found}
    return Snapshot(taken=taken, made_by=made_by, collectors=results, **parts)


def run_collector(name: str, collector: Collector, cluster: Cluster, limit_s: float) -> Collection:
    """Run one collector; its failure is data."""
    look = Look(cluster, Deadline.after(limit_s), [])
    try:
        parts = collector(look)
    except BringupError as error:
        result = CollectorResult(
            state=Collected.FAILED, reason=f"{error.subject}: {error.reason}".rstrip("."), hint=error.hint
        )
        return Collection(name=name, parts={}, result=result)
    served = CollectorResult(state=Collected.WHOLE, not_served=tuple(look.not_served))
    return Collection(name=name, parts=parts, result=served)


def _server(look: Look) -> Parts:
    said = look.cluster.transport.json("GET", "/version")
    words = {"version": "gitVersion", "platform": "platform", "go_version": "goVersion"}
    server = Server(**{field: str(said.get(word) or "") for field, word in words.items()})
    identity = cluster_identity(look.cluster)
    return {"server": server, "cluster_uid": identity.uid, "rehearsal": identity.rehearsal}


def _nodes(look: Look) -> Parts:
    cleaner = Cleaner()

    def kept(obj: dict[str, Any]) -> tuple[tuple[str, Node], bool]:
        return read_node(obj, cleaner), is_simulated(obj["metadata"])

    found = look.all_of(NODES, kept) or []
    return {
        "nodes": dict(entry for entry, _simulated in found),
        "simulated": any(simulated for _node, simulated in found),
    }


def _devices(look: Look) -> Parts:
    kinds = dra_kinds(look.cluster)
    if kinds is None:
        look.not_served.append("resourceslices.resource.k8s.io")
        return {}
    by_node: dict[str, dict[str, Attributes]] = {}
    found: list[SliceDevices] = look.all_of(kinds.slices, read_slice) or []
    for entry in newest(found):
        by_node.setdefault(entry.node, {}).update(entry.devices)
    shared = by_node.pop("", {})
    return {"devices": by_node, "shared_devices": shared}


def _workloads(look: Look) -> Parts:
    workloads, images = workloads_of(look.all_of(PODS, read_pod) or [])
    return {"workloads": workloads, "images": images}


def _policies(look: Look) -> Parts:
    found = {}
    for kind in POLICIES:
        for name, fields in look.all_of(kind, lambda obj: read_fields(obj, "spec")) or ():
            found[f"{kind.kind} {name}"] = fields
    return {"policies": found}


def _classes(look: Look) -> Parts:
    found = {}
    for kind, parts in CLASSES:
        for name, fields in look.all_of(kind, partial(_class, parts)) or ():
            found[f"{kind.kind} {name}"] = fields
    kinds = dra_kinds(look.cluster)
    for name, fields in (look.all_of(kinds.classes, lambda obj: read_fields(obj, "spec")) or ()) if kinds else ():
        found[f"DeviceClass {name}"] = fields
    return {"classes": found}


def _class(parts: tuple[str, ...], obj: dict[str, Any]) -> tuple[str, Attributes]:
    """Return name and fields of a class, and what its annotations say of being the default."""
    notes = obj["metadata"].get("annotations") or {}
    stated = {"default": notes[_DEFAULT_CLASS]} if _DEFAULT_CLASS in notes else {}
    return read_fields({**obj, **stated}, *parts)


_COLLECTORS: dict[str, Collector] = {
    "server": _server,
    "nodes": _nodes,
    "workloads": _workloads,
    "devices": _devices,
    "policies": _policies,
    "classes": _classes,
}
