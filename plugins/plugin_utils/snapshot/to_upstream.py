# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Our snapshots in upstream's words, as far as it has them (see upstream.py for the source)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..recipe.dialect import RESULT_API
from .gpus import has_gpus
from .model import Host, Snapshot
from .node import Attributes, Node
from .upstream import KIND, POLICY, REHEARSAL

# Names of clouds as upstream writes them, by the scheme of a node's provider id.
PROVIDERS = {"aws": "eks", "gce": "gke", "azure": "aks", "oci": "oke"}
Json = dict[str, Any]


def to_upstream(snapshot: Snapshot, api: str = RESULT_API) -> Json:
    """Return the snapshot as the upstream tool writes it, in an API of `UPSTREAM_APIS`.

    It records one host: the first by name that has GPUs, else the first node.
    """
    read = {name: host for name, host in snapshot.hosts.items() if not host.not_read}
    hosts = sorted(read, key=lambda name: (not read[name].gpus, name))
    gpus = sorted(snapshot.nodes, key=lambda name: (not has_gpus(snapshot.nodes[name]), name))
    source = next((name for name in hosts if name in snapshot.nodes), (gpus or hosts or [""])[0])
    measurements = [_k8s(snapshot, source), _topology(snapshot)]
    if source in read:
        measurements += _of_host(read[source])
    metadata = {"timestamp": snapshot.taken, "version": snapshot.made_by, "source-node": source}
    if snapshot.rehearsal is not None:
        # Upstream's head is a map of texts (NVIDIA/aicr pkg/header/header.go); its tool asks for those it knows.
        metadata[REHEARSAL] = "true" if snapshot.rehearsal else "false"
    return {
        "kind": KIND,
        "apiVersion": api,
        "metadata": metadata,
        "measurements": [m for m in measurements if m["subtypes"]],
    }


def _measured(kind: str, subtypes: Mapping[str, Mapping[str, Any]]) -> Json:
    return {
        "type": kind,
        "subtypes": [{"subtype": name, "data": dict(data)} for name, data in subtypes.items() if data],
    }


def _k8s(snapshot: Snapshot, source: str) -> Json:
    server = snapshot.server
    said = {"version": server.version, "platform": server.platform, "goVersion": server.go_version}
    node = snapshot.nodes.get(source)
    return _measured(
        "K8s",
        {
            "server": said if server.version else {},
            "image": _images(snapshot.images),
            "policy": _policy(snapshot.policies),
            "node": _node(source, node) if node else {},
        },
    )


def _images(images: Mapping[str, Any]) -> dict[str, str]:
    """Return the tag by the last part of the name, as upstream does; of two with the same name one counts there."""
    plain = ((reference.partition("@")[0].rpartition("/")[2]) for reference in sorted(images))
    return {name: tag for name, _colon, tag in (text.partition(":") for text in plain) if tag}


def _policy(policies: Mapping[str, Attributes]) -> Attributes:
    found = [name for name in sorted(policies) if name.startswith("ClusterPolicy ")]
    return dict(policies.get(POLICY) or (policies[found[0]] if found else {}))


def _node(name: str, node: Node) -> dict[str, str]:
    runtime, _slashes, version = node.container_runtime.partition("://")
    return {
        "source-node": name,
        "provider": PROVIDERS.get(node.provider, node.provider),
        "provider-id": node.provider_id,
        "container-runtime-id": node.container_runtime,
        "container-runtime-name": runtime,
        "container-runtime-version": version,
        "kubelet-version": node.kubelet,
        "kernel-version": node.kernel,
        "operating-system": node.operating_system,
        "os-image": node.os_image,
    }


def _topology(snapshot: Snapshot) -> Json:
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    taints: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name in sorted(snapshot.nodes):
        for pair in snapshot.nodes[name].labels.items():
            labels[pair].append(name)
        for taint in snapshot.nodes[name].taints:
            word, _colon, effect = taint.rpartition(":")
            key, _equals, value = word.partition("=")
            taints[(key, value, effect)].append(name)
    values = _counted(key for key, _value in labels)
    effects = _counted(key for key, _value, _effect in taints)
    summary = {"node-count": len(snapshot.nodes), "taint-count": len(taints), "label-count": len(labels)}
    return _measured(
        "NodeTopology",
        {
            "summary": summary if snapshot.nodes else {},
            "taint": {
                (f"{key}.{effect}" if effects[key] > 1 else key): "|".join(
                    (*(() if effects[key] > 1 else (effect,)), value, ",".join(names))
                )
                for (key, value, effect), names in sorted(taints.items())
            },
            "label": {
                (f"{key}.{value}" if values[key] > 1 else key): f"{value}|{','.join(names)}"
                for (key, value), names in sorted(labels.items())
            },
        },
    )


def _counted(keys: Any) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for key in keys:
        found[key] += 1
    return found


def _of_host(host: Host) -> list[Json]:
    sysctl = {"/proc/sys/kernel/osrelease": host.kernel, **host.sysctl} if host.kernel else host.sysctl
    system: dict[str, Mapping[str, Any]] = {
        "grub": host.boot,
        "sysctl": sysctl,
        "kmod": dict.fromkeys(host.modules, True),
        "release": host.os,
    }
    smi: Json = {"driver": host.driver, "cuda-version": host.cuda, "gpu-count": host.gpu_count} if host.driver else {}
    if smi and host.gpus:
        first = host.gpus[min(host.gpus)]
        smi |= {"gpu.model": first.product, "gpu.vbios-version": first.vbios or ""}
    return [_measured("OS", system), _measured("SystemD", host.units), _measured("GPU", {"smi": smi})]
