# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a subnet manager sets of an InfiniBand port, alike over the hosts of a rail: the manager itself and the MTU.

A port under another subnet manager is cabled into another subnet, or two managers hold one; a port with a smaller MTU
makes every connection to it that small. Rails may be subnets of their own, so a rail is compared with itself alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import SubjectKind
from ...probe.ibstat import IbPort
from ...probe.ibv_devinfo import VerbsPort
from ..kit.finding import Finding
from .node_context import NodeContext
from .uniform import uniformity

Fact = Literal["SM lid", "active MTU"]
Ports = Sequence[tuple[str, IbPort]]
_CAUSES: dict[Fact, tuple[str, str]] = {
    "SM lid": (
        "subnet-manager-differs",
        "`sminfo -C <hca>` on both hosts must name one master; compare the cable of the port with the plan",
    ),
    "active MTU": (
        "ib-mtu-differs",
        "`ibv_devinfo -d <hca>`; look at the MTU that the subnet manager gives the partition (opensm: partitions.conf) "
        "and at the switch port",
    ),
}


def rail_differences(hosts: Iterable[tuple[NodeContext, Ports]]) -> dict[str, list[Finding]]:
    """Return by host what its ports have otherwise than most of their rail; of halves, what both have.

    Args:
        hosts: hosts of InfiniBand SKUs with all ports for GPU traffic, in the order of the rails.
    """
    rails: dict[tuple[str, int, Fact], dict[str, tuple[NodeContext, str, str]]] = {}
    for host, ports in hosts:
        mtus = _mtus(host)
        for rail, (name, port) in enumerate(ports):
            said: dict[Fact, int | None] = {"SM lid": port.sm_lid, "active MTU": mtus.get(_numbered(name))}
            for fact, value in said.items():
                if port.state == "Active" and value is not None:
                    place = (host.entry.sku, rail, fact)
                    rails.setdefault(place, {})[host.name] = (host, name, str(value))
    found: dict[str, list[Finding]] = {}
    for (_sku, _rail, fact), members in rails.items():
        usual = uniformity({host: read for host, (_context, _name, read) in members.items()})
        most = f"most ports of its rail {usual.expected}" if usual.expected else f"its rail: {usual.text()}"
        for host_name, (context, hca, read) in members.items():
            if read != usual.expected:
                finding = _finding(context, hca, fact, f"{hca}: {fact} {read}, {most}")
                found.setdefault(host_name, []).append(finding)
    return found


def _finding(host: NodeContext, port: str, fact: Fact, text: str) -> Finding:
    cause, hint = _CAUSES[fact]
    hint = hint.replace("<hca>", port.partition(":")[0])
    return Finding(cause=cause, text=text, hint=hint, subjects=(host.part(SubjectKind.HCA, port),), marginal=True)


def _numbered(name: str) -> str:
    return name if ":" in name else f"{name}:1"


def _mtus(host: NodeContext) -> dict[str, int]:
    """Return the MTU by port; empty where the tool is not installed, as check roce-setup asks for it on RoCE only."""
    ports: tuple[VerbsPort, ...] | ProbeFailure = host.facts.read("verbs_ports", tuple)
    return {} if isinstance(ports, ProbeFailure) else {f"{port.device}:{port.port}": port.mtu for port in ports}
