# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One low sample proves nothing: which series of samples confirm a fault, and which do not."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Stand, repeat_state

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
    found = repeat_state([sample != "g" for sample in samples], hard=[sample == "H" for sample in samples])
    assert found.stand is stand
    assert found.text


@given(st.lists(st.booleans(), max_size=30))
def test_nothing_is_confirmed_by_fewer_than_three_low_samples(low: list[bool]) -> None:
    if repeat_state(low).stand is Stand.CONFIRMED:
        assert sum(low) >= 3


@given(st.lists(st.booleans(), max_size=20))
def test_three_good_samples_clear_whatever_was_confirmed_and_six_whatever_was_flaky(low: list[bool]) -> None:
    assert repeat_state([*low, *[False] * 6]).stand is Stand.CLEAR


def test_one_more_low_sample_never_makes_it_better() -> None:
    """Every series of up to nine samples, and every one that has one low sample more; domain.md T206."""

    def rank(low: tuple[bool, ...], needed: int) -> int:
        # Suspect and flaky are the same doubt, with fewer and with more repeats.
        return {Stand.CLEAR: 0, Stand.SUSPECT: 1, Stand.FLAKY: 1, Stand.CONFIRMED: 2}[
            repeat_state(low, needed=needed).stand
        ]

    for length in range(10):
        for low in product((False, True), repeat=length):
            for place in (number for number, is_low in enumerate(low) if not is_low):
                lower = (*low[:place], True, *low[place + 1 :])
                for needed in (2, 3):
                    assert rank(lower, needed) >= rank(low, needed), (low, lower, needed)


def test_all_of_the_repeats_may_be_asked_for() -> None:
    assert repeat_state([True] * 3, needed=3).stand is Stand.SUSPECT
    assert repeat_state([True] * 4, needed=3).stand is Stand.CONFIRMED
    assert repeat_state([True, True, False, True, True], needed=3).stand is Stand.FLAKY
