# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The nodes of a site as the queue of tests sees them: what is on each now, where it stands, what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..check.kit.tolerations import tolerations_of
from ..check.node_tests.settings import CONTINUOUS, ContinuousSettings
from ..check.spec import ObserveContext
from ..clients.kube.cluster import Cluster
from ..fleet.free_nodes import SYSTEM, free_nodes
from ..fleet.queue_model import BatchLimits, QueueNode, window_of
from ..fleet.slurm_drain import ask_scontrol
from ..hardware.sku import Sku
from ..probe.slurm_nodes import parse
from ..site.cabling import stated_cabling
from ..site.model import Site
from ..workload.capacity import read_gpu_objects
from ..workload.free_slurm import name_in_slurm, uses_of_hosts
from ..workload.node_use import NodeUse, Use
from ..workload.slurm_jobs import SlurmCommands


def uses_in_kubernetes(cluster: Cluster, context: ObserveContext) -> dict[str, NodeUse]:
    """Return by the name of the host what is on its node now; hosts that are set aside are not asked for.

    Raises:
        BringupError: the API server does not answer, or refuses.
    """
    settings = context.settings_of(CONTINUOUS, ContinuousSettings)
    components = {str(entry.get("namespace") or "") for entry in (context.recipe or {}).get("componentRefs", [])}
    found = free_nodes(
        *read_gpu_objects(cluster),
        {name_in_slurm(host) for host in context.site.in_scope},
        system={*SYSTEM, *components, *settings.system_namespaces} - {""},
        tolerations=tolerations_of(context),
        beside_others=settings.beside_pods,
    )
    return {host.name: replace(found[name_in_slurm(host)], name=host.name) for host in context.site.in_scope}


def uses_in_slurm(scontrol: str, site: Site, hardware: Mapping[str, Sku], reservation: str = "") -> dict[str, NodeUse]:
    """Return by the name of the host what Slurm says of its node now.

    Args:
        scontrol: the command.
        site: whose hosts.
        hardware: the SKUs.
        reservation: the one in which tests run; empty for none.

    Raises:
        InputError: what scontrol prints is no list of nodes, or not that reservation.
        BringupError: there is no scontrol on this controller, or it does not answer.
    """
    # Text, because flag BLOCKED is in no JSON (probe/slurm_nodes.py).
    nodes = parse(ask_scontrol(scontrol, "show", "nodes"))
    return uses_of_hosts(nodes, site.in_scope, hardware, SlurmCommands(scontrol).reserved(reservation))


def queue_nodes(
    context: ObserveContext, uses: Mapping[str, NodeUse], parts: Mapping[str, Mapping[str, str]]
) -> tuple[QueueNode, ...]:
    """Return all hosts of the site for the queue.

    Args:
        context: the site and its hardware.
        uses: what is on their nodes, by host.
        parts: what is in them, by host and slot (standing.parts_now).
    """
    set_aside = {entry.node: f"quarantined: {entry.reason} ({entry.ticket})" for entry in context.site.quarantine}
    rails = _rails(context)
    found = []
    for host in context.site.hosts:
        use = uses.get(host.name)
        not_free = set_aside.get(host.name) or (use.why if use is not None and not use.free else "")
        if use is None and not not_free:
            not_free = "nobody was asked what is on it"
        node = QueueNode(name=host.name, rack=host.rack, rail=rails.get(host.name, ""), not_free=not_free)
        found.append(replace(node, parts=parts.get(host.name, {})))
    return tuple(found)


def busy_hosts(uses: Iterable[NodeUse]) -> tuple[str, ...]:
    """Return the hosts on which only passive checks may go: somebody's work is there."""
    return tuple(sorted(use.name for use in uses if use.use is Use.BUSY))


def _rails(context: ObserveContext) -> dict[str, str]:
    """Return by host the leaf switches of its adapters, by the cabling plan that the site states; else none."""
    plan = stated_cabling(context.site, context.hardware)
    found: dict[str, set[str]] = {}
    for link in plan.links if plan is not None else ():
        if link.host and link.far is not None:
            found.setdefault(link.host, set()).add(link.far.node)
    return {host: ", ".join(sorted(names)) for host, names in found.items()}


def limits_of(settings: ContinuousSettings) -> BatchLimits:
    """Return the limits of a batch that the site states.

    Raises:
        InputError: no such window, day or time zone.
    """
    return BatchLimits(
        size=settings.batch,
        per_rack=settings.per_rack,
        per_rail=settings.per_rail,
        window=window_of(settings.window, settings.window_zone, settings.window_days),
        failed_again_h=settings.failed_again_h,
        other_again_h=settings.other_again_h,
    )
