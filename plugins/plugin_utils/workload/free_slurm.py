# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes of Slurm are free for a test of the whole node, and why the others are not. Pure.

A node is free if its state is exactly idle and it has no reason. A drained node has the base state IDLE too, a reserved
or planned one belongs to a coming job, and an unknown flag may mean anything. Where both JSON and text are read, both
have to report it free: Slurm 25.05 has flag BLOCKED in the text alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ..hardware.sku import Sku
from ..outcome.errors import InputError
from ..probe.slurm_nodes import HARMLESS_FLAGS, SlurmNode
from ..site.model import Host
from .node_use import NodeUse, Use, absent
from .slurm_script import OWNER

# Flags that a reservation adds to the state of its nodes; one for maintenance adds both.
_OF_RESERVATION = frozenset({"RESERVED", "MAINTENANCE"})


def free_in_slurm(
    names: Collection[str], *views: Iterable[SlurmNode], reserved: Collection[str] = ()
) -> dict[str, NodeUse]:
    """Return for each named node whether it is free for a test.

    Args:
        names: nodes, by their names in Slurm.
        views: the output of `scontrol show nodes`, once for each format that was queried.
        reserved: nodes of the reservation in which our jobs run.
    """
    observed = [{node.name: _in_reservation(node, reserved) for node in view} for view in views]
    return {name: _least([_use(name, view.get(name)) for view in observed], name) for name in sorted(frozenset(names))}


def _in_reservation(node: SlurmNode, reserved: Collection[str]) -> SlurmNode:
    return replace(node, flags=node.flags - _OF_RESERVATION) if node.name in reserved else node


def _least(uses: list[NodeUse], name: str) -> NodeUse:
    order = (Use.CLOSED, Use.BUSY, Use.OURS, Use.FREE)
    return min(uses, key=lambda found: order.index(found.use), default=absent(name, "what was read of Slurm"))


def _use(name: str, node: SlurmNode | None) -> NodeUse:
    if node is None:
        return absent(name, "Slurm")
    by, why = f" by {node.reason_by}" if node.reason_by else "", f": {node.reason}" if node.reason else ""
    state = f"is {node.state}{by}{why}"
    others = node.flags - HARMLESS_FLAGS
    if node.free and not node.reason:
        return NodeUse(name=name, use=Use.FREE)
    if node.base in ("ALLOCATED", "MIXED") and not others:
        return NodeUse(name=name, use=Use.BUSY, why=f"jobs run on it ({node.state})")
    ours = node.reason.startswith(f"{OWNER}:")
    if node.base == "IDLE" and ours and others == {"DRAIN"}:
        return NodeUse(name=name, use=Use.OURS, why=f"drained by us{why}")
    return NodeUse(name=name, use=Use.CLOSED, why=state)


def uses_of_hosts(
    nodes: Collection[SlurmNode],
    hosts: Collection[Host],
    hardware: Mapping[str, Sku],
    reserved: Collection[str] = (),
) -> dict[str, NodeUse]:
    """Return the use of the nodes of Slurm, by the name of the host.

    A node is closed if Slurm offers another number of GPUs than its SKU has: a test of all GPUs would look the same as
    a test of some.

    Args:
        nodes: the output of `scontrol show nodes`.
        hosts: the hosts to look up.
        hardware: the SKUs, by name.
        reserved: see free_in_slurm.
    """
    found = free_in_slurm({host.node for host in hosts}, nodes, reserved=reserved)
    known = {node.name: node for node in nodes}
    uses = {}
    for host in hosts:
        use, sku = found[host.node], hardware.get(host.sku)
        offered = use.use in (Use.FREE, Use.OURS)
        problem = _gpus_problem(known[host.node], sku) if offered and sku else ""
        uses[host.name] = NodeUse(name=host.name, use=Use.CLOSED if problem else use.use, why=problem or use.why)
    return uses


def _gpus_problem(node: SlurmNode, sku: Sku) -> str:
    try:
        gpus = node.gpus
    except InputError as error:
        return error.reason
    if gpus in (None, sku.gpus):
        return ""
    return f"Slurm gives out {gpus} GPUs there ({node.gres}), and {sku.name} has {sku.gpus}"
