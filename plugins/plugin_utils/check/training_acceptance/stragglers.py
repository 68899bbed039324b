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

# From a median absolute deviation to a standard deviation, for a normal distribution.
_NORMAL = 1.4826


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
    few = _slow_of_few(rates, hosts, settings)
    rest = {gpu: rate for gpu, rate in rates.items() if gpu.partition("/")[0] not in few}
    peers = compare(rest, settings.peers)
    suspects = set(peers.suspects)
    nodes = tuple(h for h, g in hosts.items() if h in few or (len(g) > 1 and suspects.issuperset(g)))
    gpus = tuple(gpu for gpu in rest if gpu in suspects and gpu.partition("/")[0] not in nodes)
    others = len(rates) - sum(len(hosts[host]) for host in nodes)
    # Node by node: a slow node of four has a quarter of all ranks and is still one node.
    share, least = settings.cohort_share, settings.peers_least
    if len(nodes) > max(1, int(share * len(hosts))) or len(nodes) == len(hosts):
        return Slow(peers=peers, uneven=tuple(sorted(suspects)))
    if len(gpus) > max(2 if others >= 2 * least else 1, int(share * others)):
        return Slow(peers=peers, uneven=tuple(sorted(suspects)))
    line = peers.median * (1 - settings.peer_bad)
    bad = {host for host in nodes if median(rates[gpu] for gpu in hosts[host]) < line}
    bad |= {gpu for gpu in gpus if rates[gpu] < min(line, peers.limit)}
    return Slow(peers=peers, nodes=nodes, gpus=gpus, bad=frozenset(bad))


def _slow_of_few(
    rates: Mapping[str, float], hosts: Mapping[str, list[str]], settings: JudgeSettings
) -> tuple[str, ...]:
    """Return the slow ones of two or three hosts: too few for a median, so they are compared with the best host."""
    if not 1 < len(hosts) < settings.peers_least or any(len(gpus) < settings.peers_least for gpus in hosts.values()):
        return ()
    middle = {host: median(rates[gpu] for gpu in gpus) for host, gpus in hosts.items()}
    best = max(middle.values())
    within = _NORMAL * median(abs(rates[gpu] - middle[host]) for host, gpus in hosts.items() for gpu in gpus)
    line = best * (1 - max(settings.peer_marginal, settings.peer_spreads * within / best))
    return tuple(host for host, rate in middle.items() if rate < line)
