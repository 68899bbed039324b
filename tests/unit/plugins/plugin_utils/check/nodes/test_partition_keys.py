# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partition keys of InfiniBand ports: full members, as stated, and alike on a rail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

CHECK = "partition-keys"


def judged(fleet: AnyFleet, keys: str = "", host: str = "gpu02", hca: str = "mlx5_2") -> tuple[Outcome, ...]:
    """Judge a fleet of which one port has other keys."""
    if keys:
        fleet.hosts[host].hcas[hca]["pkeys"] = keys
    outcomes: tuple[Outcome, ...] = fleet.judge(only=CHECK)
    return outcomes


def on_every_port(fleet: AnyFleet, keys: str, hosts: tuple[str, ...] = ()) -> None:
    for name in hosts or tuple(fleet.hosts):
        for values in fleet.hosts[name].hcas.values():
            values["pkeys"] = keys


@pytest.mark.parametrize("keys", ["0xffff", "0x8001", "0x7fff 0x8001", "0xffff 0x8001 0x0002"])
def test_ports_with_the_same_keys_and_a_full_one_pass(fleet: AnyFleet, keys: str) -> None:
    on_every_port(fleet, keys)
    outcomes = judged(fleet)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED} and len(outcomes) == 3
    assert outcomes[0].summary.startswith("4 ports with ")


def test_rails_may_have_partitions_of_their_own(fleet: AnyFleet) -> None:
    for host in fleet.hosts.values():
        for number, values in enumerate(host.hcas.values()):
            values["pkeys"] = f"0x800{number + 1}"
    assert {outcome.status for outcome in judged(fleet)} == {Status.PASSED}


@pytest.mark.parametrize("keys", ["0x7fff", "0x7fff 0x0001"])
def test_a_limited_member_fails_and_so_does_a_fleet_of_them(fleet: AnyFleet, keys: str) -> None:
    assert said(judged(fleet, keys), Status.FAILED) == {(CHECK, "partition-key-limited", "gpu02/mlx5_2")}
    on_every_port(fleet, keys)
    assert {(o.status, o.cause) for o in judged(fleet)} == {(Status.FAILED, "partition-key-limited")}


def test_a_port_in_another_partition_is_for_a_person(fleet: AnyFleet) -> None:
    outcomes = judged(fleet, "0xffff 0x8002")
    assert said(outcomes, Status.OTHER) == {(CHECK, "partition-keys-differ", "gpu02/mlx5_2")}
    assert sum(outcome.status is Status.PASSED for outcome in outcomes) == 2


def test_of_two_halves_no_port_is_the_odd_one(make_fleet: Any) -> None:
    fleet = make_fleet(4)
    on_every_port(fleet, "0x8002", ("gpu03", "gpu04"))
    (held,) = judged(fleet)
    assert (held.status, held.cause, len(held.subjects)) == (Status.OTHER, "partition-keys-split", 4)


def test_halves_of_each_sku_are_told_of_its_own_hosts(make_fleet: Any) -> None:
    fleet = make_fleet(4)
    fleet.others = {"gpu03": "b200", "gpu04": "b200"}
    on_every_port(fleet, "0x8002", ("gpu02", "gpu04"))
    held = judged(fleet)
    assert {outcome.cause for outcome in held} == {"partition-keys-split"}
    assert [[subject.name for subject in o.subjects] for o in held] == [["gpu01", "gpu02"], ["gpu03", "gpu04"]]


def test_a_key_that_is_stated_is_demanded_of_every_port(fleet: AnyFleet) -> None:
    fleet.settings[CHECK] = {"pkeys": [0x8001]}
    assert {outcome.status for outcome in judged(fleet, "0x8001 0x8007")} == {Status.PASSED}
    # The same partition, as a limited member.
    for keys in ("0xffff", "0xffff 0x0001"):
        assert said(judged(fleet, keys), Status.FAILED) == {(CHECK, "partition-key-missing", "gpu02/mlx5_2")}
    on_every_port(fleet, "0xffff")
    assert {(o.status, o.cause) for o in judged(fleet)} == {(Status.FAILED, "partition-key-missing")}


def test_stated_keys_are_not_compared_with_the_fleet(make_fleet: Any) -> None:
    fleet = make_fleet(4)
    fleet.settings[CHECK] = {"pkeys": [0x8001]}
    on_every_port(fleet, "0x8001", ("gpu03", "gpu04"))
    assert {outcome.status for outcome in judged(fleet)} == {Status.PASSED}


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        ({"rc": 0, "stdout": "no partition keys\n"}, "partition-keys-not-reported"),
        ({"rc": 0, "stdout": ""}, "pkeys-empty"),
        ({"rc": 0, "stdout": "/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0xffff\n"}, "partition-keys-not-reported"),
        ({"rc": 0, "stdout": "0xffff\n"}, "pkeys-garbage"),
        ({"rc": None, "timed_out": True}, "pkeys-timeout"),
    ],
)
def test_keys_that_nobody_shows_are_open(fleet: AnyFleet, run: dict[str, Any], cause: str) -> None:
    fleet.hosts["gpu02"].tools["pkeys"] = ToolRun(argv=("sh",), **run)
    assert said(judged(fleet), Status.OTHER) == {(CHECK, cause, "gpu02")}


def test_a_table_of_empty_entries_is_no_key(fleet: AnyFleet) -> None:
    assert said(judged(fleet, "0x0000"), Status.OTHER) == {(CHECK, "partition-keys-not-reported", "gpu02")}


def test_ports_that_are_down_are_left_to_the_state_of_the_adapters(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].hcas["mlx5_2"] |= {"state": "Down", "physical": "Polling"}
    (held,) = [outcome for outcome in judged(fleet, "0x7fff") if outcome.status is not Status.PASSED]
    assert held.blocked_by == "hca-state"


def test_hosts_of_another_fabric_have_nothing_to_show(fleet: AnyFleet) -> None:
    fleet.sku = replace(fleet.sku, fabric="roce")
    outcomes = judged(fleet, "0x7fff")
    assert {outcome.summary for outcome in outcomes} == {"test-h100 has no InfiniBand adapter for GPU traffic"}


def test_of_two_hosts_the_limited_one_alone_fails(make_fleet: Any) -> None:
    outcomes = judged(make_fleet(2), "0x7fff")
    assert said(outcomes, Status.FAILED) == {(CHECK, "partition-key-limited", "gpu02/mlx5_2")}
    assert [outcome.status for outcome in outcomes].count(Status.PASSED) == 1
