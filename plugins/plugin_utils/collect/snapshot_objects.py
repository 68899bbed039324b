# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads Kubernetes objects into the parts of a snapshot: only what is needed of each is kept, redacted. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from ..clients.kube.controller import controller_of
from ..outcome.model import Scalar
from ..runtime.redaction import redact
from ..runtime.secret_keys import redact_data
from ..snapshot.model import Workload
from ..snapshot.node import Attributes

Json = dict[str, Any]
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})\Z")
# Controllers of pods that stay; pods of Jobs and of nobody come and go by themselves.
# OpenShift's DeploymentConfigs have ReplicationControllers.
_LASTING = frozenset({"DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Node"})
_TEMPLATE_HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class PodImages:
    """What one lasting pod runs: its controller's title, by container the reference, by reference the digests."""

    workload: str
    images: tuple[tuple[str, str], ...]
    digests: tuple[tuple[str, str], ...]


def read_pod(obj: Json) -> PodImages | None:
    """Return the images of a pod, None for one that does not last."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    owner = controller_of(obj)
    if owner.get("kind") not in _LASTING:
        return None
    images = tuple(
        (intern(str(c.get("name"))), intern(redact(str(c.get("image") or ""))))
        for part in ("initContainers", "containers")
        for c in spec.get(part) or ()
    )
    stated = dict(images)
    status = obj.get("status") or {}
    digests = tuple(
        (stated[c["name"]], intern(found.group(1)))
        for part in ("initContainerStatuses", "containerStatuses")
        for c in status.get(part) or ()
        if c.get("name") in stated and (found := _DIGEST.search(str(c.get("imageID") or "")))
    )
    return PodImages(intern(_workload(metadata, owner)), images, digests)


def _workload(metadata: Json, owner: Mapping[str, Any]) -> str:
    kind, name, space = str(owner["kind"]), str(owner.get("name")), metadata.get("namespace", "")
    digest = (metadata.get("labels") or {}).get(_TEMPLATE_HASH)
    if kind == "ReplicaSet" and digest and name.endswith(f"-{digest}"):
        kind, name = "Deployment", name.removesuffix(f"-{digest}")
    elif kind == "Node":
        # A static pod is called after its node.
        kind, name = "static Pod", str(metadata["name"]).removesuffix(f"-{name}")
    return f"{kind} {space}/{name}"


def workloads_of(pods: Iterable[PodImages | None]) -> tuple[dict[str, Workload], dict[str, tuple[str, ...]]]:
    """Return the workloads with all references that their pods run, and by reference all digests."""
    run: dict[str, dict[str, set[str]]] = {}
    digests: dict[str, set[str]] = {}
    for pod in pods:
        if pod is None:
            continue
        containers = run.setdefault(pod.workload, {})
        for container, image in pod.images:
            containers.setdefault(container, set()).add(image)
            digests.setdefault(image, set())
        for image, digest in pod.digests:
            digests[image].add(digest)
    workloads = {
        title: Workload(images={name: tuple(sorted(found)) for name, found in sorted(containers.items())})
        for title, containers in sorted(run.items())
    }
    return workloads, {image: tuple(sorted(found)) for image, found in sorted(digests.items())}


def read_fields(obj: Json, *parts: str) -> tuple[str, Attributes]:
    """Return name and the fields of an object below some of its parts (`spec`), by dotted path, secrets masked."""
    clean = redact_data({part: obj[part] for part in parts if part in obj})
    fields: Attributes = {}
    for part in parts:
        _flatten(clean.get(part), "" if len(parts) == 1 else part, fields)
    name = str(obj["metadata"]["name"])
    space = obj["metadata"].get("namespace")
    return f"{space}/{name}" if space else name, fields


def _flatten(value: Any, path: str, fields: dict[str, Scalar]) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(inner, f"{path}.{key}".lstrip("."), fields)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _flatten(inner, f"{path}[{number}]", fields)
    elif value is not None:
        fields[path] = value


@dataclass(frozen=True, slots=True)
class SliceDevices:
    """The devices of one ResourceSlice; `node` is empty where they belong to no single node."""

    node: str
    devices: dict[str, Attributes]
    generation: tuple[str, int]


def read_slice(obj: Json) -> SliceDevices:
    """Return the devices of a ResourceSlice (of v1beta1, whose attributes are below `basic`, as well)."""
    spec = obj["spec"]
    pool = spec["pool"]
    place = f"{spec['driver']}/{pool['name']}"
    devices = {}
    for device in spec.get("devices") or ():
        said = device if "attributes" in device or "capacity" in device else device.get("basic") or {}
        attributes = {key: _only(value) for key, value in (said.get("attributes") or {}).items()}
        capacity = {
            f"capacity.{key}": str((value or {}).get("value")) for key, value in (said.get("capacity") or {}).items()
        }
        devices[f"{place}/{device['name']}"] = {**redact_data(attributes), **capacity}
    return SliceDevices(str(spec.get("nodeName") or ""), devices, (place, int(pool.get("generation") or 0)))


def _only(value: Mapping[str, Any]) -> Scalar:
    """Return the value of an attribute: it has one key, its type.

    From Kubernetes 1.36 on it may be a list (`strings`, `ints`; kubernetes/enhancements KEP-5491), which matches as a
    set: it is kept as one text, in an order of ours.
    """
    found = next(iter(value.values()), None)
    if isinstance(found, list):
        return f"[{', '.join(sorted(json.dumps(entry, ensure_ascii=False) for entry in found))}]"
    scalar: Scalar = found
    return scalar


def newest(slices: Iterable[SliceDevices]) -> list[SliceDevices]:
    """Return the slices of each pool's newest generation: a driver that writes one leaves the old for a moment."""
    found = list(slices)
    last: dict[str, int] = {}
    for entry in found:
        last[entry.generation[0]] = max(entry.generation[1], last.get(entry.generation[0], 0))
    return [entry for entry in found if entry.generation[1] == last[entry.generation[0]]]
