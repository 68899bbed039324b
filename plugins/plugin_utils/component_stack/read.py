# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a cluster for the component stack: what is installed, and how ready each release is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ..clients.helm.helm import Helm, Release
from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ForbiddenError
from ..clients.kube.objects import DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, NAMESPACES, PODS, SECRETS, STATEFUL_SETS
from ..clients.kube.wait import OK, State, failed, pending
from ..outcome.errors import BringupError, NotFoundError
from .apply import ManifestState, manifest_state
from .facts import ReadyWhen
from .installation import Installed
from .model import DIGEST_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Component, Step
from .workloads import ReadinessWatch, Workload, workload_of, workload_title

# Status of a release with manifests that are missing or differ from the recipe.
INCOMPLETE = "incomplete"
WORKLOAD_KINDS = (DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS, JOBS)


def installed(
    helm: Helm, cluster: Cluster, components: Iterable[Component] = (), *, looks_only: bool = False
) -> Installed:
    """Return helm's releases with their labels, and the state of the components' manifests.

    Only the metadata of release Secrets is read, never their content.

    Args:
        helm: for the releases.
        cluster: the cluster.
        components: components whose manifests are read.
        looks_only: the caller changes nothing, so manifests without permission to read them are `unread` and no error.
    """
    releases = dict(helm.releases())
    labels: dict[str, dict[str, str]] = {}
    for metadata in cluster.list_metadata(SECRETS, labels="owner=helm"):
        found = metadata.get("labels") or {}
        key = f"{metadata['namespace']}/{found.get('name', '')}"
        # The labels of the newest revision are those of the release.
        if key in releases and str(releases[key].revision) == str(found.get("version")):
            labels[key] = found
    foreign: dict[str, tuple[str, ...]] = {}
    unread: dict[str, str] = {}
    for component in components:
        if component.manifests:
            try:
                state = manifest_state(cluster, component)
            except ForbiddenError as error:
                if not looks_only:
                    raise
                unread[component.release] = error.told
                continue
            foreign[component.release] = state.foreign
            if not component.has_chart:
                _count_as_release(component, state, releases, labels)
            elif component.release in releases and state.pending and releases[component.release].status == "deployed":
                releases[component.release] = replace(releases[component.release], status=INCOMPLETE)
    return Installed(releases=releases, labels=labels, foreign=foreign, unread=unread)


def _count_as_release(
    component: Component, state: ManifestState, releases: dict[str, Release], labels: dict[str, dict[str, str]]
) -> None:
    """Add a component without chart to the releases if any of its manifests exists.

    An unmanaged namespace does not count: the administrator who prepares a cluster creates namespaces first.
    """
    others = [title for title in state.foreign if title.partition(" ")[0] != NAMESPACES.kind]
    if not (state.same or state.different or others):
        return
    status = INCOMPLETE if state.pending else "deployed"
    releases[component.release] = Release(component.name, component.namespace, 1, status, component.chart, "")
    if state.same or state.different:
        labels[component.release] = {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: component.digest}


def read_workloads(
    cluster: Cluster,
    namespaces: Iterable[str],
    grace_s: float,
    watch: ReadinessWatch | None = None,
    unsteady: Collection[str] = (),
) -> list[Workload]:
    """Return the workloads of some namespaces with their state. `watch` has the earlier observations.

    Pods of DaemonSets on `unsteady` nodes count only where there are no others.
    """
    found: list[Workload] = []
    for namespace in sorted(set(namespaces)):
        pods = cluster.list_objects(PODS, namespace)
        # The clock that set the times of the pods.
        now = cluster.transport.now()
        warnings = cache(partial(_warnings, cluster, namespace))
        for kind in WORKLOAD_KINDS:
            objects = cluster.list_objects(kind, namespace)
            found += [workload_of(kind.kind, obj, pods, now, grace_s, watch, unsteady, warnings) for obj in objects]
    return found


def _warnings(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """Return the warning events of a namespace. Empty if they cannot be read, because they only explain."""
    try:
        return cluster.list_objects(EVENTS, namespace, fields="type=Warning")
    except BringupError:
        return []


def belongs(workload: Workload, component: Component, step: Step) -> bool:
    """Tell whether a workload belongs to the component's release, or to the installation that is used in its place."""
    if step.workloads and workload_title(workload) in step.workloads:
        return True
    return workload.release == (step.found_release or component.release)


def readiness(own: Sequence[Workload], promised: Iterable[str] = ()) -> State:
    """Return how ready a component is, by its own workloads. Without workloads it is ready.

    Args:
        own: its workloads.
        promised: workloads that must exist (`Deployment namespace/name`).
    """
    titles = {workload_title(workload) for workload in own}
    for title in promised:
        if title not in titles:
            return pending(f"{title} is gone")
    broken = [workload for workload in own if workload.state == "failed"]
    if broken:
        return failed(broken[0].cause, f"{broken[0].kind} {broken[0].name}: {broken[0].reason}")
    waiting = [workload for workload in own if workload.state == "pending"]
    if waiting:
        return pending(f"{waiting[0].kind} {waiting[0].name}: {waiting[0].reason}")
    return OK


def reported_state(cluster: Cluster, conditions: Sequence[ReadyWhen], workloads: Iterable[Workload]) -> State:
    """Return what a component's own resources report. A failed workload on the nodes shows that waiting is in vain."""
    for condition in conditions:
        objects = _objects(cluster, condition)
        values = [value for obj in objects if (value := field_of(obj, condition.field)) != (condition.ignored or None)]
        if not values and (objects or condition.required):
            return pending(f"there is no {condition.kind} {'that counts ' if objects else ''}yet")
        for value in values:
            if value != condition.value:
                return _operand_failure(workloads) or pending(f"{condition.kind} is {value or 'without state'}")
    return OK


def _operand_failure(workloads: Iterable[Workload]) -> State | None:
    broken = next((workload for workload in workloads if workload.state == "failed"), None)
    return failed(broken.cause, f"{broken.kind} {broken.name}: {broken.reason}") if broken else None


def _objects(cluster: Cluster, condition: ReadyWhen) -> list[dict[str, Any]]:
    try:
        found = cluster.list_objects(cluster.kind(condition.api_version, condition.kind))
        return [obj for obj in found if obj["metadata"]["name"].startswith(condition.name_prefix)]
    except NotFoundError:
        return []


def field_of(obj: Mapping[str, Any], path: str) -> str:
    """Return the text at a dotted path. Empty if there is none."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)
