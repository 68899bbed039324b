# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hours in which idle nodes are tested, over midnight, week ends and the nights on which clocks are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    DAYS,
    TimeWindow,
    window_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError


def window(hours: str, zone: str = "UTC", days: tuple[str, ...] = DAYS) -> TimeWindow:
    found = window_of(hours, zone, days)
    assert found is not None
    return found


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_no_hours_are_any_time() -> None:
    assert window_of("", "UTC") is None and window_of("  ", "nowhere") is None


def test_a_window_of_a_day() -> None:
    day = window("08:00-18:30")
    assert day.closes_at(at("2026-11-23T07:59:59")) is None and day.closes_at(at("2026-11-23T18:30")) is None
    assert day.closes_at(at("2026-11-23T08:00")) == at("2026-11-23T18:30")
    assert day.opens_at(at("2026-11-23T08:00")) == at("2026-11-24T08:00")
    assert str(day) == "08:00-18:30 UTC" and day.longest_s == 10.5 * 3600
    assert window("20:00-24:00").closes_at(at("2026-11-23T23:59")) == at("2026-11-24T00:00")


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    night = window("22:00-06:00", days=("fri",))
    assert night.closes_at(at("2026-11-28T05:00")) == at("2026-11-28T06:00")
    assert night.closes_at(at("2026-11-27T05:00")) is None and night.closes_at(at("2026-11-28T23:00")) is None
    assert night.opens_at(at("2026-11-28T00:00")) == at("2026-12-04T22:00")
    assert str(night) == "22:00-06:00 UTC on fri"


def test_hours_are_those_of_the_wall_when_clocks_are_set() -> None:
    # Berlin: 2026-03-29 02:00 becomes 03:00, 2026-10-25 03:00 becomes 02:00.
    night = window("22:00-06:00", "Europe/Berlin")
    spring = night.opens_at(at("2026-03-28T12:00"))
    assert (spring, night.closes_at(spring)) == (at("2026-03-28T21:00"), at("2026-03-29T04:00"))
    autumn = night.opens_at(at("2026-10-24T12:00"))
    assert (autumn, night.closes_at(autumn)) == (at("2026-10-24T20:00"), at("2026-10-25T05:00"))


def test_the_whole_day_never_closes() -> None:
    whole = window("00:00-24:00")
    assert whole.closes_at(at("2026-11-23T23:59")) == float("inf") and whole.longest_s == float("inf")
    sunday = window("00:00-24:00", days=("sun",))
    assert sunday.closes_at(at("2026-11-29T12:00")) == at("2026-11-30T00:00")
    assert sunday.closes_at(at("2026-11-30T12:00")) is None


@pytest.mark.parametrize(
    ("hours", "zone", "days", "text"),
    [
        ("22-6", "UTC", DAYS, "expected hours"),
        ("24:00-06:00", "UTC", DAYS, "expected hours"),
        ("22:00-24:30", "UTC", DAYS, "expected hours"),
        ("22:00-06:00", "Mars/Base", DAYS, "does not know"),
        ("22:00-06:00", "../../etc/passwd", DAYS, "does not know"),
        ("22:00-06:00", "", DAYS, "does not know"),
        ("22:00-06:00", "UTC", ("fry",), "fry: no day"),
        ("22:00-06:00", "UTC", (), "there is none"),
    ],
)
def test_what_is_no_window_is_refused(hours: str, zone: str, days: tuple[str, ...], text: str) -> None:
    with pytest.raises(InputError, match=text):
        window_of(hours, zone, days)


@given(
    st.integers(0, 23), st.integers(0, 23), st.sets(st.sampled_from(DAYS), min_size=1),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati"]), st.integers(0, 366 * 24),
)  # fmt: skip
def test_it_is_open_or_opens_within_a_week(opens: int, closes: int, days: set[str], zone: str, hour: int) -> None:
    some = window(f"{opens:02d}:00-{closes:02d}:00", zone, tuple(days))
    now = (datetime(2026, 1, 1, 0, 30, tzinfo=UTC) + timedelta(hours=hour)).timestamp()
    closing, opening = some.closes_at(now), some.opens_at(now)
    assert now < opening <= now + 8.1 * 86400
    assert closing is None or closing > now
    assert some.closes_at(opening) is not None
