# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of tests in Slurm, followed to their end: commands of a Slurm that does what a test says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import CommandResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import slurm_jobs as module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.slurm_jobs import (
    SlurmCommands,
    SlurmRunner,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.slurm_script import LOG, SlurmWays

ME = os.geteuid()
WAITS = "PENDING Reason=Resources"


class Slurm(SlurmCommands):
    """Job 41 on gpu02; `states` are told one after the other, the last one again and again."""

    def __init__(self, *states: str, after_cancel: str = "CANCELLED", queue: str = "", refused: str = "") -> None:
        super().__init__()
        self.states, self.after_cancel, self.waiting, self.refused = list(states), after_cancel, queue, refused
        self.ran: list[tuple[str, ...]] = []
        self.silent_after = "nothing"
        self.node, self.nodes = "IDLE", list[str]()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def run(self, name: str, *words: str, stdin: str = "") -> CommandResult:
        self.ran.append((name, *words))
        if any(words[0] == self.silent_after for words in self.ran[:-1]):
            return CommandResult((name,), 1, "", "Unable to contact slurm controller", 0.1)
        if name == "sbatch" and self.refused:
            return CommandResult((name,), 1, "", self.refused, 0.1)
        if name == "scancel":
            self.states = [self.after_cancel]
        answers = {"sbatch": "41;cluster\n", "squeue": self.waiting}
        return CommandResult((name,), 0, answers[name] if name in answers else self._scontrol(words), "", 0.1)

    def _scontrol(self, words: tuple[str, ...]) -> str:
        if words[:2] == ("show", "job"):
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            state = state if "Reason=" in state else f"{state} Reason=None"
            return (
                f"JobId=41 JobName=x\n   UserId=me({ME}) GroupId=me(0)\n   JobState={state} Dependency=(null)\n"
                "   Requeue=0 Restarts=0 ExitCode=0:0\n   Partition=main AllocNode:Sid=b:1\n   NodeList=gpu02\n"
                "   Comment=gpufleet.bringup:c1\n"
            )
        if words[:2] == ("show", "hostnames"):
            return words[2].replace(",", "\n")
        state = self.nodes.pop(0) if self.nodes else self.node
        return "".join(f"NodeName={name}\n   Gres=gpu:8\n   State={state}\n" for name in "".join(words[2:3]).split(","))

    @property
    def cancelled(self) -> int:
        return self.ran.count(("scancel", "41"))


@pytest.fixture
def follow(tmp_path: Path) -> Callable[..., JobResult]:
    def follow(
        slurm: Slurm,
        *,
        log: str = "gpufleet.bringup: job 41 ended with 0\n",
        limit_s: float = 60.0,
        placing_s: float = 0.0,
    ) -> JobResult:
        spec = JobSpec(
            name="dl-1", nodes=("gpu02",), gpus_per_node=8, image="i", command=("x",), kind="plain-job",
            files={LOG: log}, schedule_s=placing_s,
        )  # fmt: skip
        results: list[JobResult] = []
        runner = SlurmRunner(slurm, SlurmWays(directory=tmp_path), "c1", sleep=lambda _seconds: None)
        runner.run([spec], Progress(silent), Deadline.after(limit_s), results.append)
        assert not list(tmp_path.iterdir())
        (result,) = results
        return result

    return follow


def test_a_job_is_followed_to_its_end_and_asks_for_its_gpus(follow: Callable[..., JobResult]) -> None:
    slurm = Slurm("CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED")
    result = follow(slurm, log="fine\ngpufleet.bringup: job 41 ended with 0\n")
    assert (result.state, result.pods[0].log, result.pods[0].exit_code) == ("succeeded", "fine\n", 0)
    assert slurm.cancelled == 0 and "--gres=gpu:8" in next(words for words in slurm.ran if words[0] == "sbatch")


def test_a_log_that_says_another_end_than_slurm_is_no_answer(follow: Callable[..., JobResult]) -> None:
    assert follow(Slurm("COMPLETED"), log="gpufleet.bringup: job 41 ended with 1\n").state == "unknown"
    assert follow(Slurm("FAILED"), log="gpufleet.bringup: job 41 ended with 0\n").state == "unknown"


@pytest.mark.parametrize("log", ["", "fine\n", "gpufleet.bringup: job 40 ended with 0\n"])
def test_a_log_that_does_not_come_whole_is_no_answer(
    follow: Callable[..., JobResult], log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOG_S", 0.01)
    result = follow(Slurm("COMPLETED"), log=log)
    assert result.state == "unknown" and "is not whole" in result.reason


def test_a_job_without_a_node_is_taken_back(follow: Callable[..., JobResult], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job._PLACE_ONE_S", 0.0)
    slurm = Slurm(WAITS)
    result = follow(slurm)
    assert (result.state, slurm.cancelled > 0) == ("unschedulable", True) and "Resources" in result.reason


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("50|7|PENDING|Resources|main|gpu02||x", "preempted"),
        ("50|7|PENDING|Priority|big||gpu01,gpu02|x", "preempted"),
        ("50|7|PENDING|Resources|main,big|||x", "preempted"),
        ("50|7|PENDING|Priority|main|||x", "succeeded"),
        ("50|7|PENDING|Resources|other|||x", "succeeded"),
        ("50|7|PENDING|Resources|main|gpu03||x", "succeeded"),
        ("50|7|PENDING|Dependency|main|gpu02||x", "succeeded"),
        ("50|7|RUNNING|Resources|main|gpu02||x", "succeeded"),
        ("50|7|PENDING|Resources|main|gpu02||gpufleet.bringup:other", "succeeded"),
    ],
)  # fmt: skip
def test_a_node_is_given_back_to_users_who_wait_for_it(follow: Callable[..., JobResult], line: str, state: str) -> None:
    slurm = Slurm("RUNNING", "RUNNING", "RUNNING", "COMPLETED", queue=line)
    assert follow(slurm).state == state
    assert bool(slurm.cancelled) is (state == "preempted")


def test_which_nodes_a_waiting_job_asks_for_is_read_once(follow: Callable[..., JobResult]) -> None:
    slurm = Slurm("RUNNING", "RUNNING", "RUNNING", "COMPLETED", queue="50|7|PENDING|Resources|main|gpu03||x")
    follow(slurm)
    assert slurm.ran.count(("scontrol", "show", "hostnames", "gpu03")) == 1


@pytest.mark.parametrize("state", ["SUSPENDED", "REQUEUE_HOLD", "A_STATE_OF_TOMORROW"])
def test_a_job_in_a_state_that_says_nothing_does_not_keep_its_node(
    follow: Callable[..., JobResult], state: str
) -> None:
    slurm = Slurm("RUNNING", state)
    assert follow(slurm).state == ("preempted" if state == "SUSPENDED" else "unknown") and slurm.cancelled


def test_the_end_of_the_cycle_takes_all_back(follow: Callable[..., JobResult]) -> None:
    slurm = Slurm("RUNNING")
    assert follow(slurm, limit_s=0.5).state == "aborted" and slurm.cancelled


def test_a_job_that_ended_before_it_was_cancelled_counts(follow: Callable[..., JobResult]) -> None:
    assert follow(Slurm("RUNNING", after_cancel="COMPLETED"), limit_s=0.5).state == "succeeded"


def test_what_sbatch_refuses_is_told_in_its_words(follow: Callable[..., JobResult]) -> None:
    result = follow(Slurm("x", refused="Invalid account"))
    assert result.state == "refused" and "Invalid account" in result.reason


def test_a_slurm_that_is_silent_for_long_ends_the_cycle(
    follow: Callable[..., JobResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    slurm = Slurm("RUNNING")
    slurm.silent_after = "sbatch"
    with pytest.raises(UnavailableError, match="Unable to contact"):
        follow(slurm)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"41|{ME}|RUNNING|None|main|||gpufleet.bringup:c1", True),
        (f"41|{ME + 1}|RUNNING|None|main|||gpufleet.bringup:c1", False),
        (f"41|{ME}|RUNNING|None|main|||gpufleet.bringup:c10", False),
        (f"41|{ME}|RUNNING|None|main|||", False),
    ],
)
def test_only_our_own_jobs_of_these_cycles_are_cancelled(line: str, left: bool) -> None:
    slurm = Slurm("RUNNING", queue=line)
    remains = slurm.remove(["c1"], limit_s=0.0)
    assert bool(remains) is bool(slurm.cancelled) is left


def test_a_job_that_only_looks_like_ours_in_the_list_is_left_alone() -> None:
    slurm = Slurm("RUNNING", queue=f"41|{ME}|RUNNING|None|main|||gpufleet.bringup:c2")
    with pytest.raises(BringupError):
        slurm.job("42")
    assert slurm.remove(["c2"], limit_s=0.0) and not slurm.cancelled


def test_nodes_that_others_have_are_left_to_them(follow: Callable[..., JobResult]) -> None:
    for state, ending in (("MIXED", "preempted"), ("ALLOCATED", "preempted"), ("IDLE+DRAIN", "unschedulable")):
        slurm = Slurm("RUNNING")
        slurm.node = state
        result = follow(slurm)
        assert result.state == ending and state in result.reason, result
        assert "sbatch" not in {words[0] for words in slurm.ran}


def test_nodes_on_their_way_out_of_a_job_are_waited_for(follow: Callable[..., JobResult]) -> None:
    slurm = Slurm("RUNNING", "COMPLETED")
    slurm.nodes = ["IDLE+COMPLETING", "IDLE+COMPLETING"]
    assert follow(slurm, placing_s=60.0).state == "succeeded"
    slurm = Slurm("RUNNING", "COMPLETED")
    slurm.node = "IDLE+COMPLETING"
    assert follow(slurm).state == "unschedulable"


def test_a_job_that_did_not_find_its_program_says_nothing(follow: Callable[..., JobResult]) -> None:
    log = "gpufleet: n1 has no mpirun\ngpufleet.bringup: job 41 ended with {}\n"
    assert follow(Slurm("FAILED"), log=log.format(127)).state == "no-program"
    assert follow(Slurm("COMPLETED"), log=log.format(0)).state == "succeeded"


def jobs_of(*nodes: tuple[str, ...]) -> list[JobSpec]:
    return [
        JobSpec(name=f"pair-{number}", nodes=names, gpus_per_node=8, image="i", command=("x",), files={LOG: ""})
        for number, names in enumerate(nodes, 1)
    ]


class Many(Slurm):
    """Jobs with numbers of their own on the nodes that they ask for; each is seen running `looks` times."""

    def __init__(self, directory: Path, looks: int = 2) -> None:
        super().__init__("RUNNING")
        self.directory, self.looks, self.most = directory, looks, 0
        self.jobs: dict[str, tuple[str, int]] = {}
        self.shared: list[str] = []

    def run(self, name: str, *words: str, stdin: str = "") -> CommandResult:
        if name != "sbatch":
            return super().run(name, *words, stdin=stdin)
        number = str(41 + len(self.jobs))
        (nodes,) = [word.partition("=")[2] for word in words if word.startswith("--nodelist=")]
        going = [held for held, left in self.jobs.values() if left > 0]
        self.most = max(self.most, len(going) + 1)
        self.shared += [node for held in going for node in set(held.split(",")) & set(nodes.split(","))]
        self.jobs[number] = (nodes, self.looks)
        (path,) = [word.partition("=")[2] for word in words if word.startswith("--output=")]
        machines = "".join(f"gpufleet.bringup: job {number} has {node} as m-{node}\n" for node in nodes.split(","))
        Path(path).write_text(f"{machines}gpufleet.bringup: job {number} ended with 0\n")
        return CommandResult((name,), 0, f"{number}\n", "", 0.1)

    def _scontrol(self, words: tuple[str, ...]) -> str:
        if words[:2] != ("show", "job"):
            return super()._scontrol(words)
        nodes, left = self.jobs[words[2]]
        self.jobs[words[2]] = (nodes, left - 1)
        text = (
            super()
            ._scontrol(words)
            .replace("JobId=41", f"JobId={words[2]}")
            .replace("NodeList=gpu02", f"NodeList={nodes}")
        )
        return text.replace("RUNNING", "COMPLETED") if left <= 0 else text


@pytest.mark.parametrize(("parallel", "most"), [(0, 2), (1, 1)])
def test_jobs_that_share_a_node_run_one_after_the_other(tmp_path: Path, parallel: int, most: int) -> None:
    slurm = Many(tmp_path)
    specs = jobs_of(("gpu01", "gpu02"), ("gpu02", "gpu03"), ("gpu03", "gpu04"), ("gpu04", "gpu01"))
    results: list[JobResult] = []
    runner = SlurmRunner(slurm, SlurmWays(directory=tmp_path), "r1", sleep=lambda _seconds: None)
    runner.run(specs, Progress(silent), Deadline.after(60.0), results.append, parallel)
    assert {result.name: result.state for result in results} == dict.fromkeys(
        (spec.name for spec in specs), "succeeded"
    )
    assert slurm.most == most and not slurm.shared
    (first,) = [result for result in results if result.name == "pair-1"]
    assert [(pod.node, pod.hostname, pod.role) for pod in first.pods] == [
        ("gpu01", "m-gpu01", "launcher"), ("gpu02", "m-gpu02", "worker"),
    ]  # fmt: skip
    assert first.nodes == ("gpu01", "gpu02") and first.exit_code == 0


def test_what_did_not_begin_in_time_is_aborted(tmp_path: Path) -> None:
    slurm, results = Many(tmp_path, looks=10**9), list[JobResult]()
    runner = SlurmRunner(slurm, SlurmWays(directory=tmp_path), "r1", sleep=lambda _seconds: None)
    runner.run(jobs_of(("gpu01",), ("gpu01", "gpu02")), Progress(silent), Deadline.after(0.5), results.append)
    assert {result.name: result.state for result in results} == {"pair-1": "aborted", "pair-2": "aborted"}
    assert len(slurm.jobs) == 1
