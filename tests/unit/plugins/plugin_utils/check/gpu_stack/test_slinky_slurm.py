# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm in pods: what its commands say is judged, and asked in the right pod. What they say is of Slurm 22.05.8."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_slurm, slinky_slurm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm import (
    Said,
    SlurmSeen,
    WorkerSet,
    observe,
    worker_set,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import UnreachableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.streams import ExecResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import context

UP, DOWN = "Slurmctld(primary) at slurm-controller is UP\n", "Slurmctld(primary) at slurm-controller is DOWN\n*****\n"
QUEUED = "srun: job 3 queued and waiting for resources\n"
BUSY = f"{QUEUED}srun: error: Unable to allocate resources: Requested nodes are busy\n"
LATER = f"{QUEUED}srun: error: Unable to allocate resources: Immediate execution impossible, insufficient priority\n"
GONE = "Unable to contact slurm controller (connect failure)\n"


def nodes(*states: str, partitions: tuple[str, ...] = ()) -> Said:
    """What `scontrol show nodes` says of workers in these states, with a reason behind a blank."""
    lines = []
    for number, text in enumerate(states):
        state, _blank, reason = text.partition(" ")
        lines.append(
            f"NodeName=slinky-{number} Arch=x86_64 CoresPerSocket=8 \n   Gres=gpu:8\n   State={state} Weight=1"
        )
        lines += [f"   Partitions={partitions[number]} "] if partitions else []
        lines += [f"   Reason={reason} [root@2026-11-26T15:00:00]"] if reason else []
        lines.append("")
    return Said(rc=0, stdout="\n".join(lines))


def healthy(**more: Any) -> SlurmSeen:
    return replace(
        SlurmSeen(
            pod="slurm/slurm-controller-0",
            sets=(WorkerSet(name="slurm-worker-slinky", desired=2, ready=2),),
            ping=Said(rc=0, stdout=UP),
            nodes=nodes("IDLE+DYNAMIC_NORM", "IDLE+DYNAMIC_NORM"),
            job=Said(rc=0, stdout="gpufleet-node slinky-1\n", stderr="srun: job 1 has been allocated resources\n"),
        ),
        **more,
    )


def told(seen: SlurmSeen) -> list[tuple[str, str]]:
    outcomes: tuple[Outcome, ...] = slinky_slurm.judge(seen, context())
    return [(o.status.value, o.cause) for o in outcomes if o.status is not Status.PASSED]


def test_a_healthy_slurm_passes() -> None:
    (outcome,) = slinky_slurm.judge(healthy(), context())
    assert (outcome.status, "2 nodes" in outcome.summary, "slinky-1" in outcome.summary) == (Status.PASSED, True, True)


@pytest.mark.parametrize("state", ["MIXED+DYNAMIC_NORM", "ALLOCATED", "IDLE+CLOUD"])
def test_nodes_with_work_are_healthy(state: str) -> None:
    assert told(healthy(nodes=nodes("IDLE", state))) == []


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"problem": "slurm-missing", "reason": "there is no Controller in slurm"}, "failed", "slurm-missing"),
    ({"problem": "slurm-controller-not-ready", "reason": "no pod"}, "failed", "slurm-controller-not-ready"),
    ({"ping": Said(rc=1, stdout=DOWN)}, "failed", "slurm-controller-down"),
    ({"ping": Said(rc=0, stdout=UP + "Slurmctld(backup) at b is DOWN\n")}, "other", "slurm-controller-degraded"),
    ({"ping": Said(rc=None, timed_out=True)}, "other", "timeout"),
    ({"ping": Said(rc=0, stdout="")}, "other", "slurm-unread"),
    ({"ping": Said(rc=None, stderr="forbidden")}, "other", "slurm-unread"),
    ({"ping": None}, "other", "no-data"),
    ({"nodes": None}, "other", "no-data"),
    ({"nodes": Said(rc=1, stderr=f"slurm_load_node error: {GONE}")}, "other", "slurm-unread"),
    ({"nodes": Said(rc=0, stdout="NodeName=a\n")}, "other", "slurm-unread"),
    ({"nodes": Said(rc=0, stdout="No nodes in the system\n")}, "failed", "slurm-nodes-missing"),
    ({"nodes": Said(rc=0, stdout="")}, "failed", "slurm-nodes-missing"),
    ({"nodes": nodes("IDLE")}, "failed", "slurm-nodes-missing"),
    ({"sets": (WorkerSet(name="w", desired=2, ready=1),)}, "failed", "slurm-nodes-missing"),
    ({"nodes": nodes("IDLE", "DOWN Not responding")}, "failed", "slurm-node-down"),
    ({"nodes": nodes("IDLE", "IDLE+NOT_RESPONDING")}, "failed", "slurm-node-down"),
    ({"nodes": nodes("IDLE", "IDLE*")}, "failed", "slurm-node-down"),
    ({"nodes": nodes("IDLE", "DOWN+DRAIN+INVALID_REG gres/gpu count")}, "failed", "slurm-node-down"),
    ({"nodes": nodes("IDLE", "UNKNOWN")}, "failed", "slurm-node-down"),
    ({"nodes": nodes("IDLE", "IDLE+DRAIN disk")}, "other", "slurm-node-drained"),
    ({"job": None}, "other", "no-job"),
    ({"job": Said(rc=1, stderr=BUSY)}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=1, stderr=f"srun: Partition in DOWN state\n{BUSY}")}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=0, stdout="")}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=0, stdout="gpufleet-node elsewhere\n")}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=0, stdout="gpufleet-node \n")}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=1, stdout="gpufleet-node slinky-0\n")}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=None, timed_out=True)}, "failed", "slurm-job-failed"),
    ({"job": Said(rc=1, stderr=BUSY), "nodes": nodes("ALLOCATED", "MIXED")}, "other", "slurm-busy"),
    # A partition is full, and nobody knows that the job does not go there.
    ({"job": Said(rc=1, stderr=BUSY), "nodes": nodes("ALLOCATED", "IDLE", partitions=("gpu", "cpu"))}, "other",
     "slurm-busy"),
    ({"job": Said(rc=1, stderr=BUSY), "nodes": nodes("ALLOCATED", "IDLE", partitions=("all,gpu", "all,cpu"))}, "other",
     "slurm-busy"),
    ({"job": Said(rc=1, stderr=BUSY), "nodes": nodes("ALLOCATED", "IDLE", partitions=("all", "all"))}, "failed",
     "slurm-job-failed"),
    ({"job": Said(rc=1, stderr=BUSY), "nodes": nodes("IDLE", "IDLE", partitions=("gpu", "cpu"))}, "failed",
     "slurm-job-failed"),
    # Others that wait come first, whatever is idle.
    ({"job": Said(rc=1, stderr=LATER)}, "other", "slurm-busy"),
    # A worker is no node of Slurm, and one from elsewhere makes up the number.
    ({"workers": ("slinky-0", "slinky-7")}, "failed", "slurm-nodes-missing"),
    ({"workers": ("slinky-0",), "nodes": nodes("IDLE", "IDLE", "IDLE")}, "other", "slurm-workers-unseen"),
    ({"nodes": nodes("IDLE", "IDLE", "IDLE")}, "other", "slurm-workers-unseen"),
    ({"job": Said(rc=1, stderr="srun: error: Invalid account"), "nodes": nodes("ALLOCATED", "MIXED")}, "failed",
     "slurm-job-failed"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "status", "cause"), FAULTS)
def test_what_is_wrong_is_told(broken: dict[str, Any], status: str, cause: str) -> None:
    assert told(healthy(**broken)) == [(status, cause)]
    if status == "failed":
        assert cause in slinky_slurm.SPEC.causes


def test_nodes_from_elsewhere_beside_the_workers_are_healthy() -> None:
    both = ("slinky-0", "slinky-1")
    assert told(healthy(workers=both, nodes=nodes("IDLE", "IDLE", "IDLE"))) == []
    # On the network of their hosts they may have longer names.
    assert told(healthy(workers=("slinky-0.example.org", "slinky-1"))) == []


def test_every_declared_cause_is_shown() -> None:
    assert {cause for _seen, status, cause in FAULTS if status == "failed"} == set(slinky_slurm.SPEC.causes)


def test_a_drained_node_does_not_hide_a_job_that_fails() -> None:
    seen = healthy(nodes=nodes("IDLE", "IDLE+DRAIN disk"), job=Said(rc=1, stderr=BUSY))
    assert told(seen) == [("other", "slurm-node-drained"), ("failed", "slurm-job-failed")]


def test_what_the_prolog_prints_is_no_answer() -> None:
    assert told(healthy(job=Said(rc=0, stdout="Welcome\ngpufleet-node slinky-0\n"))) == []


@pytest.mark.parametrize(
    ("spec", "status", "found"),
    [
        ({"replicas": 3}, {"replicas": 3, "readyReplicas": 2}, (3, 2)),
        ({}, {}, (1, 0)),
        ({"scalingMode": "DaemonSet", "replicas": 1}, {"replicas": 4, "readyReplicas": 4}, (4, 4)),
    ],
)
def test_a_set_of_workers_has_its_number(spec: dict[str, Any], status: dict[str, Any], found: tuple[int, int]) -> None:
    seen = worker_set({"metadata": {"name": "w"}, "spec": spec, "status": status})
    assert (seen.desired, seen.ready) == found


def pod(name: str, app: str, ready: bool = True, containers: tuple[str, ...] = (), host: str = "") -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": app, **({"nodeset.slinky.slurm.net/pod-hostname": host} if host else {})}
    return {
        "metadata": {"name": name, "namespace": "slurm", "labels": labels},
        "spec": {"containers": [{"name": name} for name in containers or (app, "sidecar")]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


class Served:
    """An API server with a Slurm, whose commands answer as `said` says."""

    def __init__(self) -> None:
        self.versions: tuple[str, ...] = ("v1beta1",)
        self.objects: dict[str, list[dict[str, Any]] | None] = {
            "controllers": [{"metadata": {"name": "slurm"}}],
            "nodesets": [{"metadata": {"name": "w"}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}],
        }
        self.pods = [pod("slurm-controller-0", "slurmctld"), pod("slurm-worker-0", "slurmd")]
        self.asked: list[tuple[str, str, tuple[str, ...], bool]] = []
        self.said: dict[str, ExecResult | Exception] = {}

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *unused: object) -> None:
        return None

    def served_versions(self, group: str) -> tuple[str, ...]:
        return self.versions if group == "slinky.slurm.net" else ()

    def find_all(self, kind: Any, namespace: str = "") -> list[dict[str, Any]] | None:
        assert namespace == "slurm"
        return self.objects[kind.plural]

    def list_objects(self, kind: Any, namespace: str = "") -> list[dict[str, Any]]:
        assert (kind.plural, namespace) == ("pods", "slurm")
        return self.pods

    def run(
        self, _cluster: Any, name: str, _space: str, argv: tuple[str, ...], _limit_s: float, **more: Any
    ) -> ExecResult:
        self.asked.append((name, more["container"], tuple(argv), more["repeatable"]))
        words = " ".join(argv[:2]) if argv[0] == "scontrol" else argv[0]
        found = self.said.get(words, ExecResult(0, {"scontrol ping": UP}.get(words, ""), "", 0.1, False))
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Served:
    found = Served()
    monkeypatch.setattr(observe_slurm, "Cluster", lambda _connection: found)
    monkeypatch.setattr(observe_slurm, "run_in_pod", found.run)
    found.said["scontrol show"] = ExecResult(0, nodes("IDLE").stdout, "", 0.1, False)
    found.said["srun"] = ExecResult(0, "gpufleet-node slinky-0\n", "", 0.1, False)
    return found


def looking(tmp_path: Path, **more: Any) -> ObserveContext:
    entry = {"name": "slinky-slurm", "namespace": "slurm", "version": "1.2.0", "chart": "slurm", "values": {}}
    given = {"recipe": {"componentRefs": [entry], "deploymentOrder": ["slinky-slurm"]}, "check_mode": False, **more}
    settings = {"slinky-slurm": {"options": ["--partition=gpu"]}}
    return ObserveContext(
        site=make_site((), settings=settings), run_dir=tmp_path, today=context().today,
        connections={"kubeconfig": str(tmp_path / "none")}, **given,
    )  # fmt: skip


def test_it_asks_in_the_pod_of_the_controller(server: Served, tmp_path: Path) -> None:
    seen = observe(looking(tmp_path))
    assert told(seen) == []
    assert seen.pod == "slurm/slurm-controller-0" and to_plain(seen)["job"]["rc"] == 0
    assert {(name, container) for name, container, _argv, _again in server.asked} == {
        ("slurm-controller-0", "slurmctld")
    }
    ((*_rest, argv, again),) = [entry for entry in server.asked if entry[2][0] == "srun"]
    assert not again, "a job that may have run is not run again"
    assert "--partition=gpu" in argv and "--immediate=5" in argv


def test_it_prefers_the_pod_in_which_users_log_in(server: Served, tmp_path: Path) -> None:
    server.pods += [pod("slurm-login-1", "login"), pod("slurm-login-0", "login", ready=False)]
    assert observe(looking(tmp_path)).pod == "slurm/slurm-login-1"


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"versions": ()}, "slurm-missing"),
        ({"objects": {"controllers": [], "nodesets": []}}, "slurm-missing"),
        ({"objects": {"controllers": None, "nodesets": None}}, "slurm-missing"),
        ({"pods": [pod("slurm-controller-0", "slurmctld", ready=False)]}, "slurm-controller-not-ready"),
        ({"pods": []}, "slurm-controller-not-ready"),
    ],
)
def test_a_slurm_that_is_not_there_fails(change: dict[str, Any], cause: str, server: Served, tmp_path: Path) -> None:
    for name, value in change.items():
        setattr(server, name, value)
    assert told(observe(looking(tmp_path))) == [("failed", cause)]
    assert server.asked == []


def test_a_stream_that_breaks_is_no_pass(server: Served, tmp_path: Path) -> None:
    server.said["scontrol ping"] = UnreachableError("api", "connection reset", "again")
    assert told(observe(looking(tmp_path))) == [("other", "slurm-unread")]


def test_nodes_may_take_a_moment(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["", "IDLE*", "IDLE"])
    monkeypatch.setattr(observe_slurm.time, "sleep", lambda _s: None)
    known = server.run

    def run(cluster: Any, name: str, space: str, argv: tuple[str, ...], limit_s: float, **more: Any) -> ExecResult:
        if argv[:2] == ("scontrol", "show"):
            state = next(states)
            server.said["scontrol show"] = ExecResult(0, nodes(state).stdout if state else "", "", 0.1, False)
        return known(cluster, name, space, argv, limit_s, **more)

    monkeypatch.setattr(observe_slurm, "run_in_pod", run)
    assert told(observe(looking(tmp_path))) == []


def answers(server: Served, monkeypatch: pytest.MonkeyPatch, **said: list[ExecResult]) -> None:
    """Let the commands answer in turn, the last answer again and again."""
    known = server.run

    def run(cluster: Any, name: str, space: str, argv: tuple[str, ...], limit_s: float, **more: Any) -> ExecResult:
        key = "nodes" if argv[:2] == ("scontrol", "show") else argv[0]
        if key in said:
            known(cluster, name, space, argv, limit_s, **more)
            return said[key].pop(0) if len(said[key]) > 1 else said[key][0]
        return known(cluster, name, space, argv, limit_s, **more)

    monkeypatch.setattr(observe_slurm, "run_in_pod", run)


def shown(state: str) -> ExecResult:
    return ExecResult(0, nodes(state).stdout, "", 0.1, False)


REFUSED = ExecResult(1, "", BUSY, 5.0, False)
RAN = ExecResult(0, "gpufleet-node slinky-0\n", "", 0.1, False)


@pytest.mark.parametrize(
    ("looks", "jobs", "outcome", "tries"),
    [
        # A user took the node between the look and the job.
        (["IDLE", "ALLOCATED"], [REFUSED], [("other", "slurm-busy")], 1),
        # And gave it back.
        (["IDLE", "IDLE"], [REFUSED, RAN], [], 2),
        (["IDLE", "IDLE", "MIXED"], [REFUSED, REFUSED], [("other", "slurm-busy")], 2),
        # Idle at every look, and refused each time.
        (["IDLE"], [REFUSED], [("failed", "slurm-job-failed")], 3),
        (["IDLE", "DOWN* gone"], [REFUSED], [("failed", "slurm-node-down")], 1),
        (["ALLOCATED"], [REFUSED], [("other", "slurm-busy")], 1),
        (
            ["IDLE"],
            [ExecResult(1, "", "srun: error: Invalid account", 0.1, False)],
            [("failed", "slurm-job-failed")],
            1,
        ),
        (["IDLE"], [ExecResult(1, "gpufleet-node slinky-0\n", BUSY, 0.1, False)], [("failed", "slurm-job-failed")], 1),
    ],
)
def test_a_job_that_is_refused_for_want_of_a_node_is_tried_again_while_one_is_idle(
    looks: list[str], jobs: list[ExecResult], outcome: list[tuple[str, str]], tries: int,
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(observe_slurm.time, "sleep", lambda _s: None)
    answers(server, monkeypatch, nodes=list(map(shown, looks)), srun=list(jobs))
    assert told(observe(looking(tmp_path))) == outcome
    assert sum(argv[0] == "srun" for _name, _container, argv, _again in server.asked) == tries


def test_a_look_after_the_job_that_is_refused_is_no_verdict(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(server, monkeypatch, nodes=[shown("IDLE"), ExecResult(1, "", GONE, 0.1, False)], srun=[REFUSED])
    assert told(observe(looking(tmp_path))) == [("other", "slurm-unread")]


def test_workers_are_known_by_the_names_that_the_operator_gives_them(server: Served, tmp_path: Path) -> None:
    server.pods = [
        pod("slurm-controller-0", "slurmctld"),
        pod("slurm-worker-0", "slurmd", host="slinky-0"),
        pod("slurm-worker-1", "slurmd", ready=False, host="slinky-1"),
    ]
    seen = observe(looking(tmp_path))
    assert seen.workers == ("slinky-0",) and told(seen) == []
    server.pods[1] = pod("slurm-worker-0", "slurmd", host="slinky-5")
    seen = observe(looking(tmp_path, check_mode=True))
    assert seen.workers == ("slinky-5",) and told(seen) == [("failed", "slurm-nodes-missing")]


def test_check_mode_runs_no_job(server: Served, tmp_path: Path) -> None:
    assert told(observe(looking(tmp_path, check_mode=True))) == [("other", "no-job")]
    assert not any(argv[0] == "srun" for _name, _container, argv, _again in server.asked)


def test_a_recipe_without_slurm_has_nothing_to_ask(server: Served, tmp_path: Path) -> None:
    entry = {"name": "gpu-operator", "namespace": "g", "version": "1", "chart": "g", "values": {}}
    other = {"componentRefs": [entry], "deploymentOrder": ["gpu-operator"]}
    assert told(observe(looking(tmp_path, recipe=other))) == [("other", "not-in-recipe")]
