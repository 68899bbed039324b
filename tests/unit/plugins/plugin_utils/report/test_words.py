# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for numbers and names."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Scalar
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.words import (
    compressed,
    measure_name,
    size,
    with_unit,
)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["gpu1", "gpu2"], "gpu1, gpu2"),
        (["gpu08", "gpu09", "gpu10", "gpu12"], "gpu08 to gpu10, gpu12"),
        (["a1", "b2", "b3", "b4", "c"], "a1, b2 to b4, c"),
        ([f"n{number}" for number in range(0, 20, 2)], "n0, n2, n4 and 7 more"),
        (["n1", "n3", "n5", "n7", "n8", "n9"], "n1, n3, n5 and 3 more"),
    ],
)
def test_names_that_follow_each_other_are_drawn_together(names: list[str], told: str) -> None:
    assert compressed(names, 3) == told


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (408.0, "GB/s", "408 GB/s"),
        (399.7312, "GB/s", "399.73 GB/s"),
        (8 << 30, "B", "8 GiB"),
        (1536, "B", "1.5 KiB"),
        (8, "count", "8"),
        (True, "", "yes"),
        (None, "", "none"),
        ("ring", "", "ring"),
        (float("inf"), "s", "inf s"),
        (4.7e-06, "s", "4.7e-06 s"),
    ],
)
def test_values_with_their_units(value: Scalar, unit: str, told: str) -> None:
    assert with_unit(value, unit) == told


def test_sizes_in_names_are_said_as_people_do() -> None:
    assert measure_name("busbw at 67108864 B") == "busbw at 64 MiB" and measure_name("busbw") == "busbw"
    assert size(0) == "0 B" and size(2.0**60) == "1.02e+03 PiB"
