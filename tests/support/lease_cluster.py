# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that keeps objects in memory and refuses what was written over an older version, as an API server does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ConflictError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError

Json = dict[str, Any]


class MemoryCluster:
    """Objects by kind, namespace and name. `pods_stay` are pods whose kubelet does not let go of them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.deleted: list[tuple[str, str, int | None]] = []
        self.pods_stay: set[str] = set()
        self._version = 0

    @property
    def api(self) -> Cluster:
        """The same for what wants a Cluster."""
        return cast(Cluster, self)

    def served_versions(self, _group: str) -> tuple[str, ...]:
        """It has no kinds beside Kubernetes' own."""
        return ()

    def find(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        return copy.deepcopy(self.objects.get((kind.kind, namespace, name)))

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        key = (kind.kind, namespace, body["metadata"]["name"])
        if namespace and (NAMESPACES.kind, "", namespace) not in self.objects:
            raise NotFoundError(f"create {kind.kind}", f"namespaces {namespace} not found")
        if key in self.objects:
            raise ConflictError(f"create {kind.kind}", "exists already")
        return self._keep(key, {**body, "metadata": {**body["metadata"], "namespace": namespace}})

    def replace(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        key = (kind.kind, namespace, body["metadata"]["name"])
        if self.objects[key]["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ConflictError(f"update {kind.kind}", "the object has been modified")
        return self._keep(key, body)

    def change(self, kind: Kind, name: str, edit: Callable[[Json], Json | None], namespace: str = "") -> Json:
        while True:
            found = self.find(kind, name, namespace)
            if found is None:
                raise NotFoundError(f"get {kind.kind}", f"{name} not found")
            wanted = edit(copy.deepcopy(found))
            if wanted is None:
                return found
            with suppress(ConflictError):
                return self.replace(kind, wanted, namespace)

    def patch(self, kind: Kind, name: str, body: Json, namespace: str = "") -> Json:
        del body
        return self.objects[kind.kind, namespace, name]

    def list_objects(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        wanted = [pair.partition("=")[::2] for pair in labels.split(",") if pair]
        # Those of an event, which are fields of the object itself.
        chosen = [pair.partition("=")[::2] for pair in fields.split(",") if pair]
        assert "." not in fields, fields
        return [
            copy.deepcopy(found)
            for (title, place, _name), found in self.objects.items()
            if title == kind.kind and (not namespace or place == namespace)
            and all((found["metadata"].get("labels") or {}).get(key) == value for key, value in wanted)
            and all(found.get(key) == value for key, value in chosen)
        ]  # fmt: skip

    def find_all(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Json] | None:
        return self.list_objects(kind, namespace, labels=labels)

    def delete(
        self, kind: Kind, name: str, namespace: str = "", *, grace_period_s: int | None = None, **_more: Any
    ) -> bool:
        self.deleted.append((kind.kind, name, grace_period_s))
        if kind.kind == "Pod" and name in self.pods_stay:
            return True
        return self.objects.pop((kind.kind, namespace, name), None) is not None

    def _keep(self, key: tuple[str, str, str], body: Json) -> Json:
        self._version += 1
        kept = copy.deepcopy(body)
        kept["metadata"]["resourceVersion"] = str(self._version)
        self.objects[key] = kept
        return copy.deepcopy(kept)
