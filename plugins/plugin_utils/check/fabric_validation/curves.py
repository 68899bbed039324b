# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bandwidth by size as a curve, with the lines that it was judged by. Pure."""

from __future__ import annotations

from ...outcome.series import Axis, Bound, Series
from .bandwidth import BandwidthResult
from .settings import JudgeSettings

_FIGURES = {
    "node": "NCCL bus bandwidth within a node",
    "pair": "NCCL bus bandwidth between two nodes",
    "adapters": "NCCL bus bandwidth between two nodes over adapters alone",
    "loop": "NCCL bus bandwidth within a node over one adapter",
    "rail": "NCCL bus bandwidth between two nodes over one adapter",
    "all": "NCCL bus bandwidth over all nodes",
}
# Smaller messages are about latency.
_LEAST_SIZE = 1 << 16


def curves(result: BandwidthResult, settings: JudgeSettings) -> tuple[Series, ...]:
    """Return the curve of the run nearest to the median; none if it has no rows."""
    run = result.best_run
    rows = run.test.rows if run.test else ()
    points = {float(row.size): row.busbw_gbps for row in rows if row.size >= _LEAST_SIZE}
    if not points:
        return ()
    hosts = run.record.hosts
    name = " with ".join(hosts) if len(hosts) <= 2 else f"{len(hosts)} nodes"
    return (
        Series(
            figure=_FIGURES[run.record.phase],
            name=name,
            x=Axis(name="size", unit="B", logarithmic=True),
            y=Axis(name="busbw", unit="GB/s"),
            points=tuple(sorted(points.items())),
            bounds=_bounds(result, settings),
        ),
    )


def _bounds(result: BandwidthResult, settings: JudgeSettings) -> tuple[Bound, ...]:
    if result.rated is None:
        return ()
    ceiling = result.rated.ceiling
    return (
        Bound(name=f"ceiling ({ceiling.name})", value=ceiling.gbps),
        Bound(name="marginal below", value=round(settings.marginal * ceiling.gbps, 4)),
        Bound(name="bad below", value=round(settings.bad * ceiling.gbps, 4)),
    )
