# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric_validation where Slurm gives the hosts their work: what it declares, plans and says of jobs. Its jobs run
over a real Slurm in tests/integration/test_slurm_fabric.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from simulated_training import hardware
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.preconditions import (
    leftovers_of,
    no_capacity,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.problem import hint_for, launch_problem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Plan, Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_job import (
    NcclJobs,
    plan_on_hosts,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_results import SPEC
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.answer import Answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import (
    Disturbance,
    JudgeContext,
    ObserveContext,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.slurm_nodes import parse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import disturbs_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.free_slurm import uses_of_hosts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, PodResult

GATE, TODAY = "fabric_validation", date(2026, 1, 1)


def site_of(*names: str, sku: str = "dgx-h100") -> Site:
    hosts = tuple(Host(name=f"h-{name}", sku=sku, node_name=name) for name in names)
    return make_site(
        hosts, gates=(GATE,), orchestrator="slurm", capabilities=("slurm", "infiniband", "multi_node"),
        missing={"kubernetes": "Slurm gives the hosts their work"},
    )  # fmt: skip


def plan(path: Path, site: Site, *states: str, gpus: int = 8) -> Plan:
    text = "".join(
        f"NodeName={host.node_name} Gres=gpu:{gpus}\n   State={state}\n"
        for host, state in zip(site.hosts, states, strict=True)
    )
    context = ObserveContext(site=site, run_dir=path, today=TODAY, hardware=hardware())
    uses = uses_of_hosts(parse(text), site.in_scope, hardware())
    return plan_on_hosts(context, context.settings_of(GATE, FabricValidationSettings), uses, connected=True)


def test_the_checks_of_nccl_and_arithmetic_are_declared_as_jobs_and_those_of_pods_are_not() -> None:
    site = site_of("gpu01", "gpu02")
    found = declare(GATE, site)
    jobs = {check.id for check in found.checks if check.spec.disturbs_at(site) is Disturbance.TEST_JOBS}
    assert jobs == {
        "gpu-gemm-rate", "gpu-numerics", "nccl-all-nodes-bw", "nccl-intra-node-bw", "nccl-pair-bw", "nccl-results",
        "nccl-transport",
    }  # fmt: skip
    assert not [check.id for check in found.checks if "pods" in check.spec.disturbs_at(site).value]
    reasons = {entry.id: entry.reason for entry in found.not_declared}
    assert reasons["job-networking"] == "needs kubernetes: Slurm gives the hosts their work"


def test_who_runs_jobs_holds_the_hosts_and_who_runs_nothing_does_not() -> None:
    site = site_of("gpu01", "gpu02")
    assert disturbs_cluster(declare(GATE, site), site)
    assert not disturbs_cluster(declare(GATE, site), replace(site, capabilities=("multi_node",)))
    assert not disturbs_cluster(declare("telemetry", site), site)


def test_hosts_that_are_not_free_are_closed_with_what_slurm_says(tmp_path: Path) -> None:
    site = site_of("gpu01", "gpu02", "gpu03", "gpu04")
    found = plan(tmp_path, site, "IDLE", "MIXED", "IDLE+RESERVED", "IDLE+DRAIN")
    assert {host.name: host.closed for host in found.hosts} == {
        "h-gpu01": "", "h-gpu02": "node gpu02: jobs run on it (MIXED)", "h-gpu03": "node gpu03: is IDLE+RESERVED",
        "h-gpu04": "node gpu04: is IDLE+DRAIN",
    }  # fmt: skip
    (one,) = plan(tmp_path, site_of("gpu01"), "IDLE", gpus=4).hosts
    assert "Slurm gives out 4 GPUs there" in one.closed


def test_hosts_have_their_adapters_and_no_pod_is_asked_for_any(tmp_path: Path) -> None:
    (host,) = plan(tmp_path, site_of("gpu01"), "IDLE").hosts
    assert not host.closed and len(host.hcas) == host.rdma_offered == hardware()["dgx-h100"].compute_hcas
    facts = {name: sku for name, sku in hardware().items() if sku.fabric in ("efa", "tcpxo")}
    for name, sku in facts.items():
        (host,) = plan(tmp_path, site_of("gpu01", sku=name), "IDLE", gpus=sku.gpus).hosts
        assert host.rdma_offered > 0
        assert (host.closed == "") is (sku.fabric == "efa"), host.closed
    assert {sku.fabric for sku in facts.values()} == {"efa", "tcpxo"}


def test_a_machine_that_does_not_say_its_name_is_no_host_of_a_run(tmp_path: Path) -> None:
    site = site_of("gpu01", "gpu02")
    jobs = NcclJobs(plan(tmp_path, site, "IDLE", "IDLE"), hardware())
    want = Wanted(phase="pair", hosts=("h-gpu01", "h-gpu02"))
    spec = jobs.job("pair-1", want)
    assert spec.nodes == ("gpu01", "gpu02") and spec.env["NCCL_IB_HCA"].startswith("=mlx5_")
    pods = tuple(
        PodResult(name="job 41", node=node, hostname=name, exit_code=0, log="")
        for node, name in (("gpu01", "m1"), ("gpu02", ""))
    )
    result = JobResult(name="pair-1", state="succeeded", reason="", pods=pods, started="", duration_s=1.0)
    assert jobs.record(want, spec, result).hostnames == {"m1": "h-gpu01"}


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        (
            "refused",
            "sbatch: exit code 1: Invalid account or account/partition combination",
            ".slurm_account",
        ),
        ("unschedulable", "job 41 was PENDING (Resources) after 30 s", "scontrol show job"),
        ("preempted", "node gpu02: jobs run on it (MIXED)", "squeue"),
        ("preempted", "job 50 of user 7 waits for gpu01,gpu02", "squeue"),
        ("lost-node", "job 41 is NODE_FAIL (NodeDown)", "scontrol show node"),
        ("image", "slurmstepd: error: pyxis: failed to import docker image: a", "enroot import"),
        ("no-program", "/opt/x is not there on n1", "fabric_validation.program"),
        ("unknown", "job 41 is RUNNING, and Slurm put it back into its queue 1 times", "scontrol show job"),
    ],
)
def test_what_is_to_be_done_about_a_job_is_said_in_commands_of_slurm(state: str, reason: str, words: str) -> None:
    found = launch_problem(state, reason)
    assert found is not None
    cause, text = found
    hint = hint_for(cause, {}, text)
    assert words in hint and "kubectl" not in hint, hint


def test_pods_keep_their_own_hints() -> None:
    for state, words in (("preempted", "run the gate again"), ("unschedulable", "taints"), ("image", "pull secret")):
        cause, text = launch_problem(state, "0/4 nodes are available: pod job-1 is pending") or ("", "")
        assert words in hint_for(cause, {}, text)


def test_closed_hosts_and_leftovers_are_said_in_words_of_slurm(tmp_path: Path) -> None:
    site = site_of("gpu01", "gpu02")
    context = JudgeContext(gate=GATE, site=site, today=TODAY, hardware=hardware())
    answer = Answer.about_host(SPEC, context, "h-gpu01")
    busy = no_capacity(answer, plan(tmp_path, site, "MIXED", "IDLE").hosts[0])
    left = leftovers_of(answer, ("job 41 is still in Slurm: scancel 41",))
    assert busy.status.value == "other" and busy.hint.startswith("scontrol show node gpu01;")
    assert left is not None and "kubectl" not in left.hint and "scancel 41" in left.summary
