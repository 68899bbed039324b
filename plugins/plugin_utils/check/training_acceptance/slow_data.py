# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts whose CPUs need longer than others for the data of a step, so that all ranks wait for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .settings import JudgeSettings

# A factor counts only where it costs at least this part of a step: shorter times are noise.
_LEAST_COST = 0.01
# So many hosts besides a faster one make that one the odd one; of two hosts the slower one is slow.
_LEAST_OTHERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowData:
    """What a comparison of hosts found.

    Args:
        usual_s: the time that the fastest hosts need; 0 where there is nothing to compare.
        cost: by host, the part of a step by which it is later than those.
        slow: hosts that are named; `bad` those of them that are not only marginally slow.
        uneven: hosts that are slow, where so many are that none of them is to blame.
        alone: the one host that is so much faster than all others that these are `uneven`.
    """

    usual_s: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict)
    slow: tuple[str, ...] = ()
    bad: frozenset[str] = frozenset()
    uneven: tuple[str, ...] = ()
    alone: str = ""


def find_slow_data(data_s: Mapping[str, float], step_s: float, settings: JudgeSettings) -> SlowData:
    """Return the hosts that are slow at the data, by their seconds a step.

    The second fastest host is the measure, for one that is faster than all others makes nobody slow, and where half of
    the hosts are slow the middle one says nothing. Where all others are later than one by more than is marginal, these
    times do not tell whether that one is odd or they are slow, and nobody is named (docs/design/peers.md).
    """
    if len(data_s) < 2:
        return SlowData(usual_s=0.0)
    first, second = sorted(data_s, key=lambda host: data_s[host])[:2]
    usual = data_s[second] if len(data_s) > _LEAST_OTHERS else data_s[first]
    if usual - data_s[first] > settings.peer_marginal * step_s:
        fastest = data_s[first]
        others = {host: (seconds - fastest) / step_s for host, seconds in data_s.items()}
        uneven = tuple(host for host in data_s if host != first)
        return SlowData(usual_s=fastest, cost=others, uneven=uneven, alone=first)
    cost = {host: max(0.0, seconds - usual) / step_s for host, seconds in data_s.items()}

    def is_slow(host: str) -> bool:
        factor = data_s[host] / usual if usual > 0 else 1.0
        return cost[host] > settings.peer_marginal or (factor >= settings.data_factor and cost[host] > _LEAST_COST)

    slow = tuple(host for host in data_s if is_slow(host))
    if len(slow) > max(1, int(settings.cohort_share * len(data_s))):
        return SlowData(usual_s=usual, cost=cost, uneven=slow)
    bad = frozenset(host for host in slow if cost[host] > settings.peer_bad)
    return SlowData(usual_s=usual, cost=cost, slow=slow, bad=bad)
