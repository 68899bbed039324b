# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run two jobs of a second on the free hosts of each SKU: one GPU per host, then all hosts whole, at once.

Where a host has only one GPU, the first job requests none. Jobs start at once or not at all, preempt no other job, and
Slurm ends them after a minute. The state of the nodes afterwards shows whether prolog and epilog succeeded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...outcome.errors import InputError
from ...probe.slurm_nodes import SlurmNode
from ...runtime.clock import Deadline
from ..kit.settings import setting
from ..spec import ObserveContext, observer_of
from .observe_slurm import MARK, Said, nodes_of
from .observe_slurm_daemons import ask, program
from .slurm_hosts import GRES, GresSettings

CHECK_ID = "slurm-jobs"
SHARED, WHOLE = "shared", "whole"
_POLL_S = 2.0
# What a task can access, whatever its environment: exit code of nvidia-smi, number of GPUs, and of MIG devices.
_SCRIPT = f"""said=$(nvidia-smi -L 2>&1); rc=$?
case "$said" in *"No devices"*) rc=0 ;; esac
count() {{ printf '%s\\n' "$said" | grep -c "$1"; }}
echo "{MARK} $SLURMD_NODENAME $rc $(count '^GPU ') $(count '^ *MIG ')"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of check slurm-jobs."""

    options: tuple[str, ...] = setting(
        "More options of srun for the jobs of the test, such as --partition=gpu or --account=test.",
        default=[],
        use="run",
    )
    immediate_s: int = setting("How long a job may wait for its hosts.", default=10, unit="s", minimum=1, use="run")
    settle_s: float = setting(
        "How long hosts may take to be free after a job.", default=60.0, unit="s", minimum=0, use="run"
    )
    timeout_s: float = setting("How long a job may take.", default=120.0, unit="s", above=0, use="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One job. `nodes` are the Slurm node names that it requested, `gpus` the number of GPUs on each."""

    kind: str
    nodes: tuple[str, ...]
    gpus: int
    said: Said


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobs:
    """The jobs, with `scontrol show nodes` before and after them (None: no job was run)."""

    before: Said
    jobs: tuple[JobRun, ...] = ()
    after: Said | None = None
    schema_version: int = 1


def job_words(job: JobRun, settings: JobSettings, run_id: str) -> tuple[str, ...]:
    """Return the arguments of srun."""
    count = len(job.nodes)
    return (
        "--job-name=gpufleet-test", f"--comment=gpufleet.bringup:{run_id}", f"--immediate={settings.immediate_s}",
        "--time=1", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1",
        f"--nodelist={','.join(job.nodes)}", f"--gres=gpu:{job.gpus}" if job.gpus else "--gres=none",
        *(("--exclusive",) if job.kind == WHOLE else ()), "--mpi=none", *settings.options, "sh", "-c", _SCRIPT,
    )  # fmt: skip


def observe(context: ObserveContext) -> SlurmJobs:
    """Run both jobs for the free hosts of each SKU, one after another."""
    settings = context.settings_of(CHECK_ID, JobSettings)
    counts = context.settings_of(GRES.id, GresSettings).counts
    before = _nodes(context)
    known = _known(before)
    jobs: list[JobRun] = []
    for sku in dict.fromkeys(host.sku for host in context.site.in_scope if host.sku in context.hardware):
        names = (host.node_name for host in context.site.in_scope if host.sku == sku)
        nodes = tuple(name for name in names if name in known and known[name].free)
        count = counts.get(sku, context.hardware[sku].gpus)
        for kind, gpus in ((SHARED, 1 if count > 1 else 0), (WHOLE, count)):
            if nodes:
                requested = JobRun(kind=kind, nodes=nodes, gpus=gpus, said=Said(rc=None))
                words = job_words(requested, settings, context.run_dir.name)
                reported = ask((program(context, "srun"), *words), settings.timeout_s)
                jobs.append(JobRun(kind=kind, nodes=nodes, gpus=gpus, said=reported))
                _settle(context, nodes, settings.settle_s)
    return SlurmJobs(before=before, jobs=tuple(jobs), after=_nodes(context) if jobs else None)


def _nodes(context: ObserveContext) -> Said:
    return ask((program(context, "scontrol"), "show", "nodes"))


def _known(reported: Said) -> dict[str, SlurmNode]:
    """Return the nodes by name. Empty if they cannot be read; the judge reports that."""
    try:
        return {node.name: node for node in nodes_of(reported)} if reported.rc == 0 else {}
    except InputError:
        return {}


def _settle(context: ObserveContext, nodes: tuple[str, ...], settle_s: float) -> None:
    """Wait until no job of the test is completing: epilogs run after srun has ended."""
    deadline = Deadline.after(settle_s)
    while deadline.left_s > 0:
        known = _known(_nodes(context))
        if known and not any(known[name].busy for name in nodes if name in known):
            return
        time.sleep(min(_POLL_S, max(0.0, deadline.left_s)))


OBSERVER = observer_of("slurm_jobs", SlurmJobs, observe)
