# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One low sample proves nothing: which series of samples confirm a fault, and which do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.repeats import Stand, standing

# L: low, g: good, H: low and a proof by itself; the oldest first.
SERIES = [
    ("", Stand.CLEAR), ("g", Stand.CLEAR), ("L", Stand.SUSPECT), ("LL", Stand.SUSPECT), ("LLL", Stand.CONFIRMED),
    ("LgLL", Stand.CONFIRMED), ("LLgL", Stand.CONFIRMED), ("Lg", Stand.SUSPECT), ("Lgg", Stand.SUSPECT),
    ("Lggg", Stand.CLEAR), ("LggL", Stand.FLAKY), ("LgLg", Stand.FLAKY), ("LLgg", Stand.FLAKY),
    ("LLggggg", Stand.CLEAR), ("LLggLL", Stand.CONFIRMED), ("LLLgg", Stand.CONFIRMED), ("LLLggg", Stand.CLEAR),
    ("LLLggLgg", Stand.CONFIRMED), ("H", Stand.CONFIRMED), ("Hgg", Stand.CONFIRMED), ("Hggg", Stand.CLEAR),
    ("gggL", Stand.SUSPECT),
]  # fmt: skip


@pytest.mark.parametrize(("samples", "stand"), SERIES)
def test_series(samples: str, stand: Stand) -> None:
    found = standing([sample != "g" for sample in samples], hard=[sample == "H" for sample in samples])
    assert found.stand is stand
    assert found.text


@given(st.lists(st.booleans(), max_size=30))
def test_nothing_is_confirmed_by_fewer_than_three_low_samples(low: list[bool]) -> None:
    if standing(low).stand is Stand.CONFIRMED:
        assert sum(low) >= 3


@given(st.lists(st.booleans(), max_size=20))
def test_three_good_samples_clear_whatever_was_confirmed_and_six_whatever_was_flaky(low: list[bool]) -> None:
    assert standing([*low, *[False] * 6]).stand is Stand.CLEAR
