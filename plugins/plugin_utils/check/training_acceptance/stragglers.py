# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ranks that compute more slowly than the others: single GPUs, or a whole node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from ...verdict.peers import PeerVerdict, compare
from .settings import JudgeSettings

# Between two runs of the same ranks.
_NOISE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """What a comparison of ranks found.

    Args:
        peers: the comparison.
        nodes: hosts all of whose GPUs are slow alike.
        gpus: single slow GPUs of other hosts.
        bad: those of both (by name) that are not only marginally slow.
        uneven: slow GPUs, where so many are slow that none of them is to blame.
    """

    peers: PeerVerdict
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    bad: frozenset[str] = frozenset()
    uneven: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.nodes or self.gpus or self.uneven)

    def of(self, host: str) -> tuple[str, ...]:
        """Return the slow GPUs of a host."""
        return tuple(gpu for gpu in self.gpus if gpu.partition("/")[0] == host)


def find_slow(rates: Mapping[str, float], settings: JudgeSettings) -> Slow:
    """Return the slow ones among GPUs (`gpu01/gpu3`) by their rates; more is better."""
    hosts: dict[str, list[str]] = {}
    for gpu in rates:
        hosts.setdefault(gpu.partition("/")[0], []).append(gpu)
    peers = compare(rates, settings.peers, hosts=lambda gpu: (gpu.partition("/")[0],))
    suspects = set(peers.suspects)
    nodes = tuple(host for host, gpus in hosts.items() if len(gpus) > 1 and suspects.issuperset(gpus))
    gpus = tuple(gpu for gpu in rates if gpu in suspects and gpu.partition("/")[0] not in nodes)
    others = len(rates) - sum(len(hosts[host]) for host in nodes)
    # Node by node: a slow node of four has a quarter of all ranks and is still one node.
    share, least = settings.cohort_share, settings.peers_least
    if len(nodes) > max(1, int(share * len(hosts))) or len(nodes) == len(hosts):
        return Slow(peers=peers, uneven=tuple(sorted(suspects)))
    if len(gpus) > max(2 if others >= 2 * least else 1, int(share * others)):
        return Slow(peers=peers, uneven=tuple(sorted(suspects)))
    line = peers.median * (1 - settings.peer_bad)
    bad = _bad_nodes({host: median(rates[gpu] for gpu in hosts[host]) for host in nodes}, line, peers.median)
    bad |= {gpu for gpu in gpus if rates[gpu] < min(line, peers.limit)}
    return Slow(peers=peers, nodes=nodes, gpus=gpus, bad=frozenset(bad))


def _bad_nodes(middles: Mapping[str, float], line: float, usual: float) -> set[str]:
    """Return the slow hosts below the line, and those that are as slow as one of them: what differs by less than the
    noise of a measurement is one finding, and has one status."""
    bad = {host for host, rate in middles.items() if rate < line}
    worst = max((middles[host] for host in bad), default=0.0)
    return bad | {host for host, rate in middles.items() if bad and rate <= worst + _NOISE * usual}


def slow_hosts(slow: Slow, rates: Mapping[str, float]) -> tuple[str, ...]:
    """Return the hosts all of whose GPUs are slow, however many such hosts there are."""
    marked = {*slow.uneven, *slow.gpus, *(gpu for gpu in rates if gpu.partition("/")[0] in slow.nodes)}
    hosts = dict.fromkeys(gpu.partition("/")[0] for gpu in rates)
    return tuple(host for host in hosts if all(gpu in marked for gpu in rates if gpu.partition("/")[0] == host))
