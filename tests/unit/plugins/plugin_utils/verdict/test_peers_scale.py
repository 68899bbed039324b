# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bound of a comparison grows with the number of members: the farthest of many healthy ones lies far out (T217)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.peers import PeerLimits, compare

# Tolerance and deviations of gate fabric_validation.
GATE = PeerLimits(tolerance=0.05, spreads=3.0)


@pytest.mark.parametrize(("members", "draws"), [(16, 200), (128, 60), (1000, 25)])
def test_healthy_members_that_differ_by_two_percent_for_good_are_not_named(members: int, draws: int) -> None:
    draw = random.Random(217)
    named = 0
    for _cohort in range(draws):
        values = {f"n{number}": 400 * draw.gauss(1, 0.02) for number in range(members)}
        named += bool(compare(values, GATE).suspects)
    # With three deviations 5, 19 and 65 % of these comparisons named somebody.
    assert named <= max(2, draws // 25)


@pytest.mark.parametrize("members", [16, 128, 1000])
def test_who_is_slow_is_found_all_the_same(members: int) -> None:
    draw = random.Random(218)
    for slow, left in ((1, 0.85), (members // 4, 0.85), (members // 2, 0.88)):
        values = {f"n{number}": 400 * draw.gauss(1, 0.01) * (left if number < slow else 1) for number in range(members)}
        assert {f"n{number}" for number in range(slow)} <= set(compare(values, GATE).suspects)


# By the deviation of all members, slow ones among them, 41, 42 and 100 % of these were missed by three deviations,
# 90, 100 and 100 % by four and a half. What is left is what noise of 2 % hides.
@pytest.mark.parametrize(("members", "by_three", "by_more"), [(64, 0.35, 0.8), (128, 0.35, 0.9), (512, 0.7, 0.9)])
def test_a_quarter_that_is_slow_does_not_hide_itself(members: int, by_three: float, by_more: float) -> None:
    for limits, most in ((GATE, by_three), (PeerLimits(tolerance=0.07, spreads=4.5), by_more)):
        draw, missed, slow = random.Random(219), 0, members // 4
        for _cohort in range(10):
            values = {f"n{n}": 400 * draw.gauss(1, 0.02) * (0.9 if n < slow else 1) for n in range(members)}
            missed += slow - sum(int(name[1:]) < slow for name in compare(values, limits).suspects)
        assert missed <= most * 10 * slow


def test_the_bound_is_told() -> None:
    assert [round(GATE.for_members(n).spreads, 2) for n in (2, 16, 128, 1000, 8000)] == [3.0, 3.23, 3.78, 4.26, 4.71]


@given(st.integers(4, 40), st.integers(0, 10_000), st.floats(0.5, 1.0), st.floats(0.5, 1.0))
def test_slower_is_never_compared_better(members: int, seed: int, left: float, more: float) -> None:
    draw = random.Random(seed)
    values = {f"n{number}": 400 * draw.gauss(1, 0.008) for number in range(members)}
    values["n0"] *= left
    slower = values | {"n0": values["n0"] * more}
    before, after = compare(values, GATE), compare(slower, GATE)
    assert "n0" in after.suspects or "n0" not in before.suspects
