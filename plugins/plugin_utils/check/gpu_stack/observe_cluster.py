# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the cluster: permissions first, then nodes, components, policies, operands and DRA slices."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...clients.helm.helm import Helm, Release
from ...clients.kube.api_versions import dra_kinds
from ...clients.kube.cluster import Cluster, ask_all
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import CLUSTER_POLICIES, NIC_CLUSTER_POLICIES, NODES, PODS, Cleaner
from ...clients.kube.permission import AskedPermission, Permission
from ...component_stack.api_services import API_SERVICES, api_workload
from ...component_stack.facts import stack_facts
from ...component_stack.installation import Installed
from ...component_stack.model import INSTALL_RESULT, Component, components_of
from ...component_stack.promised import Promised, broken_promise, promised_by, promised_by_text
from ...component_stack.read import installed, read_workloads
from ...component_stack.workloads import ReadinessWatch, Workload, unsteady_nodes
from ...outcome.codec import from_plain, load_json
from ...outcome.errors import BringupError, InputError
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ...runtime.redaction import redact
from ...site.model import Site
from ..rights import LEVELS, choices_of, needed_permissions
from ..spec import ObserveContext, Observer
from .cluster_state import ClusterState, ComponentState, OperandState
from .kube_objects import node_state, operand_states, policy_state, slice_state
from .rdma_promise import nodes_without_adapters
from .roots import is_dra_only, is_unplaced
from .settings import GATE, GpuStackSettings

# The last log lines of failing pods: the line with the cause is in their log, not in their status.

Json = dict[str, Any]
_PODS, _LINES, _LENGTH = 8, 25, 4000


def with_last_words(cluster: Cluster, state: ClusterState) -> ClusterState:
    """Return the state with the last log lines of the pods that keep workloads from being ready.

    This is done for a few workloads at most.
    """
    broken = [workload for workload in state.workloads or () if workload.state != "ready" and workload.pod]
    broken = sorted(broken, key=lambda workload: workload.state != "failed")[:_PODS]
    reported = {_key(workload): replace(workload, said=_words(cluster, workload)) for workload in broken}
    if not reported:
        return state
    workloads = tuple(reported.get(_key(workload), workload) for workload in state.workloads or ())
    operands = tuple(
        replace(operand, workload=reported.get(_key(operand.workload), operand.workload))
        for operand in state.operands or ()
    )
    return replace(state, workloads=workloads, operands=operands)


def _key(workload: Workload) -> tuple[str, str, str]:
    return workload.kind, workload.namespace, workload.name


def _words(cluster: Cluster, workload: Workload) -> str:
    try:
        pod = cluster.find_listed(PODS, workload.pod, workload.namespace)
    except BringupError:
        return ""
    texts = []
    for container, previous in speakers(pod or {}):
        try:
            texts.append(
                cluster.logs(
                    workload.pod, workload.namespace, container=container, tail_lines=_LINES, previous=previous
                )
            )
        except BringupError:
            # A container that never started has no log, and without the permission to read logs the status is still
            # known.
            continue
    return redact("\n".join(texts))[-_LENGTH:]


def speakers(pod: Json) -> list[tuple[str, bool]]:
    """Return the containers of a pod whose log may explain why it is not ready.

    True: read the previous container's log.
    """
    status = pod.get("status") or {}
    found = []
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        if container.get("ready") or (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        restarted = bool((container.get("lastState") or {}).get("terminated"))
        if restarted or "running" in state or "terminated" in state:
            found.append((str(container.get("name", "")), restarted))
    return found


_PULL_GRACE_S = 30.0
# The workloads of a release's revision, or why they could not be read. A manifest is read once, not at every poll.
Promises = dict[tuple[str, int], tuple[tuple[Promised, ...] | None, str]]


def observe(context: ObserveContext) -> ClusterState:
    """Poll until what was installed has settled and has been ready for `stays_ready_s` (settings of gpu_stack).

    It waits for `settle_s` seconds at most for readiness, and for twice `stays_ready_s` more until that has lasted: one
    interruption restarts the window. A run in check mode has installed nothing and observes once.

    Raises:
        InputError: no recipe is resolved.
        BringupError: the API server or helm does not respond.
    """
    if context.recipe is None:
        raise InputError("recipe", "none is resolved.", "resolve it before the gate runs (role gpu_stack does)")
    connection = connection_from(context.connections)
    settings = context.settings_of(GATE, GpuStackSettings)
    settle_s = 0.0 if context.check_mode else settings.settle_s
    deadline = Deadline.after(settle_s)
    lasting = Deadline.after(0.0 if context.check_mode else settle_s + 2 * settings.stays_ready_s)
    components = components_of(context.recipe)
    with Cluster(connection) as cluster:
        permissions = ask_all(cluster, _wanted(context))
        if not all(permission.allowed for permission in permissions):
            return ClusterState(version=cluster.version(), permissions=permissions, permissions_asked=len(permissions))
        progress = Progress(context.emit)
        helm = Helm(connection, binary=_installed_by(context).get("helm") or "helm")
        looks = Looks(helm, components, permissions)
        while True:
            state = _look(cluster, context, looks)
            open_points = (
                unsettled(state, context) if deadline.left_s > 0 else "",
                _not_lasting(state, settings.stays_ready_s) if lasting.left_s > 0 else "",
            )
            if not any(open_points):
                return with_last_words(cluster, state)
            progress.tick(f"cluster not settled yet: {next(filter(None, open_points))}")
            time.sleep(min(1.0, max(deadline.left_s, lasting.left_s)))


def _wanted(context: ObserveContext) -> tuple[Permission, ...]:
    """Return the permissions for what the gate observes and tests. In check mode it does not test."""
    choices = choices_of(context.site, context.recipe, context.hardware, context.saved_settings)
    return needed_permissions((GATE,), LEVELS[: 1 if context.check_mode else 2], choices)


@dataclass(frozen=True, slots=True)
class Looks:
    """What all polls have in common: clients, components, and what earlier polls found."""

    helm: Helm
    components: tuple[Component, ...]
    permissions: tuple[AskedPermission, ...]
    promises: Promises = field(default_factory=dict)
    watch: ReadinessWatch = field(default_factory=ReadinessWatch)
    cleaner: Cleaner = field(default_factory=Cleaner)


def _look(cluster: Cluster, context: ObserveContext, looks: Looks) -> ClusterState:
    components, permissions = looks.components, looks.permissions
    found = installed(looks.helm, cluster, components)
    results, used, by_hand = _install_results(context), _used(context), _by_hand(context)
    states = tuple(
        replace(
            _component(component, found, results, looks.helm, looks.promises, used.get(component.name)),
            by_hand=by_hand.get(component.name, ()),
        )
        for component in components
    )
    namespaces = {name for component in components for name in component.namespaces}
    namespaces |= {state.release.partition("/")[0] for state in states if state.release}
    namespaces |= {title.partition(" ")[2].partition("/")[0] for state in states for title in state.used}
    # A chart may put a workload into another namespace than its own.
    namespaces |= {entry.namespace for state in states for entry in state.promised or ()}
    nodes = cluster.list_objects(NODES)
    unsteady = _unsteady(nodes, cluster, context)
    now = cluster.transport.now()
    apis = (api_workload(item, now) for item in cluster.find_all(API_SERVICES) or ())
    workloads = (
        *read_workloads(cluster, namespaces, _PULL_GRACE_S, looks.watch, unsteady),
        # APIServices that belong to no release are not part of the recipe.
        *(entry for entry in apis if entry is not None and entry.release),
    )
    policies = cluster.find_all(CLUSTER_POLICIES)
    nic_policies = cluster.find_all(NIC_CLUSTER_POLICIES)
    kinds = dra_kinds(cluster)
    slices = cluster.find_all(kinds.slices) if kinds else None
    classes = cluster.find_all(kinds.classes) if kinds else None
    return ClusterState(
        version=cluster.version(),
        permissions=permissions,
        permissions_asked=len(permissions),
        nodes=tuple(node_state(node, looks.cleaner) for node in nodes),
        components=states,
        workloads=workloads,
        cluster_policies=None if policies is None else tuple(map(policy_state, policies)),
        nic_cluster_policies=None if nic_policies is None else tuple(map(policy_state, nic_policies)),
        operands=operand_states(workloads, stack_facts().operands),
        device_classes=None if classes is None else tuple(sorted(c["metadata"]["name"] for c in classes)),
        slices=None if slices is None else tuple(map(slice_state, slices)),
    )


def _unsteady(nodes: list[dict[str, Any]], cluster: Cluster, context: ObserveContext) -> frozenset[str]:
    """Return the nodes outside the inventory that are just being added or removed.

    A fleet with autoscaling always has some.

    Hosts of the site are never left out: one that restarts all the time must be judged.
    """
    wanted_s = context.settings_of(GATE, GpuStackSettings).stays_ready_s
    hosts = {host.node_name for host in context.site.hosts}
    return unsteady_nodes(nodes, cluster.transport.now(), wanted_s) - hosts


def _install_results(context: ObserveContext) -> dict[str, dict[str, Any]]:
    """Return the installer's result of this run by component. Empty: it did not run."""
    return {entry["component"]: entry for entry in _installed_by(context).get("results", [])}


def _used(context: ObserveContext) -> dict[str, dict[str, Any]]:
    """Return the plan's steps for components in whose place this run uses what others installed."""
    steps = (_installed_by(context).get("plan") or {}).get("steps") or ()
    return {step["component"]: step for step in steps if step.get("owner")}


def _by_hand(context: ObserveContext) -> dict[str, tuple[str, ...]]:
    """Return by component what was changed by hand, if the run only planned. An installing run reverts it."""
    found = _installed_by(context)
    steps = () if found.get("results") else (found.get("plan") or {}).get("steps") or ()
    return {step["component"]: tuple(step["by_hand"]) for step in steps if step.get("by_hand")}


def _installed_by(context: ObserveContext) -> dict[str, Any]:
    path = context.run_dir / INSTALL_RESULT
    return load_json(path) if path.is_file() else {}


def _component(
    component: Component,
    state: Installed,
    results: dict[str, dict[str, Any]],
    helm: Helm,
    promises: Promises,
    used: dict[str, Any] | None,
) -> ComponentState:
    reported = results.get(component.name, {})
    chart = component.chart.rpartition("/")[2]
    release = state.releases.get(used["found_release"] if used else component.release)
    if used and release is None:
        return _in_its_place(component, used, reported)
    # An unmanaged release of the same chart under another name serves as well.
    release = release or next((entry for entry in state.releases.values() if entry.chart == chart), None)
    key = f"{release.namespace}/{release.name}" if release else ""
    promised, unread = _promised(component, release, helm, promises)
    return ComponentState(
        name=component.name,
        release=key,
        status=release.status if release else "",
        version=release.chart_version if release else "",
        ours=state.is_ours(key),
        owner=used["owner"] if used else "",
        used=tuple(used["workloads"]) if used else (),
        promised=promised,
        unread=unread,
        installing=str(reported.get("state", "")),
        installing_cause=str(reported.get("cause", "")),
        installing_reason=str(reported.get("reason", "")),
        installing_hint=str(reported.get("hint", "")),
    )


def _in_its_place(component: Component, used: dict[str, Any], reported: dict[str, Any]) -> ComponentState:
    """Return a component in whose place something is used that is no helm release."""
    titles = (title.partition(" ") for title in used["workloads"])
    places = ((kind, *place.partition("/")[::2]) for kind, _space, place in titles)
    return ComponentState(
        name=component.name,
        status="deployed",
        version=str(used["found_version"]),
        owner=used["owner"],
        used=tuple(used["workloads"]),
        promised=tuple(Promised(kind=kind, namespace=namespace, name=name) for kind, namespace, name in places),
        installing=str(reported.get("state", "")),
        installing_reason=str(reported.get("reason", "")),
    )


def _promised(
    component: Component, release: Release | None, helm: Helm, promises: Promises
) -> tuple[tuple[Promised, ...] | None, str]:
    """Return the workloads in chart and manifests of a component. None: not known, with the reason."""
    if release is None:
        return None, ""
    key = f"{release.namespace}/{release.name}", release.revision
    if key not in promises:
        try:
            by_chart = (
                promised_by_text(helm.manifest(release.name, release.namespace), release.namespace)
                if component.has_chart
                else ()
            )
            own = promised_by((manifest.body for manifest in component.manifests), component.namespace)
            promises[key] = (*by_chart, *own), ""
        except BringupError as error:
            promises[key] = None, f"{error.subject}: {error.reason}"
    return promises[key]


def unsettled(state: ClusterState, context: ObserveContext) -> str:
    """Return what is still about to change in a healthy cluster. Empty: nothing."""
    pending = [workload.name for workload in state.workloads or () if workload.state == "pending"]
    lacking = (broken_promise(component.promised or (), state.workloads or ()) for component in state.components or ())
    # What an operator creates may take a moment. What Helm created and is gone does not come back by itself.
    pending += [b.entry.name for b in lacking if b and b.entry.kind == "StatefulSet" and b.cause == "workload-missing"]
    pending += [operand.workload.name for operand in state.operands or () if is_unplaced(operand)]
    if pending:
        return f"{', '.join(pending[:3])} not ready"
    # The operator counts every node, so its policy is ready only at moments when no node has just been added.
    if any(operand.workload.left_out for operand in state.operands or ()):
        waiting = [policy.name for policy in state.cluster_policies or () if policy.state == "notReady"]
        if waiting:
            return f"ClusterPolicy {waiting[0]} is not ready"
    by_claims = is_dra_only(context)
    bare = [
        node
        for node in (state.node(host.node_name) for host in context.site.in_scope)
        if node is None or not (node.ready == "True" and (by_claims or node.gpus))
    ]
    published = {entry.node for entry in state.slices or () if entry.gpus or not by_claims}
    hidden = [host.node_name for host in context.site.in_scope if host.node_name not in published]
    if bare:
        return f"{len(bare)} node(s) without allocatable GPUs"
    bare_of_adapters = nodes_without_adapters(state, context)
    if bare_of_adapters:
        return f"{len(bare_of_adapters)} node(s) do not offer their network adapters"
    wants_slices = state.component(stack_facts().dra.component) is not None
    return f"{len(hidden)} node(s) without DRA slices" if hidden and wants_slices else ""


def _not_lasting(state: ClusterState, wanted_s: float) -> str:
    """Return what is ready but not for long enough, or lost its readiness and may return. Empty: nothing."""
    for entry in state.own_workloads():
        if entry.state == "pending" and entry.losses:
            return f"{entry.name} lost its readiness"
        if entry.state == "ready" and entry.ready_for_s is not None and entry.ready_for_s < wanted_s:
            return f"{entry.name} has been ready for {entry.ready_for_s:.0f} of {wanted_s:.0f} s"
    return ""


def restore(data: Any, _run_dir: Path, _site: Site) -> ClusterState:
    """Return what was observed.

    Raises:
        InputError: it is not complete: a permission, or an operand that is a workload, is missing; or a workload is
            recorded as ready with too few pods, a DaemonSet also with too many.
    """
    observed, source = from_plain(ClusterState, data, "observation cluster"), "observation cluster"
    if "permissions_asked" in data and len(observed.permissions) != observed.permissions_asked:
        found = f"has {len(observed.permissions)} of the {observed.permissions_asked} permissions that were asked for."
        raise InputError(source, found, "run the gate again")
    again = operand_states(observed.workloads or (), stack_facts().operands)
    if _progress_of(observed.operands or ()) != _progress_of(again):
        raise InputError(source, "its operands are not those among its workloads.", "run the gate again")
    # A Deployment has more pods than desired while it is rolled out or scaled down. A DaemonSet has one on each of its
    # nodes.
    others = (
        (w, w.ready < w.desired or (w.kind == "DaemonSet" and w.ready > w.desired)) for w in observed.workloads or ()
    )
    unready = next((w for w, contradicts in others if w.state == "ready" and contradicts), None)
    if unready is not None:
        found = f"calls {unready.kind} {unready.name} ready with {unready.ready} of {unready.desired} pods."
        raise InputError(source, found, "run the gate again")
    return observed


def _progress_of(operands: Iterable[OperandState]) -> set[tuple[Any, ...]]:
    entries = ((operand.title, operand.workload) for operand in operands)
    return {
        (title, w.kind, w.namespace, w.name, w.app, w.state, w.ready, w.desired, w.ready_for_s) for title, w in entries
    }


OBSERVER = Observer("cluster", ClusterState, observe, restore, saved=ClusterState)
