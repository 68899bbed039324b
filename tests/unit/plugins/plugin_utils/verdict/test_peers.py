# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peer rule over simulated fleets: who must be found, how rarely a good one, and when the cohort is at fault."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.peers import compare, confirmed

TRIALS = 1500


@dataclass(frozen=True)
class Rates:
    found: float
    false: float
    blamed: float


def simulate(nodes: int, bad: int, loss: float, noise: float, runs: int) -> Rates:
    draw = random.Random(f"{nodes}/{bad}/{loss}/{noise}/{runs}")
    found = false = blamed = 0
    for _trial in range(TRIALS):
        values = {
            str(n): median(draw.gauss(400 * (1 - loss) if n < bad else 400, 400 * noise) for _run in range(runs))
            for n in range(nodes)
        }
        verdict = compare(values)
        blamed += verdict.cohort_to_blame
        found += sum(int(name) < bad for name in verdict.suspects)
        false += sum(int(name) >= bad for name in verdict.suspects)
    good = nodes - bad
    return Rates(found / (bad * TRIALS) if bad else 1.0, false / (good * TRIALS), blamed / TRIALS)


# Nodes, bad ones, their loss, noise of a run, the least part of them that must be found with three runs.
TABLE = [
    (16, 1, 0.10, 0.02, 0.96),
    (64, 1, 0.07, 0.02, 0.85),
    (64, 8, 0.10, 0.02, 0.98),
    (64, 0, 0.00, 0.02, 1.0),
    (8, 2, 0.10, 0.02, 0.88),
    (8, 2, 0.10, 0.01, 0.99),
    (4, 1, 0.10, 0.02, 0.85),
    (4, 0, 0.00, 0.02, 1.0),
    (8, 0, 0.00, 0.02, 1.0),
]


@pytest.mark.parametrize(("nodes", "bad", "loss", "noise", "least"), TABLE)
def test_fleets(nodes: int, bad: int, loss: float, noise: float, least: float) -> None:
    rates = simulate(nodes, bad, loss, noise, 3)
    assert rates.found >= least
    assert rates.false <= 0.001
    assert rates.blamed <= 0.005


def test_noise_widens_the_tolerance_and_never_narrows_it() -> None:
    quiet = compare({str(n): 400.0 for n in range(8)})
    assert quiet.limit == pytest.approx(380)
    noisy = compare({str(n): 400.0 + 20 * (n % 5) for n in range(10)})
    assert noisy.limit < noisy.median * 0.95


@given(st.floats(0.0, 0.999), st.lists(st.floats(0.995, 1.005), min_size=4, max_size=40))
def test_a_slow_cohort_is_to_blame_and_no_member(share: float, values: list[float]) -> None:
    verdict = compare({str(n): 400 * 0.85 * share * value for n, value in enumerate(values)}, least_median=342.0)
    assert verdict.cohort_to_blame
    assert not verdict.suspects


def test_a_third_of_the_cohort_is_the_cohorts_fault() -> None:
    values = {str(n): 300.0 if n < 4 else 400.0 for n in range(12)}
    verdict = compare(values)
    assert len(verdict.suspects) == 4
    assert verdict.cohort_to_blame
    assert not compare({str(n): 300.0 if n < 2 else 400.0 for n in range(12)}).cohort_to_blame


@given(st.lists(st.floats(1, 900), max_size=3))
def test_under_four_nothing_is_known(values: list[float]) -> None:
    verdict = compare({str(n): value for n, value in enumerate(values)})
    assert (verdict.evaluated, verdict.suspects, verdict.cohort_to_blame) == (False, (), False)


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(1, 900), min_size=4, max_size=30), st.floats(0.01, 100)
)
def test_the_unit_does_not_matter(values: dict[str, float], factor: float) -> None:
    scaled = compare({name: value * factor for name, value in values.items()})
    edge = compare(values)
    on_the_edge = any(abs(value - edge.limit) < 1e-6 * value for value in values.values())
    assert on_the_edge or scaled.suspects == edge.suspects


def test_confirmation() -> None:
    assert confirmed([True, True, False])
    assert confirmed([True, False, True])
    assert not confirmed([True, False, False])
    assert not confirmed([True])
    assert not confirmed([True, True])
