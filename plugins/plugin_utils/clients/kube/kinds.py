# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kinds of objects we speak about, and the paths under which the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ...outcome.errors import InputError


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: `api_version` (`v1`, `apps/v1`), `kind`, `plural`, and whether it lives in a namespace."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """API group, empty for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """How messages name it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of one object, or of a part of one.

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
    """Return the kind if we know it without asking the server."""
    return _KNOWN.get((api_version, kind))
