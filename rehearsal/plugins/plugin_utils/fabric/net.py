# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fabric of a cluster model for ibsim: its net file, its console commands, and the cabling plan of its site."""

from __future__ import annotations

import hashlib
import os
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..model.values import Cable, ClusterModel, Hca, Node
from ..model.wiring import Port, Wiring, wire

# The fabric of a cluster model for ibsim: its net file and its console commands.

MANAGERS = ("sm01", "sm02")
"""Hosts of the subnet managers.

Each has a cable to every spine, so that no GPU host and no single dead switch takes them down.
"""
_SYMBOL_ERRORS, _LINK_DOWNED = "PortCounters.SymbolErrorCounter", "PortCounters.LinkDownedCounter"


@dataclass(frozen=True, slots=True)
class NetNode:
    """A node of the net file: `ident` is its name there, `H-...` or `S-...`, `title` its node description."""

    ident: str
    title: str
    ports: int

    @property
    def guid(self) -> str:
        """Its node GUID, 16 hexadecimal digits."""
        return self.ident[2:]


@dataclass(frozen=True, slots=True)
class NetLink:
    """A cable that is up, from a port of an adapter or a leaf to a port of a switch."""

    node: NetNode
    port: int
    switch: NetNode
    switch_port: int
    cable: Cable
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Net:
    """The simulated fabric."""

    nodes: tuple[NetNode, ...]
    links: tuple[NetLink, ...]

    @property
    def active_ends(self) -> int:
        """Number of link ends that a subnet manager brings up: those that it can reach."""
        reached = self._reached()
        return 2 * sum(not link.silent and link.switch.ident in reached for link in self.links)

    def _reached(self) -> set[str]:
        beside: dict[str, set[str]] = {}
        for link in self.links:
            beside.setdefault(link.node.ident, set()).add(link.switch.ident)
            beside.setdefault(link.switch.ident, set()).add(link.node.ident)
        open_ends = [node.ident for node in self.nodes if node.title.partition(" ")[0] in MANAGERS]
        reached = set(open_ends)
        while open_ends:
            fresh = beside.get(open_ends.pop(), set()) - reached
            reached |= fresh
            open_ends += fresh
        return reached


@dataclass(frozen=True, slots=True)
class Growth:
    """A counter that grows: the console command without the value, the first value, and the growth per second."""

    command: str
    start: int
    per_s: int


def adapter_ident(hca: Hca) -> str:
    """Return the name of an adapter in the net file."""
    return f"H-{int(hca.guid, 16):016x}"


def build_net(model: ClusterModel) -> Net:
    """Return the fabric of the model, with its faults."""
    wiring = wire(model.nodes)
    alive = {switch.name for switch in model.infiniband.switches if switch.alive}
    titles = {switch.name: switch.description or switch.name for switch in model.infiniband.switches}
    switches = {
        name: NetNode(f"S-{_guid(model.seed, name)}", titles[name], ports)
        for name, ports in wiring.switches.items()
        if name in alive
    }
    adapters = {
        f"{node.name}/{hca.name}": NetNode(adapter_ident(hca), _title(model, node, hca), 1)
        for node, hca in _adapters(model)
    }
    strangers = _strangers(model, switches)
    managers = [NetNode(manager_ident(model.seed, name), f"{name} mlx5_0", 1) for name in MANAGERS]
    links = [*_host_links(model, wiring, switches, adapters), *_uplinks(model, wiring, switches)]
    links += _manager_links(managers, [switch for name, switch in switches.items() if name.startswith("spine")])
    links += strangers
    nodes = (*switches.values(), *adapters.values(), *managers, *(link.node for link in strangers))
    return Net(nodes, tuple(links))


def _title(model: ClusterModel, node: Node, hca: Hca) -> str:
    words = {"host": node.name, "hca": hca.name, "number": str(hca.index + 1)}
    return model.infiniband.adapter_description.format_map(words)


def _strangers(model: ClusterModel, switches: Mapping[str, NetNode]) -> list[NetLink]:
    """Return other adapters on the fabric.

    They get the last ports of its switches, below those of the subnet managers.
    """
    found: list[NetLink] = []
    for number, stranger in enumerate(model.infiniband.strangers):
        switch = switches.get(stranger.switch)
        if switch is not None:
            taken = sum(link.switch is switch for link in found)
            node = NetNode(f"H-{_guid(model.seed, f'{stranger.name}/{number}')}", stranger.name, 1)
            found.append(NetLink(node, 1, switch, switch.ports - len(MANAGERS) - taken, stranger.cable))
    return found


def _manager_links(managers: Sequence[NetNode], spines: Sequence[NetNode]) -> Iterator[NetLink]:
    """Yield the active cable of each subnet manager, to a live spine, if possible each to another one."""
    for number, manager in enumerate(managers):
        if spines:
            spine = spines[number % len(spines)]
            yield NetLink(manager, 1, spine, spine.ports - number, Cable())


def manager_ident(seed: int, name: str) -> str:
    """Return the name of a subnet manager's adapter in the net file."""
    return f"H-{_guid(seed, name)}"


def _guid(seed: int, name: str) -> str:
    # Even, because the simulator numbers the port after the node.
    return f"248a07{int(hashlib.sha256(f'{seed}/{name}'.encode()).hexdigest()[:10], 16) & ~1:010x}"


def _adapters(model: ClusterModel) -> Iterator[tuple[Node, Hca]]:
    for node in model.nodes:
        for hca in node.present_hcas:
            if hca.link_layer == "InfiniBand":
                yield node, hca


def _host_links(
    model: ClusterModel, wiring: Wiring, switches: dict[str, NetNode], adapters: dict[str, NetNode]
) -> Iterator[NetLink]:
    places = _swapped_places(model, wiring)
    for node, hca in _adapters(model):
        name = f"{node.name}/{hca.name}"
        place = places[name]
        if hca.cable.up and hca.physical_state == "LinkUp" and place.switch in switches:
            not_reporting = hca.state != "Active"
            yield NetLink(adapters[name], 1, switches[place.switch], place.number, hca.cable, not_reporting)


def _swapped_places(model: ClusterModel, wiring: Wiring) -> dict[str, Port]:
    """Return the actual place of every cable.

    A swapped one has the place of its neighbour in the host, and vice versa.
    """
    places = dict(wiring.hosts)
    for node in model.nodes:
        for hca in node.hcas:
            if hca.cable.swapped:
                other = node.hcas[(hca.index + 1) % len(node.hcas)]
                first, second = f"{node.name}/{hca.name}", f"{node.name}/{other.name}"
                places[first], places[second] = places[second], places[first]
    return places


def _uplinks(model: ClusterModel, wiring: Wiring, switches: dict[str, NetNode]) -> Iterator[NetLink]:
    cables = {uplink.name: uplink.cable for uplink in model.infiniband.uplinks}
    for lower, upper in wiring.uplinks:
        cable = cables[str(lower)]
        if cable.up and lower.switch in switches and upper.switch in switches:
            yield NetLink(switches[lower.switch], lower.number, switches[upper.switch], upper.number, cable)


def net_text(net: Net) -> str:
    ends: dict[str, list[tuple[int, str]]] = {node.ident: [] for node in net.nodes}
    for link in net.links:
        speed = f"{link.cable.width}{link.cable.speed}"
        near, far = (link.node, link.port), (link.switch, link.switch_port)
        for (node, port), (peer, peer_port) in ((near, far), (far, near)):
            ends[node.ident].append((port, f'"{peer.ident}"[{peer_port}] \t# "{peer.title}" lid 0 {speed}'))
    blocks = []
    for node in net.nodes:
        switch = node.ident.startswith("S-")
        kind = f"switchguid=0x{node.guid}({node.guid})" if switch else f"caguid=0x{node.guid}"
        word, tail = ("Switch", " enhanced port 0 lid 0 lmc 0") if switch else ("Ca", "")
        lines = [kind, f'{word}\t{node.ports} "{node.ident}"\t\t# "{node.title}"{tail}']
        lines += [f"[{port}]\t{rest}" for port, rest in sorted(ends[node.ident])]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def console_start(net: Net) -> list[str]:
    """Return the console commands before the subnet managers start."""
    not_reporting = [f'Error "{link.node.ident}"[{link.port}] 100' for link in net.links if link.silent]
    errors = [f"{_counter(link, _SYMBOL_ERRORS)}{link.cable.errors}" for link in net.links if link.cable.errors]
    downed = [f"{_counter(link, _LINK_DOWNED)}{link.cable.downed}" for link in net.links if link.cable.downed]
    return not_reporting + errors + downed


def console_growth(net: Net) -> list[Growth]:
    """Return the counters that grow while the gates read them."""
    return [
        Growth(_counter(link, _SYMBOL_ERRORS), link.cable.errors, link.cable.errors_per_s)
        for link in net.links
        if link.cable.errors_per_s
    ]


def console_under_load(net: Net) -> list[str]:
    """Return the console commands once NCCL has loaded the fabric."""
    return [
        f"{_counter(link, _SYMBOL_ERRORS)}{link.cable.errors + link.cable.errors_under_load}"
        for link in net.links
        if link.cable.errors_under_load
    ]


def _counter(link: NetLink, counter: str) -> str:
    return f'PerformanceSet "{link.switch.ident}"[{link.switch_port}] {counter}='


def table_sizes(net: Net) -> list[str]:
    """Return ibsim's options for fabrics larger than its default tables."""
    switches = sum(node.ident.startswith("S-") for node in net.nodes)
    ports = sum(node.ports + 1 for node in net.nodes)
    return ["-N", str(max(2048, len(net.nodes) + 16)), "-S", str(max(256, switches + 4)), "-P", str(max(13312, ports))]


# The simulator's console: its commands, and its report about the ports of an adapter.

_LOG = 1
_CHUNK = 1 << 16
_LIMIT_S = 10.0


class Console:
    """Both ends of the console. Output that was not requested here goes to the log, which is standard output."""

    def __init__(self, messages: int, reported: int) -> None:
        """Take the file descriptors: the console's input, which others may write to as well, and its output."""
        self.said = reported
        self._told = messages
        self._asked = 0
        os.set_blocking(reported, False)

    def tell(self, line: str) -> None:
        """Send one line to the simulator."""
        os.write(self._told, f"{line}\n".encode())

    def pass_on(self) -> bool:
        """Copy the simulator's output to the log, so that it never blocks. Return whether the output has ended."""
        try:
            while chunk := os.read(self.said, _CHUNK):
                os.write(_LOG, chunk)
        except BlockingIOError:
            return False
        return True

    def states(self, adapters: Sequence[str]) -> str:
        """Return the simulator's report about these adapters: neighbour, LIDs, width, speed and state of every port.

        Empty if it does not respond in time.
        """
        self._asked += 1
        begin, end = (f'nodeid "H-{word}-{self._asked}" not found' for word in ("begin", "end"))
        # Unknown names before and after delimit the report, so that responses to others stay outside or are noticed.
        for name in (f"H-begin-{self._asked}", *adapters, f"H-end-{self._asked}"):
            self.tell(f'Dump "{name}"')
        text, deadline = "", time.monotonic() + _LIMIT_S
        while end not in text:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self.said], [], [], left_s)[0]:
                return ""
            chunk = os.read(self.said, _CHUNK)
            if not chunk:
                return ""
            text += chunk.decode(errors="replace")
        blocks = text.partition(begin)[2].partition(end)[0]
        # Each response begins with the time of day.
        return "\n".join(line for line in blocks.splitlines() if "# Net status" not in line)


# The site's cabling plan: where every cable should be, whatever its actual place.


def write_cabling(nodes: Sequence[Node], path: Path) -> None:
    """Write the plan as a person would: YAML, one line per host.

    Raises:
        OSError: it cannot be written.
    """
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(cabling_document(nodes), Dumper=dumper, sort_keys=False, width=200, default_flow_style=None)
    write_atomic(path, f"# Cabling plan of the simulated fabric. The simulator stops at HDR.\n---\n{text}")


def cabling_document(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the plan as plain data."""
    wiring = wire(nodes)
    hosts: dict[str, dict[str, str]] = {}
    for adapter, port in wiring.hosts.items():
        host, _mark, hca = adapter.partition("/")
        hosts.setdefault(host, {})[hca] = str(port)
    return {
        "schema_version": 1,
        "width": "4x",
        "speed": "HDR",
        "switches": dict(wiring.switches),
        "hosts": hosts,
        "trunks": [f"{lower} - {upper}" for lower, upper in wiring.uplinks],
    }
