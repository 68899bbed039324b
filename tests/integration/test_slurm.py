# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Slurm with four nodes: which of them are free, in every state that it has, and drains of ours."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dl_unit_lines import lines_of, text_of
from service_rows import SITE, cycle, node_result
from simulated_training import hardware
from sites import make_site
from slurm import NODES, Slurm

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.app import run_cycle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import NodeLogs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.plan import fleet_plan, uses_in_slurm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.service import (
    ContinuousService,
    CycleEnd,
    after_cycle,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.remediation.app import RemediationPolicy
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.slurm import SlurmLimits, SlurmNodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import AbortedError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import slurm_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import slurm_jobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_use import NodeUse, Use

HOSTS = tuple(Host(name=node, sku="dgx-h100", node_name=node) for node in NODES)
NOW, DAY = 1793440800.0, 86400.0
BAD = "gpu03"
USER = getpass.getuser()
FREE = dict.fromkeys(NODES, "")


@pytest.fixture
def slurm(server: Slurm) -> Iterator[Slurm]:
    """Slurm with four idle nodes, and again after the test."""
    yield server
    server.free_all()


def uses(slurm: Slurm) -> dict[str, NodeUse]:
    return uses_in_slurm(slurm.scontrol, make_site(HOSTS, orchestrator="slurm"), hardware())


def why(slurm: Slurm) -> dict[str, str]:
    """Return why nodes are not free, empty for those that are."""
    found = uses(slurm)
    assert all(use.free == (not use.why) for use in found.values())
    return {name: use.why for name, use in found.items()}


def sleeping_job(slurm: Slurm, *words: str) -> str:
    return slurm.run("sbatch", "--parsable", "-o", "/dev/null", *words, "--wrap=sleep 300").strip()


def drained(slurm: Slurm) -> dict[str, str]:
    slurm.update("gpu02", "state=drain", "reason=bad fan")
    assert "gpu02" in slurm.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()
    return {"gpu02": f"is IDLE+DRAIN by {USER}: bad fan"}


def down(slurm: Slurm) -> dict[str, str]:
    slurm.update("gpu02", "state=down", "reason=board swap")
    return {"gpu02": f"is DOWN by {USER}: board swap"}


def failing(slurm: Slurm) -> dict[str, str]:
    slurm.update("gpu02", "state=fail", "reason=leaks")
    return {"gpu02": f"is IDLE+FAIL by {USER}: leaks"}


def reserved(slurm: Slurm) -> dict[str, str]:
    words = ("starttime=now", "duration=10", f"users={USER}", "nodes=gpu02")
    slurm.run("scontrol", "create", "reservation", "reservationname=visitors", *words)
    return {"gpu02": "is IDLE+RESERVED"}


def in_maintenance(slurm: Slurm) -> dict[str, str]:
    words = ("starttime=now", "duration=10", f"users={USER}", "flags=maint,ignore_jobs", "nodes=gpu02")
    slurm.run("scontrol", "create", "reservation", "reservationname=upkeep", *words)
    return {"gpu02": "is IDLE+MAINTENANCE+RESERVED"}


def with_a_job(slurm: Slurm) -> dict[str, str]:
    sleeping_job(slurm, "-w", "gpu02", "--exclusive")
    sleeping_job(slurm, "-w", "gpu03", "-n1")
    return {"gpu02": "jobs run on it (ALLOCATED)", "gpu03": "jobs run on it (MIXED)"}


def draining_with_a_job(slurm: Slurm) -> dict[str, str]:
    sleeping_job(slurm, "-w", "gpu02", "--exclusive")
    slurm.wait_state(gpu02="ALLOCATED")
    slurm.update("gpu02", "state=drain", "reason=bad fan")
    return {"gpu02": f"is ALLOCATED+DRAIN by {USER}: bad fan"}


def planned(slurm: Slurm) -> dict[str, str]:
    sleeping_job(slurm, "-w", "gpu02", "--exclusive", "-t", "5")
    slurm.wait_state(gpu02="ALLOCATED")
    sleeping_job(slurm, "-N4", "--exclusive", "-t", "5")
    waits = dict.fromkeys(("gpu01", "gpu03", "gpu04"), "is IDLE+PLANNED")
    return {"gpu02": "jobs run on it (ALLOCATED)", **waits}


def silent_node(slurm: Slurm) -> dict[str, str]:
    slurm.stop_node("gpu04")
    # What the controller says by itself once it has asked in vain for SlurmdTimeout.
    slurm.update("gpu04", "state=noresp")
    return {"gpu04": "is IDLE+NOT_RESPONDING"}


def powered_down(slurm: Slurm) -> dict[str, str]:
    slurm.update("gpu04", "state=power_down_force")
    slurm.stop_node("gpu04")
    return {"gpu04": "is IDLE+POWERED_DOWN"}


@pytest.mark.parametrize(
    "happens",
    [
        drained, down, failing, reserved, in_maintenance, with_a_job, draining_with_a_job, planned, silent_node,
        powered_down,
    ],
)  # fmt: skip
def test_a_node_is_free_only_while_it_is_idle(slurm: Slurm, happens: Callable[[Slurm], dict[str, str]]) -> None:
    assert why(slurm) == FREE
    expected = FREE | happens(slurm)
    slurm.wait(f"the plan says {expected}, and says {why(slurm)}", lambda: why(slurm) == expected)
    # JSON of this release, which sinfo alone has, shows the same flags.
    seen = slurm_nodes.parse(slurm.run("scontrol", "show", "nodes"))
    listed = slurm_nodes.parse_json(slurm.run("sinfo", "--json"))
    assert {node.name: node.free for node in listed} == {node.name: node.free for node in seen}
    slurm.free_all()
    assert why(slurm) == FREE


def test_the_plan_of_a_batch_names_the_reason_of_every_node(slurm: Slurm, tmp_path: Path) -> None:
    slurm.update("gpu01", "state=drain", "reason=bad fan")
    sleeping_job(slurm, "-w", "gpu02", "--exclusive")
    slurm.wait_state(gpu02="ALLOCATED")
    run = Run(tmp_path / "run")
    run.path.mkdir()
    run.save_site(make_site(HOSTS, gates=("nodes",), orchestrator="slurm"))
    run.save_hardware({})
    run.save_record(new_run("r1", "lab", "2026-11-23T08:00:00Z", ("nodes",), rehearsal=False))
    options = {"store": None, "tests": ["dl_unit"], "scontrol": slurm.scontrol}
    found = fleet_plan(run, options, silent, NOW)
    assert [position.node for position in found.plan.batch] == ["gpu03", "gpu04"] and found.busy == ("gpu02",)
    assert found.plan.not_free == {
        "gpu01": f"is IDLE+DRAIN by {USER}: bad fan", "gpu02": "jobs run on it (ALLOCATED)",
    }  # fmt: skip


class Fleet:
    """The four nodes in service, one cycle a day; `tested` adds results of a cycle and ends it."""

    def __init__(self, slurm: Slurm, path: Path, **policy: Any) -> None:
        self.slurm, self.path, self.day = slurm, path, 0
        self.policy = RemediationPolicy(acts=("slurm_drain",), scontrol=slurm.scontrol, **policy)
        self.store: ServiceStore = open_service(path / "history.sqlite")

    def tested(self, *bad: str, alike: bool = True) -> CycleEnd:
        """End a cycle that found these nodes bad; `alike`: all nodes are of one cohort."""
        self.day += 1
        ours, now_s = cycle(f"c{self.day}", day=self.day), NOW + self.day * DAY
        self.store.begin_cycle(ours)
        for index, node in enumerate(NODES):
            wrong = {"status": Status.FAILED, "cause": "wrong-results", "summary": "7 wrong"} if node in bad else {}
            figure = Figure(name="gemm_bf16", number=600 + index % 3, unit="TFLOP/s", part="GPU-a")
            known: dict[str, Any] = {"started_s": now_s - 3600, "digests": {}, "figures": (figure,)}
            known |= {} if alike else {"cohort": node}
            self.store.add_result(node_result(ours.cycle_id, node, **(known | wrong)))
        service = ContinuousService(
            nodes={node: node for node in NODES}, tests=("dl",), directory=self.path / "report", policy=self.policy
        )
        return after_cycle(self.store, ours, service, now_s=now_s)

    def out(self) -> set[str]:
        return set(self.store.open_cordons(SITE, rehearsal=False))


def test_a_bad_node_is_drained_by_our_reason_and_resumed_only_after_it_passed(slurm: Slurm, tmp_path: Path) -> None:
    service = Fleet(slurm, tmp_path, breaker_percent=25)
    job = sleeping_job(slurm, "-w", BAD, "--exclusive")
    slurm.wait_state(**{BAD: "ALLOCATED"})
    assert service.tested(BAD).actions == (f"{BAD}: was taken out of service",)
    (told,) = [node for node in slurm_nodes.parse(slurm.run("scontrol", "show", "nodes")) if node.name == BAD]
    assert told.reason.startswith("gpufleet.bringup:continuous-validation held: dl: wrong-results")
    assert told.state == "ALLOCATED+DRAIN" and service.out() == {BAD}
    # The job of the user goes on to its end.
    assert slurm.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    slurm.run("scancel", job)
    slurm.wait_state(**{BAD: "IDLE+DRAIN"})
    assert uses(slurm)[BAD].use is Use.OURS
    for _day in range(2):
        service.tested()
        assert slurm.states()[BAD] == "IDLE+DRAIN"
    assert f"{BAD}: was given back" in service.tested().actions
    # Slurm asks a resumed node first whether it answers.
    slurm.wait_state(**dict.fromkeys(NODES, "IDLE"))
    assert not service.out() and why(slurm) == FREE


def test_what_an_operator_drained_is_neither_taken_over_nor_resumed(slurm: Slurm, tmp_path: Path) -> None:
    service = Fleet(slurm, tmp_path, breaker_percent=25)
    slurm.update(BAD, "state=drain", "reason=cooling")
    slurm.update("gpu01", "state=drain", "reason=gpufleet.bringup:driver-roll held: other")
    assert f"was not taken out of service: is IDLE+DRAIN by {USER}: cooling" in service.tested(BAD).actions[0]
    for _day in range(4):
        service.tested()
    seen = {node.name: (node.state, node.reason) for node in slurm_nodes.parse(slurm.run("scontrol", "show", "nodes"))}
    assert seen[BAD] == ("IDLE+DRAIN", "cooling")
    assert seen["gpu01"] == ("IDLE+DRAIN", "gpufleet.bringup:driver-roll held: other") and not service.out()


def test_an_operator_who_takes_a_drain_over_keeps_it(slurm: Slurm, tmp_path: Path) -> None:
    service = Fleet(slurm, tmp_path, breaker_percent=25)
    service.tested(BAD)
    slurm.update(BAD, "reason=RMA 4711")
    for _day in range(4):
        service.tested()
    assert slurm.states()[BAD] == "IDLE+DRAIN" and why(slurm)[BAD] == f"is IDLE+DRAIN by {USER}: RMA 4711"


def test_the_breaker_holds_while_too_many_are_bad(slurm: Slurm, tmp_path: Path) -> None:
    service = Fleet(slurm, tmp_path, breaker_percent=25)
    service.tested(BAD)
    end = service.tested(BAD, "gpu01", alike=False)
    assert "the breaker holds" in end.stopped
    assert slurm.states() == dict.fromkeys(NODES, "IDLE") | {BAD: "IDLE+DRAIN"}
    hands = SlurmNodes("continuous-validation", {node: node for node in NODES}, SlurmLimits(scontrol=slurm.scontrol))
    assert hands.ours(NODES) == {BAD}


class Cycles:
    """Cycles over the four nodes; what stands for the test's program does on each node what `does` says of it."""

    def __init__(self, slurm: Slurm, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slurm, self.path, self.number = slurm, path, 0
        self.does = dict.fromkeys(NODES, "cat fine")
        self.store = open_service(path / "history.sqlite")
        bad = [
            {**line, "wrong": 3} if line.get("op") == "exact-bf16" and line["slot"] == 5 else line
            for line in lines_of(8)
        ]
        (path / "fine").write_text(text_of(lines_of(8)))
        (path / "wrong").write_text(text_of(bad))
        (path / "bin").mkdir()
        (path / "bin/python3").write_text(f'#!/bin/sh\nlog=$PWD/job.log\ncd {path} && . "./$SLURMD_NODENAME"\n')
        (path / "bin/python3").chmod(0o755)
        monkeypatch.setenv("PATH", f"{path / 'bin'}:{slurm.bin}:{os.environ['PATH']}")

    def run(self, *, policy: dict[str, Any] | None = None, **settings: Any) -> dict[str, tuple[str, str]]:
        """Run a cycle, and return status and cause of its results by node."""
        for node, text in self.does.items():
            (self.path / node).write_text(f"{text}\n")
        self.number += 1
        run = Run(self.path / f"r{self.number}")
        run.path.mkdir()
        stated = {
            "slurm_dir": str(self.path / "shared"),
            "slurm_containers": "none",
            "per_rack": 0,
            "tries": 1,
            **settings,
        }
        run.save_site(make_site(HOSTS, gates=("nodes",), orchestrator="slurm", settings={"continuous": stated}))
        run.save_hardware(hardware())
        run.save_record(new_run(run.path.name, "lab", "2026-11-23T08:00:00Z", ("nodes",), rehearsal=False))
        options = {
            "store": str(self.path / "history.sqlite"), "log_dir": str(self.path / "logs"), "tests": ["dl_unit"],
            "number": 1, "passive": False, "policy": policy or {}, "scontrol": self.slurm.scontrol,
        }  # fmt: skip
        self.done = run_cycle(run, options, print)
        assert not self.store.leases("lab", rehearsal=False) and not list((self.path / "shared").iterdir())
        return {node: (found.status.value, found.cause) for (node, _test), found in self.done.log.results.items()}


@pytest.fixture
def cycles(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cycles:
    return Cycles(slurm, tmp_path, monkeypatch)


def test_a_cycle_tests_free_nodes_and_gives_them_back_to_users(slurm: Slurm, cycles: Cycles) -> None:
    users = sleeping_job(slurm, "-w", "gpu03", "-n1")
    slurm.wait_state(gpu03="MIXED")
    cycles.does |= {
        "gpu02": "cat wrong; exit 1",
        "gpu04": "sbatch -w gpu04 --exclusive -o /dev/null --wrap='sleep 300'; sleep 60",
    }
    policy = {"acts": ["slurm_drain"], "scontrol": slurm.scontrol, "breaker_percent": 50}
    assert cycles.run(policy=policy) == {
        "gpu01": ("passed", ""), "gpu02": ("failed", "arithmetic-wrong"), "gpu04": ("pending", "launch-preempted"),
    }  # fmt: skip
    kept = {result.node: result for result in cycles.store.results("lab", rehearsal=False, since_s=0.0)}
    assert "gpu5 got 3 rows" in kept["gpu02"].summary and "waits for gpu04" in kept["gpu04"].summary
    assert NodeLogs(cycles.path / "logs").read(kept["gpu01"].log) == text_of(lines_of(8))
    assert cycles.done.actions == ("gpu02: was taken out of service",)
    slurm.wait_state(gpu02="IDLE+DRAIN", gpu03="MIXED", gpu04="ALLOCATED")
    assert users in slurm.run("squeue", "-h", "-o", "%A").split()


def test_only_a_job_that_came_to_its_end_says_something(cycles: Cycles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_jobs, "_LOG_S", 4.0)
    cycles.does = {
        "gpu01": "scontrol update nodename=gpu01 state=down reason=pulled; sleep 60",
        "gpu02": "cat fine; scancel $SLURM_JOB_ID; sleep 60",
        "gpu03": 'cat fine; rm "$log"',
        "gpu04": "cat fine; kill -9 $PPID",
    }
    assert cycles.run() == {
        "gpu01": ("other", "launch-lost-node"), "gpu02": ("pending", "launch-preempted"),
        "gpu03": ("other", "launch-unknown"), "gpu04": ("other", "launch-unknown"),
    }  # fmt: skip


def test_jobs_of_our_dead_cycles_are_cancelled_and_no_others(slurm: Slurm, cycles: Cycles) -> None:
    here = socket.gethostname()
    jobs = {}
    for node, name, controller in (("gpu01", "r0", here), ("gpu02", "r7", here), ("gpu03", "r8", "elsewhere")):
        dead = replace(cycle(f"{name}-cycle-001"), site="lab", controller=controller, ended="")
        cycles.store.begin_cycle(dead)
        jobs[node] = sleeping_job(slurm, "-w", node, "--exclusive", f"--comment=gpufleet.bringup:{dead.cycle_id}")
    for name in ("r0", "r8"):
        # The run of r7 lies elsewhere: whether it is dead is not known.
        (cycles.path / name).mkdir()
    slurm.wait_state(gpu01="ALLOCATED", gpu02="ALLOCATED", gpu03="ALLOCATED")
    assert cycles.run() == {"gpu01": ("passed", ""), "gpu04": ("passed", "")}
    assert set(slurm.run("squeue", "-h", "-o", "%A").split()) == {jobs["gpu02"], jobs["gpu03"]}


def test_a_cycle_that_is_asked_to_end_leaves_no_job(slurm: Slurm, cycles: Cycles) -> None:
    cycles.does["gpu04"] = f"kill {os.getpid()}; sleep 60"
    with pytest.raises(AbortedError):
        cycles.run()
    found = {result.node: result.status.value for result in cycles.store.results("lab", rehearsal=False, since_s=0.0)}
    assert found["gpu04"] == "pending" and not cycles.store.leases("lab", rehearsal=False)
    assert not slurm.run("squeue", "-h").strip() and not list((cycles.path / "shared").iterdir())
