# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of a volume that is slow by day and in storms: the healthy are not bad, and one that is slow by itself is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from noisy_volume import NoisyVolume
from seeds import run_seed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fleet.class_rules import Shared, figure_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.fleet.series import records
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service_model import Figure, NodeResult

DAY_S = 86400.0


@pytest.mark.parametrize("limit_mib_s", [500.0, 0.0])
def test_clients_of_a_busy_volume_are_never_bad_and_a_slow_one_is_within_days(limit_mib_s: float) -> None:
    volume = NoisyVolume(20, f"busy volume {run_seed()}", slow={"n003": 0.2}, limit_mib_s=limit_mib_s)
    volume.go(9)
    assert set(volume.bad_after_days) == {"n003"}, volume.bad_after_days
    assert volume.bad_after_days["n003"] <= 8
    # All others are told to be healthy, and none is in doubt for ever.
    assert all("healthy" in words for node, words in volume.seen.items() if node != "n003")


def test_the_rules_of_other_figures_would_call_healthy_clients_bad() -> None:
    """What the rule is for; if this one fails, the volume is too quiet to show anything. Of one seed: in a quiet week
    the other rules are right as well."""
    volume = NoisyVolume(20, "quiet 2")
    volume.go(3, replace(figure_rules(), shared={}))
    assert len(volume.bad_after_days) >= 3, volume.bad_after_days


def sample(at_s: float, mib_s: float, name: str = "random-read") -> NodeResult:
    figures = (Figure(name=name, number=mib_s, unit="MiB/s", part="shared-volume"),)
    return NodeResult(
        cycle_id=f"c{at_s}", node="n1", test="storage_io", started_s=at_s, duration_s=1.0, status=Status.PASSED,
        figures=figures, cohort="h100",
    )  # fmt: skip


def test_of_a_day_the_best_sample_counts() -> None:
    told = [sample(at * 3600.0, rate) for at, rate in ((1, 50), (5, 400), (9, 30), (24.9, 20), (25, 10), (26, 90))]
    ((series,),) = [record.series for record in records(told, 30 * DAY_S, figure_rules()).values()]
    assert series.speeds == series.shown == (400, 90) and series.tolerance == 0.5
    strange = [sample(at * 3600.0, 100, "random-read operations") for at in range(4)]
    ((none,),) = [(record.series,) for record in records(strange, 30 * DAY_S, figure_rules()).values()]
    assert none == ()


@pytest.mark.parametrize(("hours", "tolerance"), [(0, 0.5), (24, 0), (24, 1)])
def test_a_rule_that_means_nothing_is_refused(hours: float, tolerance: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Shared(figures=("x",), hours=hours, tolerance=tolerance)
