# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server for snapshots, without sockets: objects by path in pages, refusals by path, and what is applied."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Answered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.transport import Transport
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, NotFoundError

Json = dict[str, Any]
UID = "6d1f0a4c-0000-4000-8000-000000000001"
VERSION = {"gitVersion": "v1.34.1", "platform": "linux/amd64", "goVersion": "go1.24.6"}
SPACES = {"/api/v1/namespaces/kube-system": {"metadata": {"name": "kube-system", "uid": UID}}, "/version": VERSION}


@dataclass
class PagedApi:
    """Answers GET of single objects and of lists; `lists` has what the server serves, by path."""

    lists: dict[str, list[Json]]
    objects: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(SPACES))
    refused: dict[str, BringupError] = field(default_factory=dict)
    pages: list[str] = field(default_factory=list)
    host: str = "https://api.example"

    def json(self, method: str, path: str, *, query: Any = None, body: Any = None, **_how: Any) -> Any:
        """Answer as the server would."""
        if path in self.refused:
            raise self.refused[path]
        if method == "PATCH":
            kept = json.loads(json.dumps(body))
            self.objects[path] = kept
            return kept
        if path in self.lists:
            start = int((query or {}).get("continue") or 0)
            size = int((query or {}).get("limit") or 500)
            rows = self.lists[path]
            token = str(start + size) if start + size < len(rows) else ""
            self.pages.append(path)
            return {"items": copy.deepcopy(rows[start : start + size]), "metadata": {"continue": token}}
        if path.endswith("/configmaps"):
            wanted = str((query or {}).get("labelSelector")).split("=")
            rows = [found for at, found in sorted(self.objects.items()) if at.startswith(f"{path}/")]
            rows = [row for row in rows if (row["metadata"].get("labels") or {}).get(wanted[0]) == wanted[-1]]
            return {"items": copy.deepcopy(rows), "metadata": {}}
        if path in self.objects:
            return copy.deepcopy(self.objects[path])
        raise NotFoundError(f"Kubernetes API get {path}", "not found.")

    def ask(self, method: str, path: str, **_how: Any) -> Answered:
        """Delete an object."""
        assert method == "DELETE"
        found = self.objects.pop(path, None)
        return Answered(404 if found is None else 200, b"{}", False)

    def close(self) -> None:
        """Nothing is open."""


def cluster_of(api: PagedApi) -> Cluster:
    """Return a cluster that speaks with it."""
    cluster = Cluster.__new__(Cluster)
    cluster.transport = cast(Transport, api)
    return cluster


def node(name: str, **labels: str) -> Json:
    """Return a GPU node as an API server does, with what moves by itself."""
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "81231",
            "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", **labels},
        },
        "spec": {
            "providerID": f"aws:///us-east-1a/i-{name}",
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": {"cpu": "192", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
            "allocatable": {"cpu": "191", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-23T01:00:00Z"}],
            "images": [{"names": ["nvcr.io/nvidia/x:1"], "sizeBytes": 1}],
            "nodeInfo": {
                "kernelVersion": "6.8.0-1028-aws",
                "osImage": "Ubuntu 24.04.2 LTS",
                "containerRuntimeVersion": "containerd://2.0.5",
                "kubeletVersion": "v1.34.1-eks-113cf36",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "bootID": "5d3c",
            },
        },
    }


def pod(name: str, owner: tuple[str, str], image: str, digest: str = "", **labels: str) -> Json:
    """Return a pod of a controller, with one container `main`."""
    status = [{"name": "main", "imageID": f"{image.partition(':')[0]}@sha256:{digest * 64}"}] if digest else []
    references = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {
        "metadata": {"name": name, "namespace": "gpu-operator", "labels": labels, "ownerReferences": references},
        "spec": {"containers": [{"name": "main", "image": image}]},
        "status": {"containerStatuses": status},
    }


def everything(nodes: list[Json], pods: list[Json]) -> PagedApi:
    """Return a server with nodes, pods, a policy with a secret in it, classes, and GPUs in ResourceSlices."""
    slices = [
        {
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": entry["metadata"]["name"],
                "pool": {"name": entry["metadata"]["name"], "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-1"}},
                        "capacity": {"memory": {"value": "80Gi"}},
                    }
                ],
            }
        }
        for entry in nodes
    ]
    env = [{"name": "NGC_API_KEY", "value": "nvapi-abcdefghijklmnopqrstuvwx"}]
    policy = {"metadata": {"name": "cluster-policy"}, "spec": {"driver": {"version": "580.95.05", "env": env}}}
    storage = {
        "metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com",
    }
    api = PagedApi(
        {
            "/api/v1/nodes": nodes,
            "/api/v1/pods": pods,
            "/apis/nvidia.com/v1/clusterpolicies": [policy],
            "/apis/storage.k8s.io/v1/storageclasses": [storage],
            "/apis/resource.k8s.io/v1/resourceslices": slices,
            "/apis/resource.k8s.io/v1/deviceclasses": [{"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}],
        }
    )
    api.objects["/apis/resource.k8s.io"] = {"versions": [{"version": "v1"}]}
    return api
