# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Objects of the API server as values: their kinds and paths, conditions, owners, nodes, pods and taints. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any
from urllib.parse import quote

from ...outcome.errors import InputError
from ...runtime.redaction import MASK, is_secret_key, redact
from ...snapshot.model import Node

# The kinds of objects in use here, and the paths under which the API server has them.


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: `api_version` (`v1`, `apps/v1`), `kind`, `plural`, and whether it is namespaced."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """Its name in messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of one object, or of a subresource.

        Raises:
            InputError: an object of this kind needs a namespace and none is given.
        """
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        if self.namespaced and name and not namespace:
            raise InputError(f"{self.kind} {name}", "no namespace given, this kind lives in one.", "give the namespace")
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)
NODES = Kind("v1", "Node", "nodes", namespaced=False)
PODS = Kind("v1", "Pod", "pods")
EVENTS = Kind("v1", "Event", "events")
SECRETS = Kind("v1", "Secret", "secrets")
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
SERVICES = Kind("v1", "Service", "services")
VOLUME_CLAIMS = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNTS = Kind("v1", "ServiceAccount", "serviceaccounts")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
REPLICA_SETS = Kind("apps/v1", "ReplicaSet", "replicasets")
DAEMON_SETS = Kind("apps/v1", "DaemonSet", "daemonsets")
CONTROLLER_REVISIONS = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
STATEFUL_SETS = Kind("apps/v1", "StatefulSet", "statefulsets")
JOBS = Kind("batch/v1", "Job", "jobs")
PRIORITY_CLASSES = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
CRDS = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
DEVICE_CLASSES = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_SLICES = Kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)
RESOURCE_CLAIMS = Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
CLUSTER_POLICIES = Kind("nvidia.com/v1", "ClusterPolicy", "clusterpolicies", namespaced=False)
NVIDIA_DRIVERS = Kind("nvidia.com/v1alpha1", "NVIDIADriver", "nvidiadrivers", namespaced=False)
RUNTIME_CLASSES = Kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
NIC_CLUSTER_POLICIES = Kind("mellanox.com/v1alpha1", "NicClusterPolicy", "nicclusterpolicies", namespaced=False)
NATIVE_POD_GROUPS = Kind("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups")
VOLCANO_POD_GROUPS = Kind("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
KAI_POD_GROUPS = Kind("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups")
MPI_JOBS = Kind("kubeflow.org/v2beta1", "MPIJob", "mpijobs")
PROMETHEUS_RULES = Kind("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules")
ALERTMANAGER_CONFIGS = Kind("monitoring.coreos.com/v1alpha1", "AlertmanagerConfig", "alertmanagerconfigs")
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
VOLCANO_QUEUES = Kind("scheduling.volcano.sh/v1beta1", "Queue", "queues", namespaced=False)
KAI_QUEUES = Kind("scheduling.run.ai/v2", "Queue", "queues", namespaced=False)
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
STORAGE_CLASSES = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
ENDPOINT_SLICES = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
_ADMISSION = "admissionregistration.k8s.io/v1"
WEBHOOK_CONFIGURATIONS = (
    Kind(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False),
    Kind(_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False),
)

_KNOWN = {(kind.api_version, kind.kind): kind for kind in list(globals().values()) if isinstance(kind, Kind)}


def known_kind(api_version: str, kind: str) -> Kind | None:
    """Return a kind that is listed above. None for others."""
    return _KNOWN.get((api_version, kind))


# The conditions that an object's controller reports in its status.


def condition(item: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """Return the condition of a type (`Ready`, `Established`) as served. Empty if the object has none."""
    found = ((item or {}).get("status") or {}).get("conditions") or ()
    return next((entry for entry in found if entry.get("type") == kind), {})


def is_true(item: Mapping[str, Any] | None, kind: str) -> bool:
    """Tell whether the condition of a type exists and is True."""
    return condition(item, kind).get("status") == "True"


# The owner that created an object and creates it again: its controller.


def controller_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the owner reference of an object's controller as served. Empty if the object has none."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((dict(owner) for owner in owners if owner.get("controller")), {})


# The status of a pod.


def is_ready(pod: dict[str, Any]) -> bool:
    """Tell whether the pod's condition Ready is True, which is the result of its readiness probe."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)


# Taints of nodes as text, as kubectl prints them.


def taint_text(taint: Mapping[str, Any]) -> str:
    """Return a taint as kubectl prints it, `key=value:effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def taint_of(text: str) -> dict[str, str]:
    """Parse a text of taint_text."""
    rest, _colon, effect = text.rpartition(":")
    key, _equals, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


# Reads a node of the API server into the one value that snapshots, gates and workloads use. Pure.

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Masks what looks like a secret. Labels repeat on thousands of nodes, so each pair is checked only once."""

    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def texts(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return a mapping of texts with secrets masked and keys shared in memory."""
        known, cleaned = self._known, dict[str, str]()
        for key, value in values.items():
            pair = (key, str(value))
            found = known.get(pair)
            if found is None:
                found = known[pair] = MASK if is_secret_key(key) else redact(pair[1])
            cleaned[intern(key)] = found
        return cleaned


def read_node(obj: Json, cleaner: Cleaner) -> tuple[str, Node]:
    """Return name and facts of a node."""
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    info = {key: intern(str(value)) for key, value in (status.get("nodeInfo") or {}).items()}
    return str(metadata["name"]), Node(
        provider_id=redact(str(spec.get("providerID") or "")),
        ready=str(condition(obj, "Ready").get("status") or ""),
        unschedulable=bool(spec.get("unschedulable", False)),
        labels=cleaner.texts(metadata.get("labels") or {}),
        taints=tuple(sorted(intern(taint_text(taint)) for taint in spec.get("taints") or ())),
        capacity=cleaner.texts(status.get("capacity") or {}),
        allocatable=cleaner.texts(status.get("allocatable") or {}),
        kubelet=info.get("kubeletVersion", ""),
        container_runtime=info.get("containerRuntimeVersion", ""),
        kernel=info.get("kernelVersion", ""),
        os_image=info.get("osImage", ""),
        operating_system=info.get("operatingSystem", ""),
        architecture=info.get("architecture", ""),
    )


# Annotation of the namespace kube-system, whose UID identifies the cluster: the cluster belongs to a rehearsal.
MARK = "gpufleet.io/rehearsal"
