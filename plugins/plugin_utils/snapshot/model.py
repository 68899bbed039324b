# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Contents of a cluster at one moment: a typed value that is saved as JSON and read back strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..outcome.errors import InputError
from ..outcome.model import Scalar

# A node of a cluster in a snapshot, separate for modules that need only nodes.

Attributes = dict[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node.

    - `taints`: as `key=value:effect`. Quantities are as the server writes them.
    - `devices`: those of its ResourceSlices by `driver/pool/device`.
    """

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
        """Provider of the machine, by the scheme of its provider id: `aws`, `gce`, `azure`, `oci`, `kind`."""
        scheme, found, _rest = self.provider_id.partition("://")
        return scheme if found else "oci" if self.provider_id.startswith("ocid1.") else ""


# Contents of a cluster at one moment: a typed value that is saved as JSON and read back strictly.

SCHEMA_VERSION = 1
KIND = "GpuFleetSnapshot"
# Every snapshot has all of them: with their findings, or with the reason why there are none.
COLLECTORS = ("server", "nodes", "devices", "workloads", "policies", "classes", "releases", "hosts")
# Upstream records one GPU of a host and the number of GPUs. That number is in the key of the recorded one.
FIRST_OF = "first of "
# Key in `Host.unread` of a host that could not be queried at all.
WHOLE_HOST = "host"


class Collected(str, Enum):
    """Result of a collector: it is complete, it failed, or it was not requested."""

    WHOLE = "whole"
    FAILED = "failed"
    NOT_ASKED = "not-asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorResult:
    """Result of a collector, with reason and fix if it is not complete.

    `not_served` are kinds that the server does not serve. This is a complete result.
    """

    state: Collected
    reason: str = ""
    hint: str = ""
    not_served: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Version of the API server. `platform` is its own (`linux/amd64`)."""

    version: str = ""
    platform: str = ""
    go_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A controller of pods. `images` are the image references by name of the container."""

    images: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Helm release. `owner` is ours, or the marker on its objects; empty without one."""

    chart: str = ""
    version: str = ""
    status: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGpu:
    """One GPU as the driver lists it. None is N/A.

    `kind` is another tool's name for the model on the PCI bus (`h100`), where no driver reported it.
    """

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
    """Facts of a host.

    - `unread`: facts that were requested and are missing, with the reason; WHOLE_HOST if it could not be queried at
      all.
    - `read_by`: `ssh`, or `pod` for a pod on it; empty if not recorded.
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
        """Why the host could not be queried; empty if it could."""
        return self.unread.get(WHOLE_HOST, "")

    @property
    def gpu_count(self) -> int:
        """Number of its GPUs."""
        counts = (key.removeprefix(FIRST_OF) for key in self.gpus if key.startswith(FIRST_OF))
        return next(map(int, counts), len(self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All facts of a cluster.

    - `made_by`: program and version.
    - `cluster_uid`: UID of namespace kube-system; empty if the program does not record it.
    - `rehearsal`: whether the cluster or the hosts are a rehearsal's; None if not recorded, as in snapshots of earlier
      releases.
    - `workloads`: by `Kind namespace/name`.
    - `images`: digests by reference.
    - `policies`, `classes`: by `Kind name`, with their fields by dotted path.
    - `releases`: by `namespace/name`.
    - `shared_devices`: devices of ResourceSlices that belong to none of its nodes.
    - `hosts`: by name in the inventory.
    - `provider`: readings of each part that only the provider's own tools know (collect/provider_dumps.py).
    - `unread`: parts of another program's snapshot that this release does not know.

    Raises:
        InputError: a collector has no result.
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
        not_reporting = [name for name in COLLECTORS if name not in self.collectors]
        unknown = sorted(set(self.collectors) - set(COLLECTORS))
        if not_reporting or unknown:
            found = (
                f"lacks {', '.join(not_reporting)}"
                if not_reporting
                else f"has {', '.join(unknown)}, which nobody knows"
            )
            raise InputError("collectors of a snapshot", f"{found}.", "take the snapshot again")

    def whole(self, collector: str) -> bool:
        """Tell whether the result of that collector is complete."""
        return self.collectors[collector].state is Collected.WHOLE

    @property
    def of_rehearsal(self) -> bool | None:
        """Whether the cluster is simulated: the value of `rehearsal`, or True with a KWOK node.

        Nodes with the label of KWOK's own templates (kubernetes-sigs/kwok kustomize/kwokctl/resource/node.yaml) are
        simulated, also if a program records no mark and no annotation.
        """
        simulated = any(node.labels.get("type") == "kwok" for node in self.nodes.values())
        return True if simulated else self.rehearsal

    @property
    def failed(self) -> dict[str, CollectorResult]:
        """Collectors that failed."""
        return {name: found for name, found in self.collectors.items() if found.state is Collected.FAILED}


# Counts of devices as the API server writes them. Pure.

# The server writes 1000 units as `1k` (kubernetes/apimachinery, pkg/api/resource/quantity.go: a canonical form has no
# trailing thousands), so a shared device plugin with rdmaHcaMax 1000 has a capacity of `1k`.
_WHOLE = re.compile(r"(\d+)([kMGTPE]?)")
_THOUSANDS = "kMGTPE"


def whole_number(quantity: str | int) -> int | None:
    """Return a quantity as a whole number, None if it is none or has a unit of bytes (`Mi`)."""
    match = _WHOLE.fullmatch(str(quantity).strip())
    if match is None:
        return None
    number, suffix = match.groups()
    factor: int = 1000 ** (_THOUSANDS.index(suffix) + 1 if suffix else 0)
    return int(number) * factor


# GPUs of nodes in a snapshot.

_PRODUCT = "nvidia.com/gpu.product"
_GPU = "nvidia.com/gpu"
# The GPU operator sets this label on every node with a GPU on its bus (NVIDIA/gpu-operator,
# controllers/state_manager.go, commonGPULabelKey), before driver, device plugin and feature discovery run there, and it
# stays when they fail. With this label alone it is known that a node has GPUs, and nothing else.
_PRESENT = "nvidia.com/gpu.present"


def gpu_count(node: Node) -> int:
    """Return the number of whole GPUs of a node, 0 if unknown.

    The device plugin offers parts of GPUs as GPUs (README of NVIDIA/k8s-device-plugin, "Shared Access to GPUs"; of its
    gpu-feature-discovery, "MIG Strategies"): with time-slicing and MPS each several times (`replicas`), with MIG
    strategy `single` the MIG devices, which are then in the label `count` as well.
    """
    labelled, offered, devices = _number(node.labels, f"{_GPU}.count"), _number(node.capacity, _GPU), _devices(node)
    if node.labels.get("nvidia.com/mig.strategy") == "single" and "-MIG-" in node.labels.get(_PRODUCT, ""):
        return devices
    if _number(node.labels, f"{_GPU}.replicas") > 1:
        return labelled or devices
    if _mig(node):
        # GPUs without MIG are offered beside the MIG devices of the others.
        return max(labelled, devices, offered)
    return offered or devices or labelled


def has_gpus(node: Node) -> bool:
    """Tell whether a node has GPUs, whole or in parts."""
    offered = _number(node.capacity, _GPU) or _mig(node) or _number(node.capacity, f"{_GPU}.shared")
    return bool(offered or gpu_count(node) or gpu_product(node) or node.labels.get(_PRESENT) == "true")


def _mig(node: Node) -> bool:
    return any(key.startswith("nvidia.com/mig-") and _number(node.capacity, key) for key in node.capacity)


def _number(reported: Mapping[str, str], key: str) -> int:
    return whole_number(reported.get(key, "")) or 0


def _devices(node: Node) -> int:
    return sum(attributes.get("type") == "gpu" for attributes in node.devices.values())


def gpu_product(node: Node) -> str:
    """Return the product name of a node's GPUs from feature discovery or the DRA driver, else empty."""
    products = (str(attributes.get("productName") or "") for attributes in node.devices.values())
    return node.labels.get(_PRODUCT) or next(filter(None, products), "")


def gpu_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the nodes with GPUs: by count, product or label, or by the host of the same name."""
    nodes = {name for name, node in snapshot.nodes.items() if has_gpus(node)}
    return tuple(sorted(nodes | {name for name, host in snapshot.hosts.items() if host.gpus}))
