# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Duration of a collective on the simulated hardware, and the network that NCCL finds in a pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2, sqrt

from ..model.values import ClusterModel, Hca, Node, Rail
from .benchmark import RankPod
from .performance import Performance

# Duration of a collective on the simulated hardware. Pure.
#
# A collective has a stage within every node (NVLink or PCIe) and one between nodes (adapters or TCP). Data is cut into
# equal channels, so the slowest adapter of the slowest node sets the pace of all. The two stages overlap, but not
# completely.

RING, TREE, NVLS, NVLS_TREE, COLLNET = "RING", "TREE", "NVLS", "NVLS_TREE", "COLLNET_DIRECT"
_LL, _LL128, _SIMPLE = "LL", "LL128", "SIMPLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One node in a run: the participating GPUs, and the speed of its network.

    Args:
        gpus: participating GPUs of the node.
        local_gb_per_s: bus bandwidth within the node, by algorithm.
        adapters_gb_per_s: speed of each used adapter, one direction; none over TCP.
    """

    gpus: int
    local_gb_per_s: dict[str, float]
    adapters_gb_per_s: tuple[float, ...]

    def network_gb_per_s(self, data: Performance) -> float:
        """Return the speed of the whole node. Every adapter gets an equal part, so the slowest counts."""
        if not self.adapters_gb_per_s:
            return data.socket_gb_per_s
        return min(self.adapters_gb_per_s) * len(self.adapters_gb_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """The nodes of one communicator.

    - `direct`: GPUs of a node reach each other without a network adapter.
    - `sharp`: the switches between the nodes reduce.
    """

    machines: tuple[Machine, ...]
    nvls: bool
    direct: bool = True
    sharp: bool = False

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return sum(machine.gpus for machine in self.machines)

    @property
    def socket(self) -> bool:
        """Whether one of the nodes has no adapter, so that all of them use TCP."""
        return any(not machine.adapters_gb_per_s for machine in self.machines)


def local_speed(node: Node, generation: int | None, data: Performance) -> dict[str, float]:
    """Return the bus bandwidth within a node, by algorithm, from its GPUs and links."""
    links = min((gpu.nvlinks_up for gpu in node.gpus), default=0)
    if not links:
        return {"ring": data.pcie_busbw_gb_per_s, "nvls": 0.0}
    raw = links * data.nvlink_gb_per_s.get(str(generation or 4), 25.0) * node.performance.nvlink
    return {name: raw * part for name, part in data.nvlink_efficiency.items()}


def choose(collective: str, size: int, communicator: Communicator, forced: str = "") -> tuple[str, str]:
    """Return algorithm and protocol as NCCL would choose them."""
    nodes = len(communicator.machines)
    if collective != "AllReduce" or not communicator.direct:
        return RING, _protocol(size, communicator)
    wanted = forced.replace("_", "").upper()
    if wanted in ("RING", "TREE"):
        return wanted, _protocol(size, communicator)
    if communicator.sharp and size >= 1 << 16:
        return COLLNET, _SIMPLE
    if communicator.nvls and size >= (1 << 20 if nodes > 1 else 1 << 18):
        return (NVLS_TREE if nodes > 1 else NVLS), _SIMPLE
    if nodes > 1 and size < 1 << 26:
        return TREE, _protocol(size, communicator)
    return RING, _protocol(size, communicator)


def _protocol(size: int, communicator: Communicator) -> str:
    if size < 1 << 16:
        return _LL
    return _LL128 if size < 1 << 22 and not communicator.socket else _SIMPLE


def time_us(collective: str, size: int, algorithm: str, communicator: Communicator, data: Performance) -> float:
    """Return the duration of one operation on `size` bytes, in microseconds."""
    local_s, network_s = _stages(collective, size, algorithm, communicator, data)
    longer, shorter = max(local_s, network_s), min(local_s, network_s)
    power = data.overlap if algorithm in (NVLS_TREE, TREE) else 64.0
    moved_s = longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power) if longer else 0.0
    ramp = 1.0 + sqrt(data.ramp_bytes / max(size, 1)) if size >= data.ramp_bytes else 2.0
    return _latency_us(size, communicator, data) + moved_s * ramp * 1e6


def _latency_us(size: int, communicator: Communicator, data: Performance) -> float:
    nodes = len(communicator.machines)
    step = data.latency_us.socket if communicator.socket and nodes > 1 else data.latency_us.rdma
    grown = 1.0 + max(0.0, log2(max(size, 1)) - 10) * 0.05
    return (data.latency_us.node + step * log2(nodes) * 2) * grown


def _stages(
    collective: str, size: int, algorithm: str, communicator: Communicator, data: Performance
) -> tuple[float, float]:
    """Return the seconds of the stage within nodes and of the one between them."""
    nodes, ranks = len(communicator.machines), communicator.ranks
    if ranks < 2:
        return size / 1.3e12, 0.0
    network = min(machine.network_gb_per_s(data) for machine in communicator.machines) * 1e9
    name = "nvls" if algorithm in (NVLS, NVLS_TREE) else "ring"
    local = min(machine.local_gb_per_s[name] for machine in communicator.machines) * 1e9
    if not communicator.direct:
        # Every hop leaves through the GPU's own adapter.
        return 0.0, size * share(collective, ranks) / min(_each(communicator.machines, data))
    if nodes == 1:
        return size * share(collective, ranks) / local, 0.0
    gpus = min(machine.gpus for machine in communicator.machines)
    if collective == "AlltoAll":
        return size * (gpus - 1) / ranks / local, size * (ranks - gpus) / ranks / (network / gpus)
    if collective == "SendRecv":
        return size / local, size / min(_each(communicator.machines, data))
    if algorithm == COLLNET:
        # Each node sends its own sum once and gets that of all.
        return (size * share(collective, gpus) / local if gpus > 1 else 0.0), size / network
    if algorithm in (NVLS_TREE, TREE):
        within = size * share(collective, gpus) / local if gpus > 1 else 0.0
        return within, size * share(collective, nodes) / network
    return (size * share(collective, ranks) / local if gpus > 1 else 0.0), size * share(collective, ranks) / network


def _each(machines: Sequence[Machine], data: Performance) -> list[float]:
    """Return the bytes per second of the adapter that one GPU has for itself."""
    return [
        min(machine.adapters_gb_per_s) * 1e9 * min(1.0, len(machine.adapters_gb_per_s) / machine.gpus)
        if machine.adapters_gb_per_s
        else data.socket_gb_per_s * 1e9 / machine.gpus
        for machine in machines
    ]


def share(collective: str, ranks: int) -> float:
    """Return the ratio of bus bandwidth to algorithm bandwidth, as nccl-tests define it."""
    if collective == "AllReduce":
        return 2.0 * (ranks - 1) / ranks
    if collective in ("AllGather", "ReduceScatter", "AlltoAll"):
        return (ranks - 1) / ranks
    return 1.0


# The network that NCCL finds in a pod, from the node's hardware, its faults, the pod and the environment. Pure.

# Share of the rated speed on a link with fewer or slower lanes.
_LANES = {"4x": 1.0, "2x": 0.5, "1x": 0.25}
_RATES = {"HDR": 1.0, "EDR": 0.5, "FDR": 0.28, "QDR": 0.2}
# Their plugins reach GPU memory through a daemon in the pod (GoogleCloudPlatform/container-engine-accelerators).
_WITH_DAEMON = ("tcpx", "tcpxo")
IB, SOCKET, LIBFABRIC = "IB", "Socket", "Libfabric"
# Networks of plugins by fabric, as in `Using network` of public logs from EKS and GKE.
PLUGINS = {"efa": LIBFABRIC, "tcpx": "GPUDirectTCPX_v7", "tcpxo": "FasTrak"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host of a run as NCCL detects it.

    Args:
        place: the pod.
        node: the host of the pod.
        network: name of the network that NCCL chooses.
        adapters: adapters that it uses, in NCCL's order; none over TCP.
        visible: whether the pod has access to any active adapter.
        libraries: whether the network plugin, or libibverbs, can be loaded.
        direct: whether adapters reach GPU memory.
        address: address of the management interface in the pod.
    """

    place: RankPod
    node: Node
    network: str
    adapters: tuple[Hca, ...]
    visible: bool
    libraries: bool
    direct: bool
    address: str
    machine: Machine


def find_host(
    place: RankPod, number: int, model: ClusterModel, generation: int | None, fabric: str, env: Mapping[str, str],
    data: Performance,
) -> Host:  # fmt: skip
    """Return the host as NCCL detects it.

    Raises:
        KeyError: the model has no such node.
    """
    node = model.node(place.node)
    observed = place.adapters > 0 and node.performance.rdma_devices
    active = (
        [_named(hca, node) for hca in node.present_hcas if hca.state == "Active" and hca.cable.up] if observed else []
    )
    if node.kubernetes.adapter_units == "each":
        active = active[: place.adapters]
    # The filter applies to NCCL's own network. Plugins ignore it.
    rule = env.get("NCCL_IB_HCA", "") if fabric not in PLUGINS else ""
    wanted = [hca for hca in active if hca_selected(hca.name, rule)]
    disabled = env.get("NCCL_IB_DISABLE") == "1" or env.get("NCCL_NET", "").lower() == "socket"
    libraries = node.performance.rdma_libraries and (place.daemon or fabric not in _WITH_DAEMON)
    adapters = tuple(wanted) if libraries and not disabled else ()
    # NCCL_NET_GDR_LEVEL=LOC (or 0) disables it, too.
    direct = node.performance.gpudirect and env.get("NCCL_NET_GDR_LEVEL", "").upper() not in ("LOC", "0")
    speeds = tuple(_speed(hca, node, model.rails, direct, data) for hca in adapters)
    local = local_speed(node, generation, data)
    name = PLUGINS.get(fabric, IB) if adapters else SOCKET
    return Host(
        place=place, node=node, network=name, adapters=adapters, visible=bool(active), libraries=libraries,
        direct=direct, address=f"10.{64 + number // 62500}.{number // 250 % 250}.{number % 250 + 4}",
        machine=Machine(gpus=place.gpus, local_gb_per_s=local, adapters_gb_per_s=speeds),
    )  # fmt: skip


def hca_selected(name: str, rule: str, port: int = 1) -> bool:
    """Tell whether NCCL_IB_HCA selects an adapter: `^` excludes, `=` needs the complete name, else its beginning."""
    if not rule:
        return True
    exclude = rule.startswith("^")
    rule = rule.removeprefix("^")
    exact = rule.startswith("=")
    matched = any(
        _matches(name, port, word.strip(), exact) for word in rule.removeprefix("=").split(",") if word.strip()
    )
    return matched != exclude


def _named(hca: Hca, node: Node) -> Hca:
    prefix = node.performance.adapter_prefix
    return replace(hca, name=f"{prefix}{hca.index}") if prefix else hca


def _matches(name: str, port: int, word: str, exact: bool) -> bool:
    wanted, _mark, number = word.partition(":")
    if number and number != str(port):
        return False
    return name == wanted if exact else name.startswith(wanted)


def _speed(hca: Hca, node: Node, rails: Sequence[Rail], direct: bool, data: Performance) -> float:
    rail = next((rail.goodput for rail in rails if rail.index == hca.index), 1.0)
    cable = _LANES[hca.cable.width] * _RATES[hca.cable.speed]
    part = data.network_efficiency * hca.goodput * rail * node.performance.network * cable
    return hca.rate_gbps / 8 * part * (1.0 if direct else data.without_gpudirect)
