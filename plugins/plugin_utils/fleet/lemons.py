# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lemons: the few nodes that make most of the trouble, over a window of time. Pure.

Of 63 nodes of a published cluster three caused more than half of all exclusions (validation of 504 B200 GPUs by
Lablup), and taking lemons out cut the failures of large jobs of Meta's research clusters from 14 to 4 % (Kokolis et
al., HPCA 2025, arXiv 2410.21680). A lemon passes again after every repair, so no single cycle shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..outcome.model import Status
from ..store.records import NodeResult, OurCordon


@dataclass(frozen=True, slots=True, kw_only=True)
class Lemon:
    """One node within a window: how often it failed and was taken out by us, and which share of all that is."""

    node: str
    failed: int
    excluded: int
    share: float

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.node}: taken out {self.excluded} times, failed {self.failed} tests, {self.share:.0%} of all"


def lemons(
    results: Iterable[NodeResult], cordons: Iterable[OurCordon], since_s: float, since: str, most: int = 10
) -> tuple[Lemon, ...]:
    """Return the nodes with the most exclusions and failed tests since then, the worst first.

    A node is listed from two of them on: everybody fails once.

    Args:
        results: those of the site.
        cordons: ours, also those that were lifted.
        since_s: the begin of the window, seconds since the epoch.
        since: the same as UTC in the form of the cordons.
        most: how many are listed.
    """
    failed = Counter(
        result.node for result in results if result.status is Status.FAILED and result.started_s >= since_s
    )
    excluded = Counter(cordon.node for cordon in cordons if cordon.since >= since)
    counts: Mapping[str, int] = failed + excluded
    total = sum(counts.values())
    order = sorted(counts, key=lambda node: (-excluded[node], -failed[node], node))
    return tuple(
        Lemon(node=node, failed=failed[node], excluded=excluded[node], share=counts[node] / total)
        for node in order
        if counts[node] > 1
    )[:most]
