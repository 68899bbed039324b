# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: Slurm jobs start at once on all hosts together, and each sees exactly the GPUs that it got.

A job that ran also proves munge, clock and prolog of its host. The GPUs are those that nvidia-smi can open, which no
environment variable changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import first_of
from ...probe.slurm_nodes import SlurmNode
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_slurm import BUSY, LATER, MARK, nodes_of
from .observe_slurm_jobs import CHECK_ID, OBSERVER, SHARED, WHOLE, JobRun, JobSettings, SlurmJobs
from .slurm_daemons import NODES_ID, of_all, read, said_by

SPEC = CheckSpec(
    id=CHECK_ID,
    gate="gpu_stack",
    title="Jobs start at once on all hosts, and see the GPUs that they get",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_JOBS,
    duration_s=20.0,
    only_on="slurm",
    causes=("slurm-devices-open", "slurm-gpus-missing", "slurm-job-failed", "slurm-program-failed"),
    settings=JobSettings,
)
_LINE = re.compile(rf"^{MARK} (\S{{1,255}}) (\d{{1,3}}) (\d{{1,4}}) (\d{{1,4}})$", re.MULTILINE)
# Reason that slurmctld sets if a program around a job failed (SchedMD/slurm, src/slurmd, src/slurmctld).
_PROGRAM = re.compile(r"[Pp]rolog|[Ee]pilog|Kill task failed")
_AGAIN = "run the gate again when the host is idle"
_NAMED = 8


@dataclass(frozen=True, slots=True)
class _Nodes:
    before: dict[str, SlurmNode]
    after: dict[str, SlurmNode]

    def broken(self, name: str) -> SlurmNode | None:
        """Return a node that took jobs before and takes none now. None: it still does."""
        node = self.after.get(name)
        return node if node is not None and (node.draining or node.down) else None


def judge(observed: SlurmJobs, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host, from the two jobs that ran on it."""
    hosts = context.site.in_scope
    if not hosts:
        return ()
    first = Answer.about_host(SPEC, context, hosts[0].name)
    before = read(first, observed.before, "scontrol show nodes", nodes_of)
    if isinstance(before, Outcome):
        return of_all(before, hosts)
    after = read(first, observed.after or observed.before, "scontrol show nodes", nodes_of)
    if isinstance(after, Outcome):
        return of_all(after, hosts)
    nodes = _Nodes({node.name: node for node in before}, {node.name: node for node in after})
    return tuple(_host(Answer.about_host(SPEC, context, host.name), host.node_name, nodes, observed) for host in hosts)


def _host(answer: Answer, name: str, nodes: _Nodes, observed: SlurmJobs) -> Outcome:
    node = nodes.before.get(name)
    if node is None or node.draining or node.down:
        return answer.blocked(by=NODES_ID, because=f"node {name} takes no jobs")
    if not node.free:
        return answer.unknown("slurm-busy", f"node {name} is {node.state}: it has other work", _AGAIN)
    jobs = {job.kind: job for job in observed.jobs if name in job.nodes}
    if set(jobs) != {SHARED, WHOLE} or name not in nodes.after:
        return answer.unknown("no-job", f"node {name} was free, and no job was run on it", "run the gate again")
    broken = nodes.broken(name)
    if broken is not None:
        text = f"node {name} took jobs before ours, and is {broken.state} after them: {broken.reason or 'no reason'}"
        if _PROGRAM.search(broken.reason):
            resume = f"scontrol update nodename={name} state=resume"
            hint = f"on {name}: journalctl -u slurmd; run Prolog and Epilog of slurm.conf by hand; then {resume}"
            return answer.failed("slurm-program-failed", text, hint)
        return answer.unknown("slurm-node-changed", text, _AGAIN)
    found = [_job(answer, name, job, nodes) for job in (jobs[SHARED], jobs[WHOLE])]
    bad = next((outcome for outcome in found if isinstance(outcome, Outcome)), None)
    if bad is not None:
        return bad
    if "COMPLETING" in nodes.after[name].flags:
        text = f"the jobs on node {name} are over, and it is {nodes.after[name].state}: the epilog has not ended"
        return answer.unknown("slurm-completing", text, "look at the epilog; setting slurm-jobs.settle_s")
    shared, whole = jobs[SHARED], jobs[WHOLE]
    text = f"of {whole.gpus} GPUs a job that got {shared.gpus} saw {shared.gpus}"
    text += f"; a job on {len(whole.nodes)} whole hosts started at once and saw all"
    return answer.passed(text, measured=(Measure("GPUs in a job", shared.gpus), Measure("GPUs of a host", whole.gpus)))


def _job(answer: Answer, name: str, job: JobRun, nodes: _Nodes) -> Outcome | None:
    """Return what is wrong with a job on this node. None: it saw what it got."""
    what = f"a job of {job.gpus} GPUs on each of {len(job.nodes)} hosts"
    evidence = (said_by("srun", job.said),)
    lines = [match.groups() for match in _LINE.finditer(job.said.stdout) if match.group(1) == name]
    if job.said.timed_out:
        return answer.unknown("slurm-timeout", f"{what} did not end in time", _AGAIN, evidence=evidence)
    if job.said.rc != 0:
        return _refused(answer, what, job, nodes)
    if len(lines) != 1:
        text = f"{what} has {len(lines)} lines of node {name}, expected one"
        return answer.unknown("slurm-unread", text, "run it by hand: srun -w NODE nvidia-smi -L", evidence=evidence)
    code, gpus, parts = (int(word) for word in lines[0][1:])
    if code != 0:
        text = f"nvidia-smi ended with {code} in {what}"
        return answer.unknown("nvidia-smi-failed", text, f"srun -w {name} nvidia-smi -L", evidence=evidence)
    visible = parts or gpus
    facts = {
        "measured": (Measure("GPUs in a job", visible),),
        "expected": (Expectation("GPUs in a job", "==", job.gpus, Basis.RULE),),
        "evidence": evidence,
    }
    if visible > job.gpus:
        hint = f"on {name}: ConstrainDevices=yes in cgroup.conf, File= of every GPU in gres.conf; restart slurmd"
        return answer.failed("slurm-devices-open", f"{what} can open {visible} on node {name}", hint, **facts)
    if visible < job.gpus:
        hint = f"on {name}: compare nvidia-smi -L with gres.conf and slurmd -G"
        return answer.failed("slurm-gpus-missing", f"{what} sees {visible} on node {name}", hint, **facts)
    return None


def _refused(answer: Answer, what: str, job: JobRun, nodes: _Nodes) -> Outcome:
    evidence = (said_by("srun", job.said),)
    if job.said.rc is None:
        hint = "srun lies beside scontrol (gpufleet_gpu_stack_scontrol)"
        return answer.unknown("slurm-unread", f"srun was not run: {job.said.last}", hint, evidence=evidence)
    if BUSY in job.said.stderr or LATER in job.said.stderr:
        text = f"{what} was refused: {job.said.last}"
        return answer.unknown("slurm-busy", text, _AGAIN, evidence=evidence)
    others = [name for name in job.nodes if nodes.broken(name)]
    if others:
        text = f"{what} failed, and {first_of(others, _NAMED)} takes no jobs since"
        return answer.unknown("slurm-job-broken", text, "mend those hosts, and run the gate again", evidence=evidence)
    hint = f"account, partition or QOS: gpufleet_settings: {{{CHECK_ID}: {{options: [--partition=...]}}}}"
    return answer.failed("slurm-job-failed", f"{what} failed: {job.said.last}", hint, evidence=evidence)


CHECK = Check(SPEC, OBSERVER, judge)
