# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer `hosts` of gate gpu_stack: if the driver is in the operator's pods, its tools are run there, one by one.

The registry prefers a gate's own observer of a key. Where the operator owns the driver, the checks of gate nodes that
need it are therefore judged here, from evidence in the same files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import DAEMON_SETS, PODS, controller_of
from ...clients.kube.streams import run_in_pod
from ...collect.host_evidence import (
    DRIVERS,
    ToolRun,
    evidence_from_exec,
    unreached,
    write_evidence,
)
from ...collect.loads import AFTER
from ...collect.tool_requests import LOADING_LEVEL, pod_tools
from ...outcome.errors import BringupError
from ...runtime.pool import map_bounded
from ...site.model import Host
from ...workload.capacity import gpu_users
from ..nodes import observe_hosts as from_evidence
from ..nodes.dcgm_diag_settings import DCGM_DIAG, DcgmDiagSettings
from ..spec import ObserveContext
from .kube_objects import DRIVER_APP

Json = dict[str, Any]
DCGM_APP = "nvidia-dcgm"
# Labels of driver pods of a ClusterPolicy, of NVIDIADriver resources, and on OpenShift, where the version of the nodes'
# operating system is at the end of their label `app` (NVIDIA/gpu-operator, controllers/upgrade_controller.go).
_LABELS = {
    DRIVER_APP: (f"app={DRIVER_APP}", "app.kubernetes.io/component=nvidia-driver", "openshift.driver-toolkit=true"),
    DCGM_APP: (f"app={DCGM_APP}",),
}
# Any user may set such a label on a pod. A pod of the operator belongs to a DaemonSet whose owner is one of these
# (controllers/object_controls.go and internal/state/state_skel.go: SetControllerReference).
_OPERATORS_KINDS = ("ClusterPolicy", "NVIDIADriver")
# The container that has the driver's tools. Others of the pod (peermem, gdrcopy) do not.
_CONTAINERS = ("nvidia-driver-ctr", "nvidia-dcgm-ctr")


def observe(context: ObserveContext) -> from_evidence.SavedHosts:
    """Run the driver's tools of every node in its pods, save their output, and return which hosts left evidence.

    Raises:
        BringupError: the API server does not respond, or no host left evidence.
    """
    return observe_at_level(context, context.settings_of(DCGM_DIAG, DcgmDiagSettings).level)


def observe_without_load(context: ObserveContext) -> from_evidence.SavedHosts:
    """Do the same without the diagnostic: nodes with running workloads must not be loaded.

    Raises:
        BringupError: the API server does not respond, or no host left evidence.
    """
    return observe_at_level(context, 0)


def observe_at_level(context: ObserveContext, level: int) -> from_evidence.SavedHosts:
    """Do the same with the diagnostic at that level; 0: without it.

    Raises:
        BringupError: the API server does not respond, or no host left evidence.
    """
    site = context.site
    settings = context.settings_of(DCGM_DIAG, DcgmDiagSettings)
    with Cluster(connection_from(context.connections)) as cluster:
        sets = _sets_of_operator(cluster)
        pods = {app: _running_by_node(cluster, app, sets) for app in _LABELS}
        found = sum(host.node_name in pods[DRIVER_APP] for host in site.in_scope)
        users = {} if settings.disturb or level < LOADING_LEVEL else gpu_users(cluster)
        at_once = settings.at_once_in_pods(len(site.in_scope))
        some = f", {at_once} nodes at a time" if len(site.in_scope) > at_once else ""
        context.emit(f"driver pods on {found} of {len(site.in_scope)} nodes; asking their tools{some}")
        map_bounded(partial(_collect, cluster, context, pods, level, users), site.in_scope, at_once)
    return from_evidence.observe(context)


def _sets_of_operator(cluster: Cluster) -> frozenset[str]:
    """Return the UIDs of the DaemonSets that the operator created, in any namespace."""
    return frozenset(
        item["metadata"]["uid"]
        for item in cluster.list_objects(DAEMON_SETS)
        if (owner := controller_of(item)).get("kind") in _OPERATORS_KINDS
        and owner.get("apiVersion", "").startswith("nvidia.com/")
    )


def _running_by_node(cluster: Cluster, app: str, sets: Collection[str]) -> dict[str, Json]:
    """Return the running pod of an operand on each node, only of these DaemonSets: nothing is run in a user's pod."""
    pods = (pod for label in _LABELS[app] for pod in cluster.list_objects(PODS, labels=label))
    running = (pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running")
    lasting = (pod for pod in running if not pod["metadata"].get("deletionTimestamp"))
    return {pod["spec"]["nodeName"]: pod for pod in lasting if controller_of(pod).get("uid") in sets}


def _collect(
    cluster: Cluster,
    context: ObserveContext,
    pods: Mapping[str, Mapping[str, Json]],
    level: int,
    users: Mapping[str, Sequence[str]],
    host: Host,
) -> None:
    driver = pods[DRIVER_APP].get(host.node_name)
    if driver is None:
        reason = f"no running pod of the operator's {DRIVER_APP} on node {host.node_name}"
        write_evidence(context.run_dir, unreached(host.name, reason), DRIVERS)
        return
    # The diagnostic needs DCGM. If the operator runs no DCGM of its own, the driver's pod may have it.
    dcgm = pods[DCGM_APP].get(host.node_name, driver)
    results: dict[str, ToolRun] = {}
    for tool, argv in pod_tools(level):
        pod = dcgm if tool.pod is not None and tool.pod.app == DCGM_APP else driver
        if tool.loads_gpus and users.get(host.node_name):
            who = ", ".join(f"pod {name}" for name in users[host.node_name][:3])
            results[tool.name] = ToolRun(argv=argv, withheld="in-use", stderr=f"in use by {who}")
            continue
        results[tool.name] = _run_tool(cluster, pod, argv, tool.timeout_s, looks=not tool.loads_gpus)
    if any(
        tool.loads_gpus and not (results[tool.name].missing or results[tool.name].withheld)
        for tool, _argv in pod_tools(level)
    ):
        for tool, argv in pod_tools():
            if tool.again:
                results[tool.name + AFTER] = _run_tool(cluster, driver, argv, tool.timeout_s, looks=True)
    write_evidence(context.run_dir, evidence_from_exec(host.name, results), DRIVERS)


def _run_tool(cluster: Cluster, pod: Json, argv: tuple[str, ...], limit_s: float, *, looks: bool) -> ToolRun:
    metadata = pod["metadata"]
    names = [entry["name"] for entry in pod["spec"]["containers"]]
    container = next((name for name in _CONTAINERS if name in names), "")
    try:
        result = run_in_pod(
            cluster,
            metadata["name"],
            metadata["namespace"],
            argv,
            limit_s,
            container=container if container in names else names[0],
            repeatable=looks,
        )
    except BringupError as error:
        return ToolRun(argv=argv, rc=None, stderr=str(error))
    missing = result.rc in (126, 127) or "executable file not found" in result.stderr
    return ToolRun(
        argv=argv,
        rc=result.rc,
        stdout=result.stdout,
        stderr=result.stderr,
        duration_s=round(result.duration_s, 3),
        timed_out=result.timed_out,
        missing=missing,
    )


# The evidence files are the same, and so are the facts. Only the access to the tools differs.
OBSERVER = replace(from_evidence.OBSERVER, observe=observe)
