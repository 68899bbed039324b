# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which network NCCL finds in a pod, from the node's hardware, its faults, the pod and the environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..model.values import ClusterModel, Hca, Node, Rail
from .benchmark import RankPod
from .performance import Performance
from .physics import Machine, local_speed

# Share of the rated speed on a link with fewer or slower lanes.
_LANES = {"4x": 1.0, "2x": 0.5, "1x": 0.25}
_RATES = {"HDR": 1.0, "EDR": 0.5, "FDR": 0.28, "QDR": 0.2}
# Their plugins reach GPU memory through a daemon in the pod (GoogleCloudPlatform/container-engine-accelerators).
_WITH_DAEMON = ("tcpx", "tcpxo")
IB, SOCKET, LIBFABRIC = "IB", "Socket", "Libfabric"
# Networks of plugins by fabric, as `Using network` has them in public logs of EKS and GKE.
PLUGINS = {"efa": LIBFABRIC, "tcpx": "GPUDirectTCPX_v7", "tcpxo": "FasTrak"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host of a run as NCCL detects it.

    Args:
        place: the pod.
        node: the host of the pod.
        network: name of the network that NCCL chooses.
        adapters: adapters that it uses, in NCCL's order; none over TCP.
        visible: whether the pod sees any adapter that is active.
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
    """Return what NCCL detects on one host.

    Raises:
        KeyError: the model has no such node.
    """
    node = model.node(place.node)
    seen = place.adapters > 0 and node.performance.rdma_devices
    active = [_named(hca, node) for hca in node.present_hcas if hca.state == "Active" and hca.cable.up] if seen else []
    if node.kubernetes.adapter_units == "each":
        active = active[: place.adapters]
    # The filter applies to NCCL's own network; plugins ignore it.
    rule = env.get("NCCL_IB_HCA", "") if fabric not in PLUGINS else ""
    wanted = [hca for hca in active if hca_selected(hca.name, rule)]
    disabled = env.get("NCCL_IB_DISABLE") == "1" or env.get("NCCL_NET", "").lower() == "socket"
    libraries = node.performance.rdma_libraries and (place.daemon or fabric not in _WITH_DAEMON)
    adapters = tuple(wanted) if libraries and not disabled else ()
    # NCCL_NET_GDR_LEVEL=LOC (or 0) forbids it, too.
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
    """Tell whether NCCL_IB_HCA lets an adapter through: `^` excludes, `=` wants the whole name, else its beginning."""
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
