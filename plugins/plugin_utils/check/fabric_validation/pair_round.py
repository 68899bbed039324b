# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pairs of hosts in two legs: over all links, and over their adapters alone. The worse leg decides. Pure.

Between two hosts a tree sends so little over the network that NVLink limits it, and a slow adapter does not show. With
one GPU of each host in a communicator, only adapters carry data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...hardware.sku import Sku
from ...verdict.localise import Pair
from .bandwidth import BandwidthResult, PeerGroup, peer_group
from .model import Results

NOT_SPLIT = "adapters-not-split"
_WORST_FIRST = ("bad", "marginal", "open", "unknown", "good")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRound:
    """The pairs of one round. `members` has the deciding leg of each pair."""

    full: PeerGroup
    adapters: PeerGroup
    members: tuple[BandwidthResult, ...]

    @property
    def to_blame(self) -> bool:
        """Whether so many pairs are slow, in either leg, that what they share is at fault."""
        return self.full.to_blame or self.adapters.to_blame


def scores(rounds: Sequence[PairRound]) -> tuple[tuple[BandwidthResult, float], ...]:
    """Return every pair that was run with its score.

    Each leg is divided by that of the fastest pair of all rounds, and the lower value is the score. 0: no leg has a
    figure.
    """
    found: list[tuple[BandwidthResult, float]] = []
    legs = ([r.full for r in rounds], [r.adapters for r in rounds])
    best = [max((s.value for group in leg for s in group.members), default=0.0) for leg in legs]
    for one in rounds:
        for member in one.members:
            pairs = zip((one.full, one.adapters), best, strict=True)
            parts = [leg.value / most for group, most in pairs if most and (leg := group.find(member.hosts))]
            found.append((member, min(parts, default=0.0)))
    return tuple(found)


def pair_round(
    results: Results, hardware: Mapping[str, Sku], pairs: Iterable[Pair], first: PairRound | None = None
) -> PairRound:
    """Return the round of these pairs, compared with each other, or with the peers of the first round."""
    wanted = tuple(pairs)
    full = peer_group(results, hardware, "pair", wanted, first.full if first else None)
    adapters = peer_group(results, hardware, "adapters", wanted, first.adapters if first else None)
    members = tuple(_deciding(result, adapters.find(result.hosts)) for result in full.members)
    return PairRound(full=full, adapters=adapters, members=members)


def _deciding(full: BandwidthResult, adapters: BandwidthResult | None) -> BandwidthResult:
    if adapters is None or full.problem is not None:
        return full
    if adapters.problem is not None:
        return adapters
    return min(full, adapters, key=lambda leg: _WORST_FIRST.index(leg.verdict))
