# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which adapter resources a host must offer its pods, by the site or else by the recipe, and what it lacks.

The site's setting replaces the recipe's promise: where a platform gives adapters to pods in its own way (rdma/ib,
vpc.amazonaws.com/efa, networking.gke.io.networks/rdma-0), only the site knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ...component_stack.adapter_promises import AdapterPromise, adapter_promises
from ...hardware.sku import Sku
from ...site.adapters import carries_gpu_traffic
from ...site.model import Host, Site
from ..kit.settings import setting
from ..spec import JudgeContext, ObserveContext
from .cluster_state import ClusterState, NodeState

CHECK_ID = "rdma-allocatable"
STATED = f"gpufleet_settings: {CHECK_ID}.resources"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaSettings:
    """Settings of check rdma-allocatable."""

    resources: dict[str, int] = setting(
        "Resources by which pods get the network adapters of a node, such as {rdma/ib: 8}, and how much of each a node "
        "offers; 0: any amount. In place of what the recipe's network operator promises.",
        default={},
        unit="count by resource",
        minimum=0,
    )
    hosts: tuple[str, ...] = setting(
        "Hosts, with * and ?, that offer these resources; the others offer none.", default=["*"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """How a node's offer differs from the promise, as text, and whether it offers nothing at all."""

    text: str
    nothing: bool


def promised_hosts(site: Site, recipe: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the hosts for which such resources are promised. A recipe promises them for all hosts."""
    configured = site.settings.get(CHECK_ID) or {}
    hosts = [host.name for host in site.in_scope]
    if configured.get("resources"):
        patterns = configured.get("hosts") or ["*"]
        return tuple(name for name in hosts if any(fnmatchcase(name, str(pattern)) for pattern in patterns))
    return tuple(hosts) if adapter_promises(recipe) else ()


def promises_for(context: JudgeContext | ObserveContext, host: Host) -> tuple[AdapterPromise, ...]:
    """Return what a host must offer. The promise of a recipe only applies to hosts with adapters for GPU traffic."""
    settings = context.settings_of(CHECK_ID, RdmaSettings)
    if settings.resources:
        here = any(fnmatchcase(host.name, pattern) for pattern in settings.hosts)
        configured = settings.resources if here else {}
        return tuple(
            AdapterPromise(name=name, count=count or None, source=STATED) for name, count in configured.items()
        )
    sku = context.hardware.get(host.sku)
    return adapter_promises(context.recipe) if sku is not None and carries_gpu_traffic(sku) else ()


def lack_of(node: NodeState, sku: Sku | None, promises: Sequence[AdapterPromise], others: Iterable[str]) -> Lack | None:
    """Return what a node lacks of what was promised. None: nothing.

    Resources without a count are those of single adapters. Together they must be at least as many as the SKU has for
    GPU traffic. `others` are resources that only hosts of other SKUs offer.
    """
    known = set(others)
    wanted = [entry for entry in promises if entry.name not in known]
    found = {entry.name: node.allocatable.get(entry.name, 0) for entry in wanted}
    nothing = not any(found.values())
    if not wanted or nothing:
        names = ", ".join(dict.fromkeys(entry.name for entry in wanted or promises))
        return Lack(text=f"offers no {names}", nothing=True)
    counted = {entry.name: entry.count for entry in wanted if entry.count is not None}
    wrong = [f"{found[name]} of {count} {name}" for name, count in counted.items() if found[name] != count]
    wrong += [f"no {e.name}" for e in wanted if e.count is None and e.source == STATED and not found[e.name]]
    single = {entry.name: found[entry.name] for entry in wanted if entry.count is None and entry.source != STATED}
    least = sku.compute_hcas if sku is not None else 1
    if single and sum(single.values()) < least:
        wrong.append(f"{sum(single.values())} of {least} {', '.join(single)}")
    return Lack(text=f"offers {'; '.join(wrong)}", nothing=False) if wrong else None


def of_other_kinds(
    cluster: ClusterState, context: JudgeContext | ObserveContext, sku: str, promises: Sequence[AdapterPromise]
) -> frozenset[str]:
    """Return the promised resources that hosts of other SKUs offer and no host of this one.

    A configuration may have one resource for each kind of host. What the site configures is for the hosts that it
    names.
    """
    offering: dict[str, set[str]] = {entry.name: set() for entry in promises if entry.source != STATED}
    for host in context.site.in_scope:
        node = cluster.node(host.node_name)
        for name in offering:
            if node is not None and node.allocatable.get(name):
                offering[name].add(host.sku)
    return frozenset(name for name, skus in offering.items() if skus and sku not in skus)


def nodes_without_adapters(cluster: ClusterState, context: ObserveContext) -> list[str]:
    """Return the Ready nodes that lack what was promised.

    Device plugins take a moment to register with their kubelet.
    """
    found = []
    for host in context.site.in_scope:
        node, promises = cluster.node(host.node_name), promises_for(context, host)
        if node is None or node.ready != "True" or not promises or any(entry.problem for entry in promises):
            continue
        others = of_other_kinds(cluster, context, host.sku, promises)
        if lack_of(node, context.hardware.get(host.sku), promises, others) is not None:
            found.append(node.name)
    return found
