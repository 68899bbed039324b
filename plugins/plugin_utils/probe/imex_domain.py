# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-imex-ctl -N -j`, with and without `-H`: the state of an IMEX domain and of its nodes.

Fields and states: NVIDIA/DCGM, DCGM_FI_IMEX_DOMAIN_STATUS (UP, DOWN, DEGRADED) and DCGM_FI_IMEX_DAEMON_STATUS (READY
and what comes before and after it).
"""

from __future__ import annotations

from dataclasses import dataclass

from .json_output import an_object, read_json, words
from .text import unreadable

TOOL = "nvidia-imex-ctl -N -j"
UP, READY = "UP", "READY"


@dataclass(frozen=True, slots=True)
class ImexNode:
    """One node of the domain: its address, its name (empty where it was not asked for) and the state of its service."""

    address: str
    name: str
    status: str
    version: str


@dataclass(frozen=True, slots=True)
class ImexDomain:
    """The domain as one of its nodes sees it."""

    status: str
    nodes: tuple[ImexNode, ...]

    @property
    def unready(self) -> tuple[ImexNode, ...]:
        """The nodes that are not READY."""
        return tuple(node for node in self.nodes if node.status != READY)


def parse(text: str) -> ImexDomain:
    """Return the domain with its nodes by their numbers.

    Raises:
        InputError: no state of the domain, no node, or a node without state or address.
    """
    start = text.find("{")
    document = an_object(read_json(text[start:] if start > 0 else text, TOOL), TOOL, "the document")
    status = words(document, "status", TOOL)
    listed = an_object(document.get("nodes"), TOOL, "nodes")
    if not status or not listed:
        raise unreadable(TOOL, f"status {status!r}, {len(listed)} nodes", "a status and at least one node")
    nodes = []
    for number, value in sorted(listed.items(), key=lambda item: (len(item[0]), item[0])):
        entry = an_object(value, TOOL, f"node {number}")
        node = ImexNode(
            address=words(entry, "host", TOOL),
            name=words(entry, "hostName", TOOL),
            status=words(entry, "status", TOOL),
            version=words(entry, "version", TOOL),
        )
        if not node.address or not node.status:
            raise unreadable(TOOL, f"node {number} with {entry}"[:120], "host and status of every node")
        nodes.append(node)
    return ImexDomain(status, tuple(nodes))
