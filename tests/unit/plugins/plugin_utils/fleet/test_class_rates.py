# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a healthy node is called bad and how many bad ones are found, over simulated fleets with heavy tails."""

from __future__ import annotations

import pytest
from class_fleet import Fleet
from seeds import every_case

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fleet.class_rules import Word


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
