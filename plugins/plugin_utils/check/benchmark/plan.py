# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of every benchmark gate: which hosts can run something, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypedDict, TypeVar

from ...clients.kube.cluster import Cluster
from ...component_stack.facts import stack_facts
from ...hardware.sku import Sku, sku_or_error
from ...outcome.gates import STACK_GATE
from ...site.model import Host
from ...workload.capacity import GPU, NodeCapacity, read_node_capacity
from ..kit.tolerations import tolerations_of
from ..spec import ObserveContext


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkHost:
    """One host in scope.

    Attributes:
        name: the host.
        node: its node.
        sku: its SKU.
        closed: why no pod can be placed on its node. Empty: one can.
        by_dra: its GPUs are offered by DRA, not by the device plugin.
        asks: what its pods request to get network adapters, by resource name.
        imex: its pods can share GPU memory with those of other hosts of its rack.
    """

    name: str
    node: str
    sku: str
    closed: str = ""
    by_dra: bool = False
    asks: dict[str, str] = field(default_factory=dict)
    imex: bool = False


# Prefix of the reason that is the same for all hosts.
NO_OFFER = f"no node offers {GPU}"
HostT_co = TypeVar("HostT_co", bound=BenchmarkHost, covariant=True)


@dataclass(frozen=True, kw_only=True)
class BenchmarkPlan(Generic[HostT_co]):
    """The hosts of a benchmark. A gate adds what its runs depend on."""

    hosts: tuple[HostT_co, ...]
    schema_version: int = 1

    def host(self, name: str) -> HostT_co:
        """Return the host of that name.

        Raises:
            KeyError: the plan has no such host.
        """
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, HostT_co]:
        return {host.name: host for host in self.hosts}

    @property
    def skus(self) -> tuple[str, ...]:
        """The SKUs of the hosts, each once, in the order of the hosts."""
        return tuple(dict.fromkeys(host.sku for host in self.hosts))

    def hosts_of(self, sku: str) -> tuple[HostT_co, ...]:
        """Return the hosts of a SKU."""
        return tuple(host for host in self.hosts if host.sku == sku)

    @property
    def open_hosts(self) -> tuple[HostT_co, ...]:
        """The hosts on which a pod can be placed."""
        return tuple(host for host in self.hosts if not host.closed)


class Placement(TypedDict):
    """The fields that every planned host has."""

    name: str
    node: str
    sku: str
    closed: str
    by_dra: bool
    asks: dict[str, str]
    imex: bool


def placement(host: Host, sku: Sku, capacity: NodeCapacity, least: int = 0) -> Placement:
    """Return where a host's pods are placed. The host is closed if its node is, or has too few free GPUs.

    Args:
        host: the host.
        sku: its SKU.
        capacity: what its node offers now.
        least: GPUs that a pod of the benchmark needs at least; 0: all of the SKU.
    """
    closed, needed = capacity.closed or _in_parts(sku, capacity), least or sku.gpus
    if not closed and min(capacity.free, sku.gpus) < needed:
        closed = f"{capacity.free} of {sku.gpus} GPUs are free on {capacity.name}, {needed} are needed"
    return Placement(
        name=host.name,
        node=host.node_name,
        sku=host.sku,
        closed=closed,
        by_dra=capacity.by_dra,
        asks={},
        imex=False,
    )


def _in_parts(sku: Sku, capacity: NodeCapacity) -> str:
    """Return why a node that splits its GPUs (MIG, time-slicing) runs no benchmark. Empty: it offers whole GPUs.

    Two parts may be of the same GPU, and the gate needs whole ones.
    """
    if capacity.by_dra or capacity.total == sku.gpus:
        # A claim names whole GPUs, even where the slices that could be made of them are listed too.
        return ""
    parts = {GPU: capacity.total, **capacity.parts} if capacity.total > sku.gpus else capacity.parts
    if not parts:
        return ""
    offered = ", ".join(f"{name}: {number}" for name, number in sorted(parts.items()))
    return f"{capacity.name} gives out its {sku.gpus} GPUs in parts ({offered}), and the gate needs whole ones"


def _without_offers(capacities: Mapping[str, NodeCapacity], *, in_scope: bool) -> Mapping[str, NodeCapacity]:
    """Return the capacities, with every open node closed for the same reason if no node offers any GPU.

    In that case the cause is not a single node, and no pod occupies its GPUs.
    """
    if any(node.total or node.parts for node in capacities.values()):
        return capacities
    why = (
        NO_OFFER
        if in_scope
        else f"{NO_OFFER}: gate {STACK_GATE} is not in scope, and its stack is not installed or down"
    )
    return {name: replace(node, closed=node.closed or why) for name, node in capacities.items()}


def planned_hosts(
    cluster: Cluster, context: ObserveContext, make: Callable[[Host, Sku, NodeCapacity], HostT_co]
) -> tuple[HostT_co, ...]:
    """Return the hosts in scope, each as `make` plans it.

    Raises:
        NotFoundError: a SKU has no hardware facts.
        BringupError: the API server does not respond.
    """
    hosts = context.site.in_scope
    found = read_node_capacity(cluster, {host.node_name for host in hosts}, tolerations_of(context), context.roll)
    capacities = _without_offers(found, in_scope=STACK_GATE in context.site.gates)
    return tuple(make(host, sku_or_error(context.hardware, host.sku), capacities[host.node_name]) for host in hosts)


def device_class(*hosts: BenchmarkHost) -> str:
    """Return the DRA device class that pods on these hosts request. Empty: the device plugin offers the GPUs."""
    return stack_facts().dra.device_class if any(host.by_dra for host in hosts) else ""
