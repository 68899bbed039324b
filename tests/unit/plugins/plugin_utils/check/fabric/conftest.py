# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy InfiniBand fabric that tests can break, judged from values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric.fabric_facts import (
    FabricFacts,
    SubnetFacts,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.iblinkinfo import LinkEnd, Peer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.ibqueryerrors import ErrorReport, PortErrors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.sminfo import MASTER, STANDBY, SmInfo
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import CablingPlan, End, PlannedLink
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

HOSTS, RAILS = 6, 4
WORDS = ("infiniband", "multi_node", "subnet_manager", "host_access")
NO_ERRORS = ErrorReport(ports=(), nodes_checked=29, bad_nodes=0, ports_checked=100, bad_ports=0)


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
        self.descriptions: dict[str, str] = {}
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
                peer = Peer(
                    name=self.called(other.node),
                    port=other.port,
                    lid=self.lid(other.node),
                    guid=self.guid(other.node),
                )
                base: dict[str, Any] = {
                    "name": self.called(own.node), "guid": self.guid(own.node), "lid": self.lid(own.node),
                    "port": own.port, "state": "Active", "physical": "LinkUp", "width": "4X", "lane_gbps": 106.25,
                    "peer": peer,
                }  # fmt: skip
                found.append(LinkEnd(**base | values))
        return tuple(found)

    def lid(self, node: str) -> int:
        return self.lids.setdefault(node, len(self.lids) + 2)

    def called(self, node: str) -> str:
        """How a device describes itself, if not as the plan calls it."""
        return self.descriptions.get(node, node)

    def host_guids(self) -> dict[str, dict[str, int]]:
        """What the hosts say of their adapters."""
        names = [link.near.node for link in self.plan.links if link.host]
        found: dict[str, dict[str, int]] = {}
        for name in names:
            host, _blank, hca = name.partition(" ")
            found.setdefault(host, {})[hca] = self.guid(name)
        return found

    def guid(self, node: str) -> int:
        """Begins with a zero, as those of many Mellanox devices: one tool pads it, another does not."""
        return 0x0002C90300000000 + self.lid(node)

    def report(self, counts: dict[End, dict[str, int]]) -> ErrorReport:
        ports = tuple(
            PortErrors(node=self.called(end.node), guid=self.guid(end.node), port=end.port, counters=counters)
            for end, counters in counts.items()
        )
        devices = {end.guid for end in self.ends()}
        return replace(NO_ERRORS, ports=ports, bad_ports=len(ports), nodes_checked=len(devices))

    def facts(self) -> FabricFacts:
        sm = SmInfo(lid=1, guid=1, activity=10, priority=15, state=MASTER)
        values: dict[str, Any] = {
            "port": "", "master": sm, "master_again": replace(sm, activity=20), "silent_lids": (),
            "managers": (replace(sm, activity=21), SmInfo(lid=99, guid=0x99, activity=5, priority=1, state=STANDBY)),
            "links_before": self.ends(), "links": self.ends(), "errors_before": self.report(self.before),
            "errors": self.report(self.after),
        }  # fmt: skip
        subnets = () if self.reason else (SubnetFacts(**values | self.subnet),)
        return FabricFacts(host="gpu01", plan=self.plan, interval_s=10.0, subnets=subnets, reason=self.reason)

    def site(self) -> Site:
        hosts = tuple(Host(name=f"gpu{n:02d}", sku="h100", node_name=f"gpu{n:02d}") for n in range(1, HOSTS + 1))
        return make_site(
            hosts, name="test", capabilities=self.words, settings=self.settings, quarantine=self.quarantine
        )

    def judge(self) -> list[Outcome]:
        site = self.site()
        context = JudgeContext(gate="fabric", site=site, today=date(2026, 11, 21), hardware=dict(HARDWARE))
        declared = {check.id for check in declare("fabric", site).checks}
        facts = self.facts()
        return [
            o for check in checks_of("fabric", site) if check.spec.id in declared for o in check.judge(facts, context)
        ]

    def held(self) -> list[Outcome]:
        """What is not passed, without what only waits for another check."""
        return [o for o in self.judge() if o.status is not Status.PASSED and not o.blocked_by]

    def one(self) -> Outcome:
        """The only thing that is not good."""
        found = self.held()
        assert len(found) == 1, found
        return found[0]

    def forget_the_plan(self) -> None:
        """Take the plan that follows from the inventory."""
        self.plan = plan(generated=True)


@pytest.fixture
def fabric() -> Fabric:
    """Six hosts with four rails, healthy."""
    return Fabric()


@pytest.fixture(scope="session")
def make_fabric() -> Callable[[], Fabric]:
    """Makes as many as wanted."""
    return Fabric
