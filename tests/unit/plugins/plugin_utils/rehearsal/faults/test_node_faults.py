# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every node fault of the catalogue: the simulated tools are run, and the checks of gate nodes must find just that."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from seeds import drawing, run_seed
from sites import make_site

# The bench of the worlds is no part of the collection: it is a module of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[6]))

from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import observe_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks, checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import node_requests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    FaultDefinition,
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import host_directory
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import apply_fault, build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel, Node
from tools.world_bench.hosts import path_of
from tools.world_bench.kept_runs import run_or_keep
from tools.world_bench.small_process import run_host_tools

ROOT = Path(__file__).resolve().parents[6]
DATA = ROOT / "rehearsal" / "recipes"
CATALOGUE = load_catalogue()
# What these hosts have not; tests/rehearsal/test_worlds.py draws a world that has it.
ELSEWHERE = {"roce", "efa", "imex"}
NODE_FAULTS = [f for f in CATALOGUE.values() if f.expect.gate == "nodes" and not ELSEWHERE.intersection(f.needs)]
HEALTHY = build_model(ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(3, "h100")), HARDWARE)
SEED = run_seed()
MOST_BYTES = 10_000_000
Judged = Callable[[ClusterModel], list[Outcome]]


def requests_of(node: Node) -> list[dict[str, Any]]:
    """Return what the probe runs on that host."""
    slow = 0.4 if "hang" in node.tools.values() else 20.0
    names = [tool.name for tool in load_host_tools().used_by("host_probe")]
    limits = {name: slow for name in names if name.startswith(("nvidia", "dcgmi"))}
    return node_requests(timeout_s=20.0, timeouts=limits, diag_level=3)


def asked(node: Node, root: Path) -> HostEvidence:
    """Return what the probe finds on a prepared host, run from outside of it."""
    if not node.reachable:
        return unreached(node.name, "No route to host")
    runs = run_or_keep(host_directory(root, node.name), path_of(root, node.name), requests_of(node), MOST_BYTES)
    tools = {name: from_plain(ToolRun, run, name) for name, run in runs.items()}
    off_s = (node.clock.ahead_s - 0.5, node.clock.ahead_s + 0.5)
    return HostEvidence(host=node.name, reached=True, tools=tools, clock_off_s=off_s)


def evidence_of(nodes: tuple[Node, ...], root: Path) -> dict[str, HostEvidence]:
    """Prepare these hosts and run their tools. The kernel settings are left out: no tool reads them."""
    prepare_hosts(replace(HEALTHY, nodes=nodes), root, DATA, kernel_settings=Path("/nonexistent"))
    return {node.name: asked(node, root) for node in nodes}


@pytest.fixture(scope="module")
def healthy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with the evidence of the healthy hosts."""
    run_dir = tmp_path_factory.mktemp("healthy-run")
    for evidence in evidence_of(HEALTHY.nodes, tmp_path_factory.mktemp("healthy")).values():
        write_evidence(run_dir, evidence)
    return run_dir


@pytest.fixture
def judged(tmp_path: Path, healthy_run: Path) -> Judged:
    """Run the tools of the hosts of a model, judge gate nodes. A host is a function of its node in the model, so only
    those that differ from the healthy ones are asked anew."""

    def judge(model: ClusterModel) -> list[Outcome]:
        changed = tuple(node for node, healthy in zip(model.nodes, HEALTHY.nodes, strict=True) if node != healthy)
        run_dir = tmp_path / "run"
        shutil.copytree(healthy_run, run_dir)
        for evidence in evidence_of(changed, tmp_path).values():
            write_evidence(run_dir, evidence)
        hosts = tuple(Host(name=node.name, sku="h100", node_name=node.name, rack=node.rack) for node in model.nodes)
        words = ("host_access", "nvswitch", "infiniband", "multi_node", "kubernetes")
        site = make_site(hosts, name="rehearsal", capabilities=words)
        today = date(2026, 1, 5)
        seen = observe_hosts.observe(ObserveContext(site=site, run_dir=run_dir, today=today, hardware=dict(HARDWARE)))
        facts = observe_hosts.restore(json.loads(dumps(seen)), run_dir, site)
        context = JudgeContext(gate="nodes", site=site, today=today, hardware=dict(HARDWARE))
        mine = [check for check in checks_of("nodes", site) if check.observer.key == "hosts"]
        assert len(mine) > 10
        return [outcome for check in mine for outcome in check.judge(facts, context)]

    return judge


def held(outcomes: list[Outcome]) -> list[Outcome]:
    """Return what is not passed, without the outcomes that only wait for another one."""
    return [outcome for outcome in outcomes if outcome.status is not Status.PASSED and not outcome.blocked_by]


def inject(definition: FaultDefinition) -> tuple[ClusterModel, Fault]:
    (fault,) = choose_faults(definition.id, HEALTHY, CATALOGUE, SEED)
    return apply_fault(HEALTHY, fault), fault


def test_a_healthy_fleet_passes_everything(judged: Judged) -> None:
    outcomes = judged(HEALTHY)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}, held(outcomes)


@pytest.mark.quickly(5)
@pytest.mark.drawn(24)
@pytest.mark.parametrize("definition", NODE_FAULTS, ids=lambda definition: definition.id)
def test_the_named_check_finds_the_fault_and_no_other_does(definition: FaultDefinition, judged: Judged) -> None:
    model, fault = inject(definition)
    outcomes = held(judged(model))
    found = {(outcome.check, outcome.cause, outcome.status.value) for outcome in outcomes}
    expect = definition.expect
    if expect.status == "passed":
        assert found == set(), f"seed {SEED}"
        return
    assert found == {(expect.check, expect.cause, expect.status)}, f"seed {SEED}, {fault.subject}"
    subjects = {subject.name for outcome in outcomes for subject in outcome.subjects}
    # Of a rail this gate names the adapters, of a node what is wrong in it.
    if definition.kind == "rail":
        rail = next(rail for rail in HEALTHY.rails if rail.name == fault.subject)
        assert {f"{node.name}/{node.hcas[rail.index].name}" for node in HEALTHY.nodes} <= subjects
        return
    # Of two GPUs with one UUID, nobody can say which is the copy.
    mine = (fault.subject, fault.subject.partition("/")[0])
    others = {name for name in subjects if name not in mine and not name.startswith(f"{fault.subject}/")}
    assert fault.subject in subjects
    assert not others or definition.id == "gpu-duplicate-uuid"
    assert all(outcome.rating is not Rating.GOOD for outcome in outcomes)


def test_what_is_kept_of_a_tool_is_what_it_prints(tmp_path: Path, healthy_run: Path) -> None:
    ids = drawing("kept runs").sample([f.id for f in NODE_FAULTS if f.kind in ("node", "gpu", "hca")], 3)
    for fault in choose_faults(",".join(ids), HEALTHY, CATALOGUE, SEED):
        root = tmp_path / fault.id
        (node,) = (one for one, was in zip(apply_fault(HEALTHY, fault).nodes, HEALTHY.nodes, strict=True) if one != was)
        prepare_hosts(replace(HEALTHY, nodes=(node,)), root, DATA, kernel_settings=Path("/nonexistent"))
        home, path, requests = host_directory(root, node.name), path_of(root, node.name), requests_of(node)
        first, printed = run_or_keep(home, path, requests, MOST_BYTES), run_host_tools(path, requests, MOST_BYTES)
        again = run_or_keep(home, path, requests, MOST_BYTES)
        said = {name: (_said(first, name), _said(again, name)) for name in first.keys() | again.keys()}
        other = {name for name in printed.keys() | said.keys() if said[name] != (_said(printed, name),) * 2}
        # The one goes on until the diagnostic ends, the other has counters of this machine.
        assert other <= {"pcie_under_load", "sysctl"}, f"seed {SEED}, {fault.id}"


def _said(runs: dict[str, dict[str, Any]], name: str) -> tuple[Any, list[str]]:
    """Return how a tool ended and what it printed, without the line that says when."""
    run = runs[name]
    return run["rc"], [line for line in run["stdout"].splitlines() if "<timestamp>" not in line]


def test_two_faults_at_once_are_both_found(judged: Judged) -> None:
    faults = choose_faults("ecc-uncorrectable@gpu01,hca-down@gpu03", HEALTHY, CATALOGUE, SEED)
    model = HEALTHY
    for fault in faults:
        model = apply_fault(model, fault)
    found = {(outcome.check, outcome.subjects[0].node) for outcome in held(judged(model))}
    assert found == {("gpu-ecc", "gpu01"), ("hca-state", "gpu03")}


def test_what_the_catalogue_expects_is_what_a_check_declares() -> None:
    causes = {check.spec.id: check.spec for check in all_checks()}
    for fault in CATALOGUE.values():
        spec = causes[fault.expect.check]
        assert spec.gate == fault.expect.gate
        if fault.expect.status == "failed":
            assert fault.expect.cause in spec.causes, fault.id
