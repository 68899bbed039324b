# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a batch for a run: from cluster or Slurm, settings and history, with nothing changed."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from returned import described, misfits
from service_rows import cycle, node_result
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import (
    AskedPermission,
    Permission,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous import plan as under_test
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.plan import fleet_plan, positions_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import continuous_role
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

NOW, DAY = 1795435200.0, 86400.0
HOSTS = tuple(Host(name=f"gpu0{n}", sku="dgx-h100", node_name=f"node-{n}", rack=f"r{n % 2}") for n in range(1, 5))
SLURM = """NodeName=node-1 Gres=gpu:8
   State=IDLE
NodeName=node-2 Gres=gpu:8
   State=ALLOCATED
NodeName=node-3 Gres=gpu:8
   State=IDLE+DRAIN
   Reason=bad fan [root@2026-11-22T10:00:00]
NodeName=node-4 Gres=gpu:8
   State=IDLE
"""


def run_of(tmp_path: Path, **stated: Any) -> Run:
    run = Run(tmp_path / "run")
    (tmp_path / "run").mkdir()
    run.save_site(make_site(HOSTS, gates=("nodes",), **stated))
    run.save_hardware({})
    run.save_record(new_run("r1", "lab", "2026-11-23T08:00:00Z", ("nodes",), rehearsal=False))
    return run


def options(tmp_path: Path, **more: Any) -> dict[str, Any]:
    script = tmp_path / "scontrol"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{SLURM}END\n")
    script.chmod(0o755)
    return {"store": None, "tests": ["dl_unit"], "scontrol": os.fspath(script), **more}


def history(tmp_path: Path, run: Run) -> Path:
    path = tmp_path / "history.sqlite"
    store = open_service(path)
    store.begin_cycle(cycle("c1", site=run.site.name))
    store.add_result(node_result("c1", node="gpu04", test="dl_unit", started_s=NOW - 30 * DAY))
    return path


def test_slurm_and_history_make_the_plan_and_nothing_is_changed(tmp_path: Path) -> None:
    run = run_of(tmp_path, orchestrator="slurm")
    store = history(tmp_path, run)
    before = {path: path.stat().st_mtime_ns for path in (*run.path.iterdir(), store)}
    found = fleet_plan(run, options(tmp_path, store=str(store)), silent, NOW)
    assert {path: path.stat().st_mtime_ns for path in (*run.path.iterdir(), store)} == before
    assert found.busy == ("gpu02",) and found.tests == ("dl_unit",)
    assert found.lines() == [
        "2 nodes now, 0 wait, 0 not due, 2 not free, 1 of these at work",
        "1. gpu01: dl_unit never tested",
        "2. gpu04: dl_unit older than 7 days by 23.0 days (tested on 2026-10-24 12:00 UTC)",
        "not free: gpu02: jobs run on it (ALLOCATED)",
        "not free: gpu03: is IDLE+DRAIN by root: bad fan",
    ]
    shown = found.work("continuous validation")
    assert [row.cells for row in shown.rows] == [
        ("gpu01", "now", "dl_unit never tested"),
        ("gpu04", "now", "dl_unit older than 7 days by 23.0 days (tested on 2026-10-24 12:00 UTC)"),
        ("gpu02", "not free", "jobs run on it (ALLOCATED)"),
        ("gpu03", "not free", "is IDLE+DRAIN by root: bad fan"),
    ]
    assert shown.sentence == f"a cycle would test {found.lines()[0]}"
    assert list(misfits(positions_of(found.plan), described("fleet_plan_info", "positions"))) == []
    first = positions_of(found.plan)[0]
    assert first == {
        "number": 1, "node": "gpu01", "rack": "r1", "now": True, "waits": "",
        "tests": [{"test": "dl_unit", "urgency": "new", "why": "never tested"}],
    }  # fmt: skip


def test_a_history_that_is_not_there_is_said_and_not_made(tmp_path: Path) -> None:
    run, said, missing = run_of(tmp_path, orchestrator="slurm"), list[str](), tmp_path / "no.sqlite"
    found = fleet_plan(run, options(tmp_path, store=str(missing)), said.append, NOW)
    assert said == [f"history: {missing} is not there: every test counts as never done"] and not missing.exists()
    assert [position.node for position in found.plan.batch] == ["gpu01", "gpu04"]
    fleet_plan(run, options(tmp_path), said.append, NOW)
    assert said[1] == "history: none is stated: every test counts as never done"


def test_a_test_that_the_site_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dream: not enabled here"):
        fleet_plan(run_of(tmp_path, orchestrator="slurm"), options(tmp_path, tests=["dream"]), silent, NOW)


def test_slurm_that_is_not_there_makes_no_plan(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        fleet_plan(run_of(tmp_path, orchestrator="slurm"), options(tmp_path, scontrol="/no/scontrol"), silent, NOW)


class Api:
    """Two nodes, one of them with a job; only what is allowed may be asked for."""

    refused: tuple[str, ...] = ()

    def __init__(self, _connection: object) -> None:
        self.asked: set[tuple[str, str]] = set()

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_told: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    def can_i(self, permission: Permission) -> AskedPermission:
        allowed = permission.resource not in self.refused
        return AskedPermission(permission.verb, permission.resource, permission.group, allowed=allowed)

    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ("v1",)

    def list_objects(self, kind: Kind, *_args: Any, **_more: Any) -> list[dict[str, Any]]:
        rules = continuous_role()["rules"]
        assert any(kind.plural in rule["resources"] and "list" in rule["verbs"] for rule in rules)
        if kind is PODS:
            spec = {"nodeName": "node-2", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
            return [{"metadata": {"name": "train", "namespace": "team"}, "spec": spec, "status": {"phase": "Running"}}]
        if kind is NODES:
            status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
            return [{"metadata": {"name": f"node-{n}"}, "spec": {}, "status": status} for n in (1, 2)]
        return []


def test_kubernetes_is_looked_at_with_no_right_beyond_the_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "Cluster", Api)
    monkeypatch.setattr(under_test, "connection_from", lambda _options: None)
    found = fleet_plan(run_of(tmp_path), options(tmp_path), silent, NOW)
    assert [position.node for position in found.plan.batch] == ["gpu01"]
    assert dict(found.plan.not_free) == {
        "gpu02": "pod team/train holds GPUs", "gpu03": "it is not in the cluster", "gpu04": "it is not in the cluster",
    }  # fmt: skip


@pytest.mark.parametrize("resource", ["nodes", "pods", "resourceclaims", "resourceslices"])
def test_a_right_that_lacks_is_named_and_nothing_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resource: str
) -> None:
    monkeypatch.setattr(under_test, "Cluster", type("Refusing", (Api,), {"refused": (resource,)}))
    monkeypatch.setattr(under_test, "connection_from", lambda _options: None)
    with pytest.raises(ForbiddenError, match=f"may not list {resource}.*gpufleet-continuous-observe"):
        fleet_plan(run_of(tmp_path), options(tmp_path), silent, NOW)
