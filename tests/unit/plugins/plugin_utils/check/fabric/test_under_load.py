# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links between switches around the load of NCCL: a cable that errs only when it carries something is found there.

The counters are those of `ibqueryerrors` (linux-rdma/rdma-core, infiniband-diags).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation import link_errors_under_load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_fabric_load import (
    restore,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import fabric_load_kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import End

ROOT = Path(__file__).resolve().parents[6]
GROWN = {"SymbolErrorCounter": 400}


def judge(fabric: Any, *, interval_s: float = 600.0, **changed: Any) -> list[Outcome]:
    facts = replace(fabric.facts(), interval_s=interval_s, **changed)
    hardware = load_hardware([ROOT / "recipes" / "hardware"])
    context = JudgeContext(gate="fabric_validation", site=fabric.site(), today=date(2026, 11, 21), hardware=hardware)
    return list(link_errors_under_load.judge(facts, context))


def test_a_cable_between_leaf_and_spine_that_errs_under_load_fails_and_is_named(fabric: Any) -> None:
    fabric.after[End("spine1", 2)] = GROWN
    (found,) = judge(fabric)
    assert (found.status, found.cause) == (Status.FAILED, "link-errors-under-load")
    assert {subject.name for subject in found.subjects} == {"leaf1:33 - spine1:2", "leaf1:33"}


def test_what_a_switch_receives_from_a_host_is_counted_at_the_switch_and_judged(fabric: Any) -> None:
    fabric.after[End("leaf2", 3)] = GROWN
    (found,) = judge(fabric)
    assert found.cause == "link-errors-under-load" and "gpu03/mlx5_2" in {subject.name for subject in found.subjects}


def test_a_host_port_is_left_to_the_check_of_its_host(fabric: Any) -> None:
    fabric.after[End("gpu03 mlx5_2", 1)] = GROWN
    (found,) = judge(fabric)
    assert found.status is Status.PASSED


@pytest.mark.parametrize(
    ("before", "after"), [({}, {}), ({}, {"SymbolErrorCounter": 2}), (GROWN, GROWN), ({}, {"PortXmitWait": 90000})]
)
def test_few_errors_old_errors_and_congestion_pass(fabric: Any, before: Any, after: Any) -> None:
    fabric.before[End("spine1", 2)], fabric.after[End("spine1", 2)] = before, after
    (found,) = judge(fabric)
    assert found.status is Status.PASSED, found


def test_a_link_between_switches_that_the_load_took_is_named(fabric: Any) -> None:
    there = fabric.ends()
    ends = {(end.name, end.port) for end in there} & {("leaf1", 33), ("spine1", 2)}
    gone = tuple(
        replace(end, physical="Polling", state="Down", peer=None) if (end.name, end.port) in ends else end
        for end in there
    )
    fabric.subnet = {"links_before": there, "links": gone}
    (found,) = judge(fabric)
    assert (found.status, found.cause) == (Status.FAILED, "link-lost-under-load")
    assert [subject.name for subject in found.subjects] == ["leaf1:33 - spine1:2"]


def test_a_reading_that_was_not_made_is_no_pass(fabric: Any) -> None:
    (found,) = judge(fabric, subnets=(), reason="read by no host before the load, by gpu01 after it")
    assert (found.status, found.cause) == (Status.OTHER, "fabric-load-not-read")


def reading(run_dir: Path, moment: Any, started: str, **tools: ToolRun) -> None:
    evidence = HostEvidence(host="gpu01", reached=True, started=started, tools=tools)
    write_evidence(run_dir, evidence, fabric_load_kind("fabric_validation", moment))


def restored(fabric: Any, run_dir: Path) -> Any:
    return restore({"schema_version": 1, "plan": to_plain(fabric.plan)}, run_dir, fabric.site())


def test_both_readings_of_one_host_are_compared_and_the_time_between_them_counts(fabric: Any, tmp_path: Path) -> None:
    run = ToolRun(argv=("ibqueryerrors",), rc=0, stdout="")
    reading(tmp_path, "before", "2026-11-21T10:00:00+00:00", iblinkinfo=run, ibqueryerrors=run)
    assert "by no host after" in restored(fabric, tmp_path).reason
    reading(tmp_path, "after", "2026-11-21T10:20:00+00:00", iblinkinfo=run, ibqueryerrors=run)
    seen = restored(fabric, tmp_path)
    assert (seen.reason, seen.interval_s, len(seen.subnets)) == ("", 1200.0, 1)
    (found,) = judge(fabric, interval_s=seen.interval_s, subnets=seen.subnets)
    assert found.status is Status.OTHER, "an empty answer of the tools proves nothing"


@pytest.mark.parametrize("case", ["unreached", "other ports", "backwards"])
def test_readings_that_cannot_be_compared_say_why(fabric: Any, tmp_path: Path, case: str) -> None:
    run = ToolRun(argv=("ibqueryerrors",), rc=0, stdout="")
    ports = {"ibqueryerrors": run} if case != "other ports" else {"ibqueryerrors@mlx5_0:1": run}
    reading(tmp_path, "before", "2026-11-21T10:00:00+00:00", ibqueryerrors=run)
    reading(tmp_path, "after", f"2026-11-21T{'09' if case == 'backwards' else '11'}:00:00+00:00", **ports)
    if case == "unreached":
        write_evidence(tmp_path, unreached("gpu01", "No route to host"), fabric_load_kind("fabric_validation", "after"))
    seen = restored(fabric, tmp_path)
    assert seen.subnets == () and seen.reason
