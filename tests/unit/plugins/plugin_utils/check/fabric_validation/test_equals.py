# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are as fast by themselves as a measurement can tell have one status, and a slower one no better one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import (
    Results,
    Wanted,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

NOISE = 0.01
WORSE = {Status.PASSED: 0, Status.OTHER: 1, Status.FAILED: 2}


def alone(hardware: dict[str, Sku], count: int, racks: int = 0, **parts: float) -> tuple[Fleet, dict[str, Outcome]]:
    """Return hosts of which some reach a part of the full bandwidth, and what the check says of each."""
    hosts = tuple(f"gpu{n:02d}" for n in range(1, count + 1))
    shared = {name: {"rack": f"r{n // racks}"} for n, name in enumerate(hosts)} if racks else {}
    fleet = Fleet(hosts=hosts, hardware=hardware, noise=0.0, nvlink=parts, shared=shared)
    return fleet, judged(fleet, fleet.results())


def judged(fleet: Fleet, results: Results) -> dict[str, Outcome]:
    found = [o for o in fleet.outcomes(results) if o.check == "nccl-intra-node-bw"]
    return {subject.name: o for o in found for subject in o.subjects}


def causes(found: dict[str, Outcome]) -> dict[str, str]:
    return {name: outcome.cause for name, outcome in found.items() if outcome.cause}


def test_hosts_on_both_sides_of_a_line_have_one_status(hardware: dict[str, Sku]) -> None:
    """The line of the peers lay between two that differ by less than a measurement: one failed, one passed (T114)."""
    _fleet, found = alone(hardware, 16, gpu03=0.942, gpu07=0.949, gpu09=0.965)
    assert causes(found) == {"gpu03": "slow-nvlink", "gpu07": "slow-nvlink"}
    text, (line,) = found["gpu07"].summary, [e for e in found["gpu07"].expected if e.basis.value == "peers"]
    assert float(found["gpu07"].measured[0].value) > float(line.value)
    assert "as slow as gpu03, in the median of 3 runs" in text
    assert "in most of 3 runs" in found["gpu03"].summary


def test_a_host_beyond_the_noise_of_the_worst_passes_still(hardware: dict[str, Sku]) -> None:
    assert causes(alone(hardware, 16, gpu03=0.93, gpu07=0.949)[1]) == {"gpu03": "slow-nvlink"}


def test_what_was_run_once_is_open_and_what_is_faster_when_run_again_passes(
    hardware: dict[str, Sku], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _found = alone(hardware, 16, gpu03=0.942, gpu07=0.949)

    def later(want: Wanted) -> float:
        return 473.0 if want.hosts == ("gpu07",) and want.attempt > 1 else Fleet.speed(fleet, want)

    monkeypatch.setattr(fleet, "speed", later)
    results = fleet.results()
    assert len(results.of("node", ("gpu07",))) == 3
    assert causes(judged(fleet, results)) == {"gpu03": "slow-nvlink"}
    once = [run for run in results.runs if run.record.hosts != ("gpu07",) or run.record.attempt == 1]
    found = judged(fleet, replace(results, runs=tuple(once)))["gpu07"]
    assert (found.status, found.cause) == (Status.OTHER, "not-repeated")


def test_a_rack_on_both_sides_of_a_line_is_one_finding(hardware: dict[str, Sku]) -> None:
    parts = {"gpu01": 0.938, "gpu02": 0.942, "gpu03": 0.949}
    found = alone(hardware, 15, racks=3, **parts)[1]
    assert causes(found) == dict.fromkeys(("r0", "gpu01", "gpu02", "gpu03"), "slow-group")
    # One of another rack that is as slow is not explained by the rack.
    found = alone(hardware, 15, racks=3, **parts, gpu09=0.94)[1]
    assert set(causes(found).values()) == {"slow-nvlink"}


@settings(max_examples=40, deadline=None)
@given(around=st.lists(st.floats(0.93, 0.96), max_size=4), parts=st.lists(st.floats(0.6, 1.0), min_size=2, max_size=6))
def test_a_slower_host_is_never_judged_better(
    hardware: dict[str, Sku], around: list[float], parts: list[float]
) -> None:
    """Beside hosts that lie around the line of the peers and others: status follows bandwidth, and who is as slow as
    one that fails, fails."""
    drawn = {f"gpu{n:02d}": part for n, part in enumerate([*around, *parts], 1)}
    found = alone(hardware, len(drawn) + 8, **drawn)[1]
    order = sorted(drawn, key=lambda name: (drawn[name], name))
    assert all(WORSE[found[a].status] >= WORSE[found[b].status] for a, b in pairwise(order)), causes(found)
    failed = [n for n in order if found[n].cause == "slow-nvlink" and "as slow as" not in found[n].summary]
    equals = [n for n in order if failed and drawn[n] <= drawn[failed[-1]] + NOISE / 2]
    assert {found[name].status for name in equals} <= {Status.FAILED}, causes(found)
