# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A test of one node as a job of Slurm: its script, the words of sbatch, and what its end means. Pure.

The directory of a job lies where controller and nodes see it by one path: the programs of the test are there, and its
log. The last line of the log says that the script came to its end, so that a log that is cut, or of another job, is
never taken for a whole one. (sbatch.1, scontrol.1, squeue.1 "JOB STATE CODES"; schedmd.com)
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from ..probe.slurm_jobs import SlurmJob
from ..workload.follow import Ending
from ..workload.model import CONFIG_DIR, JobSpec

OWNER = "gpufleet.bringup"
LOG = "job.log"
_END = re.compile(rf"^{re.escape(OWNER)}: job (\d{{1,12}}) ended with (\d{{1,3}})$")
_WAITS = frozenset({"PENDING"})
_GOES_ON = frozenset(
    {"CONFIGURING", "POWER_UP_NODE", "RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)  # fmt: skip
_BY_ITSELF = {"COMPLETED": "succeeded", "FAILED": "failed", "OUT_OF_MEMORY": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmWays:
    """How a site wants these jobs; words that are empty are not said to sbatch."""

    directory: Path
    containers: str = "pyxis"
    partition: str = ""
    account: str = ""
    qos: str = ""
    nice: int = 10000


def mark(cycle_id: str) -> str:
    """Return the comment by which a job of a cycle is known."""
    return f"{OWNER}:{cycle_id}"


def seconds_of(spec: JobSpec, ways: SlurmWays) -> float:
    """Return the time limit of a job, as Slurm has it: whole minutes, in which its image is pulled as well."""
    pull_s = spec.pull_s if ways.containers == "pyxis" else 0.0
    return 60.0 * max(1, math.ceil((spec.timeout_s + pull_s) / 60.0))


def sbatch_words(spec: JobSpec, ways: SlurmWays, cycle_id: str, gpus: int | None) -> tuple[str, ...]:
    """Return the words of sbatch behind its name, for a script on its standard input.

    Args:
        spec: the job.
        ways: how the site wants it.
        cycle_id: whose job it is.
        gpus: how many GPUs Slurm gives out on the node, None where it does not know of any.
    """
    limit_s, directory = seconds_of(spec, ways), directory_of(spec, ways, cycle_id)
    words = [
        "--parsable", f"--job-name=gpufleet-{spec.name}", f"--comment={mark(cycle_id)}", "--nodes=1", "--ntasks=1",
        f"--nodelist={spec.nodes[0]}", "--exclusive", "--mem=0", "--no-requeue", f"--nice={ways.nice}",
        f"--time={int(limit_s // 60)}", f"--deadline=now+{math.ceil(spec.placing_s + limit_s)}",
        f"--output={directory / LOG}", "--open-mode=truncate", f"--chdir={directory}",
    ]  # fmt: skip
    words += [f"--gres=gpu:{spec.gpus_per_node}"] if gpus is not None and spec.gpus_per_node else []
    stated = {"partition": ways.partition, "account": ways.account, "qos": ways.qos}
    return (*words, *(f"--{name}={value}" for name, value in stated.items() if value))


def directory_of(spec: JobSpec, ways: SlurmWays, cycle_id: str) -> Path:
    """Return the directory of a job."""
    return ways.directory / cycle_id / spec.name


def script_of(spec: JobSpec, ways: SlurmWays, cycle_id: str) -> str:
    """Return the script of a job: its command once, and a last line with its exit code."""
    directory = directory_of(spec, ways, cycle_id)
    environment = {"PYTHONDONTWRITEBYTECODE": "1", **spec.env}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    if ways.containers == "pyxis":
        step = ["srun", "--ntasks=1", f"--container-image={pyxis_image(spec.image)}", "--no-container-mount-home"]
        step += [f"--container-mounts={directory}:{CONFIG_DIR}:ro", *spec.command]
        command = shlex.join(step).replace("--ntasks=1", '--ntasks=1 --cpus-per-task="$SLURM_CPUS_ON_NODE"', 1)
    else:
        command = shlex.join(word.replace(CONFIG_DIR, str(directory)) for word in spec.command)
    last = f'echo "{OWNER}: job $SLURM_JOB_ID ended with $rc"'
    return "\n".join(["#!/bin/sh", *lines, command, "rc=$?", last, 'exit "$rc"', ""])


def pyxis_image(image: str) -> str:
    """Return the name of an image as pyxis has it: `nvcr.io#nvidia/pytorch:25.08-py3` (NVIDIA/pyxis, README)."""
    registry, slash, rest = image.partition("/")
    named = bool(registry) and bool(slash) and ("." in registry or ":" in registry or registry == "localhost")
    return f"{registry}#{rest}" if named and "#" not in image else image


def whole_log(text: str, job_id: str) -> tuple[str, int | None]:
    """Return a log without its last line, and the exit code that this says; None where it is not that line."""
    body, _newline, last = text.rstrip("\n").rpartition("\n")
    match = _END.fullmatch(last)
    if match is None or match.group(1) != job_id:
        return text, None
    return f"{body}\n" if body else "", int(match.group(2))


def waits(job: SlurmJob) -> bool:
    """Tell whether it has no node yet."""
    return job.state in _WAITS


def ending_of(job: SlurmJob, node: str) -> Ending | None:
    """Return how a job ended by what Slurm says of it, None while it goes on. Its log may still say otherwise.

    Only COMPLETED with exit code 0 on the node that was asked for succeeded. Whatever else ends a job before its time
    says nothing about the node, and a state that we do not know says nothing at all.
    """
    state, said = job.state, f"job {job.job_id} is {job.state}{f' ({job.reason})' if job.reason else ''}"
    if state in _WAITS or state in _GOES_ON:
        return None
    if state in _BY_ITSELF or state == "TIMEOUT":
        if job.nodes != node:
            return Ending("unknown", f"{said} on {job.nodes or 'no node'}, and was made for {node}")
        code = f"{said}, exit code {job.exit_code}{f', signal {job.signal}' if job.signal else ''}"
        if state == "COMPLETED" and (job.exit_code or job.signal):
            return Ending("unknown", code)
        if state == "TIMEOUT":
            return Ending("timeout", said)
        return Ending("succeeded" if state == "COMPLETED" else "failed", code)
    if state in ("PREEMPTED", "SUSPENDED", "STOPPED"):
        return Ending("preempted", said)
    if state == "CANCELLED":
        return Ending("preempted", f"{said}: somebody took its place back")
    if state == "DEADLINE":
        return Ending("unschedulable", said)
    if state in ("NODE_FAIL", "BOOT_FAIL"):
        return Ending("lost-node", said)
    return Ending("unknown", said)
