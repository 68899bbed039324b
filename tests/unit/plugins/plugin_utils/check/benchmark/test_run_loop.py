# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run loop: permission before anything is made, runs until nothing is left to be known, everything kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark import run_loop
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost, BenchmarkPlan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.run_loop import Benchmark
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import (
    AskedPermission,
    Permission,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobSpec, PodResult

LEFT = "Pod of test: still there"


class Toy(Benchmark[BenchmarkPlan[BenchmarkHost], str, str]):
    """Runs every open host once, and a host again whose log says so."""

    gate = "fabric_validation"
    name = "toy"
    closed = ""

    def make_plan(self, cluster: Any) -> BenchmarkPlan[BenchmarkHost]:
        hosts = [BenchmarkHost(name=name, node=name, sku="x", closed=self.closed) for name in ("a", "b")]
        return BenchmarkPlan(hosts=tuple(hosts))

    def permissions(self) -> tuple[Permission, ...]:
        return (Permission("create", "jobs", "batch"),)

    def next_runs(self) -> list[str]:
        done = [run.partition(" ")[0] for run in self.runs]
        again = [run.partition(" ")[0] for run in self.runs if run.endswith("again")]
        first = [host.name for host in self.plan.open_hosts if host.name not in done]
        return first or [name for name in again if done.count(name) == 1]

    def job(self, want: str) -> JobSpec:
        return JobSpec(name=f"run-{want}-{len(self.runs)}", nodes=(want,), gpus_per_node=1, image="i", command=("c",))

    def read(self, want: str, spec: JobSpec, result: JobResult) -> str:
        kept = self.evidence.keep(f"{spec.name}.log", result.log)
        assert bool(kept.path) is bool(kept.text.strip())
        return f"{want} {kept.text}"

    def announce(self, wanted: Sequence[str]) -> str:
        return f"toy: {', '.join(wanted)}"


@dataclass
class Cluster:
    """Allows everything that is not refused, and counts what is made."""

    refused: tuple[str, ...] = ()
    opened: int = 0

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def can_i(self, permission: Permission) -> AskedPermission:
        allowed = f"{permission.verb} {permission.resource}" not in self.refused
        return AskedPermission(
            verb=permission.verb, resource=permission.resource, group=permission.group, allowed=allowed, reason=""
        )


@dataclass
class Jobs:
    """What jobs answer, by the host's name; `steps` has the names of the jobs of each step."""

    logs: dict[str, list[str]]
    steps: list[list[str]]

    def __call__(
        self, cluster: Any, namespace: Any, specs: Sequence[JobSpec], parallel: int, progress: Any, deadline: Deadline
    ) -> tuple[JobResult, ...]:
        assert parallel == len(specs) and deadline.left_s > 0
        self.steps.append([spec.name for spec in specs])
        return tuple(self._result(spec) for spec in specs)

    def _result(self, spec: JobSpec) -> JobResult:
        pod = PodResult(
            name="p",
            node=spec.nodes[0],
            hostname="p",
            exit_code=0,
            log=self.logs[spec.nodes[0]].pop(0),
            role="launcher",
        )
        return JobResult(name=spec.name, state="succeeded", reason="", pods=(pod,), started="", duration_s=1.0)


@dataclass
class Namespace:
    name: str = "gpufleet-test-toy-1"
    leftovers: tuple[str, ...] = ()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    @contextmanager
    def opened(_cluster: Any, purpose: str, **_limits: Any) -> Iterator[Namespace]:
        found.opened += 1
        assert purpose == "toy"
        namespace = Namespace()
        yield namespace
        namespace.leftovers = (LEFT,)

    monkeypatch.setattr(run_loop, "Cluster", lambda _connection: found)
    monkeypatch.setattr(run_loop, "connection_from", lambda connections: connections)
    monkeypatch.setattr(run_loop, "job_namespace", opened)
    return found


def toy(tmp_path: Path, said: list[str] | None = None) -> Toy:
    site = make_site(name="here", capabilities=())
    emit = said.append if said is not None else lambda _line: None
    return Toy(ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1), emit=emit), total_s=60, cleanup_s=5)


def test_it_runs_until_nothing_is_left_to_be_known(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, said = Jobs({"a": ["well"], "b": ["again", "well"]}, []), list[str]()
    monkeypatch.setattr(run_loop, "run_jobs", jobs)
    found = toy(tmp_path, said).observe()
    assert jobs.steps == [["run-a-0", "run-b-0"], ["run-b-2"]]
    assert found.runs == ("a well", "b again", "b well")
    assert found.leftovers == (LEFT,)
    assert [line.partition(" (")[0] for line in said] == ["toy: a, b", "toy: b"]
    assert (tmp_path / "evidence/fabric_validation/run-b-2.log").read_text() == "well"


def test_evidence_has_no_secrets_and_a_blank_log_is_no_file(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_loop, "run_jobs", Jobs({"a": ["password=hunter2"], "b": [" \n"]}, []))
    found = toy(tmp_path).observe()
    assert "hunter2" not in "".join(found.runs)
    (kept,) = (tmp_path / "evidence/fabric_validation").iterdir()
    assert "hunter2" not in kept.read_text()


@pytest.mark.parametrize("refused", ["create jobs", "list nodes", "delete namespaces"])
def test_a_missing_permission_is_reported_before_anything_is_made(
    cluster: Cluster, tmp_path: Path, refused: str
) -> None:
    cluster.refused = (refused,)
    with pytest.raises(ForbiddenError, match=refused):
        toy(tmp_path).observe()
    assert cluster.opened == 0


def test_without_an_open_host_nothing_is_made(cluster: Cluster, tmp_path: Path) -> None:
    benchmark = toy(tmp_path)
    benchmark.closed = "cordoned"
    found = benchmark.observe()
    assert (found.runs, found.leftovers, cluster.opened) == ((), (), 0)
    assert [host.closed for host in found.plan.hosts] == ["cordoned", "cordoned"]
