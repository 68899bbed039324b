# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric_validation over Debian's Slurm with four nodes: nccl-tests as jobs, on each, on pairs and on all."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from simulated_training import hardware
from sites import make_site
from slurm import NODES, Slurm
from slurm_nccl import SKU, SMALLEST, NcclPrograms

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.slurm import SlurmPlace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nccl_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

DRAWN = pytest.mark.drawn(2, of="gate 6 over a real Slurm")
GATE = "fabric_validation"
TODAY = date(2026, 1, 1)


class Gate:
    """The gate over these nodes; `found` observes, judges what was saved, and returns what is not passed."""

    def __init__(self, slurm: Slurm, path: Path, programs: NcclPrograms) -> None:
        self.slurm, self.programs = slurm, programs
        self.run_dir = path / "runs" / "r1"
        self.run_dir.mkdir(parents=True)
        self.shared = path / "shared"

    def site(self, nodes: tuple[str, ...], **stated: Any) -> Site:
        continuous = {"slurm_dir": str(self.shared), "slurm_containers": "none", **stated.pop("continuous", {})}
        run = {"program": self.programs.program, "smallest": SMALLEST, "schedule_s": 20, "cleanup_s": 30, **stated}
        hosts = tuple(Host(name=f"host-{name}", sku=SKU, node_name=name) for name in nodes)
        words = ("slurm", "roce", *(("multi_node",) if len(nodes) > 1 else ()))
        return make_site(
            hosts, gates=(GATE,), orchestrator="slurm", capabilities=words, missing={"kubernetes": "Slurm"},
            settings={"continuous": continuous, GATE: run},
        )  # fmt: skip

    def seeing(self, site: Site, holder: str = "") -> ObserveContext:
        return ObserveContext(
            site=site, run_dir=self.run_dir, today=TODAY, hardware=hardware(), holder=holder,
            connections={"scontrol": self.slurm.scontrol}, emit=print,
        )  # fmt: skip

    def outcomes(self, site: Site, keys: tuple[str, ...] = ("nccl",), holder: str = "") -> tuple[Outcome, ...]:
        """Observe, and judge what was saved."""
        facts, seeing = hardware(), self.seeing(site, holder)
        judging = JudgeContext(gate=GATE, site=site, today=TODAY, hardware=facts)
        declared = {check.id for check in declare(GATE, site).checks}
        found: list[Outcome] = []
        checks = [check for check in checks_of(GATE, site) if check.spec.id in declared]
        for key in keys:
            mine = [check for check in checks if check.observer.key == key]
            seen = observe(mine[0].observer, GATE, seeing)
            assert seen.error is None, seen.error
            restored = mine[0].observer.restore(seen.data, self.run_dir, site)
            found += [outcome for check in mine for outcome in check.judge(restored, judging)]
        assert not (self.shared / "r1").exists() and not self.ours()
        return tuple(found)

    def found(self, site: Site, **more: Any) -> dict[str, set[tuple[str, str, str]]]:
        """Return by host what is not passed: check, status and cause."""
        words: dict[str, set[tuple[str, str, str]]] = {}
        for outcome in self.outcomes(site, **more):
            for subject in outcome.subjects:
                if outcome.status is not Status.PASSED:
                    words.setdefault(subject.name, set()).add((outcome.check, outcome.status.value, outcome.cause))
        return words

    def ours(self) -> list[str]:
        """Return the jobs of ours that Slurm has."""
        lines = self.slurm.run("squeue", "-h", "-o", "%A %k").splitlines()
        return [line for line in lines if "gpufleet.bringup:r" in line]


@pytest.fixture
def gate(server: Slurm, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    server.free_all()
    programs = NcclPrograms(tmp_path, shared, hardware(), server.bin)
    monkeypatch.setenv("PATH", programs.path)
    yield Gate(server, tmp_path, programs)
    server.free_all()


def test_a_fleet_that_is_well_passes_by_jobs_on_each_host_on_pairs_and_on_all(gate: Gate) -> None:
    site = gate.site(NODES)
    outcomes = gate.outcomes(site, ("nccl", "dl_unit"))
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}, [
        (o.check, o.cause, o.summary) for o in outcomes
    ]
    assert {outcome.check for outcome in outcomes} == {
        "gpu-gemm-rate", "gpu-numerics", "nccl-all-nodes-bw", "nccl-intra-node-bw", "nccl-pair-bw", "nccl-results",
        "nccl-transport",
    }  # fmt: skip
    ranks = Counter(line.partition(" -np ")[2].partition(" ")[0] for line in gate.programs.began())
    assert ranks == {"8": 4, "16": 4, "32": 1}
    # The runs of pairs have the figure of the capture.
    logs = sorted((gate.run_dir / "evidence" / GATE).glob("pair-*.log"))
    found = {nccl_tests.parse(path.read_text()).largest.busbw_gbps for path in logs}
    assert len(logs) == 2 and found == {471.22}, found


@DRAWN
def test_ranks_that_srun_starts_by_its_own_plugin(gate: Gate) -> None:
    site = gate.site(NODES[:2], continuous={"slurm_mpi": "pmi2"})
    assert gate.found(site) == {}
    assert not gate.programs.began()
    found = gate.found(gate.site(NODES[:1], continuous={"slurm_mpi": "dreamed"}))
    assert found["host-gpu01"] >= {("nccl-results", "other", "launch-no-program")}


def users_job(slurm: Slurm, *words: str) -> str:
    return slurm.run("sbatch", "--parsable", "-o", "/dev/null", "-t", "10", *words, "--wrap=sleep 300").strip()


# What happens on gpu01 while its ranks run; `$job` is their job.
WHILE_IT_RUNS = {
    "scancel $job; sleep 60": ("launch-preempted", "is CANCELLED"),
    "scontrol update jobid=$job requeue=1; scontrol requeue $job; sleep 60": ("launch-unknown", "its queue 1 times"),
    "scontrol update nodename=gpu01 state=down reason=pulled; sleep 60": ("launch-lost-node", "NODE_FAIL"),
    "sbatch -w gpu01 --exclusive -o /dev/null --wrap='sleep 300'; sleep 60": (
        "launch-preempted",
        "waits for gpu01",
    ),
    "exit 3": ("run-crashed", "exit code 3"),
}


@DRAWN
@pytest.mark.parametrize("happens", WHILE_IT_RUNS)
def test_a_job_that_does_not_come_to_its_end_is_no_answer(gate: Gate, happens: str) -> None:
    cause, words = WHILE_IT_RUNS[happens]
    gate.programs.does("gpu01", f"job=$(squeue -h -w gpu01 -t RUNNING -o %A)\n{happens}")
    outcomes = gate.outcomes(gate.site(NODES[:1]))
    (first,) = [outcome for outcome in outcomes if outcome.check == "nccl-results"]
    assert (first.status, first.cause) == (Status.OTHER, cause) and words in first.summary, first
    assert {outcome.status for outcome in outcomes} == {Status.OTHER}
    left = gate.slurm.run("squeue", "-h", "-o", "%u %T").split()
    assert left == ([getpass.getuser(), "RUNNING"] if "sbatch" in happens else [])


@DRAWN
def test_what_slurm_does_not_take_and_hosts_that_others_have(gate: Gate) -> None:
    slurm = gate.slurm
    refused = gate.found(gate.site(NODES[:1], continuous={"slurm_partition": "nowhere"}))
    assert ("nccl-results", "other", "launch-refused") in refused["host-gpu01"]
    absent = gate.found(gate.site(NODES[:1], program="/nowhere/all_reduce_perf"))
    assert ("nccl-results", "other", "launch-no-program") in absent["host-gpu01"]
    words = ("starttime=now", "duration=10", f"users={getpass.getuser()}", "nodes=gpu02")
    slurm.run("scontrol", "create", "reservation", "reservationname=visitors", *words)
    theirs = users_job(slurm, "-w", "gpu03", "-n1")
    slurm.wait_state(gpu02="IDLE+RESERVED", gpu03="MIXED")
    found = gate.found(gate.site(("gpu02", "gpu03", "gpu04")))
    for host in ("host-gpu02", "host-gpu03"):
        assert ("nccl-results", "other", "no-capacity") in found[host], found
    assert all(status == "other" for entries in found.values() for _check, status, _cause in entries)
    assert not [entry for entry in found["host-gpu04"] if entry[0] == "nccl-results"]
    assert slurm.run("squeue", "-h", "-o", "%A %T").split() == [theirs, "RUNNING"]
    assert gate.found(gate.site(("gpu02",), continuous={"slurm_reservation": "visitors"})) == {}


def test_what_a_killed_run_left_is_cancelled_by_the_next_and_nothing_else(gate: Gate) -> None:
    slurm, jobs = gate.slurm, {}
    for node, run in zip(NODES, ("r1", "r0", "r7", ""), strict=True):
        comment = (f"--comment=gpufleet.bringup:{run}",) if run else ()
        jobs[run] = users_job(slurm, "-w", node, "-n1", *comment)
    (gate.run_dir.parent / "r0").mkdir()
    slurm.wait_state(**dict.fromkeys(NODES, "MIXED"))
    place = SlurmPlace.of(gate.seeing(gate.site(NODES), holder="here_r1"), 60.0)
    place.sweep()
    slurm.wait_state(gpu01="IDLE", gpu02="IDLE")
    assert not place.leftovers
    # The run of r7 is not beside this one: whether it is dead is not known.
    assert set(slurm.run("squeue", "-h", "-o", "%A").split()) == {jobs["r7"], jobs[""]}
    slurm.run("scancel", jobs["r7"])
