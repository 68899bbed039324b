# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose supplies feed parts of them (HPE: System and GPU): no part is carried by the supplies of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bmc_fleet import HARDWARE, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.feed_redundancy import power_domains
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.redfish_json import Condition
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.redfish_power import PowerSupply, Redundancy
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import Bmc, Supply, bmc_of

# A DGX H100 takes 10.2 kW at most; two supplies for the system and six for the GPUs.
DGX = HARDWARE["dgx-h100"]
PARTS = ("System",) * 2 + ("GPU",) * 6
STATED = {"System": 2600, "GPU": 8000}
OK = Condition("Enabled", "OK")


def ilo(domains: tuple[str, ...] = PARTS, **changes: Any) -> Bmc:
    return replace(
        bmc_of(DGX, 0), supplies=(Supply(),) * len(domains), domains=domains, **{"supply_w": 2700, **changes}
    )


def supply(name: str, watts: float = 3000) -> PowerSupply:
    return PowerSupply(path=f"/power#/PowerSupplies/{name}", name=name, condition=OK, capacity_w=watts)


def group(*members: str, mode: str = "Failover") -> Redundancy:
    paths = tuple(f"/power#PowerSupplies/{name}" for name in members)
    return Redundancy(name="+".join(members), mode=mode, condition=OK, members=paths)


def test_each_part_of_a_healthy_host_survives_the_loss_of_a_supply(tmp_path: Path) -> None:
    with fleet(tmp_path, a=ilo(), b=ilo()) as hosts:
        assert hosts.held(feed_redundancy={"domain_w": STATED}) == []
        (told, _other) = hosts.told("feed-redundancy", feed_redundancy={"domain_w": STATED})
        assert "2700 W without the strongest; System takes 2600 W" in told.summary
        assert "13500 W without the strongest; GPU takes 8000 W" in told.summary


def test_what_a_part_takes_is_not_guessed_from_what_the_host_takes(tmp_path: Path) -> None:
    """Six spare supplies of the GPUs would carry the whole host, and say nothing of the system."""
    with fleet(tmp_path, a=ilo(), b=ilo()) as hosts:
        for stated in ({}, {"GPU": 8000}, {"System": 100, "GPU": 8000}):
            held = hosts.held(feed_redundancy={"domain_w": stated})
            assert held == [("feed-redundancy", name, "other", "domain-power-not-known") for name in "ab"]


@pytest.mark.parametrize("mode", ["n+1", "2n"])
def test_a_part_with_one_supply_does_not_survive_its_loss(tmp_path: Path, mode: str) -> None:
    """Whatever the part takes: without its only supply it has nothing, and the others have more than enough."""
    lone = ilo(("System",) + ("GPU",) * 6, supply_w=5000)
    with fleet(tmp_path, a=lone, b=ilo(supply_w=5000)) as hosts:
        cause = {"n+1": "supply-loss-not-survived", "2n": "feed-loss-not-survived"}[mode]
        held = hosts.held(feed_redundancy={"mode": mode, "domain_w": STATED})
        assert held == [("feed-redundancy", "a", "failed", cause)]
        found = hosts.told("feed-redundancy", feed_redundancy={"mode": mode})
        assert (found[0].status, found[0].cause) == (Status.FAILED, cause) and "System" in found[0].summary


def test_a_dead_supply_of_a_part_is_not_made_good_by_another_part(tmp_path: Path) -> None:
    bmc = ilo()
    dead = Supply(state="UnavailableOffline", health="Critical")
    with fleet(tmp_path, a=replace(bmc, supplies=(dead, *bmc.supplies[1:])), b=bmc) as hosts:
        held = hosts.held(feed_redundancy={"domain_w": STATED})
        assert ("feed-redundancy", "a", "failed", "supply-loss-not-survived") in held
        assert {entry[1] for entry in held} == {"a"}


def test_all_parts_together_may_be_too_weak_whatever_each_takes(tmp_path: Path) -> None:
    with fleet(tmp_path, a=ilo(supply_w=1400), b=ilo()) as hosts:
        held = [entry for entry in hosts.held() if entry[1] == "a"]
        assert held == [("feed-redundancy", "a", "failed", "supply-loss-not-survived")]


@pytest.mark.parametrize(
    ("word", "status"), [("NonRedundant", "failed"), ("FailedRedundant", "failed"), ("Unknown", "other")]
)
def test_the_word_of_ilo_on_a_part_counts_where_it_denies(tmp_path: Path, word: str, status: str) -> None:
    """Words of Oem.Hpe.Domains.PowerSupplyRedundancy: HPEDevCom/redfishdocs, changelog of iLO 5."""
    with fleet(tmp_path, a=ilo(domain_words={"GPU": word}), b=ilo()) as hosts:
        settings: dict[str, Any] = {"domain_w": STATED}
        assert hosts.held(feed_redundancy=settings) == [("feed-redundancy", "a", status, "redundancy-lost")]
        assert hosts.held(feed_redundancy={**settings, "mode": "n"}) == []


def test_a_feed_carries_every_part(tmp_path: Path) -> None:
    feeds = {"A": ["PSU[0246]*"], "B": ["PSU[1357]*"]}
    crossed = {"A": ["PSU[01]*", "PSU[24]*"], "B": ["PSU[3567]*"]}
    settings = {"mode": "2n", "domain_w": STATED}
    with fleet(tmp_path, a=ilo(), b=ilo()) as hosts:
        assert hosts.held(feed_redundancy={**settings, "feeds": feeds}) == []
        held = hosts.held(feed_redundancy={**settings, "feeds": crossed})
        assert held == [("feed-redundancy", name, "failed", "feed-loss-not-survived") for name in "ab"]


def test_the_word_of_the_site_counts_before_that_of_the_bmc(tmp_path: Path) -> None:
    with fleet(tmp_path, a=ilo(), b=ilo()) as hosts:
        assert hosts.held(feed_redundancy={"domains": {"all": ["*"]}}) == []
        partly = hosts.held(feed_redundancy={"domains": {"System": ["PSU0*"], "GPU": ["PSU[1-6]*"]}})
        assert [entry[2:] for entry in partly] == [("other", "supply-domain-unknown")] * 2


@pytest.mark.parametrize(
    ("supplies", "groups", "parts"),
    [
        ("ab", (), ["ab"]), ("ab", (group("a", "b"),), ["ab"]),
        ("abcd", (group("a", "b"), group("c", "d")), ["ab", "cd"]),
        # Groups that share a supply are one part: N+1 and a group of each feed, say.
        ("abc", (group("a", "b"), group("b", "c")), ["bca"]),
        # One group that names nobody we know (the other schema's paths) says nothing.
        ("ab", (group("x", "y"),), ["ab"]), ("ab", (group(),), ["ab"]),
    ],
)  # fmt: skip
def test_parts_by_groups_of_redundancy(supplies: str, groups: tuple[Redundancy, ...], parts: list[str]) -> None:
    found = power_domains([supply(name) for name in supplies], groups, {})
    assert sorted(sorted(s.name for s in domain.supplies) for domain in found) == sorted(sorted(part) for part in parts)


@pytest.mark.parametrize(
    ("supplies", "groups", "said"),
    [
        ([supply("a"), supply("b")], (group(), group()), "does not say which supply is in which"),
        ([supply("a"), supply("b"), supply("c")], (group("a", "b"),), "c is in none of the BMC's groups"),
        ([supply("a", 2700), supply("b", 3000)], (), "supplies of 2700 W, 3000 W"),
        ([supply("a"), supply("b")], (group("a", mode="PowerDomain"),), "b is told to feed no part of the host"),
        (
            [supply("a")], (group("a", mode="PowerDomain"), Redundancy(
                name="other", mode="PowerDomain", condition=OK, members=("/power#PowerSupplies/a",))),
            "a is told to feed a and other",
        ),
    ],
)  # fmt: skip
def test_what_is_not_told_is_not_guessed(
    supplies: list[PowerSupply], groups: tuple[Redundancy, ...], said: str
) -> None:
    with pytest.raises(LookupError, match=said):
        power_domains(supplies, groups, {})
