# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a cluster for installations of components that are not ours, in six lists however many components there are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import CRDS, DAEMON_SETS, DEPLOYMENTS, SERVICES, WEBHOOK_CONFIGURATIONS, Kind
from .api_services import API_SERVICES
from .installation import Installed
from .model import Component
from .owners import Objects, existing_of, is_known, leftover_crds

Json = dict[str, Any]


def with_existing(cluster: Cluster, components: Collection[Component], found: Installed) -> Installed:
    """Return what is installed, with what others installed in place of components that are not ours.

    Nothing is asked where every component is ours.

    Raises:
        BringupError: the API server does not answer.
    """
    open_ones = [component for component in components if component.has_chart and not found.is_ours(component.release)]
    if not open_ones:
        return found
    objects = _objects(cluster)
    ours = frozenset(key for key in found.releases if found.is_ours(key))
    there = {component.name: existing_of(component.name, objects, ours) for component in open_ones}
    left = {component.name: leftover_crds(component.name, objects) for component in open_ones}
    return replace(found, existing={name: entry for name, entry in there.items() if entry}, leftovers=left)


def unserved(cluster: Cluster) -> list[tuple[Kind, str]]:
    """Return webhook configurations and APIServices of known components whose service is gone: (kind, name)."""
    return [
        (kind, str(obj["metadata"]["name"]))
        for kind in (*WEBHOOK_CONFIGURATIONS, API_SERVICES)
        for obj in cluster.list_objects(kind)
        if is_known(obj) and not _served(cluster, obj)
    ]


def _objects(cluster: Cluster) -> Objects:
    workloads = [_of(kind, obj) for kind in (DEPLOYMENTS, DAEMON_SETS) for obj in cluster.list_objects(kind)]
    registered = [
        _of(kind, obj) for kind in (*WEBHOOK_CONFIGURATIONS, API_SERVICES) for obj in cluster.list_objects(kind)
    ]
    return Objects(
        workloads=tuple(workloads),
        registered=tuple(obj for obj in registered if is_known(obj) and _served(cluster, obj)),
        crds=frozenset(str(metadata["name"]) for metadata in cluster.list_metadata(CRDS)),
    )


def _of(kind: Kind, obj: Json) -> Json:
    # Objects of a list do not say what they are.
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}


def _served(cluster: Cluster, obj: Json) -> bool:
    """Tell whether somebody answers: what is registered without its service was left behind by an uninstallation."""
    services = [(hook.get("clientConfig") or {}).get("service") for hook in obj.get("webhooks") or ()]
    services.append((obj.get("spec") or {}).get("service"))
    named = {(str(entry["name"]), str(entry["namespace"])) for entry in services if entry}
    return any(cluster.find(SERVICES, name, namespace) is not None for name, namespace in named)
