# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rehearsal's simulated tools, run by the probe and judged: every fault for gate nodes is found."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.module_utils.node_tools import TOOLS, run_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import observe_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.choose import choose_faults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.hosts.prepare import prepare_hosts, tools_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.patch import build_model
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import (
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue(ROOT / "recipes/rehearsal")
OURS = [name for name, fault in CATALOGUE.items() if fault.expect.gate == "nodes"]
LIMITS: dict[str, Any] = {
    "timeout_s": 2, "timeouts": {}, "diag_level": 3, "diag_timeout_s": 2, "max_output_bytes": 4_000_000,
}  # fmt: skip


def judge(
    faults: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[tuple[Fault, ...], tuple[Outcome, ...]]:
    """Break a model, run its tools on every host, and judge."""
    hardware = load_hardware([ROOT / "recipes/hardware"])
    spec = ModelSpec(name="test", seed=7, nodes=numbered_nodes(3, "h100"))
    chosen = choose_faults(faults, build_model(spec, hardware), CATALOGUE)
    model = build_model(ModelSpec(name="test", seed=7, nodes=spec.nodes, faults=chosen), hardware)
    prepare_hosts(model, tmp_path / "sim", ROOT / "recipes/rehearsal")
    run_dir, path = tmp_path / "run", os.environ["PATH"]
    for node in model.nodes:
        if not node.reachable:
            write_evidence(run_dir, unreached(node.name, "Failed to connect"))
            continue
        monkeypatch.setenv("PATH", f"{tools_path(tmp_path / 'sim', node.name)}:{path}")
        runs = run_tools(list(TOOLS), **LIMITS)
        tools = {name: from_plain(ToolRun, run, name) for name, run in runs.items()}
        write_evidence(run_dir, HostEvidence(host=node.name, reached=True, tools=tools))
    hosts = tuple(Host(name=n.name, sku="h100", node_name=n.name, rack="rack-a1") for n in spec.nodes)
    words = ("host_access", "infiniband", "nvswitch", "multi_node")
    site = Site(name="test", profile=SiteProfile.ON_PREMISES, hosts=hosts, capabilities=words)
    context = JudgeContext(gate="nodes", site=site, today=date(2026, 11, 21), hardware=dict(hardware))
    seen = observe_hosts.observe(ObserveContext(site=site, run_dir=run_dir, today=context.today))
    value = observe_hosts.restore(json.loads(json.dumps(seen)), run_dir, site)
    return chosen, tuple(o for check in checks_of("nodes", site) for o in check.judge(value, context))


def test_healthy_rehearsal_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _chosen, outcomes = judge("", tmp_path, monkeypatch)
    assert not [o for o in outcomes if o.status is not Status.PASSED]


@pytest.mark.parametrize("name", OURS)
def test_fault_is_found_once_where_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,), outcomes = judge(name, tmp_path, monkeypatch)
    expected = CATALOGUE[name].expect
    seen = [o for o in outcomes if o.status is not Status.PASSED and not o.cause.startswith("blocked-by-")]
    if expected.status == "passed":
        assert not seen
        return
    assert {(o.check, o.cause, o.status.value) for o in seen} == {(expected.check, expected.cause, expected.status)}
    assert any(fault.subject in {s.name for s in o.subjects} for o in seen), (fault.subject, seen)
