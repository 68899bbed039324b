# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ranks of a Job that contact each other: the lines of the program in recipes/workloads/networking/, from the model.

No container runs. A pod has the DNS record from Kubernetes (kubernetes.io, "DNS for Services and Pods"): its hostname
below its subdomain; an indexed Job sets hostnames from its own name (kubernetes.io, "Job with Pod-to-Pod
Communication"). Multus names further networks net1, net2 and so on, in the order of their annotation
(k8snetworkplumbingwg/multus-cni, docs/how-to-use.md); GKE names them as in its annotation, eth0 among them
(cloud.google.com, "Set up multi-network support for Pods").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..model.values import Node
from .pod_simulator import STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of

_PROGRAM = "ranks.py"
_MULTUS, _GKE = "k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces"
_DEFAULT, _DNS, _OK = "eth0", "dns", "ok"
_NO_ADAPTERS = ("memory", "hugepages-")
_TIMED_OUT, _UNKNOWN_NAME = "timed out", "Name or service not known"


def handles(pod: Json) -> bool:
    return any(word.rsplit("/", 1)[-1] == _PROGRAM for word in words_of(pod))


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output of every rank, once all of them run."""
    words = (word.partition("=") for word in words_of(group.pods[0]) if word.startswith("--"))
    options = {name: value for name, _mark, value in words}
    if len(group.running) < int(options["--ranks"]):
        return None
    nodes = [context.model.node(pod["spec"]["nodeName"]) for pod in group.pods]
    known = {f"{pod['spec'].get('hostname', '')}.{pod['spec'].get('subdomain', '')}" for pod in group.pods}
    ranks = [_Rank(number, pod, nodes, known, options) for number, pod in enumerate(group.pods)]
    return {pod["metadata"]["name"]: rank.output() for pod, rank in zip(group.pods, ranks, strict=True)}


class _Rank:
    """One rank among those on these nodes. `known` are the names in DNS."""

    def __init__(self, number: int, pod: Json, nodes: list[Node], known: set[str], options: Mapping[str, str]) -> None:
        self.number, self.pod, self.nodes, self.known, self.options = number, pod, nodes, known, options

    def output(self) -> PodOutput:
        """Return the lines of the rank."""
        ranks, most = len(self.nodes), int(self.options["--peers"])
        steps = range(1, ranks) if ranks - 1 <= most else [1 << n for n in range(ranks.bit_length()) if 1 << n < ranks]
        networks = self._networks(self.number)
        lines = [self._line("rank", ranks=ranks, networks=networks, devices=self._devices())]
        lines += [self._pair((self.number + step) % ranks, networks) for step in steps]
        lines.append(self._line("end"))
        return PodOutput(lines=tuple(lines))

    def _pair(self, peer: int, networks: Mapping[str, str]) -> tuple[str, str]:
        name = self.options["--name"].format(peer)
        if name not in self.known or _DNS in self.nodes[self.number].kubernetes.cut_networks:
            return self._line("pair", peer=peer, named=f"{name}: {_UNKNOWN_NAME}", reached="", networks={})
        reached = self._way(peer, _DEFAULT)
        ways = {network: self._way(peer, network) for network in networks} if reached == _OK else {}
        return self._line("pair", peer=peer, named=_OK, reached=reached, networks=ways)

    def _way(self, peer: int, network: str) -> str:
        cut = any(network in self.nodes[end].kubernetes.cut_networks for end in (self.number, peer))
        return _TIMED_OUT if cut else _OK

    def _networks(self, rank: int) -> dict[str, str]:
        annotations = self.pod["metadata"].get("annotations") or {}
        names = [name for name in annotations.get(_MULTUS, "").split(",") if name.strip()]
        interfaces = [f"net{number}" for number in range(1, len(names) + 1)]
        configured = json.loads(annotations.get(_GKE) or "[]")
        interfaces += [entry["interfaceName"] for entry in configured if entry["interfaceName"] != _DEFAULT]
        return {name: f"10.{number}.{rank // 256}.{rank % 256}" for number, name in enumerate(interfaces, 1)}

    def _devices(self) -> list[str]:
        node = self.nodes[self.number]
        container = self.pod["spec"]["containers"][0]
        if (container.get("securityContext") or {}).get("privileged"):
            return [f"uverbs{number}" for number in range(len(node.all_hcas))]
        limits = (container.get("resources") or {}).get("limits") or {}
        amounts = [int(amount) for name, amount in limits.items() if not name.startswith(_NO_ADAPTERS)]
        there = len(node.present_hcas) if amounts or self.pod["spec"].get("resourceClaims") else 0
        found = there if node.kubernetes.adapter_units == "all" or not amounts else min(there, sum(amounts))
        return [f"uverbs{number}" for number in range(found)]

    def _line(self, event: str, **words: Any) -> tuple[str, str]:
        text = {"schema_version": 1, "event": event, "index": self.number, **words}
        return STDOUT, json.dumps(text, separators=(",", ":"))


SIMULATOR = PodSimulator(name="ranks", handles=handles, simulate=simulate)
