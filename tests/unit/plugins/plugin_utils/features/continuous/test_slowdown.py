# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member against its own history: drops and slides are found, noise is not."""

from __future__ import annotations

import random

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.slowdown import drift

GOOD = [100.0, 100.4, 99.8, 100.1, 99.9, 100.2, 99.7, 100.0]


@pytest.mark.parametrize(
    ("values", "drifting"),
    [
        (GOOD, False),
        ([*GOOD, 94.0], False),
        ([*GOOD, 94.0, 94.1], True),
        ([*GOOD, 94.0, 100.0], False),
        ([*GOOD, 94.0, 94.0, 100.0], False),
        ([*GOOD, 110.0, 110.0], False),
        # Half a percent less each time: never a drop, and a slide.
        ([*GOOD, *(100.0 - 0.5 * step for step in range(20))], True),
        ([100.0] * 8 + [99.5] * 8, False),
        ([100.0] * 7, False),
        ([100.0] * 5 + [90.0] * 2, True),
    ],
)
def test_histories(values: list[float], drifting: bool) -> None:
    found = drift(values)
    assert found.evaluated and found.drifting is drifting and found.arithmetic


@pytest.mark.parametrize("values", [[], [100.0] * 6, [0.0] * 9])
def test_what_is_too_short_or_nothing_is_not_evaluated(values: list[float]) -> None:
    found = drift(values)
    assert not found.evaluated and not found.drifting and found.arithmetic


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_noise_is_rarely_a_drift_and_a_loss_of_a_tenth_mostly_is(noise: float) -> None:
    draw = random.Random(f"drift {noise}")
    false = found = 0
    for _trial in range(1000):
        values = [draw.gauss(100, 100 * noise) for _run in range(16)]
        false += drift(values).drifting
        found += drift([*values, *(draw.gauss(90, 100 * noise) for _run in range(6))]).drifting
    assert false <= 15 and found >= 800
