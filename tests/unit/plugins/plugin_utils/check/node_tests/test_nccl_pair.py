# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run over two nodes says of each: transport before figure, and a slow one names neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from known_hardware import HARDWARE
from nccl_fleet import Fleet
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Plan, Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_job import NcclJobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.nccl_pair import NcclPair
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.pair_spec import (
    PairRun,
    read_pair_job,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.registry import enabled_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobState, PodResult

ONE, OTHER = NODES = ("gpu01", "gpu02")
DEVICES = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(8))
DIRECT = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
WELL = f"NET/IB : Using {DEVICES} [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\n{DIRECT}"
TCP = "Using network Socket\nNET/Socket : Using [0]eth0:10.0.0.1<0>"


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(NODES, HARDWARE, noise=0.0)


def made(fleet: Fleet, tmp_path: Path, plan: Plan | None = None) -> NcclPair:
    context = ObserveContext(site=fleet.site(), run_dir=tmp_path, today=date(2026, 1, 1), hardware=fleet.hardware)
    test = NcclPair(context)
    test._jobs, test._adapters = NcclJobs(plan or fleet.plan(), fleet.hardware), {}
    return test


def read(
    fleet: Fleet, tmp_path: Path, *, state: JobState = "succeeded", code: int | None = 0,
    change: Callable[[str], str] = lambda log: log,
) -> PairRun:  # fmt: skip
    plan = fleet.plan()
    log = change(fleet.log(Wanted(phase="adapters", hosts=NODES), plan.settings.run.rail_smallest))
    pods = tuple(
        PodResult(
            name=name, node=name, hostname=f"{name}-pod", exit_code=code, log=log if name == ONE else "",
            role="launcher" if name == ONE else "worker",
        )
        for name in NODES
    )  # fmt: skip
    job = JobResult(name="nccl-pair-1", state=state, reason="as the test says", pods=pods, started="", duration_s=9.0)
    return read_pair_job(made(fleet, tmp_path), "c1", (plan.host(ONE), plan.host(OTHER)), job, 100.0)


def words(run: PairRun) -> list[tuple[str, str]]:
    assert [result.node for result in run.results] == list(NODES)
    return [(result.status.value, result.cause) for result in run.results]


def test_both_pass_whose_adapters_carry_what_they_can(fleet: Fleet, tmp_path: Path) -> None:
    run = read(fleet, tmp_path)
    assert run.word == "well" and words(run) == [("passed", ""), ("passed", "")]
    first = run.results[0]
    assert first.figures[0].number == pytest.approx(47.5, rel=0.02) and "NCCL 2.27.7" in first.cohort
    assert first.summary.startswith("gpu01 with gpu02: 47") and "adapters: 8 x 400 Gb/s" in first.summary
    assert list(first.parts) == [f"mlx5_{number}:1" for number in range(8)]


@pytest.mark.parametrize(("part", "bad"), [(0.5, True), (0.8, False)])
def test_a_slow_run_names_neither_of_both(fleet: Fleet, tmp_path: Path, part: float, bad: bool) -> None:
    fleet.nics = {(OTHER, 3): part}
    run = read(fleet, tmp_path)
    assert (run.word, run.bad, run.named) == ("low", bad, "slow-between-nodes")
    assert words(run) == [("other", "slow-pair")] * 2


def test_wrong_values_and_a_crash_are_of_one_of_both(fleet: Fleet, tmp_path: Path) -> None:
    wrong = read(fleet, tmp_path, change=lambda log: log.replace(" 0  10.0", " 5  10.0"))
    assert (wrong.word, wrong.bad, wrong.named) == ("low", True, "wrong-results")
    crashed = read(fleet, tmp_path, state="failed", code=1, change=lambda log: "it fell over")
    assert (crashed.word, crashed.named) == ("low", "run-crashed")
    hung = read(fleet, tmp_path, state="timeout", code=None, change=lambda log: log.partition("# Out of bounds")[0])
    assert (hung.word, hung.named) == ("low", "run-hung")


@pytest.mark.parametrize(
    ("says", "status", "cause"),
    [
        (WELL.replace("/GDRDMA", ""), "failed", "gpudirect-missing"),
        (WELL.replace("[7]mlx5_7:1/IB", ""), "failed", "hca-set-differs"),
        (TCP, "failed", "socket-transport"),
    ],
)
def test_the_node_whose_own_lines_show_a_broken_way_fails_at_once(
    fleet: Fleet, tmp_path: Path, says: str, status: str, cause: str
) -> None:
    fleet.says = {OTHER: says}
    run = read(fleet, tmp_path)
    assert run.word == "told" and words(run) == [("pending", "partner-at-fault"), (status, cause)]


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.partition("# Out of bounds")[0],
        lambda log: "\n".join(line for line in log.splitlines() if "gpu02-pod:1:1" not in line),
        lambda log: log.replace("Group", "Grp"),
        lambda log: "",
    ],
)
def test_what_was_not_seen_of_both_is_no_answer(fleet: Fleet, tmp_path: Path, change: Callable[[str], str]) -> None:
    run = read(fleet, tmp_path, change=change)
    assert run.word == "told" and {status for status, _cause in words(run)} == {"other"}, words(run)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("preempted", "pending"), ("unschedulable", "pending"), ("held", "pending"), ("aborted", "pending"),
        ("image", "other"), ("refused", "other"), ("lost-node", "other"), ("slow-start", "other"),
    ],
)  # fmt: skip
def test_a_job_that_never_ran_says_the_same_of_both(fleet: Fleet, tmp_path: Path, state: JobState, status: str) -> None:
    run = read(fleet, tmp_path, state=state, code=None)
    assert run.word == "told" and {word for word, _cause in words(run)} == {status}


def test_the_job_is_the_one_of_the_gate_over_adapters_alone(fleet: Fleet, tmp_path: Path) -> None:
    test, plan = made(fleet, tmp_path), fleet.plan()
    spec = test.pair_job("nccl-pair-1", (plan.host(ONE), plan.host(OTHER)))
    assert spec.nodes == NODES and spec.ranks == 16 and spec.env["NCCL_TESTS_SPLIT"] == "MOD 8"
    assert (spec.timeout_s, spec.pull_s) == (test.common.timeout_s, test.common.pull_s)
    with pytest.raises(BringupError, match="needs two nodes"):
        test.job("x", plan.host(ONE))


def test_which_nodes_it_is_for(fleet: Fleet, tmp_path: Path) -> None:
    plan = fleet.plan()
    one, other = plan.hosts
    test = made(fleet, tmp_path)
    assert (test.unfit(one), test.unready(one), test.misfit(one, other)) == ("", "", "")
    assert "is a dgx-a100, not a dgx-h100" in test.misfit(one, replace(other, sku="dgx-a100"))
    alone = made(fleet, tmp_path, replace(plan, hosts=(one,)))
    assert "the only dgx-h100" in alone.unfit(one)
    closed = replace(one, closed="no adapter is free")
    assert made(fleet, tmp_path, replace(plan, hosts=(closed, other))).unready(closed) == "no adapter is free"
    unknown = replace(one, hcas=())
    assert "nothing is known" in made(fleet, tmp_path, replace(plan, hosts=(unknown, other))).unready(unknown)


def test_over_slurm_it_is_refused_by_name(tmp_path: Path) -> None:
    settings = {"nccl_pair": {"enabled": True}}
    for orchestrator, refused in (("slurm", True), ("kubernetes", False)):
        site = make_site(("gpu01", "gpu02"), orchestrator=orchestrator, settings=settings)
        context = ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1), hardware=HARDWARE)
        if not refused:
            assert "nccl_pair" in {test.id for test in enabled_tests(context)}
            continue
        with pytest.raises(InputError, match="nccl_pair needs two nodes, and a cycle over Slurm has one node"):
            enabled_tests(context)
        assert [test.id for test in enabled_tests(context, ("nccl_loop",))] == ["nccl_loop"]
