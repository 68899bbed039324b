# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How pods of a multi-host run reach the network: adapters, the resource that provides them, the gang scheduler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ...clients.kube.api_versions import dra_kinds
from ...clients.kube.cluster import Cluster
from ...clients.kube.objects import NODES, Cleaner, read_node
from ...clients.kube.permission import Permission
from ...collect.host_facts import HostAdapters, read_adapters
from ...component_stack.facts import stack_facts
from ...hardware.sku import Fabric, Sku
from ...outcome.errors import InputError
from ...site.adapters import LINK_LAYERS, VARIABLE, carries_gpu_traffic, nccl_port
from ...site.cabling import CablingPlan, stated_cabling
from ...site.model import Host
from ...snapshot.model import whole_number
from ...workload.capacity import CLASS_PREFIX, NodeCapacity, imex_nodes
from ...workload.job import JobKind, PodNeeds
from ...workload.namespace import job_permissions
from ..spec import ObserveContext
from .plan import BenchmarkHost, Placement, device_class, placement

# Adapters that nodes offer by DRA claims: which device class pods request, and how many each node has. GKE's A4X Max
# offers its eight RoCE adapters this way: class mrdma.google.com, count 8
# (GoogleCloudPlatform/container-engine-accelerators, gpudirect-rdma/nccl-test-a4x-max.yaml; "Allocate network resources
# by using GKE managed DRANET"). The driver is DRANET, whose slices report for each network interface whether it can do
# RDMA (kubernetes-sigs/dranet: driver and attribute domain `dra.net`, boolean attribute `rdma`).

Json = dict[str, Any]
_DRIVER = "dra.net"
_RDMA = ("rdma", f"{_DRIVER}/rdma")


def class_offers(
    cluster: Cluster, nodes: Collection[str], classes: Iterable[str], configured: str, count: int
) -> dict[str, dict[str, int]]:
    """Return by node how many adapters its pods can claim, under the name of the class as a resource (CLASS_PREFIX).

    Empty where no adapters are offered by claims, or the site configures a resource that is no device class.

    Args:
        cluster: the cluster.
        nodes: the nodes.
        classes: device classes to look for where the site configures none.
        configured: the resource that the site configures. An extended resource, or `none`, rules claims out.
        count: how many a pod claims, as the site configures it; 0: all that a node has.

    Raises:
        InputError: the configured class does not exist, or the number of adapters is not known.
        BringupError: the API server does not respond.
    """
    if configured and not configured.startswith(CLASS_PREFIX):
        return {}
    kinds = dra_kinds(cluster)
    there: Counter[str] = rdma_devices(cluster.list_objects(kinds.slices)) if kinds else Counter()
    listed = any(there[node] for node in nodes)
    if not listed and not configured:
        # Device classes are not read either: that needs a permission of its own, and there is nothing to claim.
        return {}
    wanted = [configured.removeprefix(CLASS_PREFIX)] if configured else list(classes)
    found = next((name for name in wanted if kinds and cluster.find(kinds.classes, name) is not None), "")
    if not found:
        if configured:
            hint = "kubectl get deviceclasses; correct rdma_resource (settings of fabric_validation)"
            raise InputError(f"DeviceClass {wanted[0]}", "does not exist.", hint)
        return {}
    if not listed:
        if not count:
            reason = f"no ResourceSlice of {_DRIVER} says how many adapters the nodes have."
            hint = "state how many a pod claims: rdma_count (settings of fabric_validation)"
            raise InputError(f"DeviceClass {found}", reason, hint)
        there = Counter(dict.fromkeys(nodes, count))
    return {node: {f"{CLASS_PREFIX}{found}": there[node]} for node in nodes}


def rdma_devices(slices: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return by node the number of its network interfaces that can do RDMA. Pure."""
    found: Counter[str] = Counter()
    for item in slices:
        spec = item.get("spec") or {}
        if spec.get("driver") == _DRIVER:
            found[str(spec.get("nodeName") or "")] += sum(map(_has_rdma, spec.get("devices") or []))
    return found


def _has_rdma(device: Json) -> bool:
    attributes = device.get("attributes") or (device.get("basic") or {}).get("attributes") or {}
    return any((attributes.get(name) or {}).get("bool") is True for name in _RDMA)


# Fabrics on which NCCL_IB_HCA selects adapters.
FILTERED_FABRICS = tuple(LINK_LAYERS)
KNOW_ADAPTERS = f"state {VARIABLE} of the host, or run gate nodes"
# What the jobs get that are not pods.
OF_HOST = "the adapters of its host"
_NO_RESOURCE = "none"
_NUMBERED = re.compile(r"(.*\D)\d+")
_HUGE_PAGES = "hugepages-2Mi"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """The network of test pods, as configured under gate fabric_validation.

    Args:
        hcas: adapters for GPU traffic. Empty: those of the inventory or cabling plan, else those found on the host.
        rdma_resource: extended resource that gives a pod its adapters. Empty: the one that most nodes offer.
        rdma_count: how much of it a pod requests. 0: as much as its node offers, see Network.asks.
        rdma_prefixes: resources whose names start with one of these provide adapters.
        rdma_classes: DRA device classes to claim adapters from where nodes offer no such resource.
        annotations: annotations of the pods, such as the networks of Multus.
        env: environment of the ranks.
        privileged: pods can access all devices of their node.
        host_network: pods use the network of their node.
        beside: what pods request in addition, where their node offers it; by the prefix of the adapter resource.
        pods: what pods need in addition to adapters, by fabric.
    """

    hcas: tuple[str, ...]
    rdma_resource: str
    rdma_count: int
    rdma_prefixes: tuple[str, ...]
    annotations: Mapping[str, str]
    env: Mapping[str, str]
    privileged: bool = False
    host_network: bool = False
    rdma_classes: tuple[str, ...] = ()
    beside: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pods: Mapping[str, PodNeeds] = field(default_factory=dict)


class PodNetwork(TypedDict):
    """The fields of a JobSpec that describe how its pods reach each other."""

    gang: str
    limits: Mapping[str, str]
    annotations: Mapping[str, str]
    privileged: bool
    host_network: bool
    compute_domain: bool
    needs: PodNeeds


def pod_network(
    hosts: Sequence[BenchmarkHost],
    settings: NetworkSettings,
    *,
    gang: str,
    fabric: Fabric,
    alone_with_adapters: bool = False,
) -> PodNetwork:
    """Return how the pods of a run over these hosts reach each other.

    All pods request as much as the host that offers least. A run on one host needs no gang, and gets adapters only with
    `alone_with_adapters`.
    """
    if len(hosts) == 1 and not alone_with_adapters:
        return PodNetwork(
            gang="none", limits={}, annotations={}, privileged=False, host_network=False, compute_domain=False,
            needs=PodNeeds(),
        )  # fmt: skip
    needs = settings.pods.get(fabric, PodNeeds())
    common = [name for name in hosts[0].asks if all(name in host.asks for host in hosts)]
    limits = {name: min((host.asks[name] for host in hosts), key=_amount) for name in common}
    return PodNetwork(
        gang=gang if len(hosts) > 1 else "none",
        limits=limits,
        annotations={**needs.annotations, **settings.annotations},
        privileged=settings.privileged,
        host_network=settings.host_network,
        # If one host cannot share GPU memory, NCCL uses the adapters between all of them.
        compute_domain=len(hosts) > 1 and all(host.imex for host in hosts),
        needs=needs,
    )


def _amount(text: str) -> int:
    """Return a count as a number. A quantity with a unit is the same on all hosts and counts as 0."""
    return int(text) if text.isdecimal() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network as it was found.

    Attributes:
        settings: what the site configures.
        resource: what pods request to get adapters. Empty: nothing.
        offers: by node, how much it offers of each such resource.
        gang: the gang scheduler of the recipe; `native` if it has none.
        cabling: the cabling plan, if the site has one.
        adapters: the adapters of every host.
        pages: by node, whether it offers huge pages.
        imex: the nodes whose pods can share GPU memory across hosts.
    """

    settings: NetworkSettings
    resource: str
    offers: Mapping[str, Mapping[str, int]]
    gang: str
    cabling: CablingPlan | None = None
    adapters: Mapping[str, HostAdapters] = field(default_factory=dict)
    pages: Mapping[str, bool] = field(default_factory=dict)
    imex: frozenset[str] = frozenset()

    def offered(self, host: Host) -> int:
        """Return how much of the resource the node of a host offers. Numbered resources are added up (see asks)."""
        return sum(self.offers.get(host.node_name, {}).get(name, 0) for name in self._numbered(host))

    def asks(self, host: Host, sku: Sku) -> dict[str, str]:
        """Return what a pod on a host requests so that it gets all adapters for GPU traffic.

        If a node offers at most as many units as the host has such adapters, one unit is one adapter: a pod requests
        all of them, from one resource or from several numbered ones with one unit each. If it offers more, each unit
        gives a pod all adapters, and one is requested.
        """
        names = self._numbered(host)
        if not self.resource or not names:
            return {}
        offered = self.offered(host)
        each = offered if offered <= sku.compute_hcas else 1
        count = self.settings.rdma_count or each
        found = dict.fromkeys(names, "1") if len(names) > 1 else {names[0]: str(count)}
        beside = next((more for start, more in self.settings.beside.items() if self.resource.startswith(start)), {})
        return {**found, **(beside if self.pages.get(host.node_name) else {})}

    def _numbered(self, host: Host) -> tuple[str, ...]:
        """Return the resource, or all that differ from it only in a trailing number and are offered once each."""
        offers = self.offers.get(host.node_name, {})
        stem = _NUMBERED.fullmatch(self.resource)
        alike = [n for n in sorted(offers) if stem and (m := _NUMBERED.fullmatch(n)) and m.group(1) == stem.group(1)]
        if len(alike) > 1 and all(offers[name] == 1 for name in alike):
            return tuple(alike)
        return (self.resource,) if offers.get(self.resource) else ()

    def ports(self, host: Host, sku: Sku) -> tuple[str, ...]:
        """Return the ports for GPU traffic (`mlx5_0:1`) in rail order, never those for storage or management.

        They come from the gate's setting, else from the inventory, else from the cabling plan, else from
        site/adapters.py. Empty: the host has no port that a filter could select, or its ports are not known (no_ports).
        """
        if not carries_gpu_traffic(sku):
            return ()
        links = [link for link in self.cabling.links if link.host == host.name] if self.cabling else []
        planned = sorted((link.rail, link.hca, link.near.port) for link in links)
        names = self.settings.hcas or host.hcas or tuple(f"{hca}:{port}" for _rail, hca, port in planned)
        found = self.adapters.get(host.name)
        return tuple(nccl_port(name) for name in names or (found.compute.names if found else ()))

    def leaves(self, host: Host) -> tuple[str, ...]:
        """Return the switches that the adapters of a host are cabled to, in rail order.

        Empty without a cabling plan.
        """
        links = [link for link in self.cabling.links if link.host == host.name] if self.cabling else []
        return tuple(link.far.node for link in sorted(links, key=lambda link: link.rail) if link.far is not None)

    def no_ports(self, host: Host, sku: Sku) -> str:
        """Return why the adapters for GPU traffic of a host are not known.

        Empty: they are known, or the host has none.
        """
        if not carries_gpu_traffic(sku) or self.ports(host, sku):
            return ""
        found = self.adapters.get(host.name)
        return (found.problem if found else "") or "nothing is known of its adapters"


def connected_placement(network: Network, host: Host, sku: Sku, capacity: NodeCapacity) -> Placement:
    """Return where a host's pods are placed.

    The host is also closed if its adapters for GPU traffic are not known: with a wrong filter, its storage or
    management adapters would carry the run.
    """
    placed = placement(host, sku, capacity)
    placed["asks"] = network.asks(host, sku)
    placed["imex"] = sku.nvlink_domain == "rack" and host.node_name in network.imex
    unknown = network.no_ports(host, sku)
    if unknown and not placed["closed"]:
        placed["closed"] = f"{unknown}; {KNOW_ADAPTERS}"
    return placed


def read_network(cluster: Cluster, context: ObserveContext, settings: NetworkSettings) -> Network:
    """Return the network of the hosts in scope.

    Raises:
        InputError: the cabling plan or the configured device class cannot be used.
        BringupError: the API server does not respond.
    """
    prefixes = tuple({*settings.rdma_prefixes, *([settings.rdma_resource] if settings.rdma_resource else [])})
    wanted, offers, pages = {host.node_name for host in context.site.in_scope}, {}, {}
    cleaner = Cleaner()
    for obj in cluster.list_objects(NODES):
        if obj["metadata"]["name"] in wanted:
            title, node = read_node(obj, cleaner)
            amounts = node.allocatable
            offers[title] = {
                name: number
                for name, amount in amounts.items()
                if name.startswith(prefixes) and (number := whole_number(amount)) is not None
            }
            pages[title] = amounts.get(_HUGE_PAGES, "0") != "0"
    if not any(amount for resources in offers.values() for amount in resources.values()):
        configured, many = settings.rdma_resource, settings.rdma_count
        offers |= class_offers(cluster, offers, settings.rdma_classes, configured, many)
    components = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    return Network(
        settings=settings,
        resource=adapter_resource(offers, settings.rdma_resource),
        offers=offers,
        gang=next((name for name in stack_facts().gangs if name in components), "native"),
        cabling=stated_cabling(context.site, context.hardware),
        adapters=read_adapters(context.run_dir, context.site, context.hardware),
        pages=pages,
        imex=imex_nodes(cluster) if _rack_wide(context) else frozenset(),
    )


def hosts_network(context: ObserveContext, settings: NetworkSettings) -> Network:
    """Return the network of the hosts in scope for jobs that are not pods: they request and are allocated no resource.

    Raises:
        InputError: the cabling plan cannot be used.
    """
    return Network(
        settings=settings, resource=OF_HOST, offers={}, gang="none",
        cabling=stated_cabling(context.site, context.hardware),
        adapters=read_adapters(context.run_dir, context.site, context.hardware),
    )  # fmt: skip


def _rack_wide(context: ObserveContext) -> bool:
    """Return whether the NVLink domain of a host in scope spans its rack."""
    skus = (context.hardware.get(host.sku) for host in context.site.in_scope)
    return any(sku is not None and sku.nvlink_domain == "rack" for sku in skus)


def adapter_resource(offers: Mapping[str, Mapping[str, int]], configured: str) -> str:
    """Return the resource that pods request: the configured one, else the one that most nodes offer. Empty: none."""
    if configured:
        return "" if configured == _NO_RESOURCE else configured
    observed = Counter(name for resources in offers.values() for name, amount in sorted(resources.items()) if amount)
    return observed.most_common(1)[0][0] if observed else ""


def port_filter(ports: Iterable[str]) -> dict[str, str]:
    """Return the environment that limits NCCL to these ports. Empty without ports."""
    names = ",".join(dict.fromkeys(ports))
    return {"NCCL_IB_HCA": f"={names}"} if names else {}


def gang_permissions(kind: JobKind, hosts: Sequence[BenchmarkHost], gang: str) -> tuple[Permission, ...]:
    """Return what jobs over these hosts need in addition to BASIC of workload.permission.

    A single host needs no gang.
    """
    facts = stack_facts().gangs.get(gang) if len(hosts) > 1 else None
    return job_permissions(
        kind,
        gang_api=facts.api_version if facts else "",
        by_dra=bool(device_class(*hosts)) or any(name.startswith(CLASS_PREFIX) for host in hosts for name in host.asks),
        imex=len(hosts) > 1 and any(host.imex for host in hosts),
    )
