# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check slinky-slurm against a real Slurm, healthy and broken; only the way into its pod is not there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sites import make_site
from slurm import NODES, Slurm

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_slurm, slinky_slurm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm import (
    SlurmSeen,
    SlurmSettings,
    WorkerSet,
    job_words,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.streams import ExecResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

POD = {
    "metadata": {"name": "slurm-controller-0", "namespace": "slurm", "labels": {"app.kubernetes.io/name": "slurmctld"}},
    "spec": {"containers": [{"name": "slurmctld"}]},
}
SETTINGS = SlurmSettings(options=(), immediate_s=5, settle_s=2.0, timeout_s=60.0)


@pytest.fixture
def asked(server: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[tuple[str, str]]]:
    """Return what the check says of that Slurm now, but for a pass."""

    def run(_cluster: Any, _name: str, _space: str, argv: tuple[str, ...], limit_s: float, **_more: Any) -> ExecResult:
        words = [str(server.bin / argv[0]), *argv[1:]]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
        return ExecResult(done.returncode, done.stdout, done.stderr, 0.0, False)

    monkeypatch.setattr(observe_slurm, "run_in_pod", run)
    context = ObserveContext(site=make_site(()), run_dir=tmp_path, today=date(2026, 1, 1))
    judging = JudgeContext(gate="gpu_stack", site=context.site, today=context.today)
    seen = SlurmSeen(sets=(WorkerSet(name="w", desired=len(NODES), ready=len(NODES)),))

    def ask() -> list[tuple[str, str]]:
        found = observe_slurm._requested(SimpleNamespace(), context, seen, POD, SETTINGS)  # type: ignore[arg-type]
        return [(o.status.value, o.cause) for o in slinky_slurm.judge(found, judging) if o.status is not Status.PASSED]

    return ask


def test_a_real_slurm_is_judged_by_what_it_says(server: Slurm, asked: Callable[[], list[tuple[str, str]]]) -> None:
    assert asked() == []
    server.update("gpu03", "state=drain", "reason=disk")
    assert asked() == [("other", "slurm-node-drained")]
    server.update("gpu03", "state=resume")
    server.wait_state(gpu03="IDLE")
    server.run("scontrol", "update", "partitionname=main", "state=down")
    assert asked() == [("failed", "slurm-job-failed")]
    server.run("scontrol", "update", "partitionname=main", "state=up")
    server.run("sbatch", f"--nodes={len(NODES)}", "--exclusive", "--output=/dev/null", "--wrap", "sleep 120")
    server.wait_state(**dict.fromkeys(NODES, "ALLOCATED"))
    assert asked() == [("other", "slurm-busy")]
    server.free_all()
    server.stop_node("gpu02")
    server.update("gpu02", "state=down", "reason=power")
    assert asked() == [("failed", "slurm-node-down")]
    server.free_all()
    assert asked() == []


def test_the_job_says_where_it_ran_and_nothing_is_left_of_it(server: Slurm) -> None:
    assert server.run(*job_words(SETTINGS)).strip().removeprefix("gpufleet-node ") in NODES
    server.wait("no job is left", lambda: not server.run("squeue", "-h").strip())
