# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what a cycle classifies its nodes: limits of the gates, ages, what was accepted and what is published."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.registry import enabled_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.settings import (
    CONTINUOUS,
    ContinuousSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous import app as cycle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import figure_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.passive import TEST as PASSIVE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host


def test_a_cycle_takes_its_limits_from_the_gates_and_its_references_from_facts(tmp_path: Path) -> None:
    hosts = (Host(name="gpu01", sku="dgx-h100", node_name="n1", rack="r1"),)
    stated = {
        "continuous": {"event_h": 3}, "gpu-gemm-rate": {"peer_tolerance": 0.09},
        "fabric_validation": {"peer_tolerance": 0.04},
    }  # fmt: skip
    site = make_site(hosts, capabilities=("host_access", "kubernetes"), settings=stated)
    hardware = load_hardware([RECIPES / "hardware"])
    context = ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 11, 28), hardware=hardware)
    run = SimpleNamespace(site=site, hardware=hardware, record=SimpleNamespace(rehearsal=True), path=tmp_path)
    options: dict[str, Any] = {"store": str(tmp_path / "history.sqlite"), "passive": True, "policy": {}}
    tests, settings = enabled_tests(context), context.settings_of(CONTINUOUS, ContinuousSettings)
    service = cycle._service(cast(Any, run), options, tests, settings)
    limits, rules = service.limits, figure_rules()
    assert service.tests == ("dl_unit", "nccl_loop", "storage_io", PASSIVE) and service.racks == {"gpu01": "r1"}
    assert (limits.peers_of("dl_unit").tolerance, limits.peers_of("nccl_loop").tolerance) == (0.09, 0.04)
    assert (limits.event_hours("dl_unit", rules), limits.event_hours("nccl_loop", rules)) == (3.0, 24.0)
    assert (limits.fresh_days("dl_unit"), limits.fresh_days(PASSIVE)) == (14.0, 1.0)
    assert "published of dgx-h100" in service.references["gpu01", "dl_unit", "gemm-bf16"].text
