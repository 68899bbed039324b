# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server gets all GPUs of its host or there is none."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from gate8 import judged
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark import plan as benchmark_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import Plan, Results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.observe_inference import (
    InferenceBenchmark,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    InferenceSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import NodeCapacity


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path) -> Any:
    """What is planned where the hosts, eight H100 each, have so many used GPUs."""

    def plan(*used: int, **stated: Any) -> Plan:
        names = [f"gpu{number:02d}" for number in range(1, len(used) + 1)]
        capacities = {
            name: NodeCapacity(name=name, total=8, used=count) for name, count in zip(names, used, strict=True)
        }
        monkeypatch.setattr(benchmark_plan, "read_node_capacity", lambda *_more: capacities)
        hosts = tuple(Host(name=name, sku="dgx-h100", node_name=name) for name in names)
        context = ObserveContext(
            site=make_site(hosts, name="site", capabilities=("kubernetes",)), run_dir=tmp_path,
            today=date(2026, 1, 1), hardware=load_hardware([repository / "recipes/hardware"]), connections={},
        )  # fmt: skip
        settings = checked_settings(InferenceSettings, "inference_acceptance", stated)
        return InferenceBenchmark(context, settings).make_plan(cast(Cluster, None))

    return plan


def test_a_host_with_one_of_eight_gpus_free_is_not_served_and_not_passed(planned: Any) -> None:
    plan = planned(0, 7)
    assert [(host.gpus, bool(host.closed)) for host in plan.hosts] == [(8, False), (8, True)]
    assert "1 of 8 GPUs are free" in plan.hosts[1].closed
    outcomes = [o for o in judged(Results(plan=plan)) if o.subjects[0].name == "gpu02"]
    assert not [o for o in outcomes if o.status is Status.PASSED]
    assert {o.cause for o in outcomes if not o.blocked_by} == {"no-capacity"}


def test_all_hosts_with_all_gpus_free_are_served(planned: Any) -> None:
    assert [host.closed for host in planned(0, 0).hosts] == ["", ""]
    assert [host.closed for host in planned(0, tensor_parallel=4).hosts] == [""]


def test_copies_that_leave_gpus_over_are_said_before_anything_starts(planned: Any) -> None:
    (host,) = planned(0, tensor_parallel=3).hosts
    assert "no whole number of copies of 3" in host.closed


@pytest.mark.parametrize(("hosts", "times"), [(1, 1.0), (256, 1.0), (1000, 4.0)])
def test_a_larger_fleet_gets_more_time(hosts: int, times: float, tmp_path: Path) -> None:
    site = make_site(tuple(Host(name=f"gpu{n:04d}", sku="h100", node_name=f"gpu{n:04d}") for n in range(hosts)))
    context = ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1))
    settings = checked_settings(InferenceSettings, "inference_acceptance", {"total_s": 100, "parallel": 64})
    assert InferenceBenchmark(context, settings).total_s == 100 * times
