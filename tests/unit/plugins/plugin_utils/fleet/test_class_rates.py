# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a healthy node is called bad and how many bad ones are found, over simulated fleets with heavy tails."""

from __future__ import annotations

import pytest
from class_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fleet.class_rules import Word


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_no_healthy_node_of_a_thousand_is_bad_and_lost_tenths_are_found(
    noise: float,
) -> None:
    # 1,000 nodes with eight parts each; the sweep of 10,000 is in the decision 0710 (GPUFLEET_TEST_CASES=all runs it).
    losses = {f"n{number:05d}": 0.10 if number % 2 else 0.07 for number in range(20)}
    fleet = Fleet(1000, noise, losses=losses, seed="rates")
    bad = set(fleet.sweep(7).nodes(Word.BAD))
    false = bad - losses.keys()
    found = {loss: sum(node in bad for node, lost in losses.items() if lost == loss) for loss in (0.07, 0.10)}
    print(f"noise {noise:.0%}: false {len(false)}, found {found} of 10 each, {len(fleet.results) - 1000} repeats")
    assert not false
    assert found[0.10] >= (9 if noise < 0.03 else 5)
    assert found[0.07] >= {0.01: 9, 0.02: 4, 0.03: 0}[noise]
