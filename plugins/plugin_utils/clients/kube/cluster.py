# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Kubernetes cluster as verbs over plain JSON objects, and the permissions of the credentials on it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...outcome.errors import NotFoundError, UnavailableError
from ...runtime.clock import Backoff, Deadline
from ...runtime.pool import map_bounded
from .connection import Connection
from .errors import (
    Answered,
    ConflictError,
    Fault,
    Tries,
    UnreachableError,
    error_of,
    is_already_there,
    is_starting,
    once_accounted,
)
from .listing import list_kept
from .objects import ACCESS_REVIEWS, PODS, Kind, known_kind
from .permission import AskedPermission, Permission
from .transport import PATIENCE_S, Transport, watch_event

if TYPE_CHECKING:
    from .permission import AskedPermission, Permission

Json = dict[str, Any]
FIELD_MANAGER = "gpufleet-bringup"
_APPLY = "application/apply-patch+yaml"
_PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
_LOG_BYTES = 8 << 20
_CHANGE_TRIES = 6
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Cluster:
    """One cluster. Every method raises errors of clients.kube.errors, and never returns a partial result."""

    def __init__(self, connection: Connection, request_timeout_s: float = 30.0, patience_s: float = PATIENCE_S) -> None:
        """Read the configuration. The first verb connects.

        A server that is away is retried for `patience_s`; clients.kube.errors lists the other faults.

        Raises:
            InputError: the kubeconfig is missing or broken.
        """
        self.connection = connection
        self.transport = Transport(connection, request_timeout_s, patience_s)

    def __enter__(self) -> Cluster:
        """Return the cluster itself. Leaving the block closes its connections."""
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
        """Return the versions of an API group that the server serves. Empty if it does not know the group."""
        try:
            answer = self.transport.json("GET", f"/apis/{group}")
        except NotFoundError:
            return ()
        return tuple(entry["version"] for entry in answer.get("versions", []))

    def kind(self, api_version: str, kind: str) -> Kind:
        """Return a kind by name. The server is queried only for kinds that are not built in here.

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
        """Return every object of a kind. The list is read page by page.

        Raises:
            NotFoundError: the server does not serve the kind.
        """
        return self.list_with_version(kind, namespace, labels=labels, fields=fields)[0]

    def find_listed(self, kind: Kind, name: str, namespace: str) -> Json | None:
        """Return one object through a list, for credentials that may list but not get. None if it does not exist."""
        return next(iter(self.list_objects(kind, namespace, fields=f"metadata.name={name}")), None)

    def find_all(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Json] | None:
        """Return every object of a kind, or None if the server does not serve the kind."""
        try:
            return self.list_objects(kind, namespace, labels=labels)
        except NotFoundError:
            return None

    def list_with_version(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[list[Json], str]:
        """Return every object, and the version of the collection for a watch to start from."""
        query: dict[str, str | int] = {
            key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value
        }
        return list_kept(self.transport, kind, lambda found: found, namespace, query)

    def list_metadata(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Json]:
        """Return the metadata of every object of a kind, never its content. Secrets are read this way."""
        query = {"labelSelector": labels} if labels else {}
        answer = self.transport.json(
            "GET", kind.path(namespace=namespace), query=query, verb="list", accept=_METADATA_ONLY
        )
        return [item["metadata"] for item in answer.get("items") or []]

    def create(self, kind: Kind, body: Json, namespace: str = "", *, dry_run: bool = False) -> Json:
        """Create an object. Unknown fields are refused.

        If it is not known whether an earlier try was carried out, an existing object counts as ours if it has all
        labels, annotations and plain spec fields of `body`. So a body without name or labels is not retried then. A pod
        is retried until its namespace has the service account that controllers create.

        Raises:
            ConflictError: it exists already.
        """
        path, metadata = kind.path(namespace=namespace), body.get("metadata") or {}
        named = bool(metadata.get("name") and metadata.get("labels"))
        query, safe = _write_query(dry_run), named or dry_run
        answer = once_accounted(lambda: self.transport.ask("POST", path, query=query, body=body, repeatable=safe))
        if answer.status == 409 and answer.unsure and named and is_already_there(answer.data):
            found = self.find(kind, metadata["name"], namespace)
            if found is not None and holds(found, _identity(body)):
                return found
        return self._written(answer, "POST", path)

    def replace(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        """Replace an object. `body` has the resourceVersion that it was made from.

        Raises:
            ConflictError: another writer changed it since: read it again and decide from that (see change).
            NotFoundError: it does not exist.
        """
        metadata = body["metadata"]
        path = kind.path(metadata["name"], namespace)
        answer = self.transport.ask(
            "PUT", path, query=_write_query(False), body=body, repeatable=True, conflict_is_final=True
        )
        if answer.status == 409 and answer.unsure:
            found = self.get(kind, metadata["name"], namespace)
            wanted = {**body, "metadata": {**metadata, "resourceVersion": found["metadata"].get("resourceVersion")}}
            # The other writer may be our own try without a response.
            if holds(found, wanted):
                return found
        return self._written(answer, "PUT", path)

    def change(self, kind: Kind, name: str, edit: Callable[[Json], Json | None], namespace: str = "") -> Json:
        """Read, edit and replace an object until no other writer came in between.

        Args:
            kind: its kind.
            name: its name.
            edit: returns the wanted object, or None if nothing is to change.
            namespace: its namespace, for a namespaced kind.

        Raises:
            ConflictError: other writers change it all the time.
            NotFoundError: it does not exist.
        """
        backoff = Backoff(first_s=0.02, largest_s=1.0)
        for left in reversed(range(_CHANGE_TRIES)):
            found = self.get(kind, name, namespace)
            wanted = edit(copy.deepcopy(found))
            if wanted is None:
                return found
            try:
                return self.replace(kind, wanted, namespace)
            except ConflictError:
                if not left:
                    raise
            time.sleep(backoff.pause_s())
        raise AssertionError("unreachable: the last try returns or raises")

    def _written(self, answer: Answered, method: str, path: str) -> Json:
        if not answer.ok:
            raise error_of(answer.status, method, path, "", answer.data)
        decoded: Json = self.transport.decoded(path, answer.data.decode("utf-8", errors="replace"))
        return decoded

    def apply(self, kind: Kind, body: Json, namespace: str = "", *, dry_run: bool = False, force: bool = False) -> Json:
        """Apply an object server-side as our field manager. Unknown fields are refused.

        Args:
            kind: its kind.
            body: the fields that we own.
            namespace: its namespace, for a namespaced kind.
            dry_run: the server computes the result and stores nothing.
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
        """Patch an object. `strategy` is `merge` or `strategic`."""
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
        uid: str = "",
    ) -> bool:
        """Delete an object and return whether it existed. It does not wait until the object is gone (see wait.until).

        With `uid` another object that has taken the name is left alone.

        Raises:
            ConflictError: it exists, and cannot be deleted now.
        """
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        body |= {"gracePeriodSeconds": grace_period_s} if grace_period_s is not None else {}
        body |= {"preconditions": {"uid": uid}} if uid else {}
        path, backoff, unsure = kind.path(name, namespace), Backoff(), False
        for left in reversed(range(_CHANGE_TRIES)):
            answer = self.transport.ask("DELETE", path, body=body, timeout_s=timeout_s, conflict_is_final=True)
            unsure |= answer.unsure
            if answer.ok:
                return True
            if answer.status == 404:
                # We deleted it, if an earlier try may have been carried out.
                return unsure
            if answer.status == 409:
                # Two cases of 409: the namespace is being deleted already, or two writers met in the server.
                found = (self.find(kind, name, namespace) or {}).get("metadata")
                if not found or found.get("deletionTimestamp") or uid not in ("", found.get("uid")):
                    return True
                if left:
                    time.sleep(backoff.pause_s())
                    continue
            raise error_of(answer.status, "DELETE", path, "", answer.data)
        raise AssertionError("unreachable: the last try returns or raises")

    def watch(
        self, kind: Kind, deadline: Deadline, namespace: str = "", *, version: str = "", labels: str = ""
    ) -> Generator[tuple[str, Json], None, None]:
        """Yield (type, object) of every change until the deadline or until the server ends the watch.

        A watch that breaks, even in the middle of an event, continues after the last whole event. Bookmarks are not
        yielded. A watch without `version` begins with the existing objects (ADDED), and does so again after each break.

        Raises:
            GoneError: `version` has expired; list again.
        """
        path, tries = kind.path(namespace=namespace), Tries(self.transport.outage)
        while True:
            query: dict[str, str | int | bool] = {"watch": True, "timeoutSeconds": max(1, int(deadline.left_s))}
            query |= {key: value for key, value in (("resourceVersion", version), ("labelSelector", labels)) if value}
            query |= {"allowWatchBookmarks": True} if version else {}
            try:
                for line in self.transport.lines(path, query, "watch", deadline):
                    event, found = watch_event(line, path)
                    tries = Tries(self.transport.outage)
                    version = str(found["metadata"].get("resourceVersion") or "") if version else ""
                    if event != "BOOKMARK":
                        yield event, found
                return
            except UnreachableError as error:
                if deadline.left_s <= 0:
                    return
                if not tries.again(Fault(sent=error.sent), repeatable=True):
                    raise

    def logs(
        self, pod: str, namespace: str, *, container: str = "", tail_lines: int = 0, previous: bool = False
    ) -> str:
        """Return the log of a container, or its last `tail_lines` lines. The middle of a long log is left out."""
        query: dict[str, str | int | bool] = {"previous": previous}
        if container:
            query["container"] = container
        if tail_lines:
            query["tailLines"] = tail_lines
        path = PODS.path(pod, namespace, "log")
        return self.transport.text("GET", path, query=query, patient=False, most_bytes=_LOG_BYTES)

    def can_i(self, permission: Permission) -> AskedPermission:
        """Query whether the credentials have a permission. Retried while the server has not loaded its roles yet."""
        attributes, backoff = asdict(permission), Backoff()
        body = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        while True:
            answer = self.transport.json("POST", ACCESS_REVIEWS.path(), body=body, repeatable=True)
            status = answer.get("status") or {}
            allowed, reason = bool(status.get("allowed", False)), str(status.get("reason", ""))
            if allowed or not is_starting(reason) or not self.transport.outage.awaits_roles:
                break
            time.sleep(backoff.pause_s())
        return AskedPermission(**attributes, allowed=allowed, reason=reason)


def _identity(body: Json) -> Json:
    """Return the fields that tell our object from another with its name, such as the holder of a Lease."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    plain = {key: value for key, value in spec.items() if isinstance(value, (str, int))}
    own = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {"metadata": own, **({"spec": plain} if plain else {})}


def holds(found: Any, wanted: Any) -> bool:
    """Tell whether everything that is wanted is there. Fields that servers add do not count."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(holds(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)


def _write_query(dry_run: bool) -> dict[str, str | int | bool]:
    query: dict[str, str | int | bool] = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
    if dry_run:
        query["dryRun"] = "All"
    return query


# The permissions of the credentials, as the API server reports them.

_AT_ONCE = 8


def ask_all(cluster: Cluster, wanted: Sequence[Permission]) -> tuple[AskedPermission, ...]:
    """Query every permission (SelfSubjectAccessReview).

    Raises:
        BringupError: the API server does not answer.
    """
    return tuple(map_bounded(cluster.can_i, list(wanted), _AT_ONCE))
