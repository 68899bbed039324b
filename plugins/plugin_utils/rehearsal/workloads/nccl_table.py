# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The output of nccl-tests: devices, table and footer, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .benchmark import Benchmark
from .nccl_lines import Rank
from .performance import Performance
from .physics import share

_REDUCING = ("AllReduce", "ReduceScatter", "Reduce")
_ROOTED = ("Broadcast", "Reduce")
_SPREAD = ("AllGather", "ReduceScatter", "AlltoAll")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row: times out of place and in place in microseconds, and wrong values; None without validation."""

    size: int
    out_of_place_us: float
    in_place_us: float
    wrong: int | None


def heading(run: Benchmark, ranks: Sequence[Rank], data: Performance) -> list[str]:
    """Return what is printed before NCCL starts."""
    step = f"{run.factor}(factor)" if run.factor > 1 else f"{run.step}(bytes)"
    versions, code = data.versions, data.versions.nccl_code
    lines = [
        f"# nccl-tests version {versions.nccl_tests} nccl-headers={code} nccl-library={code}",
        f"# Collective test starting: {run.test}",
        f"# nThread 1 nGpus {run.per_process} minBytes {run.smallest} maxBytes {run.largest} step: {step} "
        f"warmup iters: {run.warmup} iters: {run.iterations} agg iters: 1 validation: {int(run.validate)} graph: 0",
        "#",
        "# Using devices",
    ]
    for rank in ranks:
        bus = rank.gpu.pci.rsplit(".", 1)[0]
        where = f"{rank.host.place.hostname:>10} device {rank.local:2d} [{bus}] {rank.gpu.product}"
        lines.append(f"#  Rank {rank.number:2d} Group {run.group(rank.number):2d} Pid {rank.pid:6d} on {where}")
    return [*lines, "#"]


def columns() -> list[str]:
    """Return the head of the table."""
    halves = "     time   algbw   busbw #wrong"
    units = "     (us)  (GB/s)  (GB/s)       "
    return [
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place          ",
        "#       size         count      type   redop    root" + halves + halves,
        "#        (B)    (elements)                          " + units + units,
    ]


def row_parts(run: Benchmark, row: Measured) -> tuple[str, str, str]:
    """Return the three pieces in which a row is printed: before the runs, and after each half."""
    count = row.size // 4
    if run.collective in _SPREAD:
        count = max(1, count // run.communicator_ranks)
    operation = "sum" if run.collective in _REDUCING else "none"
    root = 0 if run.collective in _ROOTED else -1
    head = f"{row.size:12d}  {count:12d}  {'float':>8}  {operation:>6}  {root:6d}"
    return head, _half(run, row.size, row.out_of_place_us, row.wrong), _half(run, row.size, row.in_place_us, row.wrong)


def _half(run: Benchmark, size: int, time: float, wrong: int | None) -> str:
    algorithm, bus = bandwidths(run, size, time)
    text = f"{time:7.0f}" if time >= 10000 else f"{time:7.1f}" if time >= 100 else f"{time:7.2f}"
    return f"  {text}  {algorithm:6.2f}  {bus:6.2f}  {'N/A' if wrong is None else wrong:>5}"


def bandwidths(run: Benchmark, size: int, time: float) -> tuple[float, float]:
    """Return algorithm and bus bandwidth in GB/s."""
    algorithm = size / time / 1e3
    return algorithm, algorithm * share(run.collective, run.communicator_ranks)


def footer(run: Benchmark, rows: Sequence[Measured]) -> list[str]:
    """Return what is printed after the table."""
    wrong = sum(1 for row in rows if row.wrong) * 2
    rates = [bandwidths(run, row.size, time)[1] for row in rows for time in (row.out_of_place_us, row.in_place_us)]
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {sum(rates) / len(rates):g} ",
        "#",
        f"# Collective test concluded: {run.test}",
        "",
    ]
