# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Input and output of a controller: the objects of the cluster at one moment, and the writes it asks for. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...clients.kube.kinds import PODS, Kind

Json = dict[str, Any]
Key = tuple[str, str]

CREATE, MERGE, STRATEGIC, REPLACE, DELETE = "create", "merge", "strategic", "replace", "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One write: `verb` on the object `name` of a kind; `manager` becomes the field manager."""

    manager: str
    verb: str
    kind: Kind
    name: str
    namespace: str = ""
    body: Json = field(default_factory=dict)
    subresource: str = ""


class ClusterView:
    """The objects of a cluster at one moment, by kind, namespace and name."""

    def __init__(self, objects: Mapping[Kind, Mapping[Key, Json]]) -> None:
        """Refer to the objects; nothing is copied."""
        self._objects = objects
        self._pods_by_node: dict[str, list[Json]] | None = None

    def all(self, kind: Kind) -> Iterable[Json]:
        """Return every object of a kind."""
        return self._objects.get(kind, {}).values()

    def find(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """Return one object."""
        return self._objects.get(kind, {}).get((namespace, name))

    def pods_on(self, node: str) -> list[Json]:
        """Return the pods that are bound to a node."""
        if self._pods_by_node is None:
            self._pods_by_node = {}
            for pod in self.all(PODS):
                self._pods_by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        return self._pods_by_node.get(node, [])


def key_of(item: Json) -> Key:
    """Return namespace and name of an object."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def labels_of(item: Json) -> Mapping[str, str]:
    """Return the labels of an object."""
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels


def annotations_of(item: Json) -> Mapping[str, str]:
    """Return the annotations of an object."""
    annotations: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return annotations


def is_deleted(item: Json) -> bool:
    """Tell whether an object is being deleted."""
    return "deletionTimestamp" in item["metadata"]


def condition_of(item: Json, name: str) -> Json:
    """Return a condition of an object's status, empty when it has none of that name."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("type") == name:
            found: Json = condition
            return found
    return {}


def is_true(item: Json, condition: str) -> bool:
    """Tell whether a condition of an object holds."""
    return condition_of(item, condition).get("status") == "True"


def available(view: ClusterView, kind: Kind, label: str, value: str) -> Json | None:
    """Return the object with that label if it is Available and not being deleted, else None."""
    for item in view.all(kind):
        if labels_of(item).get(label) == value and is_true(item, "Available") and not is_deleted(item):
            return item
    return None


def owner_reference(item: Json, api_version: str, kind: str) -> Json:
    """Return the owner reference that lets the garbage collector delete a child with its owner."""
    metadata = item["metadata"]
    reference = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "controller": True}
