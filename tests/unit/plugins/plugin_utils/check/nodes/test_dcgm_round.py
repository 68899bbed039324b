# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DCGM's diagnostic as a part of a round of a burn-in: what it says of each host, and nothing unseen passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in import dcgm_round
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in.dcgm_round import (
    diagnose,
    refuse_without_operator,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import observe_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    DRIVERS,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner

TOOL = "dcgmi_diag"
LASTED_S = 870.0


class Pods:
    """What the operator's pods answer for the hosts of a fleet."""

    def __init__(self, fleet: Any, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.fleet, self.asked, self.away = fleet, [], set[str]()
        fleet.owner = DriverOwner.OPERATOR
        site = replace(fleet.site, driver_owner=DriverOwner.OPERATOR)
        self.context = ObserveContext(site=site, run_dir=path, today=date(2026, 11, 26), hardware={"h100": fleet.sku})
        monkeypatch.setattr(dcgm_round, "observe_at_level", self.observe)

    def observe(self, context: ObserveContext, level: int) -> Any:
        # A plan of the cabling that names a host of which the site knows nothing is refused.
        assert {host.name for host in context.site.hosts} == {host.name for host in self.context.site.hosts}
        for host in context.site.in_scope:
            self.asked.append((host.name, level))
            if host.name in self.away:
                continue
            found = self.fleet.hosts[host.name].evidence()
            run = replace(found.tools[TOOL], duration_s=LASTED_S)
            write_evidence(context.run_dir, replace(found, tools={**found.tools, TOOL: run}), DRIVERS)
        return observe_hosts.observe(context)

    def round(self, *hosts: str, level: int = 3) -> dict[str, tuple[Status, str, float]]:
        found = diagnose(self.context, level, 2, hosts)
        assert {(entry.test, entry.round) for entry in found} == {("dcgm", 2)}
        return {entry.host: (entry.status, entry.cause, entry.seconds) for entry in found}


@pytest.fixture
def pods(make_fleet: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pods:
    return Pods(make_fleet(3), monkeypatch, tmp_path)


def test_a_diagnostic_without_a_fault_loads_the_hosts_that_are_left(pods: Pods) -> None:
    assert pods.round("gpu01", "gpu03") == {
        "gpu01": (Status.PASSED, "", LASTED_S), "gpu03": (Status.PASSED, "", LASTED_S),
    }  # fmt: skip
    assert pods.asked == [("gpu01", 3), ("gpu03", 3)]


def test_a_host_that_fails_it_fails_the_round_and_the_others_do_not(pods: Pods) -> None:
    pods.fleet.hosts["gpu02"].diag[("memory", 1)] = ("Fail", {})
    found = pods.round("gpu01", "gpu02")
    assert found["gpu01"][0] is Status.PASSED and found["gpu02"] == (Status.FAILED, "dcgm-diag-failed", 0.0)
    assert [entry.parts for entry in diagnose(pods.context, 3, 3, ("gpu01", "gpu02"))] == [(), ("gpu1",)]


def test_gpus_that_a_user_holds_are_left_alone_and_still_to_do(pods: Pods) -> None:
    held = ToolRun(argv=("dcgmi",), withheld="in-use", stderr="in use by pod team/train-0")
    pods.fleet.hosts["gpu01"].tools[TOOL] = held
    assert pods.round("gpu01", "gpu02")["gpu01"] == (Status.PENDING, "in-use", 0.0)


@pytest.mark.parametrize(
    "run",
    [
        ToolRun(argv=("dcgmi",), missing=True), ToolRun(argv=("dcgmi",), rc=None, stderr="the pod did not answer"),
        ToolRun(argv=("dcgmi",), rc=1, stdout="Error: unable to connect"), ToolRun(argv=("dcgmi",), rc=0, stdout="{}"),
        ToolRun(argv=("dcgmi",), rc=0, timed_out=True),
    ],
)  # fmt: skip
def test_a_diagnostic_that_was_not_seen_says_nothing(pods: Pods, run: ToolRun) -> None:
    pods.fleet.hosts["gpu01"].tools[TOOL] = run
    status, cause, seconds = pods.round("gpu01", "gpu02")["gpu01"]
    assert status is Status.OTHER and cause and seconds == 0.0


def test_what_a_round_before_left_is_not_taken_for_this_one(pods: Pods) -> None:
    assert pods.round("gpu01", "gpu02")["gpu01"][0] is Status.PASSED
    pods.away.add("gpu01")
    found = pods.round("gpu01", "gpu02")
    assert found["gpu01"][0] is Status.OTHER and found["gpu02"][0] is Status.PASSED


def test_a_lower_level_than_the_one_that_is_wanted_is_no_soak(pods: Pods) -> None:
    """The tools of the fleet ran level 3."""
    assert pods.round("gpu01", level=4)["gpu01"][:2] == (Status.OTHER, "dcgm-diag-level")


def test_a_driver_of_the_hosts_has_no_pods_to_ask(pods: Pods) -> None:
    refuse_without_operator(pods.context.site, 3)
    host = replace(pods.context.site, driver_owner=DriverOwner.HOST)
    refuse_without_operator(host, 0)
    with pytest.raises(InputError, match="gpufleet_driver_owner is host") as refused:
        refuse_without_operator(host, 3)
    assert "dcgm-diag.level=4" in refused.value.hint
