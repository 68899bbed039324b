# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error counters: of every port that was seen, with no port lost on the way, and history told and not judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.ibqueryerrors import PortErrors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.text import guid_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import End

GROWING = {"SymbolErrorCounter": 5000}


def names(outcome: Any) -> set[str]:
    return {subject.name for subject in outcome.subjects}


def passed(fabric: Any) -> Any:
    (found,) = [o for o in fabric.judge() if o.check == "link-errors"]
    assert found.status is Status.PASSED, found
    return found


def test_links_between_switches_are_judged_without_a_plan_that_names_them(fabric: Any) -> None:
    fabric.forget_the_plan()
    fabric.after[End("spine1", 2)] = GROWING
    found = fabric.one()
    assert (found.check, found.cause) == ("link-errors", "link-errors-growing")
    assert "leaf1:33 - spine1:2" in names(found)


def test_links_of_nobody_in_the_plan_are_judged_and_named_by_both_ends(fabric: Any) -> None:
    fabric.cables[End("storage01 HCA-1", 1), End("leaf1", 50)] = {}
    fabric.after[End("leaf1", 50)] = GROWING
    found = fabric.one()
    assert found.cause == "link-errors-growing" and names(found) == {"storage01 HCA-1:1 - leaf1:50"}


def test_storage_adapters_of_a_host_carry_its_name(fabric: Any) -> None:
    fabric.cables[End("gpu03 mlx5_8", 1), End("leaf1", 51)] = {}
    fabric.plan = replace(fabric.plan, adapters={guid_text(fabric.guid("gpu03 mlx5_8")): "gpu03/mlx5_8"})
    fabric.after[End("leaf1", 51)] = GROWING
    found = fabric.one()
    assert names(found) == {"gpu03 mlx5_8:1 - leaf1:51", "gpu03/mlx5_8"}
    assert {subject.node for subject in found.subjects} == {"gpu03"}


def test_a_switch_port_without_a_cable_is_judged_under_the_switch(fabric: Any) -> None:
    fabric.after[End("leaf1", 0)] = GROWING
    found = fabric.one()
    assert [(s.kind, s.name) for s in found.subjects] == [(SubjectKind.SWITCH, "leaf1")]


def test_a_port_that_only_the_counters_know_is_not_dropped(fabric: Any) -> None:
    stranger = PortErrors(node="old01 HCA-1", guid=0xABC, port=1, counters={"SymbolErrorCounter": 9})
    fabric.subnet = {"errors": replace(fabric.report({}), ports=(stranger,), bad_ports=1)}
    found = fabric.one()
    assert (found.check, found.cause) == ("link-errors", "counters-not-complete")
    assert "0x0000000000000abc" in found.summary


def test_the_guid_of_the_device_stands_for_that_of_its_port_where_the_description_tells(fabric: Any) -> None:
    old = PortErrors(node="gpu03 mlx5_2", guid=0xABC, port=1, counters=GROWING)
    fabric.subnet = {"errors": replace(fabric.report({}), ports=(old,), bad_ports=1)}
    assert "gpu03/mlx5_2" in names(fabric.one())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"failures": 3}, "3 queries of counters failed"),
        ({"ports_checked": 12}, "counters of 12 ports were read, 56"),
        ({"nodes_checked": 31}, "lists 29 devices, `ibqueryerrors` found 31"),
    ],
)
def test_counters_that_were_not_all_read_prove_nothing(fabric: Any, change: dict[str, int], said: str) -> None:
    fabric.subnet = {"errors": replace(fabric.report({}), **change)}
    found = fabric.one()
    assert (found.status, found.cause) == (Status.OTHER, "counters-not-complete")
    assert said in found.summary


def test_how_often_a_link_was_lost_before_is_told_and_not_held(fabric: Any) -> None:
    fabric.before[End("gpu03 mlx5_2", 1)] = fabric.after[End("gpu03 mlx5_2", 1)] = {"LinkDownedCounter": 255}
    assert "1 port lost its link before, most often gpu03 mlx5_2:1: 255 times" in passed(fabric).summary


def test_a_link_that_is_lost_while_the_gate_looks_fails(fabric: Any) -> None:
    fabric.before[End("leaf2", 3)] = {"LinkDownedCounter": 4}
    fabric.after[End("leaf2", 3)] = {"LinkDownedCounter": 5}
    found = fabric.one()
    assert found.cause == "link-errors-growing" and "LinkDownedCounter of leaf2:3 4 -> 5" in found.summary


def test_a_counter_of_64_bits_has_no_end(fabric: Any) -> None:
    wide = PortErrors(
        node="leaf2", guid=fabric.guid("leaf2"), port=3, counters={"SymbolErrorCounter": 70_000},
        wide=frozenset({"SymbolErrorCounter"}),
    )  # fmt: skip
    report = replace(fabric.report({}), ports=(wide,), bad_ports=1)
    fabric.subnet = {"errors": report, "errors_before": report}
    assert "70000 older errors" in passed(fabric).summary
    narrow = replace(report, ports=(replace(wide, wide=frozenset()),))
    fabric.subnet = {"errors": narrow, "errors_before": narrow}
    found = fabric.one()
    assert found.cause == "counter-saturated"
    (lid,) = {end.lid for end in fabric.ends() if end.guid == fabric.guid("leaf2")}
    assert f"(`perfquery -R {lid} 3`)" in found.hint
