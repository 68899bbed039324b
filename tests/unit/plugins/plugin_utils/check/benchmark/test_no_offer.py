# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A cluster in which no node offers GPUs: one reason and one way out for all hosts, and nobody's GPUs to free."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark import plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost, placement
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.preconditions import no_capacity
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.training_completed import SPEC
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import node_subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import NodeCapacity

HOSTS = tuple(Host(name=name, sku="dgx-h100", node_name=name) for name in ("gpu01", "gpu02", "gpu03"))
NONE = NodeCapacity(name="n", total=0, used=0)


def planned(monkeypatch: pytest.MonkeyPatch, gates: tuple[str, ...], *nodes: NodeCapacity) -> tuple[BenchmarkHost, ...]:
    found = dict(zip((host.node_name for host in HOSTS), nodes, strict=True))
    monkeypatch.setattr(plan, "read_node_capacity", lambda *_args: found)
    site = make_site(hosts=HOSTS, gates=gates)
    context = ObserveContext(site=site, run_dir=Path(), today=date(2026, 11, 22), hardware=HARDWARE)
    return plan.planned_hosts(cast(Any, None), context, lambda *told: BenchmarkHost(**placement(*told)))


def told(host: BenchmarkHost) -> tuple[str, str]:
    context = JudgeContext(gate="training_acceptance", site=make_site(hosts=HOSTS), today=date(2026, 11, 22))
    outcome = no_capacity(Answer(SPEC, context, node_subject(host.name)), host)
    return outcome.summary, outcome.hint


def test_where_no_node_offers_gpus_all_hosts_have_one_reason_and_one_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """42 results of gate 7 alone each asked to free the GPUs of another host, and gate 4 had never been run."""
    hosts = planned(monkeypatch, ("training_acceptance",), NONE, NONE, NONE)
    ((summary, hint),) = {told(host) for host in hosts}
    assert "no node offers nvidia.com/gpu: gate gpu_stack is not in scope" in summary
    assert "gpufleet_gates=gpu_stack" in hint and "free its GPUs" not in hint
    (within,) = {host.closed for host in planned(monkeypatch, ("gpu_stack", "training_acceptance"), NONE, NONE, NONE)}
    assert within == "no node offers nvidia.com/gpu"
    closed = planned(monkeypatch, ("training_acceptance",), replace(NONE, closed="cordoned"), NONE, NONE)
    assert closed[0].closed == "cordoned" and closed[1].closed.startswith("no node offers")


def test_where_one_node_offers_gpus_each_of_the_others_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    full = NodeCapacity(name="gpu01", total=8, used=0)
    busy, none = NodeCapacity(name="gpu02", total=8, used=8), replace(NONE, name="gpu03")
    hosts = planned(monkeypatch, ("training_acceptance",), full, busy, none)
    assert [host.closed for host in hosts] == [
        "", "0 of 8 GPUs are free on gpu02, 8 are needed", "0 of 8 GPUs are free on gpu03, 8 are needed",
    ]  # fmt: skip
    assert "free its GPUs" in told(hosts[1])[1]
