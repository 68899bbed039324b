# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate gpu_stack asks Debian's Slurm with four nodes, and runs its jobs there. That Slurm gives out no GPUs: what a job
asks of them is taken out of its words, and is what its nvidia-smi lists."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from simulated_training import hardware
from sites import make_site
from slurm import NODES, Slurm

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

SITE = make_site(
    tuple(Host(name=name, sku="dgx-h100", node_name=name) for name in NODES), gates=("gpu_stack",),
    orchestrator="slurm", settings={"slurm-jobs": {"immediate_s": 20}},
)  # fmt: skip
TODAY = date(2026, 1, 1)
# What this Slurm has not: control groups, GPUs, and programs around jobs.
AS_IT_IS = {
    "slurm-devices": {("failed", "slurm-devices-open")}, "slurm-gres": {("failed", "slurm-gres-missing")},
    "slurm-programs": {("other", "slurm-program-unset")},
}  # fmt: skip
SRUN = """#!/bin/sh
for word; do
  shift
  case "$word" in
    --gres=gpu:*) export GPUS="${{word#--gres=gpu:}}" ;;
    --gres=*) export GPUS=0 ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {srun} "$@"
"""


@pytest.fixture
def slurm(server: Slurm) -> Iterator[Slurm]:
    server.free_all()
    yield server
    server.free_all()


def told(slurm: Slurm, path: Path) -> dict[str, set[tuple[str, str]]]:
    """Observe, and return what is not passed of each check."""
    (path / "srun").write_text(SRUN.format(srun=slurm.bin / "srun"))
    (path / "srun").chmod(0o755)
    (path / "scontrol").unlink(missing_ok=True)
    (path / "scontrol").symlink_to(slurm.scontrol)
    seeing = ObserveContext(
        site=SITE, run_dir=path, today=TODAY, hardware=hardware(), connections={"scontrol": str(path / "scontrol")}
    )
    judging = JudgeContext(gate="gpu_stack", site=SITE, today=TODAY, hardware=hardware())
    checks = [check for check in checks_of("gpu_stack", SITE) if check.spec.only_on == "slurm"]
    seen = {check.observer.key: check.observer for check in checks}
    values = {key: observer.observe(seeing) for key, observer in seen.items()}
    found: dict[str, set[tuple[str, str]]] = {check.spec.id: set() for check in checks}
    for check in checks:
        outcomes = check.judge(values[check.observer.key], replace(judging))
        assert outcomes
        found[check.spec.id] |= {(o.status.value, o.cause) for o in outcomes if o.status is not Status.PASSED}
    return {name: words for name, words in found.items() if words}


def nvidia_smi(path: Path, count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program beside the others that lists so many GPUs, by the shell's words."""
    (path / "nvidia-smi").write_text(f'#!/bin/sh\nfor gpu in $(seq {count}); do echo "GPU $gpu: NVIDIA H100"; done\n')
    (path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}:{Path('/usr/bin')}:/bin")


def test_a_slurm_and_what_breaks_it(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, '"$GPUS"', monkeypatch)
    assert told(slurm, tmp_path) == AS_IT_IS
    assert not slurm.run("squeue", "-h").strip()
    # Jobs that can open every GPU.
    nvidia_smi(tmp_path, "8", monkeypatch)
    assert told(slurm, tmp_path) == AS_IT_IS | {"slurm-jobs": {("failed", "slurm-devices-open")}}
    # A host of somebody, and one that an operator set aside.
    job = slurm.run("sbatch", "--parsable", "-w", "gpu01", "--exclusive", "-o", "/dev/null", "--wrap=sleep 300").strip()
    slurm.wait_state(gpu01="ALLOCATED")
    slurm.update("gpu02", "state=drain", "reason=cooling")
    nvidia_smi(tmp_path, '"$GPUS"', monkeypatch)
    found = told(slurm, tmp_path)
    assert found["slurm-nodes"] == {("other", "slurm-node-drained")}
    assert found["slurm-jobs"] == {("other", "slurm-busy"), ("other", "blocked-by-slurm-nodes")}
    assert slurm.run("squeue", "-h", "-o", "%A %u").split() == [job, getpass.getuser()]
