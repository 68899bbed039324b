# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of a volume that is slow by day and in storms: the healthy are not bad, and one that is slow by itself is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from noisy_volume import NoisyVolume
from seeds import run_seed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    Shared,
    figure_rules,
    records,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

DAY_S = 86400.0


@pytest.mark.parametrize("limit_mib_s", [500.0, 0.0])
def test_clients_of_a_busy_volume_are_never_bad_and_a_slow_one_is_within_days(limit_mib_s: float) -> None:
    volume = NoisyVolume(20, f"busy volume {run_seed()}", slow={"n003": 0.2}, limit_mib_s=limit_mib_s)
    volume.go(9)
    assert set(volume.bad_after_days) == {"n003"}, volume.bad_after_days
    assert volume.bad_after_days["n003"] <= 8
    # All others are told to be healthy, and none is in doubt for ever.
    assert all("healthy" in words for node, words in volume.seen.items() if node != "n003")


def test_a_median_latency_alone_names_no_client_however_many_samples_a_day_had() -> None:
    """In this week the latency of random writes was low on three days of n011, each by chance."""
    volume = NoisyVolume(20, "busy volume 974162", slow={"n003": 0.2}, limit_mib_s=0.0)
    volume.go(9)
    assert set(volume.bad_after_days) == {"n003"}


def test_the_rules_of_other_figures_would_call_healthy_clients_bad() -> None:
    """What the rule is for; if this one fails, the volume is too quiet to show anything. Of one seed: in a quiet week
    the other rules are right as well."""
    volume = NoisyVolume(20, "quiet 2")
    volume.go(3, replace(figure_rules(), shared={}))
    assert len(volume.bad_after_days) >= 2, volume.bad_after_days


@pytest.mark.parametrize("seed", ["small 24", "small 37"])
def test_on_a_small_site_one_figure_that_is_low_by_chance_makes_no_client_bad(seed: str) -> None:
    """Two of forty months of six clients; with one figure alone a healthy one was bad in each of them."""
    days = {"small 24": 15, "small 37": 22}[seed]
    by_one = replace(figure_rules().shared["storage_io"], agreeing=1)
    alone = NoisyVolume(6, seed)
    alone.go(days, replace(figure_rules(), shared={"storage_io": by_one}))
    assert len(alone.bad_after_days) == 1
    volume = NoisyVolume(6, seed)
    volume.go(days)
    assert volume.bad_after_days == {}


@pytest.mark.parametrize("seed", ["small 0", "small 1"])
def test_on_a_small_site_a_client_at_three_tenths_is_bad_within_two_tests(seed: str) -> None:
    volume = NoisyVolume(6, seed, slow={"n003": 0.3})
    volume.go(10)
    assert set(volume.bad_after_days) == {"n003"}


@pytest.mark.parametrize(
    ("low", "others", "word"),
    [
        (("random-read",), ("random-write", "sequential-read"), "suspect"),
        (("random-read", "random-write"), ("sequential-read",), "bad"),
        (("random-read",), (), "bad"),
        ((), ("random-read", "random-write"), "healthy"),
    ],
)
def test_a_client_is_bad_by_two_figures_where_there_are_more(
    low: tuple[str, ...], others: tuple[str, ...], word: str
) -> None:
    results = [
        replace(
            sample(day * DAY_S, 0.0), node=f"n{node}", figures=tuple(
                Figure(name=name, number=100 if node == 1 and name in low else 400 + node + day, unit="MiB/s", part="v")
                for name in (*low, *others)
            ),
        )
        for node in range(1, 7) for day in range(5)
    ]  # fmt: skip
    names = [f"n{node}" for node in range(1, 7)]
    found = classify("c", names, ("storage_io",), results, 5 * DAY_S, figure_rules())
    assert {entry.node: entry.word for entry in found.classes} == {**dict.fromkeys(names, "healthy"), "n1": word}
    reason = next(entry.reasons[0] for entry in found.classes if entry.node == "n1")
    assert ("1 of 3 figures by single samples" in reason) is (word == "suspect")
    assert (found.in_a_row.get("n1", 0) > 0) is (word == "bad")


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


@pytest.mark.parametrize(("hours", "tolerance", "agreeing"), [(0, 0.5, 1), (24, 0, 1), (24, 1, 1), (24, 0.5, 0)])
def test_a_rule_that_means_nothing_is_refused(hours: float, tolerance: float, agreeing: int) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Shared(figures=("x",), hours=hours, tolerance=tolerance, agreeing=agreeing)
