# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler has its time, and more only where it may be late."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    CONTROLLERS_LATE_S,
    Fault,
    Outage,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import PlacingTime


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _wait(outage: Outage | None = None) -> tuple[PlacingTime, Clock]:
    clock = Clock()
    return PlacingTime(60.0, outage or Outage(120.0), clock), clock


@pytest.mark.parametrize(
    ("after_s", "heard", "left_s"),
    [(0, True, 60), (59, True, 1), (59, False, 1), (60, True, 0), (60, False, CONTROLLERS_LATE_S), (135, False, 0)],
)
def test_one_that_refuses_ends_its_time_and_one_that_says_nothing_gets_more(
    after_s: float, heard: bool, left_s: float
) -> None:
    wait, clock = _wait()
    clock.now += after_s
    assert wait.left_s(lambda: heard) == pytest.approx(left_s)


def test_what_was_said_before_an_outage_does_not_count_until_the_scheduler_can_be_back() -> None:
    outage = Outage(120.0)
    wait, clock = _wait(outage)
    # Away from second 20 to 50.
    outage.over_at, outage.away_s = clock.now + 50, 30.0
    clock.now += 91
    assert wait.settling
    assert wait.left_s(lambda: True) == pytest.approx(50 + CONTROLLERS_LATE_S - 91)
    clock.now += CONTROLLERS_LATE_S
    assert not wait.settling
    assert wait.left_s(lambda: True) == 0


def test_a_server_that_fails_again_and_again_does_not_lengthen_the_wait_without_end() -> None:
    outage = Outage(120.0)
    wait, clock = _wait(outage)
    clock.now += 60 + CONTROLLERS_LATE_S + 2
    outage.over_at, outage.away_s = clock.now, 1.0
    assert wait.left_s(lambda: False) == 0


def test_an_outage_is_counted_once_it_is_over() -> None:
    outage = Outage(120.0)
    outage.note(Fault(status=200))
    assert (outage.over_at, outage.away_s) == (None, 0.0)
    outage.note(Fault())
    outage.note(Fault(status=503))
    assert outage.over_at is None
    outage.note(Fault(status=200))
    assert outage.over_at is not None and 0 <= outage.away_s < 60
