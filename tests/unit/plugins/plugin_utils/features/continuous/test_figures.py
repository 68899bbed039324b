# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a healthy node is called bad and how many bad ones are found, over simulated fleets with heavy tails."""

from __future__ import annotations

import pytest
from class_fleet import DAY_S, TEST, Fleet
from seeds import every_case

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import GemmRateSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import ClassLimits, Word


@pytest.mark.drawn(1)
@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_healthy_nodes_are_not_bad_and_slow_ones_are(
    noise: float,
) -> None:
    # Eight parts each. GPUFLEET_TEST_CASES=all sweeps as many as the bound is stated for, where one may be wrong.
    nodes = 10_000 if every_case() else 1_000
    losses = {f"n{number:05d}": 0.10 if number % 2 else 0.07 for number in range(20)}
    fleet = Fleet(nodes, noise, losses=losses, seed="rates")
    bad = set(fleet.sweep(7).nodes(Word.BAD))
    false = bad - losses.keys()
    found = {loss: sum(node in bad for node, lost in losses.items() if lost == loss) for loss in (0.07, 0.10)}
    print(f"noise {noise:.0%}: false {len(false)}, found {found} of 10 each, {len(fleet.results) - nodes} repeats")
    assert len(false) <= nodes // 10_000
    assert found[0.10] >= (9 if noise < 0.03 else 3)
    assert found[0.07] >= {0.01: 9, 0.02: 4, 0.03: 0}[noise]


# What gate fabric_validation judges GPUs by, and classification with it.
AS_GATE = ClassLimits(peers_by_test={TEST: settings_for(GemmRateSettings, "gpu-gemm-rate", {}).peers})


@pytest.mark.parametrize("nodes", [16, 128])
def test_of_silicon_with_a_left_tail_only_those_are_bad_that_a_gate_would_not_take(nodes: int) -> None:
    # T208: a tenth of GPUs is slower for good, by 2 % on average. Under 5 % of equals 15 of 160 nodes were bad.
    for seed in range(160 // nodes if nodes < 100 else 2):
        fleet = Fleet(nodes, 0.004, tails=0, lasting=0.012, left=0.10, limits=AS_GATE, seed=f"left/{seed}")
        bad = set(fleet.sweep(7).nodes(Word.BAD))
        beyond = {name for name, parts in fleet.own.items() if min(parts) < 1 - 0.065}
        assert bad <= beyond, (seed, {name: min(fleet.own[name]) for name in bad})


@pytest.mark.parametrize(("nodes", "hot"), [(16, 3), (128, 6), (1000, 20)])
def test_hours_that_nodes_share_make_none_of_them_bad(nodes: int, hot: int) -> None:
    # T207, T208: what is beside them is busy for 4 h; suspects are tested again every hour.
    fleet = Fleet(nodes, 0.006, tails=0, lasting=0.003, parts=1, limits=AS_GATE, seed="hours")
    fleet.hot, fleet.cool_s = dict.fromkeys(fleet.names[:hot], 0.12), fleet.now_s + 4 * 3600
    found = fleet.sweep(12, apart_h=1)
    assert not found.nodes(Word.BAD)
    fleet.now_s += 7 * DAY_S
    fleet.sweep(1)
    assert not fleet.classify().nodes(Word.BAD)
