# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GKE cluster refuses: pods of system priority outside kube-system, where no quota of the namespace admits them.

docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html has the quota to be made first;
kubernetes.io/docs/concepts/policy/resource-quotas (limit Priority Class consumption by default) what the API server is
configured with. Here a policy with quotas as its parameters says the same, for one cluster is used for all services.
"""

from __future__ import annotations

from typing import Any

from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError

NAME = "critical-pods.rehearsal.gpufleet.invalid"
_GROUP = "admissionregistration.k8s.io/v1"
_POLICIES = Kind(_GROUP, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
_BINDINGS = Kind(_GROUP, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False)
_MARK = "rehearsal.gpufleet.invalid/critical"
_MUTATIONS = Kind(_GROUP, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", namespaced=False)
_MUTATED = Kind(_GROUP, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", namespaced=False)
_CRITICAL = (
    "has(object.spec.priorityClassName) && object.spec.priorityClassName in"
    " ['system-node-critical', 'system-cluster-critical']"
)
_ADMITTED = (
    "has(params.spec.scopeSelector) && params.spec.scopeSelector.matchExpressions.exists(e,"
    " e.scopeName == 'PriorityClass' && (e.operator == 'Exists' ||"
    " (e.operator == 'In' && has(e.values) && object.spec.priorityClassName in e.values)))"
)
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def admit_as(cluster: Cluster, service: str) -> None:
    """Let the cluster refuse such pods on GKE, and admit them elsewhere."""
    if service != "gke":
        if cluster.find(_POLICIES, NAME) is not None:
            for kind in (_BINDINGS, _POLICIES, _MUTATED, _MUTATIONS):
                cluster.delete(kind, NAME)
            eventually(lambda: not _is_refused(cluster), what="critical pods to be admitted")
        return
    for kind, spec in ((_MUTATIONS, _marking()), (_POLICIES, _refusing())):
        cluster.apply(kind, {"metadata": {"name": NAME}, "spec": spec})
    cluster.apply(_MUTATED, {"metadata": {"name": NAME}, "spec": {"policyName": NAME}})
    bound = {"policyName": NAME, "validationActions": ["Deny"]}
    params = {"selector": {}, "parameterNotFoundAction": "Deny"}
    cluster.apply(_BINDINGS, {"metadata": {"name": NAME}, "spec": {**bound, "paramRef": params}})
    # The server looks at its policies a moment after they are written.
    eventually(lambda: _is_refused(cluster), what="critical pods to be refused where no quota is")


def _is_refused(cluster: Cluster) -> bool:
    """Whether the server refuses a critical pod in a namespace without quotas."""
    spec = {"priorityClassName": "system-node-critical", "containers": [{"name": "critical", "image": "critical"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "critical"}, "spec": spec}
    try:
        cluster.create(PODS, body, "default", dry_run=True)
    except BringupError as error:
        return NAME in error.reason
    return False


def _marking() -> dict[str, Any]:
    """A label on critical pods: which pods need a parameter is asked before any condition is looked at."""
    mark = f"Object{{metadata: Object.metadata{{labels: {{'{_MARK}': 'true'}}}}}}"
    return {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [_RULE]},
        "matchConditions": [{"name": "critical", "expression": _CRITICAL}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": mark}}],
    }


def _refusing() -> dict[str, Any]:
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ResourceQuota"},
        "matchConstraints": {
            "resourceRules": [_RULE],
            "objectSelector": {"matchLabels": {_MARK: "true"}},
            "namespaceSelector": {"matchExpressions": [elsewhere]},
        },
        "validations": [{"expression": _ADMITTED, "message": "no quota of the namespace has its PriorityClass"}],
    }
