# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated fleet in service: the queue serves everybody, disturbs nobody, and a wrong queue is found out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import service_year
from seeds import run_seed
from service_year import ServiceYear

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import Demand
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import (
    BatchPlan,
    QueueNode,
    plan_batch,
)

# A year of 10,000 nodes: python tests/support/service_year.py, or these two in the environment.
NODES = int(os.environ.get("GPUFLEET_YEAR_NODES", "300"))
DAYS = float(os.environ.get("GPUFLEET_YEAR_DAYS", "75"))

Rest = Sequence[Any]


def test_everybody_is_tested_in_turn_and_nobody_is_disturbed() -> None:
    year = ServiceYear(NODES, DAYS, run_seed(), max(4, NODES // 16), every_h=8.0)
    found = year.run()
    assert 0 < found.chances <= year.bound and found.chances_later < found.chances
    assert found.tests["passed"] > 3 * NODES and min(found.tests[word] for word in ("failed", "pending", "other")) > 0
    assert found.repairs and found.crashes
    # Whoever was never answered was never free for long, or died with its controller.
    assert found.untouched < NODES * 0.05


def with_work(nodes: Sequence[QueueNode], *rest: Any) -> BatchPlan:
    """Takes nodes with work for free."""
    return plan_batch([replace(node, not_free="") for node in nodes], *rest)


def without_leases(nodes: Sequence[QueueNode], demands: Rest, known: Any, _leases: Rest, *rest: Any) -> BatchPlan:
    """Forgets that a dead controller's test may run still."""
    return plan_batch(nodes, demands, known, (), *rest)


def too_early(nodes: Sequence[QueueNode], demands: Sequence[Demand], *rest: Any) -> BatchPlan:
    """Repeats what still holds."""
    return plan_batch(nodes, [replace(demand, max_age_days=6.0) for demand in demands], *rest)


def too_late(nodes: Sequence[QueueNode], demands: Sequence[Demand], *rest: Any) -> BatchPlan:
    """Lets results get twice as old."""
    return plan_batch(nodes, [replace(demand, max_age_days=30.0) for demand in demands], *rest)


def not_all(nodes: Sequence[QueueNode], *rest: Any) -> BatchPlan:
    """Never comes to some of the nodes."""
    return plan_batch([node for node in nodes if node.name[-1] not in "37"], *rest)


def blind_to_parts(nodes: Sequence[QueueNode], *rest: Any) -> BatchPlan:
    """Does not see that a GPU was swapped."""
    return plan_batch([replace(node, parts={}) for node in nodes], *rest)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (with_work, "is to be tested, and|while .* runs|is held"),
        (without_leases, "is held|while .* runs"),
        (too_early, "again after 6"),
        (too_late, "chances="),
        (not_all, "[37]', .*chances="),
        (blind_to_parts, "chances="),
    ],
)
def test_a_wrong_queue_is_found_out(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., BatchPlan], text: str
) -> None:
    monkeypatch.setattr(service_year, "plan_batch", wrong)
    with pytest.raises(AssertionError, match=text):
        ServiceYear(60, 120, run_seed(), 20, every_h=3.0, dying=0.2).run()
