# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of adapters that are stated: good ones, an adapter that is gone, and a statement that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

OWN = ("mlx5_2", "mlx5_3", "mlx5_8", "mlx5_9")


def state(fleet: Any, how: str, names: tuple[str, ...]) -> None:
    if how == "inventory":
        fleet.stated_hcas = names
    elif how == "sku":
        fleet.sku = replace(fleet.sku, hca_names=names)
    else:
        fleet.settings = {"hca-state": {"hcas": list(names)}}


def rename(fleet: Any, names: tuple[str, ...]) -> None:
    for host in fleet.hosts.values():
        host.hcas = {name: {} for name in names}
        host.slots = {name: place for place, name in enumerate(names)}


def held(fleet: Any) -> list[Outcome]:
    return [o for o in fleet.judge(only="hca-state") if o.status is not Status.PASSED]


FIELDS = {
    "inventory": "gpufleet_hcas",
    "sku": "hca_names of SKU test-h100",
    "setting": "setting hcas of hca-state",
}


@pytest.mark.parametrize("how", FIELDS)
def test_adapters_with_other_names_pass_where_somebody_states_them(fleet: Any, how: str) -> None:
    rename(fleet, (*OWN, "mlx5_0"))
    for host in fleet.hosts.values():
        host.hcas["mlx5_0"] = {"state": "Down", "physical": "Disabled"}
    state(fleet, how, OWN)
    assert not held(fleet)


@pytest.mark.parametrize("how", FIELDS)
def test_a_stated_adapter_that_one_host_lacks_is_hardware(fleet: Any, how: str) -> None:
    rename(fleet, OWN)
    fleet.hosts["gpu02"].hcas.pop("mlx5_8")
    fleet.hosts["gpu02"].hcas["mlx5_5"] = {"beside": "-1"}
    state(fleet, how, OWN)
    (found,) = held(fleet)
    assert (found.cause, found.subjects[0].name, found.subjects[1].name) == ("hca-missing", "gpu02", "gpu02/mlx5_8")
    assert "reseat" in found.hint


@pytest.mark.parametrize("how", FIELDS)
@pytest.mark.parametrize("real", [OWN, ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_9")])
def test_names_that_no_host_has_are_a_statement_to_correct(fleet: Any, how: str, real: tuple[str, ...]) -> None:
    rename(fleet, real)
    stated = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_4")
    state(fleet, how, stated)
    if how == "sku":
        # The hosts show which they are, so what the SKU says decides nothing.
        assert not held(fleet)
        return
    (found,) = held(fleet)
    assert (found.cause, found.status) == ("hca-names-wrong", Status.FAILED)
    assert {subject.name for subject in found.subjects} == {"gpu01", "gpu02", "gpu03"}
    assert FIELDS[how] in found.summary and FIELDS[how] in found.hint and "reseat" not in found.hint.split(";")[0]
    assert "mlx5_4" in found.summary and "mlx5_9" in found.summary


def test_names_gone_everywhere_without_other_adapters_are_hardware(fleet: Any) -> None:
    rename(fleet, OWN[:3])
    state(fleet, "inventory", OWN)
    assert {(o.cause, o.subjects[0].name) for o in held(fleet)} == {
        ("hca-missing", name) for name in ("gpu01", "gpu02", "gpu03")
    }


@pytest.mark.parametrize("other", [{"layer": "Ethernet"}, {"type": "MT4123"}])
def test_an_adapter_of_another_kind_does_not_stand_in_for_one_that_is_gone(fleet: Any, other: dict[str, str]) -> None:
    rename(fleet, OWN[:3])
    for host in fleet.hosts.values():
        host.hcas["mlx5_4"] = other
    state(fleet, "inventory", OWN)
    assert {o.cause for o in held(fleet)} == {"hca-missing"}


def test_a_host_without_enough_adapters_is_told_apart_from_the_wrong_statement(fleet: Any) -> None:
    rename(fleet, OWN)
    fleet.hosts["gpu03"].hcas.clear()
    state(fleet, "inventory", ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"))
    found = {o.subjects[0].name: (o.cause, len(o.subjects)) for o in held(fleet)}
    assert found["gpu01"] == ("hca-names-wrong", 2) and found["gpu03"][0] in ("hca-missing", "ibstat-empty")


@pytest.mark.parametrize(
    ("stated", "topology", "cause"),
    [
        (("a", "b", "c", "d"), True, "hca-names-wrong"),
        (("a", "b", "c", "d"), False, "hca-names-wrong"),
        (OWN, True, "hca-names-wrong"),
        (OWN, False, "hca-missing"),
    ],
)
def test_of_one_host_alone_a_statement_is_wrong_if_every_gpu_has_an_adapter_or_all_names_are_wrong(
    make_fleet: Callable[[int], Any], stated: tuple[str, ...], topology: bool, cause: str
) -> None:
    fleet = make_fleet(1)
    rename(fleet, (*OWN[:3], "mlx5_11"))
    if not topology:
        fleet.hosts["gpu01"].nic_words = dict.fromkeys(range(4), "SYS")
    state(fleet, "inventory", stated)
    assert [o.cause for o in held(fleet)] == [cause]


@pytest.mark.parametrize("odd", ["gpu01", "gpu03"])
def test_where_two_hosts_differ_neither_names_the_adapter_that_a_third_lacks(fleet: Any, odd: str) -> None:
    """The order of hosts in the inventory decides nothing."""
    names = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_7")
    fleet.hosts[odd].hcas = {name: {} for name in names}
    fleet.hosts[odd].slots = {name: place for place, name in enumerate(names)}
    fleet.hosts["gpu02"].hcas.pop("mlx5_3")
    (found,) = (outcome for outcome in held(fleet) if outcome.cause == "hca-missing")
    assert [subject.name for subject in found.subjects] == ["gpu02", "gpu02/gpu3"]
