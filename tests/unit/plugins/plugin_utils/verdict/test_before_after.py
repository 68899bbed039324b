# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures before and after a change: what all lose is the software's, what one loses is its own."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict import before_after as module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.before_after import (
    BeforeAfter,
    ChangeLimits,
    Effect,
    before_after,
    signed_rank,
)


def fleet(rng: random.Random, nodes: int, *, factor: float = 1.0, noise: float = 0.005) -> dict[str, float]:
    return {f"gpu{n:03}": 400 * factor * rng.gauss(1, noise) for n in range(nodes)}


def test_a_fleet_that_did_not_change_is_unchanged() -> None:
    rng = random.Random(1)
    found = before_after(fleet(rng, 64), fleet(rng, 64))
    assert found.effect is Effect.UNCHANGED and not found.regression and not found.suspects
    assert found.pairs == 64 and "median change of 64 pairs" in found.arithmetic


def test_what_all_lose_is_told_once_and_of_no_node() -> None:
    rng = random.Random(2)
    found = before_after(fleet(rng, 64), fleet(rng, 64, factor=0.93))
    assert found.effect is Effect.LOSS and found.regression and found.suspects == ()
    assert found.change == pytest.approx(-0.07, abs=0.01) and found.probability < 1e-6


def test_one_node_that_lost_is_a_suspect_and_no_regression() -> None:
    rng = random.Random(3)
    after = fleet(rng, 16)
    after["gpu004"] *= 0.8
    found = before_after(fleet(rng, 16), after)
    assert found.effect is Effect.UNCHANGED and found.suspects == ("gpu004",)


def test_a_bad_node_is_found_within_a_regression() -> None:
    rng = random.Random(4)
    after = fleet(rng, 16, factor=0.9)
    after["gpu004"] *= 0.5
    found = before_after(fleet(rng, 16), after)
    assert found.effect is Effect.LOSS and found.suspects == ("gpu004",)


def test_a_part_of_the_fleet_that_lost_alike_is_no_row_of_bad_nodes() -> None:
    rng = random.Random(5)
    after = {name: value * (0.85 if n < 10 else 1) for n, (name, value) in enumerate(fleet(rng, 32).items())}
    found = before_after(fleet(rng, 32), after)
    assert found.effect is Effect.PART and found.regression and len(found.suspects) == 10


def test_a_gain_is_no_regression() -> None:
    rng = random.Random(6)
    found = before_after(fleet(rng, 16), fleet(rng, 16, factor=1.1))
    assert found.effect is Effect.GAIN and not found.regression


def test_times_count_the_other_way() -> None:
    rng = random.Random(7)
    found = before_after(fleet(rng, 16), fleet(rng, 16, factor=1.1), more_is_better=False)
    assert found.effect is Effect.LOSS and found.change == pytest.approx(-0.1, abs=0.01)
    assert before_after(fleet(rng, 16), fleet(rng, 16, factor=0.9), more_is_better=False).effect is Effect.GAIN


@pytest.mark.parametrize("pairs", [0, 1, 3])
def test_too_few_pairs_say_nothing(pairs: int) -> None:
    before = {f"gpu{n}": 400.0 for n in range(pairs)}
    assert before_after(before, before).effect is Effect.UNKNOWN


def test_a_loss_that_chance_may_have_made_is_not_called_unchanged() -> None:
    # Five pairs, all lost: the surest that Wilcoxon can be is 2 / 32.
    before = {f"gpu{n}": 400.0 + n for n in range(5)}
    found = before_after(before, {name: value * 0.9 for name, value in before.items()})
    assert found.effect is Effect.UNKNOWN and found.probability == pytest.approx(2 / 32)
    assert before_after(
        before, {name: value * 0.9 for name, value in before.items()}, limits=ChangeLimits(significance=0.07)
    ).effect is Effect.LOSS  # fmt: skip


def test_more_comparisons_need_more_certainty() -> None:
    before = {f"gpu{n}": 400.0 + n for n in range(8)}
    after = {name: value * 0.9 for name, value in before.items()}
    assert before_after(before, after).effect is Effect.LOSS
    assert before_after(before, after, comparisons=20).effect is Effect.UNKNOWN


def test_survivors_of_a_change_do_not_speak_for_those_that_are_gone() -> None:
    before = {f"gpu{n}": 400.0 for n in range(20)}
    found = before_after(before, {f"gpu{n}": 400.0 for n in range(9)})
    assert found.effect is Effect.UNKNOWN and len(found.missing) == 11


@pytest.mark.parametrize("figure", [math.nan, math.inf, -1.0])
def test_a_figure_that_is_none_is_missing(figure: float) -> None:
    before = {f"gpu{n}": 400.0 for n in range(8)}
    found = before_after(before, {**before, "gpu3": figure})
    assert found.missing == ("gpu3",) and found.effect is Effect.UNCHANGED


def test_nothing_at_all_after_is_a_loss_and_a_time_of_zero_is_none() -> None:
    before = {f"gpu{n}": 400.0 + n for n in range(8)}
    dead = before_after(before, {**before, "gpu3": 0.0})
    assert dead.suspects == ("gpu3",) and dead.by_subject["gpu3"] == -1.0
    assert before_after(before, {**before, "gpu3": 0.0}, more_is_better=False).missing == ("gpu3",)


def by_counting(differences: list[float]) -> float:
    """The same probability, by trying all signs."""
    kept = [d for d in differences if d]
    sizes = [abs(d) for d in kept]
    ranks = [sum(o < s for o in sizes) + (sum(o == s for o in sizes) + 1) / 2 for s in sizes]
    seen = sum(rank for rank, d in zip(ranks, kept, strict=True) if d > 0)
    least = min(seen, sum(ranks) - seen)
    totals = [
        sum(r for r, up in zip(ranks, signs, strict=True) if up)
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    return min(1.0, 2 * sum(total <= least for total in totals) / len(totals))


def test_the_exact_test_is_what_counting_all_signs_says() -> None:
    rng = random.Random(8)
    for unused in range(60):
        found = [float(rng.randint(-4, 6)) for unused in range(rng.randint(1, 9))]
        assert signed_rank(found) == pytest.approx(by_counting(found) if any(found) else 1.0), found


def test_the_approximation_joins_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(9)
    for unused in range(20):
        found = [rng.gauss(0.3, 1) for unused in range(40)]
        exact = signed_rank(found)
        with monkeypatch.context() as patched:
            patched.setattr(module, "_EXACT", 0)
            assert signed_rank(found) == pytest.approx(exact, abs=0.01)


def test_fleets_of_equal_nodes_rarely_raise_an_alarm() -> None:
    rng = random.Random(10)
    found: list[BeforeAfter] = [before_after(fleet(rng, 100), fleet(rng, 100)) for unused in range(300)]
    assert all(one.effect is Effect.UNCHANGED and not one.suspects for one in found)
