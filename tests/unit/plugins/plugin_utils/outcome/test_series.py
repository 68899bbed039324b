# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A curve travels with its outcome, and one that cannot be drawn is refused."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Axis,
    Bound,
    Outcome,
    Rating,
    Series,
    Status,
    node_subject,
)

SIZE, BUSBW = Axis(name="size", unit="B", logarithmic=True), Axis(name="busbw", unit="GB/s")


def curve(*points: tuple[float, float], ceiling: float = 480.0) -> Series:
    bounds = (Bound(name="ceiling", value=ceiling),)
    return Series(figure="busbw by size", name="all nodes", x=SIZE, y=BUSBW, points=points, bounds=bounds)


def test_a_curve_travels_with_its_outcome() -> None:
    outcome = Outcome(
        check="nccl-all-nodes-bw",
        gate="fabric_validation",
        status=Status.PASSED,
        rating=Rating.GOOD,
        subjects=(node_subject("gpu01"),),
        summary="470 GB/s",
        series=(curve((8.0, 0.1), (16.0, 0.2)),),
    )
    assert from_plain(Outcome, to_plain(outcome), "outcome") == outcome


@pytest.mark.parametrize("points", [(), ((2.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (1.0, 2.0)), ((1.0, float("nan")),)])
def test_a_curve_that_cannot_be_drawn_is_refused(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InputError, match="x rising"):
        curve(*points)


def test_a_bound_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError):
        curve((1.0, 1.0), ceiling=float("inf"))
