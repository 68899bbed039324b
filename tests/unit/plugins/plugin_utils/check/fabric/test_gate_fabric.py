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
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric import observe_fabric
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric.facts import (
    FabricFacts,
    SubnetFacts,
    load_limits,
    subnets_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    FABRIC,
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_facts import ProbeFailure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.ibdiagnet import Diagnosis, Stage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.iblinkinfo import LinkEnd, Peer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.ibqueryerrors import ErrorReport, PortErrors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.sminfo import MASTER, STANDBY, SmInfo
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import CablingPlan, End, PlannedLink
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile

ROOT = Path(__file__).resolve().parents[6]
HOSTS, RAILS = 6, 4
WORDS = ("infiniband", "multi_node", "subnet_manager", "host_access")
HARDWARE = load_hardware([ROOT / "recipes" / "hardware"])
NO_ERRORS = ErrorReport(ports=(), nodes_checked=30, bad_nodes=0, ports_checked=100, bad_ports=0)


def plan(generated: bool = False) -> CablingPlan:
    links = []
    for n in range(1, HOSTS + 1):
        for k in range(RAILS):
            near = End(f"gpu{n:02d} mlx5_{k}", 1)
            far = None if generated else End(f"leaf{k}", n)
            links.append(
                PlannedLink(near=near, far=far, width="4x", speed="NDR", host=f"gpu{n:02d}", hca=f"mlx5_{k}", rail=k)
            )
    if not generated:
        links += [
            PlannedLink(near=End(f"leaf{k}", 33), far=End("spine1", k + 1), width="4x", speed="NDR")
            for k in range(RAILS)
        ]
    switches = () if generated else (*(f"leaf{k}" for k in range(RAILS)), "spine1")
    return CablingPlan(links=tuple(links), switches=switches, generated=generated, source="a test")


class Fabric:
    """A healthy fabric that a test breaks: `cables` says which two ends are connected, and how fast."""

    def __init__(self) -> None:
        self.plan = plan()
        self.cables: dict[tuple[End, End], dict[str, Any]] = {
            (link.near, link.far): {} for link in self.plan.links if link.far is not None
        }
        self.lids: dict[str, int] = {}
        self.before: dict[End, dict[str, int]] = {}
        self.after: dict[End, dict[str, int]] = {}
        self.subnet: dict[str, Any] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.quarantine: tuple[Quarantine, ...] = ()
        self.words = WORDS
        self.reason = ""

    def ends(self) -> tuple[LinkEnd, ...]:
        """What iblinkinfo shows."""
        found = []
        for (near, far), values in self.cables.items():
            for own, other in ((near, far), (far, near)):
                peer = Peer(name=other.node, port=other.port, lid=self.lid(other.node))
                base: dict[str, Any] = {
                    "name": own.node, "guid": f"0x{self.lid(own.node):x}", "lid": self.lid(own.node), "port": own.port,
                    "state": "Active", "physical": "LinkUp", "width": "4X", "lane_gbps": 106.25, "peer": peer,
                }  # fmt: skip
                found.append(LinkEnd(**base | values))
        return tuple(found)

    def lid(self, node: str) -> int:
        return self.lids.setdefault(node, len(self.lids) + 2)

    def report(self, counts: dict[End, dict[str, int]]) -> ErrorReport:
        ports = tuple(
            PortErrors(node=end.node, guid=f"0x{self.lid(end.node):x}", port=end.port, counters=counters)
            for end, counters in counts.items()
        )
        return replace(NO_ERRORS, ports=ports)

    def facts(self) -> FabricFacts:
        sm = SmInfo(lid=1, guid="0x1", activity=10, priority=15, state=MASTER)
        values: dict[str, Any] = {
            "port": "", "master": sm, "master_again": replace(sm, activity=20), "silent_lids": (),
            "managers": (replace(sm, activity=21), SmInfo(lid=99, guid="0x99", activity=5, priority=1, state=STANDBY)),
            "links_before": self.ends(), "links": self.ends(), "errors_before": self.report(self.before),
            "errors": self.report(self.after),
        }  # fmt: skip
        subnets = () if self.reason else (SubnetFacts(**values | self.subnet),)
        return FabricFacts(
            host="gpu01", plan=self.plan, limits=load_limits(), interval_s=10.0, subnets=subnets, reason=self.reason
        )

    def site(self) -> Site:
        hosts = tuple(Host(name=f"gpu{n:02d}", sku="h100", node_name=f"gpu{n:02d}") for n in range(1, HOSTS + 1))
        return Site(
            name="test", profile=SiteProfile.ON_PREMISES, hosts=hosts, capabilities=self.words, settings=self.settings,
            quarantine=self.quarantine,
        )  # fmt: skip

    def judge(self) -> list[Outcome]:
        site = self.site()
        context = JudgeContext(gate="fabric", site=site, today=date(2026, 11, 21), hardware=dict(HARDWARE))
        declared = {check.id for check in declare("fabric", site).checks}
        facts = self.facts()
        return [
            o for check in checks_of("fabric", site) if check.spec.id in declared for o in check.judge(facts, context)
        ]


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


def held(outcomes: list[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.status is not Status.PASSED and not o.cause.startswith("blocked-by-")]


def one(fabric: Fabric) -> Outcome:
    """The only thing that is not good."""
    found = held(fabric.judge())
    assert len(found) == 1, found
    return found[0]


def names(outcome: Outcome) -> set[str]:
    return {subject.name for subject in outcome.subjects}


HOST_LINK = (End("gpu03 mlx5_2", 1), End("leaf2", 3))
UPLINK = (End("leaf1", 33), End("spine1", 2))


def test_a_healthy_fabric_passes_every_check(fabric: Fabric) -> None:
    outcomes = fabric.judge()
    assert {o.check for o in outcomes} == {"subnet-manager", "link-present", "link-rate", "link-errors", "cabling"}
    assert {o.status for o in outcomes} == {Status.PASSED}, held(outcomes)
    assert all(names(o) == {"test"} for o in outcomes)


@pytest.mark.parametrize("cable", [HOST_LINK, UPLINK])
def test_a_missing_link_is_named_by_both_ends(fabric: Fabric, cable: tuple[End, End]) -> None:
    del fabric.cables[cable]
    found = one(fabric)
    assert (found.check, found.cause) == ("link-present", "link-missing")
    assert f"{cable[0]} - {cable[1]}" in names(found)
    assert ("gpu03/mlx5_2" in names(found)) is (cable is HOST_LINK)


def test_a_port_that_polls_is_a_missing_link(fabric: Fabric) -> None:
    fabric.cables[HOST_LINK] = {"state": "Down", "physical": "Polling", "width": "", "lane_gbps": 0.0, "peer": None}
    found = one(fabric)
    assert (found.check, found.cause) == ("link-present", "link-missing")
    assert "leaf2:3 is Down, Polling" in found.summary


def test_a_dead_leaf_is_one_finding(fabric: Fabric) -> None:
    for cable in [cable for cable in fabric.cables if "leaf2" in (cable[0].node, cable[1].node)]:
        del fabric.cables[cable]
    found = one(fabric)
    assert (found.check, found.cause) == ("link-present", "switch-dead")
    assert "leaf2" in names(found) and "any of its 7 planned links" in found.summary


def test_a_dead_spine_is_one_finding(fabric: Fabric) -> None:
    for cable in [cable for cable in fabric.cables if cable[1].node == "spine1"]:
        del fabric.cables[cable]
    assert (one(fabric).cause, "spine1" in names(one(fabric))) == ("switch-dead", True)


def test_a_host_that_is_off_is_one_finding(fabric: Fabric) -> None:
    for cable in [cable for cable in fabric.cables if cable[0].node.startswith("gpu05")]:
        del fabric.cables[cable]
    assert (one(fabric).check, one(fabric).cause) == ("link-present", "host-absent")
    assert "gpu05" in names(one(fabric))
    fabric.quarantine = (Quarantine(node="gpu05", reason="no power", ticket="T-1", who="ops"),)
    assert not held(fabric.judge()), "a host that is set aside is out of scope"


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"width": "1X"}, "degraded-width"),
        ({"width": "2X", "lane_gbps": 53.125}, "degraded-width"),
        ({"lane_gbps": 53.125}, "degraded-speed"),
        ({"lane_gbps": 25.78125}, "degraded-speed"),
    ],
)
def test_a_slow_link_is_told_from_a_narrow_one(fabric: Fabric, values: dict[str, Any], cause: str) -> None:
    fabric.cables[UPLINK] = values
    found = one(fabric)
    assert (found.check, found.cause) == ("link-rate", cause)
    assert "leaf1:33 - spine1:2" in names(found) and "rated 4x NDR (4 x 106.25 Gb/s)" in found.summary


def test_a_faster_link_than_planned_passes(fabric: Fabric) -> None:
    fabric.cables[UPLINK] = {"lane_gbps": 212.5}
    assert not held(fabric.judge())


def test_swapped_cables_are_one_finding_with_both(fabric: Fabric) -> None:
    first, second = (End("gpu03 mlx5_0", 1), End("leaf0", 3)), (End("gpu03 mlx5_1", 1), End("leaf1", 3))
    del fabric.cables[first], fabric.cables[second]
    fabric.cables |= {(first[0], second[1]): {}, (second[0], first[1]): {}}
    found = one(fabric)
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert {"gpu03/mlx5_0", "gpu03/mlx5_1", "gpu03 mlx5_0:1 - leaf0:3", "gpu03 mlx5_1:1 - leaf1:3"} <= names(found)


def test_a_cable_in_a_free_port_is_miswired(fabric: Fabric) -> None:
    del fabric.cables[HOST_LINK]
    fabric.cables[(HOST_LINK[0], End("leaf2", 20))] = {}
    found = one(fabric)
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert found.summary == "gpu03 mlx5_2:1 is on leaf2:20, planned leaf2:3"


def test_three_cables_in_a_ring_are_one_finding(fabric: Fabric) -> None:
    ends = [(End(f"gpu02 mlx5_{k}", 1), End(f"leaf{k}", 2)) for k in range(3)]
    for cable in ends:
        del fabric.cables[cable]
    fabric.cables |= {(ends[k][0], ends[(k + 1) % 3][1]): {} for k in range(3)}
    assert one(fabric).cause == "miswired"


def test_without_a_plan_rails_are_told_apart_and_switches_are_not_named(fabric: Fabric) -> None:
    fabric.plan = plan(generated=True)
    assert not held(fabric.judge())
    first, second = (End("gpu03 mlx5_0", 1), End("leaf0", 3)), (End("gpu03 mlx5_1", 1), End("leaf1", 3))
    del fabric.cables[first], fabric.cables[second]
    fabric.cables |= {(first[0], second[1]): {}, (second[0], first[1]): {}}
    found = one(fabric)
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert "gpu03 mlx5_0:1 is on leaf1:3, planned rail 0" in found.summary


def test_without_a_plan_one_switch_for_all_rails_is_no_mistake(fabric: Fabric) -> None:
    fabric.plan = plan(generated=True)
    fabric.cables = {
        (link.near, End("switch", number)): {} for number, link in enumerate(fabric.plan.links, 1)
    }  # fmt: skip
    assert not held(fabric.judge())


@pytest.mark.parametrize("end", HOST_LINK)
@pytest.mark.parametrize("counter", ["SymbolErrorCounter", "LinkDownedCounter", "PortRcvErrors"])
def test_growing_errors_fail_at_either_end(fabric: Fabric, end: End, counter: str) -> None:
    fabric.before, fabric.after = {end: {counter: 4}}, {end: {counter: 9}}
    found = one(fabric)
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
def test_old_errors_and_congestion_pass(fabric: Fabric, before: dict[str, int], after: dict[str, int]) -> None:
    fabric.before, fabric.after = {HOST_LINK[1]: before}, {HOST_LINK[1]: after}
    assert not held(fabric.judge())


def test_a_full_or_cleared_counter_needs_a_person(fabric: Fabric) -> None:
    fabric.before = fabric.after = {UPLINK[0]: {"SymbolErrorCounter": 65535}}
    assert (one(fabric).cause, one(fabric).rating) == ("counter-saturated", Rating.MARGINAL)
    fabric.after = {UPLINK[0]: {"SymbolErrorCounter": 2}}
    assert (one(fabric).cause, one(fabric).rating) == ("counters-cleared", Rating.MARGINAL)


def test_a_site_sets_its_own_limit(fabric: Fabric) -> None:
    fabric.before, fabric.after = {}, {UPLINK[0]: {"SymbolErrorCounter": 4}}
    assert one(fabric).cause == "link-errors-growing"
    fabric.settings = {"link-errors": {"growth_per_hour": {"SymbolErrorCounter": 1440}}}
    assert not held(fabric.judge())


SM = SmInfo(lid=1, guid="0x1", activity=20, priority=15, state=MASTER)


@pytest.mark.parametrize(
    ("subnet", "cause"),
    [
        (
            {"master": None, "master_again": None, "managers": ProbeFailure("saquery", "failed", "x")},
            "no-subnet-manager",
        ),
        ({"managers": (SM,)}, "no-standby-subnet-manager"),
        ({"managers": (SM,), "silent_lids": (99,)}, "no-standby-subnet-manager"),
        ({"managers": (SM, replace(SM, lid=5, guid="0x5"))}, "two-masters"),
        ({"managers": (replace(SM, state=STANDBY),)}, "no-subnet-manager"),
        ({"master": SM, "master_again": SM}, "subnet-manager-stuck"),
    ],
)
def test_subnet_managers(fabric: Fabric, subnet: dict[str, Any], cause: str) -> None:
    fabric.subnet = subnet
    found = one(fabric)
    assert (found.check, found.cause, found.status) == ("subnet-manager", cause, Status.FAILED)


def test_without_a_subnet_manager_nothing_else_is_judged(fabric: Fabric) -> None:
    fabric.subnet = {"master": None, "master_again": None}
    fabric.cables = {cable: {"state": "Init"} for cable in fabric.cables}
    others = [o for o in fabric.judge() if o.check != "subnet-manager"]
    assert {(o.status, o.cause) for o in others} == {(Status.OTHER, "blocked-by-subnet-manager")}
    assert one(fabric).cause == "no-subnet-manager"


@pytest.mark.parametrize("values", [{"state": "Init"}, {"state": "Armed"}])
def test_a_port_that_is_not_active_is_not_converged(fabric: Fabric, values: dict[str, Any]) -> None:
    fabric.cables[HOST_LINK] = values
    found = one(fabric)
    assert (found.check, found.cause) == ("subnet-manager", "not-converged")
    assert "gpu03/mlx5_2" in names(found)


def test_a_lid_twice_is_not_converged(fabric: Fabric) -> None:
    fabric.lids = {"gpu02 mlx5_0": 40}
    ends = tuple(
        replace(end, lid=40) if end.name == "gpu04 mlx5_1" else end for end in fabric.ends()
    )  # fmt: skip
    fabric.subnet = {"links": ends, "links_before": ends}
    found = one(fabric)
    assert (found.check, found.cause) == ("subnet-manager", "not-converged")
    assert found.summary == "LID 40 belongs to gpu02 mlx5_0 and gpu04 mlx5_1"


def test_a_change_between_two_readings_is_not_converged(fabric: Fabric) -> None:
    ends = fabric.ends()
    fabric.subnet = {"links_before": (replace(ends[0], lid=77), *ends[1:])}
    found = one(fabric)
    assert (found.check, found.cause) == ("subnet-manager", "not-converged")
    assert "1 ports changed between two readings" in found.summary


def test_ibdiagnet_is_judged_where_the_site_has_it(fabric: Fabric) -> None:
    assert "ibdiagnet" not in {o.check for o in fabric.judge()}
    fabric.words = (*WORDS, "ibdiagnet")
    assert (one(fabric).check, one(fabric).cause) == ("ibdiagnet", "ibdiagnet-not-collected")
    fabric.subnet = {"diagnosis": ProbeFailure("ibdiagnet", "missing", "ibdiagnet is not installed")}
    assert (one(fabric).status, one(fabric).cause) == (Status.OTHER, "ibdiagnet-missing")
    fabric.subnet = {"diagnosis": Diagnosis(stages=(Stage(name="Lids Check", warnings=2, errors=0),))}
    assert not held(fabric.judge())
    fabric.subnet = {"diagnosis": Diagnosis(stages=(Stage(name="Port Counters", warnings=0, errors=3),))}
    assert (one(fabric).status, one(fabric).cause) == (Status.FAILED, "ibdiagnet-errors")


@pytest.mark.parametrize(
    ("field", "tool", "owner"),
    [
        ("links", "iblinkinfo", "link-present"),
        ("errors", "ibqueryerrors", "link-errors"),
        ("errors_before", "ibqueryerrors", "link-errors"),
        ("managers", "saquery", "subnet-manager"),
        ("master", "sminfo", "subnet-manager"),
    ],
)
@pytest.mark.parametrize("kind", ["missing", "timeout", "empty", "garbage", "failed"])
def test_a_tool_that_says_nothing_usable_is_told_once(
    fabric: Fabric, field: str, tool: str, owner: str, kind: Any
) -> None:
    fabric.subnet = {field: ProbeFailure(tool, kind, "what happened")}
    found = one(fabric)
    assert (found.check, found.cause, found.status) == (owner, f"{tool}-{kind}", Status.OTHER)


def test_a_host_that_cannot_be_reached_is_told_once(fabric: Fabric) -> None:
    fabric.reason = "No route to host"
    found = one(fabric)
    assert (found.check, found.cause, found.status) == ("subnet-manager", "fabric-host-unreachable", Status.OTHER)
    assert not [o for o in fabric.judge() if o.status is Status.PASSED]


@pytest.mark.parametrize("word", WORDS)
def test_without_a_capability_the_gate_declares_nothing_and_says_why(fabric: Fabric, word: str) -> None:
    fabric.words = tuple(other for other in WORDS if other != word)
    declaration = declare("fabric", fabric.site())
    assert declaration.checks == ()
    assert all(word in entry.reason for entry in declaration.not_declared)


def test_the_observer_needs_one_host_that_looked(tmp_path: Path, fabric: Fabric) -> None:
    context = ObserveContext(site=fabric.site(), run_dir=tmp_path, today=date(2026, 11, 21), hardware=dict(HARDWARE))
    with pytest.raises(BringupError, match="0 hosts left some"):
        observe_fabric.observe(context)
    write_evidence(tmp_path, unreached("gpu01", "No route to host"), FABRIC)
    facts = observe_fabric.restore(observe_fabric.observe(context), tmp_path, fabric.site())
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


@given(
    st.dictionaries(
        st.integers(0, 2 * (HOSTS + 1) * RAILS - 1), st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=9
    ),
    st.booleans(),
)
def test_whatever_is_damaged_is_held_and_nothing_crashes(damages: dict[int, str], generated: bool) -> None:
    fabric = Fabric()
    fabric.plan = plan(generated=generated)
    ends = [DAMAGES[damages[n]](end) if n in damages else end for n, end in enumerate(fabric.ends())]
    kept = tuple(end for end in ends if end is not None)
    fabric.subnet = {"links": kept}
    assert held(fabric.judge())
