# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What slow members share is named where it tells them from the others: a rack, a leaf, a driver; chance never is."""

from __future__ import annotations

import random

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.shared import shared_by


def racks(count: int, size: int) -> dict[str, dict[str, str]]:
    return {f"gpu{n:02d}": {"rack": f"r{n // size}", "driver": "580.1"} for n in range(count)}


def first(slow: list[str], members: dict[str, dict[str, str]]) -> str:
    found = shared_by(slow, members)
    return f"{found[0].kind} {found[0].value}" if found else ""


def test_one_of_two_racks() -> None:
    members = racks(4, 2)
    (found,) = shared_by(["gpu02", "gpu03"], members)
    assert (found.kind, found.value, found.slow) == ("rack", "r1", ("gpu02", "gpu03"))
    assert found.text == "rack r1: 2 of 2 are slow, 0 of 2 elsewhere"


def test_more_than_half_share_a_driver() -> None:
    members = racks(16, 4)
    slow = [f"gpu{n:02d}" for n in (0, 2, 3, 5, 6, 8, 9, 12, 15)]
    for name in slow:
        members[name]["driver"] = "570.2"
    assert first(slow, members) == "driver 570.2"


def test_a_rack_and_one_more_host_are_the_rack_and_the_host() -> None:
    members = racks(32, 8)
    slow = [f"gpu{n:02d}" for n in (*range(8, 16), 30)]
    (found, *_rest) = shared_by(slow, members)
    assert (found.value, found.slow_others, len(found.slow)) == ("r1", 1, 8)


def test_one_of_a_rack_may_be_over_the_line() -> None:
    assert first([f"gpu{n:02d}" for n in range(8, 15)], racks(64, 8)) == "rack r1"


def test_what_all_have_or_only_one_has_explains_nothing() -> None:
    assert first(["gpu01", "gpu05"], racks(8, 1)) == ""
    assert first(["gpu01", "gpu05"], racks(8, 8)) == ""
    assert first(["gpu00"], racks(8, 2)) == ""
    assert first([], racks(8, 2)) == ""
    assert first(["gpu00", "gpu01"], {f"gpu{n:02d}": {} for n in range(8)}) == ""


def test_of_two_that_fit_the_one_stated_first_is_named() -> None:
    members = racks(16, 8)
    for n in range(8, 16):
        members[f"gpu{n:02d}"]["kernel"] = "6.8.0-49"
    assert [found.kind for found in shared_by([f"gpu{n:02d}" for n in range(8, 16)], members)] == ["rack", "kernel"]


def test_chance_is_hardly_ever_an_explanation() -> None:
    draw, blamed, members = random.Random(5), 0, racks(64, 8)
    for _trial in range(2000):
        blamed += bool(shared_by(draw.sample(sorted(members), draw.randint(2, 32)), members))
    assert blamed <= 4
