# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a cluster is made of at one moment: a typed value that is saved as JSON and read back strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..outcome.errors import InputError
from ..outcome.model import Scalar

# A node of a cluster, as a snapshot has it: what looks at nodes alone needs no more of a snapshot.

Attributes = dict[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `taints` are `key=value:effect`, quantities as the server writes them; `devices` are those of its
    ResourceSlices by `driver/pool/device`."""

    provider_id: str = ""
    ready: str = ""
    unschedulable: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    kubelet: str = ""
    container_runtime: str = ""
    kernel: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""
    devices: dict[str, Attributes] = field(default_factory=dict)

    @property
    def provider(self) -> str:
        """Who made the machine, by the scheme of its provider id: `aws`, `gce`, `azure`, `oci`, `kind`."""
        scheme, found, _rest = self.provider_id.partition("://")
        return scheme if found else "oci" if self.provider_id.startswith("ocid1.") else ""


# What a cluster is made of at one moment: a typed value that is saved as JSON and read back strictly.

SCHEMA_VERSION = 1
KIND = "GpuFleetSnapshot"
# Every one of them is in every snapshot: with what it found, or with the reason why there is nothing.
COLLECTORS = ("server", "nodes", "devices", "workloads", "policies", "classes", "releases", "hosts")
# Upstream describes one GPU of a host and counts the others; the key of that one says how many there are.
FIRST_OF = "first of "
# The fact that stands in `Host.unread` for all of them, where nobody could ask the host.
WHOLE_HOST = "host"


class Collected(str, Enum):
    """What became of a collector: it saw everything, it failed, or nobody asked it."""

    WHOLE = "whole"
    FAILED = "failed"
    NOT_ASKED = "not-asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorResult:
    """What became of a collector, with the reason and the fix where it is not whole; `not_served` are kinds that the
    server does not know, which is an answer."""

    state: Collected
    reason: str = ""
    hint: str = ""
    not_served: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the API server says of itself; `platform` is its own (`linux/amd64`)."""

    version: str = ""
    platform: str = ""
    go_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A controller of pods; `images` are the references that its containers run, by the container's name."""

    images: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Helm release; `owner` is whose it is: ours, or what marks its objects, empty where nothing does."""

    chart: str = ""
    version: str = ""
    status: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGpu:
    """One GPU as the driver lists it; None is N/A. `kind` is the word of another tool for what the bus says that it is
    (`h100`), where no driver said so."""

    product: str = ""
    uuid: str = ""
    serial: str | None = None
    vbios: str | None = None
    mig: str | None = None
    ecc: str | None = None
    memory_mib: int | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host says of itself; `unread` are facts that it was asked for and did not give, with the reason, or
    WHOLE_HOST where it could not be asked at all.

    `read_by` is how: `ssh`, by a `pod` on it, empty where that is not recorded.
    """

    os: dict[str, str] = field(default_factory=dict)
    kernel: str = ""
    boot: dict[str, str] = field(default_factory=dict)
    sysctl: dict[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    units: dict[str, Attributes] = field(default_factory=dict)
    driver: str = ""
    cuda: str = ""
    ofed: str = ""
    gpus: dict[str, HostGpu] = field(default_factory=dict)
    adapters: dict[str, Attributes] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    read_by: str = ""

    @property
    def not_read(self) -> str:
        """Why nobody could ask it, empty if it was asked."""
        return self.unread.get(WHOLE_HOST, "")

    @property
    def gpu_count(self) -> int:
        """How many GPUs it has."""
        counts = (key.removeprefix(FIRST_OF) for key in self.gpus if key.startswith(FIRST_OF))
        return next(map(int, counts), len(self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything. `made_by` is program and version, `cluster_uid` the UID of namespace kube-system (empty where the
    program does not record it), `rehearsal` whether the cluster or the hosts are a rehearsal's (None where that is not
    recorded, as in snapshots of earlier releases). `workloads` are by `Kind namespace/name`, `images` give by reference
    the digests that run, `policies` and `classes` are by `Kind name` with their fields by dotted path, `releases` by
    `namespace/name`, `shared_devices` are those of ResourceSlices that belong to no node in it, `hosts` are by the name
    in the inventory. `provider` are the readings of each part that only the provider's own tools know
    (collect/provider_dumps.py). `unread` names parts of a snapshot of another program that this release does not know.

    Raises:
        InputError: a collector does not say what became of it.
    """

    taken: str
    made_by: str
    cluster_uid: str = ""
    rehearsal: bool | None = None
    collectors: dict[str, CollectorResult]
    server: Server = Server()
    nodes: dict[str, Node] = field(default_factory=dict)
    shared_devices: dict[str, Attributes] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    images: dict[str, tuple[str, ...]] = field(default_factory=dict)
    policies: dict[str, Attributes] = field(default_factory=dict)
    classes: dict[str, Attributes] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    provider: dict[str, Attributes] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    kind: str = KIND
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        silent = [name for name in COLLECTORS if name not in self.collectors]
        unknown = sorted(set(self.collectors) - set(COLLECTORS))
        if silent or unknown:
            found = f"lacks {', '.join(silent)}" if silent else f"has {', '.join(unknown)}, which nobody knows"
            raise InputError("collectors of a snapshot", f"{found}.", "take the snapshot again")

    def whole(self, collector: str) -> bool:
        """Tell whether that collector saw everything."""
        return self.collectors[collector].state is Collected.WHOLE

    @property
    def of_rehearsal(self) -> bool | None:
        """What `rehearsal` says; and nodes with the label of KWOK's own templates (kubernetes-sigs/kwok
        kustomize/kwokctl/resource/node.yaml) are simulated, also where a program records no mark and no annotation."""
        simulated = any(node.labels.get("type") == "kwok" for node in self.nodes.values())
        return True if simulated else self.rehearsal

    @property
    def failed(self) -> dict[str, CollectorResult]:
        """The collectors that failed."""
        return {name: found for name, found in self.collectors.items() if found.state is Collected.FAILED}


# Counts of devices as the API server writes them. Pure.

# The server writes 1000 units as `1k` (kubernetes/apimachinery, pkg/api/resource/quantity.go: a canonical form has no
# trailing thousands), so that a shared device plugin with rdmaHcaMax 1000 offers `1k`.
_WHOLE = re.compile(r"(\d+)([kMGTPE]?)")
_THOUSANDS = "kMGTPE"


def whole_number(quantity: str | int) -> int | None:
    """Return a quantity that is a whole number, None if it is none or has a unit of bytes (`Mi`)."""
    match = _WHOLE.fullmatch(str(quantity).strip())
    if match is None:
        return None
    number, suffix = match.groups()
    factor: int = 1000 ** (_THOUSANDS.index(suffix) + 1 if suffix else 0)
    return int(number) * factor


# Which GPUs nodes have, as a snapshot says it.

_PRODUCT = "nvidia.com/gpu.product"
_GPU = "nvidia.com/gpu"
# The GPU operator gives this label to every node with a GPU on its bus (NVIDIA/gpu-operator,
# controllers/state_manager.go, commonGPULabelKey), before driver, device plugin and feature discovery run there, and
# it stays when they die: of such a node is known that it has GPUs, and nothing else.
_PRESENT = "nvidia.com/gpu.present"


def gpu_count(node: Node) -> int:
    """Return how many whole GPUs a node has, 0 where nothing says it.

    The device plugin offers parts of GPUs as such (README of NVIDIA/k8s-device-plugin, "Shared Access to GPUs"; of its
    gpu-feature-discovery, "MIG Strategies"): with time-slicing and MPS each several times (`replicas`), with MIG
    strategy `single` the devices of MIG, which the label `count` counts then as well.
    """
    labelled, offered, devices = _number(node.labels, f"{_GPU}.count"), _number(node.capacity, _GPU), _devices(node)
    if node.labels.get("nvidia.com/mig.strategy") == "single" and "-MIG-" in node.labels.get(_PRODUCT, ""):
        return devices
    if _number(node.labels, f"{_GPU}.replicas") > 1:
        return labelled or devices
    if _mig(node):
        # GPUs without MIG are offered beside the devices of the others.
        return max(labelled, devices, offered)
    return offered or devices or labelled


def has_gpus(node: Node) -> bool:
    """Tell whether a node has GPUs, whole or in parts."""
    offered = _number(node.capacity, _GPU) or _mig(node) or _number(node.capacity, f"{_GPU}.shared")
    return bool(offered or gpu_count(node) or gpu_product(node) or node.labels.get(_PRESENT) == "true")


def _mig(node: Node) -> bool:
    return any(key.startswith("nvidia.com/mig-") and _number(node.capacity, key) for key in node.capacity)


def _number(said: Mapping[str, str], key: str) -> int:
    return whole_number(said.get(key, "")) or 0


def _devices(node: Node) -> int:
    return sum(attributes.get("type") == "gpu" for attributes in node.devices.values())


def gpu_product(node: Node) -> str:
    """Return the product of a node's GPUs: as feature discovery or the DRA driver names it, else empty."""
    products = (str(attributes.get("productName") or "") for attributes in node.devices.values())
    return node.labels.get(_PRODUCT) or next(filter(None, products), "")


def gpu_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the nodes that have GPUs: by count, product or label, or as the host of that name says it."""
    nodes = {name for name, node in snapshot.nodes.items() if has_gpus(node)}
    return tuple(sorted(nodes | {name for name, host in snapshot.hosts.items() if host.gpus}))
