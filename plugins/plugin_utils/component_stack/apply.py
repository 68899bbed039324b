# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads and applies the manifests of components by server-side apply, with our labels. Unmanaged objects stay."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ConflictError, UnreachableError
from ..clients.kube.objects import NAMESPACES
from ..outcome.errors import BringupError, NotFoundError
from ..runtime.clock import Deadline
from ..runtime.progress import Emit
from .manifest import COMPONENT_ANNOTATION, Json, Manifest
from .model import DIGEST_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Component

# The server may take a moment to know a kind or a webhook that a chart has just installed.
_SERVED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestState:
    """The objects of a component's manifests in the cluster, by title: unchanged, missing, outdated, and unmanaged."""

    same: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[str, ...]:
        """Manifests to apply."""
        return (*self.absent, *self.different)


def manifest_state(cluster: Cluster, component: Component) -> ManifestState:
    """Compare a component's manifests with the cluster."""
    found: dict[str, list[str]] = {"same": [], "absent": [], "different": [], "foreign": []}
    for manifest in component.manifests:
        found[_standing(_live(cluster, component, manifest), manifest)].append(manifest.title)
    return ManifestState(**{name: tuple(titles) for name, titles in found.items()})


def _live(cluster: Cluster, component: Component, manifest: Manifest) -> Json | None:
    try:
        kind = cluster.kind(manifest.body["apiVersion"], manifest.body["kind"])
    except NotFoundError:
        return None
    namespace = _namespace(component, manifest) if kind.namespaced else ""
    return cluster.find(kind, manifest.body["metadata"]["name"], namespace)


def _standing(live: Json | None, manifest: Manifest) -> str:
    if live is None:
        return "absent"
    labels = live["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY_LABEL) != MANAGED_BY:
        return "foreign"
    return "same" if labels.get(DIGEST_LABEL) == manifest.digest else "different"


def own_manifests(cluster: Cluster, component: Component) -> tuple[Manifest, ...]:
    """Return the manifests of a component whose objects exist and are ours."""
    return tuple(
        manifest
        for manifest in component.manifests
        if _standing(_live(cluster, component, manifest), manifest) in ("same", "different")
    )


def _namespace(component: Component, manifest: Manifest) -> str:
    return str(manifest.body["metadata"].get("namespace") or component.namespace)


def labelled(component: Component, manifest: Manifest) -> Json:
    """Return the object as it is applied: with our labels and the annotation of its component."""
    metadata = manifest.body["metadata"]
    labels = {**(metadata.get("labels") or {}), MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: manifest.digest}
    annotations = {**(metadata.get("annotations") or {}), COMPONENT_ANNOTATION: component.release}
    return {**manifest.body, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def apply_manifests(
    cluster: Cluster, component: Component, manifests: Collection[Manifest], emit: Emit, *, take_over: bool
) -> None:
    """Apply manifests in order. Objects of others are left alone unless they may be taken over.

    Raises:
        BringupError: the server refuses one, or does not know its kind after a minute.
    """
    deadline = Deadline.after(_SERVED_S)
    for manifest in manifests:
        live = _live(cluster, component, manifest)
        foreign = _standing(live, manifest) == "foreign"
        if foreign and not take_over:
            emit(f"{component.name}: {manifest.title} was made by somebody else and is left alone")
            continue
        if live is None:
            _make_namespace(cluster, component, manifest)
        while True:
            try:
                # Fields of our objects are restored, whichever manager wrote them last.
                _apply(cluster, component, manifest, force=take_over or (live is not None and not foreign))
                break
            except BringupError as error:
                passing = isinstance(error, NotFoundError) or "webhook" in error.reason
                if not passing or deadline.left_s <= 0:
                    raise
                time.sleep(1.0)


def _apply(cluster: Cluster, component: Component, manifest: Manifest, *, force: bool, dry_run: bool = False) -> Json:
    kind = cluster.kind(manifest.body["apiVersion"], manifest.body["kind"])
    namespace = _namespace(component, manifest) if kind.namespaced else ""
    return cluster.apply(kind, labelled(component, manifest), namespace, dry_run=dry_run, force=force)


def applied_again(cluster: Cluster, component: Component, manifest: Manifest) -> tuple[Json, Json | None] | None:
    """Return an object as it is, and as it would be if it were applied again.

    The result is None if the comparison means nothing: the object does not exist, is not ours, or is to be applied
    anyway because its file has changed. The second object is None if the server cannot compute it: this user may not
    apply it, or a webhook does not support a dry run.

    Raises:
        UnreachableError: the API server does not answer.
    """
    live = _live(cluster, component, manifest)
    if live is None or _standing(live, manifest) != "same":
        return None
    try:
        return live, _apply(cluster, component, manifest, force=True, dry_run=True)
    except UnreachableError:
        raise
    except BringupError:
        return live, None


def _make_namespace(cluster: Cluster, component: Component, manifest: Manifest) -> None:
    """Create the namespace of an object, as helm does for a chart. It gets no label, because it is not ours."""
    name = _namespace(component, manifest)
    if manifest.body["kind"] == "Namespace" or cluster.find(NAMESPACES, name) is not None:
        return
    try:
        cluster.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except ConflictError:
        # Another client created it first.
        return


def preview_manifests(cluster: Cluster, component: Component, *, take_over: bool) -> bool:
    """Let the server compute what would be applied. Return whether it could for all manifests.

    Raises:
        BringupError: the server refuses one.
    """
    complete = True
    for manifest in component.manifests:
        standing = _standing(_live(cluster, component, manifest), manifest)
        if standing == "same" or (standing == "foreign" and not take_over):
            continue
        try:
            _apply(cluster, component, manifest, force=take_over or standing == "different", dry_run=True)
        except NotFoundError:
            # Its namespace or its kind is created by what is installed before it.
            complete = False
    return complete
