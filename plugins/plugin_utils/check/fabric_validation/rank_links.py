# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who is to blame for ranks that do not reach each other. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...probe.rank_log import OK, RankSeen

POD_NETWORK = "the pod network"


@dataclass(frozen=True, slots=True)
class Link:
    """What a host's rank saw of another one on a network: `ok`, or why it did not reach it."""

    host: str
    other: str
    said: str

    @property
    def good(self) -> bool:
        return self.said == OK

    def __str__(self) -> str:
        return f"{self.host} to {self.other}: {self.said}"


def links(seen: Mapping[str, RankSeen], places: Mapping[str, int]) -> dict[str, list[Link]]:
    """Return all links by network; `places` has the rank of every host. Where a name was not resolved, nothing is known
    of the pod network."""
    owners = {rank: host for host, rank in places.items()}
    found: dict[str, list[Link]] = {}
    for host, rank in seen.items():
        for pair in rank.pairs:
            other = owners.get(pair.peer)
            if other is None:
                continue
            if pair.named == OK:
                found.setdefault(POD_NETWORK, []).append(Link(host, other, pair.reached))
            for network, said in pair.networks.items():
                # Who lacks a network is told of that; those who have it are not to blame.
                if other not in seen or seen[other].networks.get(network):
                    found.setdefault(network, []).append(Link(host, other, said))
    return found


def to_blame(network: Collection[Link]) -> dict[str, tuple[Link, ...]]:
    """Return the hosts to blame on one network, each with its bad links.

    That is whoever has more bad links than good ones, the worst first, for its links are bad for the others, too;
    whoever has no good link at all; and both ends of a bad link that this leaves.
    """
    left, blamed = list(network), set[str]()
    while worst := _worst(left):
        blamed |= worst
        left = [link for link in left if worst.isdisjoint((link.host, link.other))]
    blamed |= {name for link in left if not link.good for name in (link.host, link.other)}
    blamed |= _ends(network) - _ends(link for link in network if link.good)
    found: dict[str, list[Link]] = {}
    for link in network:
        for name in {link.host, link.other} & blamed if not link.good else ():
            found.setdefault(name, []).append(link)
    return {name: tuple(found[name]) for name in sorted(found)}


def _ends(network: Iterable[Link]) -> set[str]:
    return {name for link in network for name in (link.host, link.other)}


def _worst(network: Collection[Link]) -> set[str]:
    """Return the hosts with the largest share of bad links, above half of their links."""
    whole = Counter(name for link in network for name in (link.host, link.other))
    bad = Counter(name for link in network if not link.good for name in (link.host, link.other))
    shares = {name: number / whole[name] for name, number in bad.items() if 2 * number > whole[name]}
    largest = max(shares.values(), default=0.0)
    return {name for name, share in shares.items() if share == largest}


def unresolved(seen: Mapping[str, RankSeen], places: Mapping[str, int]) -> dict[str, str]:
    """Return the hosts to blame for names that were not resolved, each with what was said.

    A name that nobody resolves who resolves others is that of a pod without a record; else whoever asked is to blame.
    """
    owners = {rank: host for host, rank in places.items()}
    asked = list(_asked(seen))
    resolves = {host for host, _peer, said in asked if said == OK}
    askers: dict[int, list[bool]] = {}
    for host, peer, said in asked:
        if host in resolves:
            askers.setdefault(peer, []).append(said == OK)
    found: dict[str, str] = {}
    for host, peer, said in asked:
        if said != OK:
            answers = askers.get(peer, [])
            nowhere = host in resolves and len(answers) > 1 and not any(answers)
            found.setdefault(owners.get(peer, host) if nowhere else host, said)
    return found


def _asked(seen: Mapping[str, RankSeen]) -> Iterator[tuple[str, int, str]]:
    for host, rank in seen.items():
        for pair in rank.pairs:
            yield host, pair.peer, pair.named
