# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Healthy worlds pass every gate that can be judged without a control plane; each run of the tests draws six."""

from __future__ import annotations

from pathlib import Path

import pytest
from seeds import drawing, run_seed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.worlds.catalogue import load_worlds
from tools.world_bench.judge import DATA, held, judge_world, judged_gates

WORLDS = load_worlds(DATA)
DRAWN = drawing("worlds").sample([name for name, world in WORLDS.items() if judged_gates(world)], 6)


@pytest.mark.parametrize("name", DRAWN)
def test_a_healthy_world_passes(name: str, tmp_path: Path) -> None:
    outcomes = judge_world(WORLDS[name], tmp_path)
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.blocked_by] == []
    assert [(o.gate, o.check, o.cause, o.summary) for o in held(outcomes)] == [], f"seed {run_seed()}"
