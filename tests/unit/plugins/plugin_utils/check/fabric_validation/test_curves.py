# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The curves of the gate: one for each host, pair and whole, with the lines that they were judged against."""

from __future__ import annotations

from collections.abc import Callable

from nccl_fleet import Fleet

MakeFleet = Callable[..., Fleet]


def test_every_judged_run_is_a_curve_with_its_ceiling(fleet: MakeFleet) -> None:
    curves = {(o.check, curve.name): curve for o in fleet(4, algorithm="RING").outcomes() for curve in o.series}
    names = sorted(name for _check, name in curves)
    alone, pairs = [n for n in names if " " not in n], [n for n in names if " with " in n]
    assert alone == ["gpu01", "gpu02", "gpu03", "gpu04"] and len(pairs) == 2
    assert sorted(name for pair in pairs for name in pair.split(" with ")) == alone
    whole = curves["nccl-all-nodes-bw", "4 nodes"]
    assert (whole.figure, whole.x.unit, whole.y.unit) == ("NCCL bus bandwidth over all nodes", "B", "GB/s")
    assert whole.x.logarithmic and not whole.y.logarithmic
    ceiling, marginal, bad = whole.bounds
    assert ceiling.name == "ceiling (ring)"
    assert (marginal.value, bad.value) == (round(0.85 * ceiling.value, 4), round(0.75 * ceiling.value, 4))
    assert bad.value < whole.points[-1][1] < ceiling.value


def test_a_slow_host_has_its_curve_below_the_line(fleet: MakeFleet) -> None:
    outcomes = fleet(4, nvlink={"gpu03": 0.7}).outcomes()
    slow = next(o for o in outcomes if o.cause == "slow-nvlink").series[0]
    bad = next(bound.value for bound in slow.bounds if bound.name == "bad below")
    assert slow.points[-1][1] < bad


def test_a_run_without_a_figure_draws_nothing(fleet: MakeFleet) -> None:
    outcomes = fleet(4, change=lambda _want, text: text[:200]).outcomes()
    assert outcomes and all(o.series == () for o in outcomes)
