# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What clusters and controllers do with what a chart rendered; each answers why it does not work, or nothing.

Schedulers, admission and operators of which a rehearsal has no stand-in, or one that a test cannot ask without a
cluster. Each function names its public source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Json = Mapping[str, Any]
_CRITICAL = ("system-node-critical", "system-cluster-critical")
# volcano-sh/volcano, README.md (Kubernetes compatibility): the newest Kubernetes that a release is tested with.
VOLCANO_ENDS = {"1.13": 33, "1.14": 34, "1.15": 35}


def unplaced(pod: Json, labels: Mapping[str, str], taints: Iterable[Json] = ()) -> str:
    """Return what kube-scheduler says of a pod on the only node there is (docs: assign pods to nodes, taints)."""
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return "node(s) didn't match Pod's node affinity/selector"
    terms = (((pod.get("affinity") or {}).get("nodeAffinity") or {})
             .get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")  # fmt: skip
    if terms and not any(all(_matches(one, labels) for one in term["matchExpressions"]) for term in terms):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in taints:
        if not any(_tolerates(one, taint) for one in pod.get("tolerations") or ()):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    return ""


def _matches(expression: Json, labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) is (operator == "Exists")
    return (labels.get(key) in expression["values"]) is (operator == "In")


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("key", taint["key"]) != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value") == taint.get("value")


def refused_by_google(pod: Json, quotas: Iterable[Json]) -> str:
    """Return what GKE says of a pod of a namespace with these quotas (docs of the GPU operator, Google GKE)."""
    name = pod.get("priorityClassName")
    if name not in _CRITICAL:
        return ""
    for quota in quotas:
        for one in quota["spec"].get("scopeSelector", {}).get("matchExpressions", ()):
            if one["scopeName"] == "PriorityClass" and name in one.get("values", ()):
                return ""
    return f"insufficient quota to match these scopes: [{{PriorityClass In {list(_CRITICAL)}}}]"


def refused_by_openshift(pod: Json) -> str:
    """Return what restricted-v2 says of a pod: user and group are of the namespace's range (docs.okd.io: SCC)."""
    group = (pod.get("securityContext") or {}).get("fsGroup")
    if group is not None:
        return (
            f"provider restricted-v2: .spec.securityContext.fsGroup: Invalid value: [{group}] is not an allowed group"
        )
    for entry in pod["containers"]:
        user = (entry.get("securityContext") or {}).get("runAsUser")
        if user is not None:
            return f"provider restricted-v2: .containers[0].runAsUser: Invalid value: {user}: must be in the ranges"
    return ""


def left_untainted(skyhook: Json, labels_of_a_new_node: Mapping[str, str]) -> str:
    """Return why a new node takes pods before it is tuned (NVIDIA/nodewright, operator: getAutoTaintNodes)."""
    spec = skyhook["spec"]
    if not (spec.get("runtimeRequired") and spec.get("autoTaintNewNodes")):
        return "autoTaintNewNodes does nothing without runtimeRequired"
    wanted = spec["nodeSelectors"]["matchLabels"]
    if any(labels_of_a_new_node.get(key) != value for key, value in wanted.items()):
        return f"a new node has none of {sorted(wanted)} yet"
    return ""


def devices_for_pods(policies: Iterable[Json]) -> list[str]:
    """Return the resources that the network operator's plugins offer (Mellanox/network-operator, NicClusterPolicy)."""
    found = []
    for policy in policies:
        plugin = (policy.get("spec") or {}).get("rdmaSharedDevicePlugin")
        for entry in json.loads(plugin["config"])["configList"] if plugin else ():
            found.append(f"rdma/{entry['resourceName']}")
    return found


def loaded_by_nobody(policy: Json) -> list[str]:
    """Return the modules that a policy asks for and no pod loads.

    Both are containers of the driver's DaemonSet (NVIDIA/gpu-operator, assets/state-driver/0500_daemonset.yaml).
    """
    spec = policy["spec"]
    if spec["driver"].get("enabled", True):
        return []
    asked = {"gdrcopy": spec.get("gdrcopy"), "driver.rdma": spec["driver"].get("rdma")}
    return sorted(name for name, section in asked.items() if (section or {}).get("enabled"))


def unknown_fields(value: Any, schema: Any, path: str = "") -> list[str]:
    """Return the fields of an object that its definition lacks: the API server drops them."""
    if isinstance(value, list):
        return [found for entry in value for found in unknown_fields(entry, schema.get("items") or {}, f"{path}[]")]
    known = schema.get("properties")
    if not isinstance(value, dict) or known is None:
        return []
    found = []
    for key, below in value.items():
        where = f"{path}.{key}" if path else key
        found += unknown_fields(below, known[key], where) if key in known else [where]
    return found
