# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deciding a gate takes work in proportion to the fleet: no loop over all hosts within a loop over all hosts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from big_runs import GATES, BigRun
from counted_work import lines_per_pair

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import decide_gate

# The fewest hosts of which pairs, rounds and peers are what they are with many.
SIZES = {"fabric_validation": 16, "inference_acceptance": 8, "facility": 8}
# A rank asks more peers the more ranks there are, by their logarithm: no square, but it would look like a part of one.
STATED = {"fabric_validation": {"job-networking": {"peers": 4}}}
# A loop within a loop runs a line or more for each pair. Racks of four make it a quarter.
MOST = 0.2


def test_a_loop_within_a_loop_is_found_and_a_plain_one_is_not() -> None:
    def nested(size: int) -> Callable[[], object]:
        return lambda: [any(one == other for other in range(size, -1, -1)) for one in range(size)]

    def plain(size: int) -> Callable[[], object]:
        return lambda: [len(list(range(7))) for one in range(size)]

    assert lines_per_pair(nested, 8) > MOST
    assert abs(lines_per_pair(plain, 8)) < MOST


@pytest.mark.parametrize("gate", GATES)
def test_the_fleets_that_are_measured_are_healthy(gate: str, tmp_path: Path) -> None:
    """What a check cannot judge costs it nothing, and its growth would not be seen."""
    verdict = decide_gate(BigRun(tmp_path, gate, 4).make(), gate)
    assert (verdict.status, verdict.blocking) == (Status.PASSED, ())
    assert not any(count for status, count in verdict.counts.items() if status != "passed")


@pytest.mark.quickly(1)
@pytest.mark.drawn(4)
@pytest.mark.parametrize("gate", GATES)
def test_the_work_of_a_gate_grows_with_the_fleet_and_not_with_its_square(gate: str, tmp_path: Path) -> None:
    serial = count()

    def prepared(hosts: int) -> Callable[[], object]:
        run = BigRun(tmp_path / str(next(serial)), gate, hosts, STATED.get(gate, {})).make()
        return lambda: decide_gate(run, gate)

    assert lines_per_pair(prepared, SIZES.get(gate, 4)) < MOST
