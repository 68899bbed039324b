# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures as parts of outcomes: measures with their sizes, expectations with their arithmetic, the log. Pure."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Axis, Basis, Bound, Evidence, Expectation, Measure, Series, Subject, SubjectKind
from ...verdict.ceiling import CeilingLimits
from .bandwidth import BandwidthResult
from .model import Run
from .settings import JudgeSettings

# Bandwidth by size as a curve, with the limits that it was judged by. Pure.

_FIGURES = {
    "node": "NCCL bus bandwidth within a node",
    "pair": "NCCL bus bandwidth between two nodes",
    "adapters": "NCCL bus bandwidth between two nodes over adapters alone",
    "loop": "NCCL bus bandwidth within a node over one adapter",
    "rail": "NCCL bus bandwidth between two nodes over one adapter",
    "all": "NCCL bus bandwidth over all nodes",
}
# In bytes. Smaller messages measure latency.
_LEAST_PLOTTED = 1 << 16


def curves(result: BandwidthResult, settings: JudgeSettings) -> tuple[Series, ...]:
    """Return the curve of the run nearest to the median. Empty: it has no rows."""
    run = result.best_run
    rows = run.test.rows if run.test else ()
    points = {float(row.size): row.busbw_gbps for row in rows if row.size >= _LEAST_PLOTTED}
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


# In bytes. Smaller messages measure latency; they are in the evidence.
_LEAST_SIZE = 1 << 26
# Variables that take a choice of paths, algorithms or buffers from NCCL. A topology file of another machine, for
# example, slows all hosts down.
_STEERING = (
    "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS",
    "NCCL_BUFFSIZE", "NCCL_CROSS_NIC", "NCCL_IB_QPS_PER_CONNECTION",
)  # fmt: skip


def figures(result: BandwidthResult, settings: JudgeSettings) -> dict[str, Any]:
    """Return measured, expected, evidence and curve of a result, as keywords of an outcome."""
    if result.problem is not None:
        return {"evidence": tuple(evidence(run) for run in result.runs if run.problem)}
    run = result.best_run
    return {
        "measured": measures(result, run),
        "expected": (*_by_ceiling(result, settings.ceiling), *_by_peers(result)),
        "evidence": tuple(evidence(run) for run in result.runs),
        "series": curves(result, settings),
    }


def steered(result: BandwidthResult) -> str:
    """Return the variables in the log that take a choice from NCCL, as a suffix for a text. Empty: there are none."""
    configured = result.best_run.debug.environment if result.best_run.debug else {}
    found = [f"{name}={configured[name]}" for name in _STEERING if name in configured]
    return f"; by its log NCCL was given {', '.join(found)[:200]}" if found else ""


def measures(result: BandwidthResult, run: Run) -> tuple[Measure, ...]:
    """Return the figures that a baseline needs: bandwidth by size, and the conditions of the run."""
    if run.test is None:
        return ()
    sizes = {row.size: row.busbw_gbps for row in run.test.rows if row.size >= _LEAST_SIZE}
    debug = run.debug
    facts = (
        Measure("busbw", round(result.value, 2), "GB/s"),
        Measure("size", run.test.largest.size, "B"),
        Measure("test", run.record.command[0].rpartition("/")[2] if run.record.command else "all_reduce_perf"),
        Measure("nodes", len(run.record.hosts), "count"),
        Measure("ranks", run.record.ranks, "count"),
        Measure("runs", len(result.runs), "count"),
        Measure("algorithm", run.algorithm or "unknown"),
        Measure("nccl", (debug.version if debug else "") or run.test.nccl_version or "unknown"),
    )
    return facts + tuple(Measure(f"busbw at {size} B", value, "GB/s") for size, value in sorted(sizes.items()))


def _by_ceiling(result: BandwidthResult, limits: CeilingLimits) -> tuple[Expectation, ...]:
    rated = result.rated
    if rated is None:
        return ()
    ceiling = rated.ceiling
    text = f"{ceiling.name} ceiling {ceiling.gbps:.4g} GB/s = {ceiling.arithmetic}; measured / that = {rated.ratio:.3f}"
    return (
        Expectation(
            "busbw",
            ">=",
            round(limits.marginal * ceiling.gbps, 2),
            Basis.CEILING,
            "GB/s",
            f"{limits.marginal:g} x {ceiling.gbps:.4g}, bad under {limits.bad:g} x; {text}",
        ),
    )


def _by_peers(result: BandwidthResult) -> tuple[Expectation, ...]:
    peers = result.peers
    if peers is None or not peers.evaluated:
        return ()
    return (Expectation("busbw", ">=", round(peers.limit, 2), Basis.PEERS, "GB/s", peers.arithmetic),)


def evidence(run: Run) -> Evidence:
    """Return command and log of a run as evidence, with its figure or its problem."""
    record = run.record
    rail = f" over adapter {record.rail}" if record.rail is not None else ""
    figure = f"{run.value:.2f} GB/s at {run.test.largest.size} B" if run.test else ""
    excerpt = run.problem.text if run.problem else figure
    command = " ".join(record.command) or "nccl-tests"
    return Evidence(f"{command}{rail}, run {record.attempt}", ", ".join(record.hosts[:8]), excerpt, record.log)


def rate_text(result: BandwidthResult) -> str:
    """Return the figure as text: `287.1 GB/s, 0.60 of the ring ceiling`."""
    parts = [f"{result.value:.1f} GB/s"]
    if result.rated is not None:
        parts.append(f"{result.rated.ratio:.2f} of the {result.rated.ceiling.name} ceiling")
    if result.below_peers and result.peers is not None:
        parts.append(f"peers reach {result.peers.median:.1f}")
    if result.like:
        parts.append(f"as slow as {result.like}")
    if result.unsaturated:
        parts.append("still growing with the size")
    return ", ".join(parts)


def link(pair: tuple[str, ...]) -> Subject:
    """Return the path between two hosts as a subject."""
    return Subject(SubjectKind.LINK, "--".join(pair))
