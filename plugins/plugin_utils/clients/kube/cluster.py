# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Kubernetes cluster as verbs over plain JSON objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ...outcome.errors import NotFoundError, UnavailableError
from ...runtime.clock import Deadline
from .connection import Connection
from .errors import ConflictError, GoneError
from .kinds import ACCESS_REVIEWS, PODS, Kind, known_kind
from .permission import AskedPermission, Permission
from .transport import Transport

Json = dict[str, Any]
FIELD_MANAGER = "gpufleet-bringup"
_APPLY = "application/apply-patch+yaml"
_PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
_PAGE = 500
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Cluster:
    """One cluster. Every method raises errors of clients.kube.errors; none returns half an answer."""

    def __init__(self, connection: Connection, request_timeout_s: float = 30.0) -> None:
        """Read the configuration; the first verb connects.

        Raises:
            InputError: the kubeconfig is missing or broken.
        """
        self.transport = Transport(connection, request_timeout_s)

    def __enter__(self) -> Cluster:
        """Return the cluster itself; leaving closes its connections."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close the connections."""
        self.transport.close()

    def version(self) -> str:
        """Return the server's version, such as `v1.36.3`."""
        answer = self.transport.json("GET", "/version")
        version = answer.get("gitVersion") if isinstance(answer, dict) else None
        if not version:
            raise UnavailableError(f"Kubernetes API {self.transport.host}/version", "no gitVersion in the answer.")
        return str(version)

    def served_versions(self, group: str) -> tuple[str, ...]:
        """Return the versions of an API group that the server serves; none if it does not know the group."""
        try:
            answer = self.transport.json("GET", f"/apis/{group}")
        except NotFoundError:
            return ()
        return tuple(entry["version"] for entry in answer.get("versions", []))

    def kind(self, api_version: str, kind: str) -> Kind:
        """Return a kind by name; the server is asked only for one that we do not know.

        Raises:
            NotFoundError: the server does not serve it.
        """
        found = known_kind(api_version, kind)
        if found:
            return found
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        for entry in self.transport.json("GET", root).get("resources", []):
            if entry["kind"] == kind and "/" not in entry["name"]:
                return Kind(api_version, kind, entry["name"], bool(entry["namespaced"]))
        raise NotFoundError(f"{api_version} {kind}", "the server does not serve this kind.", "install its CRD first")

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        """Return one object.

        Raises:
            NotFoundError: there is none.
        """
        answer: Json = self.transport.json("GET", kind.path(name, namespace))
        return answer

    def find(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """Return one object, or None if it or its kind does not exist."""
        try:
            return self.get(kind, name, namespace)
        except NotFoundError:
            return None

    def list_objects(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        """Return every object of a kind, page by page.

        Raises:
            NotFoundError: the server does not serve the kind.
        """
        return self.list_with_version(kind, namespace, labels=labels, fields=fields)[0]

    def find_all(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Json] | None:
        """Return every object of a kind, or None if the server does not serve the kind."""
        try:
            return self.list_objects(kind, namespace, labels=labels)
        except NotFoundError:
            return None

    def list_with_version(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[list[Json], str]:
        """Return every object and the version of the collection, from which a watch can go on."""
        query: dict[str, str | int] = {"limit": _PAGE}
        query |= {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        items: list[Json] = []
        for _restart in range(3):
            try:
                items, version = self._pages(kind, namespace, query)
                return items, version
            except GoneError:
                # The list took longer than the server keeps its versions: start over.
                continue
        raise UnavailableError(f"Kubernetes API list {kind.title}", "the list expired three times while reading it.")

    def _pages(self, kind: Kind, namespace: str, query: Mapping[str, str | int]) -> tuple[list[Json], str]:
        items: list[Json] = []
        token = ""
        while True:
            page = query if not token else {**query, "continue": token}
            answer = self.transport.json("GET", kind.path(namespace=namespace), query=page, verb="list")
            found = answer.get("items") if isinstance(answer, dict) else None
            if found is None and "items" not in (answer or {}):
                raise UnavailableError(f"Kubernetes API list {kind.title}", "the answer has no items.")
            items += found or []
            metadata = answer.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return items, str(metadata.get("resourceVersion", ""))

    def list_metadata(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Json]:
        """Return the metadata of every object of a kind, never its content: how Secrets are looked at."""
        query = {"labelSelector": labels} if labels else {}
        answer = self.transport.json(
            "GET", kind.path(namespace=namespace), query=query, verb="list", accept=_METADATA_ONLY
        )
        return [item["metadata"] for item in answer.get("items") or []]

    def create(self, kind: Kind, body: Json, namespace: str = "", *, dry_run: bool = False) -> Json:
        """Create an object, unknown fields refused.

        Raises:
            ConflictError: it exists already.
        """
        query = _write_query(dry_run)
        answer: Json = self.transport.json("POST", kind.path(namespace=namespace), query=query, body=body)
        return answer

    def apply(self, kind: Kind, body: Json, namespace: str = "", *, dry_run: bool = False, force: bool = False) -> Json:
        """Apply an object on the server's side as our field manager, unknown fields refused.

        Args:
            kind: its kind.
            body: the fields that we own.
            namespace: where, for a kind that lives in one.
            dry_run: the server computes the result and keeps nothing.
            force: take over fields of other managers.

        Raises:
            ConflictError: another manager owns a field and `force` is not set.
        """
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        answer: Json = self.transport.json(
            "PATCH",
            kind.path(body["metadata"]["name"], namespace),
            query={**_write_query(dry_run), "force": force},
            body=body,
            content_type=_APPLY,
        )
        return answer

    def patch(
        self,
        kind: Kind,
        name: str,
        body: Json,
        namespace: str = "",
        *,
        strategy: str = "merge",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Patch an object; `strategy` is `merge` or `strategic`."""
        answer: Json = self.transport.json(
            "PATCH",
            kind.path(name, namespace, subresource),
            query=_write_query(dry_run),
            body=body,
            content_type=_PATCHES[strategy],
        )
        return answer

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        grace_period_s: int | None = None,
        timeout_s: float | None = None,
    ) -> bool:
        """Ask for the deletion of an object; tell whether it was there. It does not wait (see wait.until_gone)."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace_period_s is not None:
            body["gracePeriodSeconds"] = grace_period_s
        try:
            self.transport.json("DELETE", kind.path(name, namespace), body=body, timeout_s=timeout_s)
        except NotFoundError:
            return False
        except ConflictError:
            # A namespace that is being deleted already answers 409.
            return True
        return True

    def watch(
        self, kind: Kind, deadline: Deadline, namespace: str = "", *, version: str = "", labels: str = ""
    ) -> Iterator[tuple[str, Json]]:
        """Yield (type, object) of every change until the deadline or until the server ends the watch.

        Raises:
            GoneError: `version` is forgotten; list again.
        """
        query: dict[str, str | int | bool] = {"watch": True, "timeoutSeconds": max(1, int(deadline.left_s))}
        query |= {key: value for key, value in (("resourceVersion", version), ("labelSelector", labels)) if value}
        path = kind.path(namespace=namespace)
        for line in self.transport.lines(path, query, "watch", deadline):
            event = json.loads(line)
            if event["type"] == "ERROR":
                status = event["object"]
                if status.get("code") == 410:
                    raise GoneError(f"Kubernetes API watch {path}", "version expired.", "list again")
                raise UnavailableError(f"Kubernetes API watch {path}", str(status.get("message", status)))
            yield event["type"], event["object"]

    def logs(
        self, pod: str, namespace: str, *, container: str = "", tail_lines: int = 0, previous: bool = False
    ) -> str:
        """Return what a container wrote; the last `tail_lines` lines if given."""
        query: dict[str, str | int | bool] = {"previous": previous}
        if container:
            query["container"] = container
        if tail_lines:
            query["tailLines"] = tail_lines
        return self.transport.text("GET", PODS.path(pod, namespace, "log"), query=query)

    def can_i(self, permission: Permission) -> AskedPermission:
        """Ask the server whether the credentials allow that."""
        attributes = asdict(permission)
        answer = self.transport.json(
            "POST",
            ACCESS_REVIEWS.path(),
            body={
                "apiVersion": ACCESS_REVIEWS.api_version,
                "kind": ACCESS_REVIEWS.kind,
                "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
            },
        )
        status = answer.get("status") or {}
        allowed, reason = bool(status.get("allowed", False)), str(status.get("reason", ""))
        return AskedPermission(**attributes, allowed=allowed, reason=reason)


def _write_query(dry_run: bool) -> dict[str, str | int | bool]:
    query: dict[str, str | int | bool] = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
    if dry_run:
        query["dryRun"] = "All"
    return query
