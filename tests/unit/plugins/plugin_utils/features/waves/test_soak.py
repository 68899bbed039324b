# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll waits between its first waves, so that jobs of hours show on few nodes what no test does (T233)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import WaveDecision, next_wave
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import (
    NodeState,
    RollMember,
    RollPlan,
    RollPolicy,
    Stage,
    make_plan,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

MEMBERS = [RollMember(name=f"n{number:03}", rack=f"r{number % 20}") for number in range(200)]
BACK = "2026-11-20T10:00:00.000Z"


def decided(policy: RollPolicy, done: int, now: str, under_way: int = 0) -> tuple[RollPlan, WaveDecision]:
    """Return the plan, and what comes next after so many waves, of the next one some nodes under way."""
    plan = make_plan(MEMBERS, policy)
    states: Mapping[str, NodeState] = {
        node: NodeState(stage=Stage.RETURNED, at=BACK) if number < done
        else NodeState(stage=Stage.CHANGING, at=BACK) if number == done and place < under_way
        else NodeState()
        for number, nodes in enumerate(plan.waves) for place, node in enumerate(nodes)
    }  # fmt: skip
    return plan, next_wave(plan, states, policy, now)


@pytest.mark.parametrize("by", ["share", "rack"])
@pytest.mark.parametrize("done", [1, 2, 3])
def test_the_first_waves_work_for_a_day_before_the_next_begins(by: str, done: int) -> None:
    policy = RollPolicy(by=by, soak_h=24)
    plan, early = decided(policy, done, "2026-11-21T09:59:59.000Z")
    assert not early.nodes
    assert early.stopped == (
        f"the nodes of wave {done - 1} work for 24 h first, until 2026-11-21 10:00 UTC: run the same command again then"
    )
    _plan, later = decided(policy, done, "2026-11-21T10:00:00.000Z")
    assert later.nodes == plan.waves[done] and not later.stopped


def test_canaries_and_later_waves_wait_for_nobody_and_without_the_setting_nobody_waits() -> None:
    for policy, done in ((RollPolicy(soak_h=24), 0), (RollPolicy(soak_h=24), 4), (RollPolicy(), 1)):
        plan, found = decided(policy, done, BACK)
        assert found.nodes == plan.waves[done]


def test_a_wave_that_is_under_way_goes_on() -> None:
    plan, found = decided(RollPolicy(soak_h=24), 1, BACK, under_way=2)
    assert found.nodes == plan.waves[1][:2] and not found.stopped


def test_a_time_below_zero_is_refused() -> None:
    with pytest.raises(InputError, match="soak_h"):
        RollPolicy(soak_h=-1)
