# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll: who goes when, why, and who is left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import (
    RollMember,
    RollPlan,
    RollPolicy,
    make_plan,
    nodes_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError


def fleet(count: int, racks: int = 4, **fields: str) -> list[RollMember]:
    return [RollMember(name=f"gpu{n}", rack=f"r{n % racks}", sku="h100", **fields) for n in range(1, count + 1)]


def test_the_canary_goes_first_then_waves_over_all_racks() -> None:
    plan = make_plan(fleet(12), RollPolicy(size="25%", keep="50%"))
    assert plan.waves == (
        ("gpu1",), ("gpu4", "gpu2", "gpu3"), ("gpu8", "gpu5", "gpu6"), ("gpu7", "gpu12", "gpu9"), ("gpu10", "gpu11"),
    )  # fmt: skip
    assert plan.places[0].why == "canary 1 of 1, first by name of SKU h100"
    assert plan.places[1].why == "number 1 of rack r0 in this wave of at most 3"
    assert make_plan(list(reversed(fleet(12))), RollPolicy(size="25%", keep="50%")) == plan


@pytest.mark.parametrize(
    ("nodes", "sizes"), [(1000, [1, 9, 49, 250, 250]), (32, [1, 8, 8, 8, 7]), (16, [1, 4, 4, 4, 3])]
)
def test_the_first_waves_of_a_large_site_are_small(nodes: int, sizes: list[int]) -> None:
    """A driver that fails on a tenth of the nodes held 25 of a first wave of 250 (domain.md T233)."""
    members = [RollMember(name=f"n{number:04d}", rack=f"r{number % 40}", sku="h100") for number in range(nodes)]
    plan = make_plan(members, RollPolicy(size="25%", keep="50%"))
    counts = Counter(place.wave for place in plan.places)
    assert [counts[wave] for wave in range(len(sizes))] == sizes
    assert sum(counts.values()) == nodes


def test_a_rack_is_a_wave_and_a_large_one_is_parted() -> None:
    members = [RollMember(name=f"a{n}", rack="R1") for n in range(5)] + [
        RollMember(name=f"b{n}", rack="R2") for n in range(2)
    ]
    plan = make_plan(members, RollPolicy(by="rack", size="3", keep="0"))
    assert plan.waves == (("a0",), ("a1", "a2", "a3"), ("a4",), ("b0", "b1"))
    assert plan.places[1].why == "rack R1, part 1 of 2 (at most 3 at once)" and plan.places[-1].why == "rack R2"


def test_a_rack_never_loses_more_than_its_cap() -> None:
    plan = make_plan(fleet(8, racks=2), RollPolicy(size="8", per_rack=1, keep="0", canaries=0))
    assert [len(wave) for wave in plan.waves] == [2, 2, 2, 2]
    for wave in plan.waves:
        assert max(Counter(place.rack for place in plan.places if place.node in wave).values()) == 1


def test_who_is_left_out_is_said() -> None:
    members = [*fleet(4), RollMember(name="gpu5", rack="r1", left_out="quarantined: bad fan (OPS-7)", serving=False)]
    plan = make_plan(members, RollPolicy(keep="0"))
    assert plan.left_out == {"gpu5": "quarantined: bad fan (OPS-7)"} and "gpu5" not in str(plan.waves)
    assert "left out: gpu5: quarantined: bad fan (OPS-7)" in plan.lines()
    everyone = make_plan([RollMember(name="gpu1", left_out="unreachable")], RollPolicy())
    assert everyone.waves == () and everyone.notes == ("no node is left to change",)


def test_racks_without_a_name_and_with_two_names_are_said() -> None:
    members = [
        RollMember(name="a", rack="R 1"),
        RollMember(name="b", rack=" r  1 "),
        RollMember(name="c"),
        RollMember(name="d"),
    ]
    plan = make_plan(members, RollPolicy(size="4", per_rack=1, keep="0", canaries=0))
    assert plan.notes == (
        "racks 'R 1' and 'r 1' are taken for one",
        "no rack is stated for c, d: they are taken for one rack",
    )
    assert [set(wave) for wave in plan.waves] == [{"a", "c"}, {"b", "d"}]


def test_a_canary_of_each_sku_comes_first() -> None:
    members = [RollMember(name="a1", sku="h100"), RollMember(name="a2", sku="h100"), RollMember(name="b1", sku="b200")]
    assert make_plan(members, RollPolicy(canaries=2, size="2", keep="0")).waves[0] == ("a1", "b1")
    named = make_plan(members, RollPolicy(canary_nodes=("a2",), keep="0"))
    assert named.waves[0] == ("a2",) and named.places[0].why == "canary 1 of 1, named"


@pytest.mark.parametrize(
    ("members", "policy", "text"),
    [
        ([*fleet(2), RollMember(name="gpu1")], {}, "gpu1: named more than once"),
        (fleet(4), {"keep": "100%"}, "4 of 4 nodes, and 4 are in service: none may be taken out"),
        (fleet(4), {"canary_nodes": ("gpu9",)}, "gpu9: not among the nodes"),
        (fleet(4), {"canary_nodes": ("gpu1", "gpu1")}, "named twice"),
        (fleet(4), {"canaries": 3}, "are 3, but only 1 nodes"),
    ],
)
def test_what_cannot_be_planned_is_refused(members: list[RollMember], policy: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        make_plan(members, RollPolicy(**policy))


@pytest.mark.parametrize(
    "fields", [{"by": "row"}, {"size": "many"}, {"size": "-1"}, {"keep": "101%"}, {"budget": ""}, {"per_rack": -1}]
)
def test_a_policy_that_means_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="gpufleet_wave_"):
        RollPolicy(**fields)


def test_what_holds_a_roll_back_is_said_in_nodes() -> None:
    policy = RollPolicy(size="1", keep="50%", budget="5%")
    assert limits(make_plan(fleet(3), policy), policy) == (
        "budget: 0 of 3 nodes may end held (5%), one more stops the roll; keep: 2 of 3 nodes stay in service (50%)"
    )


def test_amounts() -> None:
    assert [nodes_of(text, 10, "size") for text in ("3", "25%", "0%", "100%")] == [3, 2, 0, 10]
    assert nodes_of("25%", 10, "keep", up=True) == 3


SITES = st.lists(
    st.tuples(st.sampled_from(["", "r1", "R1", "r2", "r3"]), st.booleans(), st.booleans()), min_size=1, max_size=30
)


@given(SITES, st.sampled_from(["rack", "share"]), st.integers(1, 100), st.integers(0, 100), st.integers(0, 4))
def test_every_node_has_one_place_or_a_reason_and_capacity_is_kept(
    site: list[tuple[str, bool, bool]], by: str, size: int, keep: int, per_rack: int
) -> None:
    members = [
        RollMember(name=f"n{n}", rack=rack, left_out="away" if out else "", serving=serving and not out)
        for n, (rack, out, serving) in enumerate(site)
    ]
    policy = RollPolicy(by=by, size=f"{size}%", keep=f"{keep}%", per_rack=per_rack)
    try:
        plan = make_plan(members, policy)
    except InputError as error:
        assert error.subject in ("gpufleet_wave_keep", "gpufleet_wave_canaries")
        return
    assert sorted([place.node for place in plan.places] + list(plan.left_out)) == sorted(m.name for m in members)
    _capacity_is_kept(plan, policy)


def _capacity_is_kept(plan: RollPlan, policy: RollPolicy) -> None:
    for wave in plan.waves:
        assert plan.serving - len(wave) >= nodes_of(policy.keep, plan.site_nodes, "keep", up=True)
        racks = Counter(place.rack for place in plan.places if place.node in wave and place.wave)
        assert not policy.per_rack or max(racks.values(), default=0) <= policy.per_rack
