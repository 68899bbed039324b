# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the GPU operator's upgrade controller: moves nodes through the states of a driver upgrade.

Source: NVIDIA/k8s-operator-libs, pkg/upgrade (consts.go, common_manager.go, upgrade_inplace.go), and
NVIDIA/gpu-operator, controllers/upgrade_controller.go. It works if ClusterPolicy has
`driver.upgradePolicy.autoUpgrade`. A node with the skip label stays at upgrade-required; one that was cordoned when its
upgrade began stays cordoned. Beyond `maxParallelUpgrades` only nodes that are already cordoned continue. A failed node
continues by itself once its driver pod has the newest revision and is ready. There is no draining: people delete the
pods, and none is evicted here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    NODES,
    PODS,
)

from .cluster_facts import (
    DELETE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    annotations_of,
    is_deleted,
    is_true,
    labels_of,
)

MANAGER = "gpu-operator"
DRIVER = "nvidia-driver-daemonset"
_PREFIX = "nvidia.com/gpu-driver-upgrade"
_STATE, _SKIP = f"{_PREFIX}-state", f"{_PREFIX}.skip"
_INITIAL = f"{_PREFIX}.node-initial-state.unschedulable"
# Next state when there is nothing to wait for.
_NEXT = {
    "cordon-required": "wait-for-jobs-required",
    "wait-for-jobs-required": "pod-deletion-required",
    "pod-deletion-required": "drain-required",
    "drain-required": "pod-restart-required",
}
_IN_PROGRESS = (*_NEXT, "pod-restart-required", "validation-required", "uncordon-required", "upgrade-failed")


def upgrade_policy(policy: Json) -> Json:
    """Return the upgrade policy of a ClusterPolicy, empty if upgrades are manual."""
    found: Json = ((policy.get("spec") or {}).get("driver") or {}).get("upgradePolicy") or {}
    return found if found.get("autoUpgrade") else {}


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the next step of every node with a driver pod."""
    policy = next((upgrade_policy(item) for item in view.all(CLUSTER_POLICIES)), {})
    sets = {item["metadata"]["uid"]: item for item in view.all(DAEMON_SETS) if item["metadata"]["name"] == DRIVER}
    if not policy or not sets:
        return []
    pods = {}
    for pod in view.all(PODS):
        owner = next((entry["uid"] for entry in pod["metadata"].get("ownerReferences") or []), "")
        if owner in sets and pod["spec"].get("nodeName"):
            pods[pod["spec"]["nodeName"]] = (pod, sets[owner])
    nodes = {name: node for name in pods if (node := view.find(NODES, name)) is not None}
    busy = sum(labels_of(node).get(_STATE) in _IN_PROGRESS for node in nodes.values())
    free = max(0, int(policy.get("maxParallelUpgrades", 1)) - busy)
    changes: list[Change] = []
    for name in sorted(nodes):
        failing = bool(facts.nodes[name].pod_faults.get(DRIVER)) if name in facts.nodes else False
        step = list(_step(nodes[name], *pods[name], failing=failing, free=free > 0))
        free -= labels_of(nodes[name]).get(_STATE) == "upgrade-required" and bool(step)
        changes += step
    return changes


def _step(node: Json, pod: Json, daemon_set: Json, *, failing: bool, free: bool) -> Iterable[Change]:
    state, cordoned = labels_of(node).get(_STATE, ""), bool(node["spec"].get("unschedulable"))
    newest = _generation(pod) == _wanted_generation(daemon_set)
    if state in ("", "upgrade-done"):
        if not newest:
            yield _to(node, "upgrade-required", {_INITIAL: "true"} if cordoned else {})
        elif not state:
            yield _to(node, "upgrade-done")
    elif state == "upgrade-required":
        if labels_of(node).get(_SKIP) != "true" and (free or cordoned):
            yield _to(node, "cordon-required")
    elif state in _NEXT:
        yield _to(node, _NEXT[state], cordon=True if state == "cordon-required" else None)
    elif state in ("pod-restart-required", "upgrade-failed"):
        yield from _restart(node, pod, state, newest=newest, failing=failing)
    elif state == "validation-required":
        stays = annotations_of(node).get(_INITIAL) == "true"
        yield _to(node, "upgrade-done", {_INITIAL: None}) if stays else _to(node, "uncordon-required")
    elif state == "uncordon-required":
        yield _to(node, "upgrade-done", cordon=False)


def _restart(node: Json, pod: Json, state: str, *, newest: bool, failing: bool) -> Iterable[Change]:
    if newest and not failing and is_true(pod, "Ready") and not is_deleted(pod):
        yield _to(node, "validation-required")
    elif state == "pod-restart-required" and not newest and not is_deleted(pod):
        yield Change(MANAGER, DELETE, PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
    elif state == "pod-restart-required" and newest and failing:
        yield _to(node, "upgrade-failed")


def _generation(pod: Json) -> str:
    return labels_of(pod).get("pod-template-generation", "")


def _wanted_generation(daemon_set: Json) -> str:
    return annotations_of(daemon_set).get("deprecated.daemonset.template.generation", "")


def _to(node: Json, state: str, annotations: Json | None = None, *, cordon: bool | None = None) -> Change:
    body: Json = {"metadata": {"labels": {_STATE: state}}}
    if annotations:
        body["metadata"]["annotations"] = annotations
    if cordon is not None:
        body["spec"] = {"unschedulable": cordon or None}
    return Change(MANAGER, MERGE, NODES, node["metadata"]["name"], body=body)
