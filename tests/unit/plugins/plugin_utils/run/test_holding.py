# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run holds before it disturbs: the cluster where its site names one, else its hosts; and what stays there."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from lease_cluster import MemoryCluster
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import UnreachableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run import holding
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import namespace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import HeldError, acquire
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import OWNER_LABELS

NAMED = {"kubeconfig": "/etc/kubernetes/admin.conf"}


class Held:
    """What was held in place of keepers: `cluster`, `hosts`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, problem: Exception | None = None) -> None:
        self.memory, self.what, self.problem = MemoryCluster(), list[str](), problem
        for name in ("K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(holding, "Cluster", lambda _connection, **_more: self)
        monkeypatch.setattr(holding, "hold_cluster", self._cluster)
        monkeypatch.setattr(holding, "hold_hosts", lambda *_args, **_more: self.what.append("hosts"))

    def __enter__(self) -> Any:
        return self.memory

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        pass

    def _cluster(self, _cluster: Any, claim: Any, *_args: Any, **_more: Any) -> bool:
        if self.problem is not None:
            raise self.problem
        acquire(self.memory.api, claim)
        self.what.append("cluster")
        return True


def run_of(tmp_path: Path, gates: tuple[str, ...], capabilities: tuple[str, ...] = ("kubernetes",)) -> Run:
    found = Run(tmp_path)
    site = make_site(gates=gates, capabilities=capabilities)
    found.save_site(site)
    found.save_record(new_run("r1", "lab", "2026-11-22T10:00:00Z", gates, rehearsal=False))
    return found


@pytest.mark.parametrize(
    ("gates", "capabilities", "options", "held"),
    [
        (("nodes",), ("kubernetes",), NAMED, "cluster"),
        (("nodes",), ("kubernetes",), {"context": "lab"}, "cluster"),
        # A kubeconfig in a home directory may be of another cluster.
        (("nodes",), ("kubernetes",), {}, "hosts"),
        (("nodes",), ("slurm",), NAMED, "hosts"),
        (("nodes", "gpu_stack"), ("kubernetes",), {}, "cluster"),
    ],
)
def test_gate_nodes_alone_holds_the_cluster_that_its_site_names(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    gates: tuple[str, ...],
    capabilities: tuple[str, ...],
    options: dict[str, str],
    held: str,
) -> None:
    found = Held(monkeypatch)
    holding.take_hold(run_of(tmp_path, gates, capabilities), options, lambda _line: None)
    assert found.what == [held]


def test_gate_nodes_goes_on_before_there_is_a_cluster_and_not_while_another_run_holds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    found = Held(monkeypatch, UnreachableError("API server", "cannot be reached."))
    holding.take_hold(run_of(tmp_path, ("nodes",)), NAMED, said.append)
    assert found.what == ["hosts"] and "goes on without the cluster" in said[0] and "cannot be reached" in said[0]
    taken = Held(monkeypatch, HeldError("cluster", "is held by run r0.", "wait"))
    with pytest.raises(HeldError):
        holding.take_hold(run_of(tmp_path, ("nodes",)), NAMED, said.append)
    assert taken.what == []


def test_what_cannot_be_swept_is_in_the_result_and_in_every_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = Held(monkeypatch)
    monkeypatch.setattr(namespace, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(holding, "_CLEANUP_S", 0.2)
    found.memory.create(NAMESPACES, {"metadata": {"name": "t-dead", "labels": dict(OWNER_LABELS)}})
    found.memory.create(PODS, {"metadata": {"name": "server-0"}, "spec": {"nodeName": "gpu01"}}, "t-dead")
    found.memory.pods_stay = {"server-0"}
    run = run_of(tmp_path, ("fabric_validation",))
    (text,) = holding.take_hold(run, NAMED, lambda _line: None).remains
    assert "server-0 on node gpu01" in text and "kubectl delete namespace,priorityclass t-dead" in text
    assert run.record.notes == (text,)
    assert f"note     {text}" in closing_lines(run.record, tmp_path)


@pytest.mark.parametrize(
    ("gates", "asked"), [(("telemetry",), 0), (("fabric_validation",), 0), (("nodes", "telemetry"), 1)]
)
def test_whose_gpus_are_in_use_is_asked_by_runs_that_load_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: tuple[str, ...], asked: int
) -> None:
    """The role of gate telemetry does not allow to list all claims, and the run was not started."""
    Held(monkeypatch)
    calls: list[Path] = []
    monkeypatch.setattr(holding, "save_gpu_users", lambda _cluster, _site, run_dir: calls.append(run_dir) or {})
    holding.take_hold(run_of(tmp_path, gates), NAMED, lambda _line: None)
    assert len(calls) == asked
