# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of Slurm: what they saw is judged. What srun says is of Slurm 22.05.8."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slurm_captures import capture

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_slurm_jobs, slurm_jobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm import Said
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_slurm_jobs import (
    JobRun,
    SlurmJobs,
    observe,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .test_slurm_daemons import NAMES, nodes, site
from .test_slurm_hosts import state

QUEUED = "srun: job 6 queued and waiting for resources\n"
BUSY = f"{QUEUED}srun: error: Unable to allocate resources: Requested nodes are busy\n"
REFUSED = "srun: error: Unable to allocate resources: Requested node configuration is not available\n"


def lines(*saw: str) -> Said:
    """What a job printed: exit code of nvidia-smi, GPUs and parts, of each host."""
    text = "".join(f"gpufleet-node {name} {words}\n" for name, words in zip(NAMES, saw, strict=False))
    return Said(rc=0, stdout=f"a prolog says hello\n{text}")


def seen(shared: Said | None = None, whole: Said | None = None, **more: Any) -> SlurmJobs:
    jobs = (
        JobRun(kind="shared", nodes=NAMES, gpus=1, said=shared or lines("0 1 0", "0 1 0")),
        JobRun(kind="whole", nodes=NAMES, gpus=8, said=whole or lines("0 8 0", "0 8 0")),
    )
    return replace(SlurmJobs(before=nodes(), jobs=jobs, after=nodes()), **more)


def told(given: SlurmJobs) -> dict[str, tuple[str, str]]:
    outcomes: tuple[Outcome, ...] = slurm_jobs.judge(given, site())
    assert [outcome.subjects[0].name for outcome in outcomes] == list(NAMES)
    assert all(outcome.hint for outcome in outcomes if outcome.status is not Status.PASSED)
    return {o.subjects[0].name: (o.status.value, o.cause) for o in outcomes if o.status is not Status.PASSED}


def test_jobs_that_see_what_they_got_pass() -> None:
    assert told(seen()) == {}
    assert "2 whole hosts started at once" in slurm_jobs.judge(seen(), site())[0].summary
    # Parts of GPUs are what counts where there are some.
    assert told(seen(shared=lines("0 1 1", "0 1 1"), whole=lines("0 8 8", "0 8 8"))) == {}


BROKEN = "Prolog error [slurm@2026-11-29T22:48:57]"
BOTH: list[tuple[SlurmJobs, tuple[str, str]]] = [
    (seen(shared=lines("0 8 0", "0 8 0")), ("failed", "slurm-devices-open")),
    (seen(shared=lines("0 1 2", "0 1 2")), ("failed", "slurm-devices-open")),
    (seen(shared=lines("0 0 0", "0 0 0")), ("failed", "slurm-gpus-missing")),
    (seen(whole=lines("0 7 0", "0 7 0")), ("failed", "slurm-gpus-missing")),
    (seen(shared=Said(rc=1, stderr=REFUSED)), ("failed", "slurm-job-failed")),
    (seen(whole=Said(rc=1, stderr="srun: error: Invalid account")), ("failed", "slurm-job-failed")),
    (seen(after=state("IDLE+DRAIN", BROKEN)), ("failed", "slurm-program-failed")),
    (seen(after=state("IDLE+DRAIN", "Kill task failed [slurm@2026-11-29T22:48:57]")),
     ("failed", "slurm-program-failed")),
    (seen(after=state("IDLE+DRAIN", "cooling [anna@2026-11-29T22:48:57]")), ("other", "slurm-node-changed")),
    (seen(after=state("DOWN")), ("other", "slurm-node-changed")),
    (seen(after=state("IDLE+COMPLETING")), ("other", "slurm-completing")),
    (seen(after=Said(rc=1, stderr="gone")), ("other", "slurm-unread")),
    (seen(after=None, jobs=()), ("other", "no-job")),
    (seen(jobs=seen().jobs[:1]), ("other", "no-job")),
    (seen(jobs=seen().jobs[1:]), ("other", "no-job")),
    (seen(shared=Said(rc=1, stderr=BUSY)), ("other", "slurm-busy")),
    (seen(whole=Said(rc=1, stderr=BUSY)), ("other", "slurm-busy")),
    (seen(shared=Said(rc=None, stdout=lines("0 1 0", "0 1 0").stdout, timed_out=True)), ("other", "slurm-timeout")),
    (seen(whole=Said(rc=None, stderr="srun is not there")), ("other", "slurm-unread")),
    (seen(shared=Said(rc=0)), ("other", "slurm-unread")),
    (seen(whole=Said(rc=0, stdout=lines("0 8 0", "0 8 0").stdout * 2)), ("other", "slurm-unread")),
    # What a host printed counts nothing in a job that did not come to its end.
    (seen(shared=replace(lines("0 1 0", "0 1 0"), rc=1)), ("failed", "slurm-job-failed")),
    (seen(shared=lines("127 0 0", "127 0 0")), ("other", "nvidia-smi-failed")),
    (seen(before=state("ALLOCATED")), ("other", "slurm-busy")),
    (seen(before=state("IDLE+RESERVED")), ("other", "slurm-busy")),
    (seen(before=state("IDLE+DRAIN", BROKEN)), ("other", "blocked-by-slurm-nodes")),
    (seen(before=Said(rc=0, stdout="x")), ("other", "slurm-unread")),
    (seen(before=Said(rc=None, timed_out=True)), ("other", "slurm-timeout")),
    (seen(before=Said(rc=0)), ("other", "blocked-by-slurm-nodes")),
    (seen(after=Said(rc=0)), ("other", "no-job")),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), BOTH)
def test_what_is_wrong_is_told_of_each_host(given: SlurmJobs, expected: tuple[str, str]) -> None:
    assert told(given) == dict.fromkeys(NAMES, expected)


def test_every_declared_cause_is_shown() -> None:
    assert {cause for _seen, (status, cause) in BOTH if status == "failed"} == set(slurm_jobs.SPEC.causes)


def test_one_host_is_named_and_the_others_are_not() -> None:
    assert told(seen(shared=lines("0 1 0", "0 8 0"))) == {"gpu02": ("failed", "slurm-devices-open")}
    assert told(seen(whole=lines("0 8 0"))) == {"gpu02": ("other", "slurm-unread")}
    drained = Said(rc=0, stdout=_second_drained(nodes().stdout))
    failed = Said(rc=1, stderr="srun: error: Task launch for StepId=7.0 failed on node gpu02\n")
    assert told(seen(shared=failed, after=drained)) == {
        "gpu01": ("other", "slurm-job-broken"), "gpu02": ("failed", "slurm-program-failed"),
    }  # fmt: skip


def _second_drained(text: str) -> str:
    head, second, rest = text.partition("NodeName=gpu02")
    block, third, end = rest.partition("\nNodeName=gpu03")
    block = block.replace("State=IDLE ", "State=IDLE+DRAIN ").rstrip("\n")
    return f"{head}{second}{block}\n   Reason={BROKEN}\n{third}{end}"


SRUN = """#!/bin/sh
echo "$*" | head -n 1 >> {here}/calls
for word in "$@"; do
  case "$word" in --nodelist=*) hosts=${{word#--nodelist=}} ;; --gres=gpu:*) gpus=${{word#--gres=gpu:}} ;; esac
done
for host in $(echo "$hosts" | tr , ' '); do echo "gpufleet-node $host 0 ${{gpus:-0}} 0"; done
"""


@pytest.mark.parametrize(("gpus", "gres"), [(8, ("gpu:1", "gpu:8")), (1, ("none", "gpu:1"))])
def test_only_free_hosts_get_jobs(tmp_path: Path, gpus: int, gres: tuple[str, str]) -> None:
    """The capture's gpu02 is drained; where a host has one GPU alone, a job without any shows the confinement."""
    (tmp_path / "nodes").write_text(capture("nodes.txt"))
    for name, text in {"scontrol": f"#!/bin/sh\ncat {tmp_path}/nodes\n", "srun": SRUN.format(here=tmp_path)}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    judged = site()
    hardware = {name: replace(sku, gpus=gpus) for name, sku in judged.hardware.items()}
    here = ObserveContext(
        site=judged.site, run_dir=tmp_path, today=judged.today, hardware=hardware,
        connections={"scontrol": str(tmp_path / "scontrol")},
    )  # fmt: skip
    found = observe(here)
    assert [(job.kind, job.nodes, job.gpus) for job in found.jobs] == [
        ("shared", ("gpu01",), 1 if gpus > 1 else 0), ("whole", ("gpu01",), gpus),
    ]  # fmt: skip
    calls = (tmp_path / "calls").read_text().splitlines()
    assert all(f"--gres={word} " in call and "--time=1 " in call for word, call in zip(gres, calls, strict=True))
    assert "--exclusive" not in calls[0] and "--exclusive" in calls[1] and "--immediate=10 " in calls[0]
    assert told(found) == {"gpu02": ("other", "blocked-by-slurm-nodes")}


def test_hosts_that_are_busy_with_our_job_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [state("IDLE+COMPLETING"), Said(rc=1), state("ALLOCATED"), state("IDLE")]
    waits: list[float] = []
    monkeypatch.setattr(observe_slurm_jobs, "_nodes", lambda _context: looks.pop(0))
    monkeypatch.setattr(observe_slurm_jobs.time, "sleep", waits.append)
    context: Any = None
    observe_slurm_jobs._settle(context, NAMES, 60.0)
    assert not looks and len(waits) == 3
