# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a cloud: the storage classes that its clusters come with, and what provides their volumes.

AKS: learn.microsoft.com/azure/aks/concepts-storage (storage classes). GKE: cloud.google.com/kubernetes-engine/docs/
concepts/persistent-volumes (StorageClasses). OKE: docs.oracle.com/iaas/Content/ContEng/Tasks/
contengcreatingpersistentvolumeclaim.htm. LKE: github.com/linode/linode-blockstorage-csi-driver, README. EKS:
docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html (gp2; since 1.30 no default): gp3 is brought
by the chart of the EBS driver.
"""

from __future__ import annotations

from looking import Looking

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind

CLASSES = {
    "aks": ("managed-csi", "managed-csi-premium", "azurefile-csi"),
    "eks": ("gp2",),
    "gke": ("standard-rwo", "premium-rwo", "standard"),
    "lke": ("linode-block-storage", "linode-block-storage-retain"),
    "oke": ("oci-bv", "oci"),
}
_MADE = {"rehearsal.gpufleet.invalid/service": "true"}
_CLASSES = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
_CLAIMS = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_VOLUMES = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)


class CloudStorage(Looking):
    """Gives every claim that names a class of the cluster a volume, as the cloud's CSI driver does."""

    called = "storage"

    def serve(self, service: str) -> None:
        """Let the cluster have exactly the classes that a service's clusters come with, beside those of charts."""
        wanted = CLASSES.get(service, ())
        for live in self._cluster.list_objects(_CLASSES):
            if (live["metadata"].get("labels") or {}).items() >= _MADE.items() and live["metadata"][
                "name"
            ] not in wanted:
                self._cluster.delete(_CLASSES, live["metadata"]["name"])
        for name in wanted:
            body = {"metadata": {"name": name, "labels": _MADE}, "provisioner": "rehearsal.gpufleet.invalid/disk"}
            self._cluster.apply(_CLASSES, body)

    def _look(self) -> None:
        classes = {entry["metadata"]["name"] for entry in self._cluster.list_objects(_CLASSES)}
        for claim in self._cluster.list_objects(_CLAIMS):
            metadata, spec = claim["metadata"], claim["spec"]
            if (claim.get("status") or {}).get("phase") == "Bound" or spec.get("storageClassName") not in classes:
                continue
            body = {
                "metadata": {"name": f"pvc-{metadata['uid']}"},
                "spec": {
                    "accessModes": spec["accessModes"],
                    "capacity": dict(spec["resources"]["requests"]),
                    "storageClassName": spec["storageClassName"],
                    "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
                    "hostPath": {"path": f"/volumes/{metadata['uid']}"},
                },
            }
            self._cluster.apply(_VOLUMES, body)
