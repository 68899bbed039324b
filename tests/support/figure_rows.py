# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes with figures of a small site, and what of them was accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import AcceptedBaseline, AcceptedFigure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.figures import Place, figures_of

GATE = "fabric_validation"
HOSTS = tuple(f"gpu{number:02}" for number in range(1, 17))
SITE = make_site(tuple(Host(name=name, sku="h100", node_name=name) for name in HOSTS), name="island")
DRIVERS = dict.fromkeys(HOSTS, "580.95.05")
_RATINGS = {Status.PASSED: Rating.GOOD, Status.FAILED: Rating.BAD, Status.OTHER: Rating.UNKNOWN}
# What equal hosts differ by without a defect.
_SPREAD = (0.004, -0.006, 0.001, 0.009, -0.003, 0.002, -0.008, 0.005)


def busbw(host: str, value: float, status: Status = Status.PASSED, **changed: Any) -> Outcome:
    """What NCCL measured within a host."""
    bad = status is not Status.PASSED
    facts = {"busbw": value, "size": 8 << 30, "test": "all_reduce_perf", "nodes": 1, "ranks": 8}
    facts |= {"algorithm": "NVLS", "nccl": "2.28.3"} | changed
    return Outcome(
        check="nccl-intra-node-bw",
        gate=GATE,
        status=status,
        rating=_RATINGS[status],
        subjects=(node_subject(host),),
        summary="as seen",
        cause="seen-bad" if bad else "",
        hint="mend it" if bad else "",
        measured=tuple(Measure(name, word, "GB/s" if name == "busbw" else "") for name, word in facts.items()),
    )


def all_nodes(value: float, **changed: Any) -> Outcome:
    """What NCCL measured over all hosts."""
    one = busbw(HOSTS[0], value, **{"nodes": len(HOSTS), "ranks": 8 * len(HOSTS), "algorithm": "RING", **changed})
    cluster = (Subject(SubjectKind.CLUSTER, SITE.name), *map(node_subject, HOSTS))
    return replace(one, check="nccl-all-nodes-bw", subjects=cluster)


def fleet(factors: Mapping[str, float] | None = None, whole: float = 1.0, **changed: Any) -> tuple[Outcome, ...]:
    """The outcomes of all hosts; `factors` by host and `whole` make them slower or faster."""
    by_host = factors or {}
    own = [
        busbw(name, round(470 * (1 + _SPREAD[n % len(_SPREAD)]) * by_host.get(name, 1.0), 2), **changed)
        for n, name in enumerate(HOSTS)
    ]
    return (*own, all_nodes(390 * whole, **changed))


def accepted(outcomes: tuple[Outcome, ...], drivers: Mapping[str, str] | None = None) -> AcceptedBaseline:
    """Everything that was measured, as a person accepted it."""
    place = Place(site=SITE, drivers=DRIVERS if drivers is None else drivers)
    figures = tuple(
        AcceptedFigure(figure=figure, gate=GATE, run_id="run-1", who="ada", accepted="2026-11-21T10:00:00Z")
        for figure in figures_of(GATE, outcomes, place)
    )
    return AcceptedBaseline(site=SITE.name, rehearsal=False, figures=figures)


def context(baseline: AcceptedBaseline | None, drivers: Mapping[str, str] | None = None, **more: Any) -> JudgeContext:
    """What the judges of the gate get."""
    said = DRIVERS if drivers is None else drivers
    shared = {name: {"driver": version} for name, version in said.items()}
    values = {"gate": GATE, "site": SITE, "today": date(2026, 11, 23), "shared": shared, "baseline": baseline}
    return JudgeContext(**(values | more))
