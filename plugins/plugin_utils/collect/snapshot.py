# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes a snapshot of a cluster with parallel collectors, each with its time limit. A failed one reports its reason."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from sys import intern
from typing import Any, TypeVar

from ..clients.kube.api_versions import dra_kinds
from ..clients.kube.cluster import Cluster
from ..clients.kube.identity import cluster_identity, is_simulated
from ..clients.kube.listing import Keep, list_kept
from ..clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NIC_CLUSTER_POLICIES,
    NODES,
    NVIDIA_DRIVERS,
    PODS,
    RUNTIME_CLASSES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Cleaner,
    Kind,
    controller_of,
    read_node,
)
from ..clients.kube.permission import Permission
from ..outcome.errors import BringupError, NotFoundError
from ..outcome.model import Scalar
from ..outcome.wording import count, first_of
from ..probe.ibstat import Hca
from ..probe.infiniband_class import Adapter
from ..probe.nvidia_proc import DriverFiles, DriverGpu
from ..probe.nvidia_smi_xml import Gpu, SmiLog
from ..probe.os_release import OsRelease
from ..runtime.clock import Deadline, now_utc
from ..runtime.pool import map_bounded
from ..runtime.redaction import redact, redact_data
from ..snapshot.model import (
    COLLECTORS,
    WHOLE_HOST,
    Attributes,
    Collected,
    CollectorResult,
    Host,
    HostGpu,
    Node,
    Server,
    Snapshot,
    Workload,
)
from .host_facts import HostFacts
from .tool_reading import ProbeFailure

# Tool output of hosts, from a run or from a pod on a node, as the hosts of a snapshot.

SSH, POD = "ssh", "pod"
_UNITS = {"fabric_manager": "nvidia-fabricmanager.service"}
# Readings that a snapshot keeps. Counters and temperatures are left out, since they change all the time.
READINGS = ("smi", "modules", "kernel_release", "os", "ofed", "fabric_manager", "hcas", "sysctl", "boot", "units")
NODE_READINGS = (
    "smi", "modules", "kernel_release", "os", "sysctl", "boot", "cgroup_units", "nvidia_proc", "infiniband_class",
)  # fmt: skip
_SHOWN = 8
T = TypeVar("T")


def hosts_of(facts: Mapping[str, HostFacts]) -> tuple[dict[str, Host], dict[str, str]]:
    """Return the hosts that were reached over SSH, and for the others why not."""
    found = {name: host_over_ssh(host) for name, host in sorted(facts.items()) if host.reached}
    return found, {name: host.reason or host.unread for name, host in facts.items() if not host.reached}


def all_hosts(found: Mapping[str, Host], missing: Mapping[str, str]) -> dict[str, Host]:
    """Return all hosts: those that were read, and with their reason those that were not.

    So one node that is cordoned for weeks does not keep the others out of every comparison.
    """
    lost = {name: Host(unread={WHOLE_HOST: reason or "nobody says why"}) for name, reason in missing.items()}
    return dict(sorted({**lost, **found}.items()))


def result_of(found: Mapping[str, Host], missing: Mapping[str, str], hint: str) -> CollectorResult:
    """Return the result of the collector of hosts. It failed if no host could be read.

    Args:
        found: hosts that were read.
        missing: by host that was not read the reason.
        hint: what to do about those.
    """
    lacking = [f"{name} ({reason})" for name, reason in sorted(missing.items())]
    text = first_of(lacking, _SHOWN, "; ")
    if not found:
        reason = f"not read: {text or 'the run has no hosts'}"
        return CollectorResult(state=Collected.FAILED, reason=reason, hint=hint)
    unread = Counter(fact for host in found.values() for fact in host.unread)
    reported = ", ".join(f"{fact} of {count}" for fact, count in sorted(unread.items()))
    parts = [f"{count(len(found), 'host')} read"]
    parts += [f"{len(missing)} not read: {text}"] if missing else []
    parts += [f"not all of them gave {reported}"] if reported else []
    return CollectorResult(state=Collected.WHOLE, reason="; ".join(parts), hint=hint if missing else "")


class _Reader:
    """Reads facts of one host and collects the reasons of missing ones."""

    def __init__(self, facts: HostFacts) -> None:
        self._facts = facts
        self.unread: dict[str, str] = {}

    def read(self, fact: str, kind: type[T], otherwise: T) -> T:
        value: Any = self._facts.read(fact, kind)
        if isinstance(value, ProbeFailure):
            self.unread[fact] = value.text
            return otherwise
        return value  # type: ignore[no-any-return]  # read() checked that it is a `kind`

    def smi(self) -> SmiLog:
        nothing = SmiLog(schema="", driver_version="", cuda_version="", attached_gpus=0, gpus=())
        return self.read("smi", SmiLog, nothing)

    def common(self) -> dict[str, Any]:
        """Return the fields that are read in the same way over SSH and from a pod."""
        system = self.read("os", OsRelease, OsRelease("", "", ""))
        words = {"ID": system.id, "VERSION_ID": system.version_id, "PRETTY_NAME": system.pretty_name}
        return {
            "os": words if system.id else {},
            "kernel": self.read("kernel_release", str, ""),
            "boot": _shared(self.read("boot", dict, {})),
            "sysctl": _shared(self.read("sysctl", dict, {})),
            "modules": _listed_once(self.read("modules", frozenset, frozenset())),
        }


def host_over_ssh(facts: HostFacts) -> Host:
    """Return a host whose tools ran on it over SSH."""
    reader = _Reader(facts)
    smi, common = reader.smi(), reader.common()
    states = {unit: reader.read(fact, str, "") for fact, unit in _UNITS.items()}
    units: dict[str, Attributes] = {unit: {"ActiveState": state} for unit, state in states.items() if state}
    for unit, fields in reader.read("units", dict, {}).items():
        units[unit] = {**units.get(unit, {}), **fields}
    return Host(
        **common,
        units=units,
        driver=smi.driver_version,
        cuda=smi.cuda_version,
        ofed=reader.read("ofed", str, ""),
        gpus={gpu.bus_id: _gpu(gpu) for gpu in smi.gpus},
        adapters={hca.name: _adapter(hca) for hca in reader.read("hcas", tuple, ())},
        unread=reader.unread,
        read_by=SSH,
    )


def host_from_pod(facts: HostFacts) -> Host:
    """Return a host whose kernel was queried from a pod.

    Without the driver's tools its GPUs come from the driver's files.
    """
    reader = _Reader(facts)
    smi, common = reader.smi(), reader.common()
    files = reader.read("nvidia_proc", DriverFiles, DriverFiles("", {}))
    gpus = {gpu.bus_id: _gpu(gpu) for gpu in smi.gpus} or {place: _listed(gpu) for place, gpu in files.gpus.items()}
    if "nvidia_proc" not in reader.unread and not files.release:
        # Without a driver there is nothing to query.
        reader.unread.pop("smi", None)
    return Host(
        **common,
        units=reader.read("cgroup_units", dict, {}),
        driver=smi.driver_version or files.release,
        cuda=smi.cuda_version,
        gpus=gpus,
        adapters=_classed(reader.read("infiniband_class", dict, {})),
        unread=reader.unread,
        read_by=POD,
    )


def _shared(values: Mapping[str, str]) -> dict[str, str]:
    """Return one shared mapping for hosts with equal values: hundreds of settings are the same on a whole fleet."""
    return _once(tuple((intern(key), intern(value)) for key, value in values.items()))


@lru_cache(maxsize=256)
def _once(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(pairs)


@lru_cache(maxsize=256)
def _listed_once(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _gpu(gpu: Gpu) -> HostGpu:
    return HostGpu(
        product=gpu.product,
        uuid=gpu.uuid,
        serial=gpu.serial,
        vbios=gpu.vbios,
        mig=gpu.mig_current,
        ecc=gpu.ecc_current,
        memory_mib=gpu.memory_total_mib,
    )


def _listed(gpu: DriverGpu) -> HostGpu:
    return HostGpu(product=gpu.product, uuid=gpu.uuid, vbios=gpu.vbios or None)


def _adapter(hca: Hca) -> Attributes:
    return _attributes(hca.kind, hca.firmware, hca.node_guid, (port.link_layer for port in hca.ports))


def _classed(adapters: Mapping[str, Adapter]) -> dict[str, Attributes]:
    return {
        name: _attributes(found.kind, found.firmware, found.node_guid, found.link_layers)
        for name, found in adapters.items()
    }


def _attributes(kind: str, firmware: str, node_guid: str, layers: Iterable[str]) -> Attributes:
    return {"kind": kind, "firmware": firmware, "node_guid": node_guid, "link_layer": ",".join(sorted(set(layers)))}


# Reads Kubernetes objects into the parts of a snapshot. Only the needed fields are kept, redacted. Pure.

Json = dict[str, Any]
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})\Z")
# Controllers of long-lived pods. Pods of Jobs and pods without a controller come and go. ReplicationControllers belong
# to OpenShift's DeploymentConfigs.
_LASTING = frozenset({"DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Node"})
_TEMPLATE_HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class PodImages:
    """Images of one long-lived pod: title of its controller, reference by container, digest by reference."""

    workload: str
    images: tuple[tuple[str, str], ...]
    digests: tuple[tuple[str, str], ...]


def read_pod(obj: Json) -> PodImages | None:
    """Return the images of a pod, None for a short-lived one."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    owner = controller_of(obj)
    if owner.get("kind") not in _LASTING:
        return None
    images = tuple(
        (intern(str(c.get("name"))), intern(redact(str(c.get("image") or ""))))
        for part in ("initContainers", "containers")
        for c in spec.get(part) or ()
    )
    configured = dict(images)
    status = obj.get("status") or {}
    digests = tuple(
        (configured[c["name"]], intern(found.group(1)))
        for part in ("initContainerStatuses", "containerStatuses")
        for c in status.get(part) or ()
        if c.get("name") in configured and (found := _DIGEST.search(str(c.get("imageID") or "")))
    )
    return PodImages(intern(_workload(metadata, owner)), images, digests)


def _workload(metadata: Json, owner: Mapping[str, Any]) -> str:
    kind, name, space = str(owner["kind"]), str(owner.get("name")), metadata.get("namespace", "")
    digest = (metadata.get("labels") or {}).get(_TEMPLATE_HASH)
    if kind == "ReplicaSet" and digest and name.endswith(f"-{digest}"):
        kind, name = "Deployment", name.removesuffix(f"-{digest}")
    elif kind == "Node":
        # The name of a static pod ends with the name of its node.
        kind, name = "static Pod", str(metadata["name"]).removesuffix(f"-{name}")
    return f"{kind} {space}/{name}"


def workloads_of(pods: Iterable[PodImages | None]) -> tuple[dict[str, Workload], dict[str, tuple[str, ...]]]:
    """Return by workload the references of all its pods, and by reference all digests."""
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
    """Return the name of an object and its fields below some of its parts (`spec`), by dotted path, secrets masked."""
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
    """Devices of one ResourceSlice. `node` is empty where they belong to no single node."""

    node: str
    devices: dict[str, Attributes]
    generation: tuple[str, int]


def read_slice(obj: Json) -> SliceDevices:
    """Return the devices of a ResourceSlice, also of v1beta1, whose attributes are below `basic`."""
    spec = obj["spec"]
    pool = spec["pool"]
    place = f"{spec['driver']}/{pool['name']}"
    devices = {}
    for device in spec.get("devices") or ():
        reported = device if "attributes" in device or "capacity" in device else device.get("basic") or {}
        attributes = {key: _only(value) for key, value in (reported.get("attributes") or {}).items()}
        capacity = {
            f"capacity.{key}": str((value or {}).get("value"))
            for key, value in (reported.get("capacity") or {}).items()
        }
        devices[f"{place}/{device['name']}"] = {**redact_data(attributes), **capacity}
    return SliceDevices(str(spec.get("nodeName") or ""), devices, (place, int(pool.get("generation") or 0)))


def _only(value: Mapping[str, Any]) -> Scalar:
    """Return the value of an attribute, which has one key: its type.

    From Kubernetes 1.36 on the value may be a list (`strings`, `ints`; kubernetes/enhancements KEP-5491), which matches
    as a set. It is kept as one sorted text.
    """
    found = next(iter(value.values()), None)
    if isinstance(found, list):
        return f"[{', '.join(sorted(json.dumps(entry, ensure_ascii=False) for entry in found))}]"
    scalar: Scalar = found
    return scalar


def newest(slices: Iterable[SliceDevices]) -> list[SliceDevices]:
    """Return the slices of each pool's newest generation: after a new one a driver leaves the old one for a moment."""
    found = list(slices)
    last: dict[str, int] = {}
    for entry in found:
        last[entry.generation[0]] = max(entry.generation[1], last.get(entry.generation[0], 0))
    return [entry for entry in found if entry.generation[1] == last[entry.generation[0]]]


# Kinds that a snapshot lists beside nodes and pods, and the RBAC permissions that it needs.

INGRESS_CLASSES = Kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False)
NETWORK_ATTACHMENTS = Kind(
    "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "network-attachment-definitions"
)  # fmt: skip
OWNERS = (DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS)
# A GPU operator takes its drivers from NVIDIADrivers where its ClusterPolicy enables that (driver.useNvidiaDriverCRD).
POLICIES = (CLUSTER_POLICIES, NVIDIA_DRIVERS, NIC_CLUSTER_POLICIES)
CLASSES = (
    (STORAGE_CLASSES, ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode", "default")),
    (INGRESS_CLASSES, ("spec",)),
    (NETWORK_ATTACHMENTS, ("spec",)),
    (RUNTIME_CLASSES, ("handler", "scheduling", "overhead")),
)


def _listing(*kinds: Kind) -> tuple[Permission, ...]:
    return tuple(Permission("list", kind.plural, kind.group) for kind in kinds)


# Permissions by collector. Hosts are queried over SSH, or by pods, which have their own permissions
# (workload/node_pods.py).
RIGHTS_OF = {
    "server": (Permission("get", "namespaces"),),
    "nodes": _listing(NODES),
    "workloads": _listing(PODS),
    "devices": (Permission("list", "resourceslices", "resource.k8s.io"),),
    "policies": _listing(*POLICIES),
    "classes": (*_listing(*(kind for kind, _parts in CLASSES)), Permission("list", "deviceclasses", "resource.k8s.io")),
    # Helm keeps its releases in secrets. The owner of a component is read from the workloads that run it.
    "releases": (Permission("list", "secrets"), *_listing(*OWNERS)),
}
RIGHTS = tuple(permission for rights in RIGHTS_OF.values() for permission in rights)


# The collectors of a snapshot.

LIMIT_S = 30.0
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
Parts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """Context of a collector: the cluster, its deadline, and kinds that the server does not serve."""

    cluster: Cluster
    deadline: Deadline
    not_served: list[str]

    def all_of(self, kind: Kind, keep: Keep[T]) -> list[T] | None:
        """Return the kept part of every object of a kind, None where the server does not serve the kind."""
        try:
            return list_kept(self.cluster.transport, kind, keep, deadline=self.deadline)[0]
        except NotFoundError:
            self.not_served.append(kind.title)
            return None


Collector = Callable[[Look], Parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Parts of the snapshot from one collector, and how the collector ended."""

    name: str
    parts: Parts
    result: CollectorResult


def collect_cluster(
    cluster: Cluster, made_by: str, limit_s: float = LIMIT_S, only: frozenset[str] | None = None
) -> Snapshot:
    """Return the snapshot of a cluster. Collectors that this function does not run are `not-asked`.

    Args:
        cluster: limit its requests and retries to `limit_s`, too.
        made_by: program and version.
        limit_s: time limit of a collector, in seconds.
        only: collectors to run; None for all.

    Raises:
        BringupError: all collectors failed.
    """
    taken = now_utc()
    requested = [entry for entry in _COLLECTORS.items() if only is None or entry[0] in only]
    found = map_bounded(lambda entry: run_collector(*entry, cluster, limit_s), requested, 3)
    reasons = [entry.result for entry in found if entry.result.state is Collected.FAILED]
    if len(reasons) == len(found):
        raise BringupError("snapshot", f"no collector got an answer; the first: {reasons[0].reason}", reasons[0].hint)
    not_asked = CollectorResult(state=Collected.NOT_ASKED, reason="it was not part of this snapshot")
    parts: Parts = {}
    for entry in found:
        parts |= entry.parts
    # KWOK nodes are not hardware, whether or not this release started the cluster.
    if parts.pop("simulated", False):
        parts["rehearsal"] = True
    devices: dict[str, dict[str, Attributes]] = parts.pop("devices", {})
    nodes = parts.get("nodes", {})
    shared: dict[str, Attributes] = parts.setdefault("shared_devices", {})
    for name, own in devices.items():
        if name in nodes:
            nodes[name] = replace(nodes[name], devices=own)
        else:
            shared |= own
    results = dict.fromkeys(COLLECTORS, not_asked) | {entry.name: entry.result for entry in found}
    return Snapshot(taken=taken, made_by=made_by, collectors=results, **parts)


def run_collector(name: str, collector: Collector, cluster: Cluster, limit_s: float) -> Collection:
    """Run one collector. If it fails, its reason is part of the result."""
    look = Look(cluster, Deadline.after(limit_s), [])
    try:
        parts = collector(look)
    except BringupError as error:
        result = CollectorResult(
            state=Collected.FAILED, reason=f"{error.subject}: {error.reason}".rstrip("."), hint=error.hint
        )
        return Collection(name=name, parts={}, result=result)
    served = CollectorResult(state=Collected.WHOLE, not_served=tuple(look.not_served))
    return Collection(name=name, parts=parts, result=served)


def _server(look: Look) -> Parts:
    reported = look.cluster.transport.json("GET", "/version")
    words = {"version": "gitVersion", "platform": "platform", "go_version": "goVersion"}
    server = Server(**{field: str(reported.get(word) or "") for field, word in words.items()})
    identity = cluster_identity(look.cluster)
    return {"server": server, "cluster_uid": identity.uid, "rehearsal": identity.rehearsal}


def _nodes(look: Look) -> Parts:
    cleaner = Cleaner()

    def kept(obj: dict[str, Any]) -> tuple[tuple[str, Node], bool]:
        return read_node(obj, cleaner), is_simulated(obj["metadata"])

    found = look.all_of(NODES, kept) or []
    return {
        "nodes": dict(entry for entry, _simulated in found),
        "simulated": any(simulated for _node, simulated in found),
    }


def _devices(look: Look) -> Parts:
    kinds = dra_kinds(look.cluster)
    if kinds is None:
        look.not_served.append("resourceslices.resource.k8s.io")
        return {}
    by_node: dict[str, dict[str, Attributes]] = {}
    found: list[SliceDevices] = look.all_of(kinds.slices, read_slice) or []
    for entry in newest(found):
        by_node.setdefault(entry.node, {}).update(entry.devices)
    shared = by_node.pop("", {})
    return {"devices": by_node, "shared_devices": shared}


def _workloads(look: Look) -> Parts:
    workloads, images = workloads_of(look.all_of(PODS, read_pod) or [])
    return {"workloads": workloads, "images": images}


def _policies(look: Look) -> Parts:
    found = {}
    for kind in POLICIES:
        for name, fields in look.all_of(kind, lambda obj: read_fields(obj, "spec")) or ():
            found[f"{kind.kind} {name}"] = fields
    return {"policies": found}


def _classes(look: Look) -> Parts:
    found = {}
    for kind, parts in CLASSES:
        for name, fields in look.all_of(kind, partial(_class, parts)) or ():
            found[f"{kind.kind} {name}"] = fields
    kinds = dra_kinds(look.cluster)
    for name, fields in (look.all_of(kinds.classes, lambda obj: read_fields(obj, "spec")) or ()) if kinds else ():
        found[f"DeviceClass {name}"] = fields
    return {"classes": found}


def _class(parts: tuple[str, ...], obj: dict[str, Any]) -> tuple[str, Attributes]:
    """Return name and fields of a class, and its annotation for being the default."""
    notes = obj["metadata"].get("annotations") or {}
    configured = {"default": notes[_DEFAULT_CLASS]} if _DEFAULT_CLASS in notes else {}
    return read_fields({**obj, **configured}, *parts)


_COLLECTORS: dict[str, Collector] = {
    "server": _server,
    "nodes": _nodes,
    "workloads": _workloads,
    "devices": _devices,
    "policies": _policies,
    "classes": _classes,
}
