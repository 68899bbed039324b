# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric judged from values: a healthy fabric passes every check, each fault fails one of them and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric import observe_fabric
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric.fabric_facts import (
    subnets_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    FABRIC,
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_reading import ProbeFailure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.ibdiagnet import Diagnosis, Stage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.iblinkinfo import LinkEnd, Peer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.sminfo import MASTER, STANDBY, SmInfo
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import HostTool, load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import End

TOOLS = load_host_tools()
HOSTS, RAILS = 6, 4
WORDS = ("infiniband", "multi_node", "subnet_manager", "host_access")


def names(outcome: Outcome) -> set[str]:
    return {subject.name for subject in outcome.subjects}


HOST_LINK = (End("gpu03 mlx5_2", 1), End("leaf2", 3))
UPLINK = (End("leaf1", 33), End("spine1", 2))


def test_a_healthy_fabric_passes_every_check(fabric: Any) -> None:
    outcomes = fabric.judge()
    assert {o.check for o in outcomes} == {"subnet-manager", "link-present", "link-rate", "link-errors", "cabling"}
    assert {o.status for o in outcomes} == {Status.PASSED}, fabric.held()
    assert all(names(o) == {"test"} for o in outcomes)


@pytest.mark.parametrize("cable", [HOST_LINK, UPLINK])
def test_a_missing_link_is_named_by_both_ends(fabric: Any, cable: tuple[End, End]) -> None:
    del fabric.cables[cable]
    found = fabric.one()
    assert (found.check, found.cause) == ("link-present", "link-missing")
    assert f"{cable[0]} - {cable[1]}" in names(found)
    assert ("gpu03/mlx5_2" in names(found)) is (cable is HOST_LINK)


def test_a_port_that_polls_is_a_missing_link(fabric: Any) -> None:
    fabric.cables[HOST_LINK] = {"state": "Down", "physical": "Polling", "width": "", "lane_gbps": 0.0, "peer": None}
    found = fabric.one()
    assert (found.check, found.cause) == ("link-present", "link-missing")
    assert "leaf2:3 is Down, Polling" in found.summary


def test_a_dead_leaf_is_one_finding(fabric: Any) -> None:
    for cable in [cable for cable in fabric.cables if "leaf2" in (cable[0].node, cable[1].node)]:
        del fabric.cables[cable]
    found = fabric.one()
    assert (found.check, found.cause) == ("link-present", "switch-dead")
    assert "leaf2" in names(found) and "any of its 7 planned links" in found.summary


def test_a_dead_spine_is_one_finding(fabric: Any) -> None:
    for cable in [cable for cable in fabric.cables if cable[1].node == "spine1"]:
        del fabric.cables[cable]
    assert (fabric.one().cause, "spine1" in names(fabric.one())) == ("switch-dead", True)


def test_a_host_that_is_off_is_one_finding(fabric: Any) -> None:
    for cable in [cable for cable in fabric.cables if cable[0].node.startswith("gpu05")]:
        del fabric.cables[cable]
    assert (fabric.one().check, fabric.one().cause) == ("link-present", "host-absent")
    assert "gpu05" in names(fabric.one())
    fabric.quarantine = (Quarantine(node="gpu05", reason="no power", ticket="T-1", who="ops"),)
    assert not fabric.held(), "a host that is set aside is out of scope"


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"width": "1X"}, "degraded-width"),
        ({"width": "2X", "lane_gbps": 53.125}, "degraded-width"),
        ({"lane_gbps": 53.125}, "degraded-speed"),
        ({"lane_gbps": 25.78125}, "degraded-speed"),
    ],
)
def test_a_slow_link_is_told_from_a_narrow_one(fabric: Any, values: dict[str, Any], cause: str) -> None:
    fabric.cables[UPLINK] = values
    found = fabric.one()
    assert (found.check, found.cause) == ("link-rate", cause)
    assert "leaf1:33 - spine1:2" in names(found) and "rated 4x NDR (4 x 106.25 Gb/s)" in found.summary


def test_a_faster_link_than_planned_passes(fabric: Any) -> None:
    fabric.cables[UPLINK] = {"lane_gbps": 212.5}
    assert not fabric.held()


def test_swapped_cables_are_one_finding_with_both(fabric: Any) -> None:
    first, second = (End("gpu03 mlx5_0", 1), End("leaf0", 3)), (End("gpu03 mlx5_1", 1), End("leaf1", 3))
    del fabric.cables[first], fabric.cables[second]
    fabric.cables |= {(first[0], second[1]): {}, (second[0], first[1]): {}}
    found = fabric.one()
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert {"gpu03/mlx5_0", "gpu03/mlx5_1", "gpu03 mlx5_0:1 - leaf0:3", "gpu03 mlx5_1:1 - leaf1:3"} <= names(found)


def test_a_cable_in_a_free_port_is_miswired(fabric: Any) -> None:
    del fabric.cables[HOST_LINK]
    fabric.cables[(HOST_LINK[0], End("leaf2", 20))] = {}
    found = fabric.one()
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert found.summary == "gpu03 mlx5_2:1 is on leaf2:20, planned leaf2:3"


def test_three_cables_in_a_ring_are_one_finding(fabric: Any) -> None:
    ends = [(End(f"gpu02 mlx5_{k}", 1), End(f"leaf{k}", 2)) for k in range(3)]
    for cable in ends:
        del fabric.cables[cable]
    fabric.cables |= {(ends[k][0], ends[(k + 1) % 3][1]): {} for k in range(3)}
    assert fabric.one().cause == "miswired"


def test_without_a_plan_rails_are_told_apart_and_switches_are_not_named(fabric: Any) -> None:
    fabric.forget_the_plan()
    assert not fabric.held()
    first, second = (End("gpu03 mlx5_0", 1), End("leaf0", 3)), (End("gpu03 mlx5_1", 1), End("leaf1", 3))
    del fabric.cables[first], fabric.cables[second]
    fabric.cables |= {(first[0], second[1]): {}, (second[0], first[1]): {}}
    found = fabric.one()
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert "gpu03 mlx5_0:1 is on leaf1:3, planned rail 0" in found.summary


def test_without_a_plan_one_switch_for_all_rails_is_no_mistake(fabric: Any) -> None:
    fabric.forget_the_plan()
    fabric.cables = {
        (link.near, End("switch", number)): {} for number, link in enumerate(fabric.plan.links, 1)
    }  # fmt: skip
    assert not fabric.held()


@pytest.mark.parametrize("end", HOST_LINK)
@pytest.mark.parametrize("counter", ["SymbolErrorCounter", "LinkDownedCounter", "PortRcvErrors"])
def test_growing_errors_fail_at_either_end(fabric: Any, end: End, counter: str) -> None:
    fabric.before, fabric.after = {end: {counter: 4}}, {end: {counter: 9}}
    found = fabric.one()
    assert (found.check, found.cause) == ("link-errors", "link-errors-growing")
    assert {"gpu03/mlx5_2"} <= names(found) and f"{counter} of {end} 4 -> 9" in found.summary
    assert (found.measured[0].value, found.expected[0].name) == (5, counter)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"SymbolErrorCounter": 500}, {"SymbolErrorCounter": 500}),
        ({"LinkDownedCounter": 9}, {"LinkDownedCounter": 9}),
        ({}, {"SymbolErrorCounter": 1}),
        ({"PortXmitWait": 5}, {"PortXmitWait": 5_000_000}),
        ({}, {"PortRcvSwitchRelayErrors": 40, "VL15Dropped": 3}),
    ],
)
def test_old_errors_and_congestion_pass(fabric: Any, before: dict[str, int], after: dict[str, int]) -> None:
    fabric.before, fabric.after = {HOST_LINK[1]: before}, {HOST_LINK[1]: after}
    assert not fabric.held()


def test_a_full_or_cleared_counter_needs_a_person(fabric: Any) -> None:
    fabric.before = fabric.after = {UPLINK[0]: {"SymbolErrorCounter": 65535}}
    assert (fabric.one().cause, fabric.one().rating) == ("counter-saturated", Rating.MARGINAL)
    fabric.after = {UPLINK[0]: {"SymbolErrorCounter": 2}}
    assert (fabric.one().cause, fabric.one().rating) == ("counters-cleared", Rating.MARGINAL)


def test_a_site_sets_its_own_limit(fabric: Any) -> None:
    fabric.before, fabric.after = {}, {UPLINK[0]: {"SymbolErrorCounter": 4}}
    assert fabric.one().cause == "link-errors-growing"
    fabric.settings = {"link-errors": {"growth_per_hour": {"SymbolErrorCounter": 1440}}}
    assert not fabric.held()


SM = SmInfo(lid=1, guid=1, activity=20, priority=15, state=MASTER)


@pytest.mark.parametrize(
    ("subnet", "cause"),
    [
        (
            {"master": None, "master_again": None, "managers": ProbeFailure(TOOLS.named("saquery"), "failed", "x")},
            "no-subnet-manager",
        ),
        ({"managers": (SM,)}, "no-standby-subnet-manager"),
        ({"managers": (SM,), "silent_lids": (99,)}, "no-standby-subnet-manager"),
        ({"managers": (SM, replace(SM, lid=5, guid=5))}, "two-masters"),
        ({"managers": (replace(SM, state=STANDBY),)}, "no-subnet-manager"),
        ({"master": SM, "master_again": SM}, "subnet-manager-stuck"),
    ],
)
def test_subnet_managers(fabric: Any, subnet: dict[str, Any], cause: str) -> None:
    fabric.subnet = subnet
    found = fabric.one()
    assert (found.check, found.cause, found.status) == ("subnet-manager", cause, Status.FAILED)


def test_without_a_subnet_manager_nothing_else_is_judged(fabric: Any) -> None:
    fabric.subnet = {"master": None, "master_again": None}
    fabric.cables = {cable: {"state": "Init"} for cable in fabric.cables}
    others = [o for o in fabric.judge() if o.check != "subnet-manager"]
    assert {(o.status, o.cause) for o in others} == {(Status.OTHER, "blocked-by-subnet-manager")}
    assert fabric.one().cause == "no-subnet-manager"


@pytest.mark.parametrize("values", [{"state": "Init"}, {"state": "Armed"}])
def test_a_port_that_is_not_active_is_not_converged(fabric: Any, values: dict[str, Any]) -> None:
    fabric.cables[HOST_LINK] = values
    found = fabric.one()
    assert (found.check, found.cause) == ("subnet-manager", "not-converged")
    assert "gpu03/mlx5_2" in names(found)
    (end,) = (end for end in fabric.ends() if end.name == "gpu03 mlx5_2")
    assert f"`smpquery portinfo {end.lid} {end.port}`" in found.hint


def test_a_lid_twice_is_not_converged(fabric: Any) -> None:
    fabric.lids = {"gpu02 mlx5_0": 40}
    ends = tuple(
        replace(end, lid=40) if end.name == "gpu04 mlx5_1" else end for end in fabric.ends()
    )  # fmt: skip
    fabric.subnet = {"links": ends, "links_before": ends}
    found = fabric.one()
    assert (found.check, found.cause) == ("subnet-manager", "not-converged")
    assert found.summary == "LID 40 belongs to gpu02 mlx5_0 and gpu04 mlx5_1"


def test_a_change_between_two_readings_is_not_converged(fabric: Any) -> None:
    ends = fabric.ends()
    fabric.subnet = {"links_before": (replace(ends[0], lid=77), *ends[1:])}
    found = fabric.one()
    assert (found.check, found.cause) == ("subnet-manager", "not-converged")
    assert "1 ports changed between two readings" in found.summary


def test_ibdiagnet_is_judged_where_the_site_has_it(fabric: Any) -> None:
    assert "ibdiagnet" not in {o.check for o in fabric.judge()}
    fabric.words = (*WORDS, "ibdiagnet")
    assert (fabric.one().check, fabric.one().cause) == ("ibdiagnet", "ibdiagnet-not-collected")
    fabric.subnet = {"diagnosis": ProbeFailure(TOOLS.named("ibdiagnet"), "missing", "ibdiagnet is not installed")}
    assert (fabric.one().status, fabric.one().cause) == (Status.OTHER, "ibdiagnet-missing")
    fabric.subnet = {"diagnosis": Diagnosis(stages=(Stage(name="Lids Check", warnings=2, errors=0),))}
    assert not fabric.held()
    fabric.subnet = {"diagnosis": Diagnosis(stages=(Stage(name="Port Counters", warnings=0, errors=3),))}
    assert (fabric.one().status, fabric.one().cause) == (Status.FAILED, "ibdiagnet-errors")
    clean = (Stage(name="Port Counters", warnings=0, errors=0),)
    fabric.subnet = {"diagnosis": Diagnosis(stages=clean, errors=("Failed to open port 1 of mlx5_0",))}
    assert (fabric.one().status, fabric.one().cause) == (Status.OTHER, "ibdiagnet-error-lines")


@pytest.mark.parametrize(
    ("field", "tool", "owner"),
    [
        ("links", TOOLS.named("iblinkinfo"), "link-present"),
        ("errors", TOOLS.named("ibqueryerrors"), "link-errors"),
        ("errors_before", TOOLS.named("ibqueryerrors"), "link-errors"),
        ("managers", TOOLS.named("saquery"), "subnet-manager"),
        ("master", TOOLS.named("sminfo"), "subnet-manager"),
    ],
)
@pytest.mark.parametrize("kind", ["missing", "timeout", "empty", "garbage", "failed"])
def test_a_tool_that_says_nothing_usable_is_told_once(
    fabric: Any, field: str, tool: HostTool, owner: str, kind: Any
) -> None:
    fabric.subnet = {field: ProbeFailure(tool, kind, "what happened")}
    found = fabric.one()
    assert (found.check, found.cause, found.status) == (owner, f"{tool.cause}-{kind}", Status.OTHER)


def test_a_host_that_cannot_be_reached_is_told_once(fabric: Any) -> None:
    fabric.reason = "No route to host"
    found = fabric.one()
    assert (found.check, found.cause, found.status) == ("subnet-manager", "fabric-host-unreachable", Status.OTHER)
    assert not [o for o in fabric.judge() if o.status is Status.PASSED]


@pytest.mark.parametrize("word", WORDS)
def test_without_a_capability_the_gate_declares_nothing_and_says_why(fabric: Any, word: str) -> None:
    fabric.words = tuple(other for other in WORDS if other != word)
    declaration = declare("fabric", fabric.site())
    assert declaration.checks == ()
    assert all(word in entry.reason for entry in declaration.not_declared)


def test_the_observer_needs_one_host_that_looked(tmp_path: Path, fabric: Any) -> None:
    context = ObserveContext(site=fabric.site(), run_dir=tmp_path, today=date(2026, 11, 21), hardware=dict(HARDWARE))
    with pytest.raises(BringupError, match="0 hosts left some"):
        observe_fabric.observe(context)
    write_evidence(tmp_path, unreached("gpu01", "No route to host"), FABRIC)
    facts = observe_fabric.restore(to_plain(observe_fabric.observe(context)), tmp_path, fabric.site())
    assert (facts.host, facts.reason, facts.subnets) == ("gpu01", "No route to host", ())
    assert facts.plan.generated and len(facts.plan.links) == HOSTS * 8
    write_evidence(tmp_path, unreached("gpu02", ""), FABRIC)
    with pytest.raises(BringupError, match="2 hosts left some"):
        observe_fabric.observe(context)


def test_two_subnets_are_kept_apart() -> None:
    def run(text: str, rc: int = 0) -> ToolRun:
        return ToolRun(argv=("tool",), rc=rc, stdout=text)

    said = "sminfo: sm lid 1 sm guid 0x3, activity count 4 priority 0 state 3 SMINFO_MASTER\n"
    none = run("sminfo: iberror: failed: query\n", 255)
    tools = {"sminfo@mlx5_0:1": run(said), "sminfo_again@mlx5_0:1": run(said), "sminfo@mlx5_1:1": none}
    tools |= {"sminfo_again@mlx5_1:1": none}
    first, second = subnets_of(HostEvidence(host="gpu01", reached=True, tools=tools))
    assert (first.port, second.port) == ("mlx5_0:1", "mlx5_1:1")
    assert isinstance(first.master, SmInfo) and second.master is None
    assert isinstance(first.links, ProbeFailure)


DAMAGES: dict[str, Callable[[LinkEnd], LinkEnd | None]] = {
    "gone": lambda _end: None,
    "down": lambda end: replace(end, state="Down", physical="Polling", width="", lane_gbps=0.0, peer=None),
    "slow": lambda end: replace(end, lane_gbps=2.5),
    "init": lambda end: replace(end, state="Init"),
    "lost": lambda end: replace(end, peer=Peer(name="nobody", port=3, lid=4)),
}


FIRST_UPLINK = 2 * HOSTS * RAILS


def _vanished(damages: dict[int, str]) -> set[int]:
    """The ends of links between switches both of whose ends show nothing any more."""
    dark = {n for n, damage in damages.items() if n >= FIRST_UPLINK and damage in ("gone", "down")}
    return {n for n in dark if n ^ 1 in dark}


@given(
    st.dictionaries(
        st.integers(0, 2 * (HOSTS + 1) * RAILS - 1), st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=9
    ),
    st.booleans(),
)
def test_whatever_is_damaged_is_held_and_nothing_crashes(
    make_fabric: Callable[[], Any], damages: dict[int, str], generated: bool
) -> None:
    fabric = make_fabric()
    if generated:
        # Without a plan that names it, nobody can know of a cable between switches that is on neither of its ports.
        assume(set(damages) - _vanished(damages))
        fabric.forget_the_plan()
    ends = [DAMAGES[damages[n]](end) if n in damages else end for n, end in enumerate(fabric.ends())]
    kept = tuple(end for end in ends if end is not None)
    fabric.subnet = {"links": kept}
    assert fabric.held()


@pytest.mark.parametrize("end", range(FIRST_UPLINK, FIRST_UPLINK + 4))
def test_a_slow_link_between_switches_is_found_without_a_plan_that_names_it(
    make_fabric: Callable[[], Any], end: int
) -> None:
    fabric = make_fabric()
    fabric.forget_the_plan()
    assert not fabric.held()
    ends = [DAMAGES["slow"](seen) if n == end else seen for n, seen in enumerate(fabric.ends())]
    fabric.subnet = {"links": tuple(ends)}
    assert {(outcome.check, outcome.cause) for outcome in fabric.held()} == {("link-rate", "degraded-speed")}
