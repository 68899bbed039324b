# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A test as a job of Slurm: its script, the arguments of sbatch, and the meaning of its end. Pure.

Controller and nodes see the directory of a job under one path. It has the programs of the test and its log. The last
line of the log confirms that the script ran to its end, so that a log that is truncated, or of another job, is never
taken for a complete one. (sbatch.1, srun.1, scontrol.1, squeue.1 "JOB STATE CODES"; schedmd.com)
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..outcome.wording import first_of
from ..probe.slurm_jobs import SlurmJob
from ..runtime.files import RECIPES
from .follow import Ending
from .job import CONFIG_DIR, DATA_DIR, JobSpec
from .manifests import data_directory

OWNER = "gpufleet.bringup"
LOG = "job.log"
_PROGRAMS = RECIPES / "workloads" / "slurm"
_BEGAN = re.compile(rf"^{re.escape(OWNER)}: job (\d{{1,12}}) runs on (\S{{1,253}})$", re.M)
_HAS = re.compile(rf"^{re.escape(OWNER)}: job (\d{{1,12}}) has (\S{{1,253}}) as (\S{{1,253}})$", re.M)
# Lines of look.sh and ranks.sh, of a shell in a container, of slurmstepd (SchedMD/slurm,
# src/slurmd/slurmstepd/task.c), and of srun about a plugin that it does not have (src/interfaces/mpi.c).
_NO_PROGRAM = re.compile(
    r"^gpufleet: (?P<host>\S{1,253}) has no (?P<program>\S{1,4096})$"
    r"|^(?:\S+: )?(?:line )?\d{1,5}: (?P<word>mpirun|srun): (?:command )?not found$"
    r"|^slurmstepd\S*: error: execve\(\): (?P<path>[^\n]{1,4096}): No such file or directory$"
    r"|^srun: error: (?P<plugin>(?:Invalid MPI type|Couldn't find the specified plugin name for mpi/)[^\n]{1,200})$",
    re.M,
)
# Without the plugin srun does not know its options. With it slurmstepd reports why there is no container.
_NO_CONTAINER = re.compile(
    r"^srun: (?P<option>unrecognized option '--(?:no-)?container[^\n]*)$"
    r"|^(?:slurmstepd\S*|srun): error: pyxis: (?:failed to import docker image|failed to create container filesystem"
    r"|container start failed|failed to start container|container exited too soon"
    r"|container was not started successfully)[^\n]*$",
    re.M,
)
_END = re.compile(rf"^{re.escape(OWNER)}: job (\d{{1,12}}) ended with (\d{{1,3}})$")
_WAITS = frozenset({"PENDING"})
_GOES_ON = frozenset(
    {"CONFIGURING", "POWER_UP_NODE", "RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)  # fmt: skip
_BY_ITSELF = {"COMPLETED": "succeeded", "FAILED": "failed", "OUT_OF_MEMORY": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmWays:
    """How a site wants these jobs. Empty values are not passed to sbatch.

    `mpi` is the plugin of `srun --mpi` that starts the ranks. If it is empty, mpirun of the node starts them, or pmix
    where a run of several nodes is in containers.
    """

    directory: Path
    containers: str = "pyxis"
    partition: str = ""
    account: str = ""
    qos: str = ""
    nice: int = 10000
    mpi: str = ""
    reservation: str = ""


def mark(cycle_id: str) -> str:
    """Return the comment that marks the jobs of a cycle."""
    return f"{OWNER}:{cycle_id}"


def seconds_of(spec: JobSpec, ways: SlurmWays) -> float:
    """Return the time limit of a job in seconds, in whole minutes as Slurm has it, with the pull of its image."""
    pull_s = spec.pull_s if ways.containers == "pyxis" else 0.0
    return 60.0 * max(1, math.ceil((spec.timeout_s + pull_s) / 60.0))


def sbatch_words(spec: JobSpec, ways: SlurmWays, cycle_id: str, gpus: int | None) -> tuple[str, ...]:
    """Return the arguments of sbatch for a script on its standard input.

    Args:
        spec: the job.
        ways: how the site wants it.
        cycle_id: the cycle that it belongs to.
        gpus: how many GPUs Slurm offers on the node; None where it does not know of any.
    """
    limit_s, directory = seconds_of(spec, ways), directory_of(spec, ways, cycle_id)
    # Whatever starts the ranks takes the tasks of a job for the number of slots of a node.
    spread = len(spec.nodes) > 1 or plugin_of(spec, ways)
    tasks = f"--ntasks-per-node={spec.gpus_per_node}" if spread else "--ntasks=1"
    words = [
        "--parsable", f"--job-name=gpufleet-{spec.name}-{cycle_id}", f"--comment={mark(cycle_id)}",
        f"--nodes={len(spec.nodes)}", tasks, f"--nodelist={','.join(spec.nodes)}", "--exclusive", "--mem=0",
        "--no-requeue", f"--nice={ways.nice}",
        f"--time={int(limit_s // 60)}", f"--deadline=now+{math.ceil(spec.placing_s + limit_s)}",
        f"--output={directory / LOG}", "--open-mode=truncate", f"--chdir={directory}",
        # Use the limits of the node's slurmd: this controller's may be anything, such as 8 MiB of locked memory.
        "--propagate=NONE",
    ]  # fmt: skip
    words += [f"--gres=gpu:{spec.gpus_per_node}"] if gpus is not None and spec.gpus_per_node else []
    configured = {
        "partition": ways.partition, "account": ways.account, "qos": ways.qos, "reservation": ways.reservation
    }  # fmt: skip
    return (*words, *(f"--{name}={value}" for name, value in configured.items() if value))


def plugin_of(spec: JobSpec, ways: SlurmWays) -> str:
    """Return the plugin of `srun --mpi` that starts the ranks of a job. Empty where mpirun does.

    An mpirun in a container reaches no other node: it would start its daemons with an srun that is not in the image.
    """
    if spec.kind == "plain-job":
        return ""
    return ways.mpi or ("pmix" if ways.containers == "pyxis" and len(spec.nodes) > 1 else "")


def directory_of(spec: JobSpec, ways: SlurmWays, cycle_id: str) -> Path:
    """Return the directory of a job."""
    return ways.directory / cycle_id / spec.name


def script_of(spec: JobSpec, ways: SlurmWays, cycle_id: str) -> str:
    """Return the script of a job: a line with the host name, its command, and a last line with its exit code."""
    environment = {"PYTHONDONTWRITEBYTECODE": "1", **spec.env}
    plugin = plugin_of(spec, ways)
    # The same as mpirun gets in ranks.sh: MPI only carries how ranks find each other.
    environment |= {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1", "OMPI_MCA_coll": "^hcoll"} if plugin else {}
    if ways.containers == "pyxis":
        command = step_words(spec, ways, cycle_id, environment)
        environment = {**_hooks(spec), **environment}
    else:
        directory, data = str(directory_of(spec, ways, cycle_id)), data_path(spec)
        environment = {name: data if value == DATA_DIR else value for name, value in environment.items()}
        words = [word.replace(CONFIG_DIR, directory) for word in _command(spec, ways, environment)]
        command = f"{_step(spec, plugin)} {shlex.join(words)}" if plugin else shlex.join(words)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [_look(spec, ways)] if len(spec.nodes) > 1 else []
    first = f'echo "{OWNER}: job $SLURM_JOB_ID runs on $(uname -n)"'
    last = f'echo "{OWNER}: job $SLURM_JOB_ID ended with $rc"'
    return "\n".join(["#!/bin/sh", first, *lines, command, "rc=$?", last, 'exit "$rc"', ""])


def _command(spec: JobSpec, ways: SlurmWays, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what runs on the node: the command itself, or the script that starts it once for every GPU."""
    if spec.kind == "plain-job" or plugin_of(spec, ways):
        return spec.command
    several = len(spec.nodes) > 1
    name = "ranks_of_nodes.sh" if several else "ranks.sh"
    script = (_PROGRAMS / name).read_text(encoding="utf-8")
    counts = (str(spec.ranks), str(spec.gpus_per_node)) if several else (str(spec.ranks),)
    return ("sh", "-c", script, name, *counts, ",".join(environment), *spec.command)


def _look(spec: JobSpec, ways: SlurmWays) -> str:
    """Return the command line of a step with one task on each node.

    It prints the host name, how much memory may be locked, and which programs are missing. In containers no program is
    looked for, because the image has them.
    """
    script = (_PROGRAMS / "look.sh").read_text(encoding="utf-8")
    starts = () if plugin_of(spec, ways) else ("mpirun",)
    programs = () if ways.containers == "pyxis" else (*starts, spec.command[0])
    count = len(spec.nodes)
    return f"srun --mpi=none --nodes={count} --ntasks={count} --ntasks-per-node=1 " + shlex.join(
        ("sh", "-c", script, "look.sh", OWNER, *programs)
    )


def _step(spec: JobSpec, plugin: str) -> str:
    """Return the begin of the command line of a job's step, which is not quoted for the shell.

    A step has the CPUs that it requests and does not inherit those of its job (srun.1, --cpus-per-task). Tasks of ranks
    are not bound to a part of them each: NCCL binds its threads to the CPUs of their GPU.
    """
    if not plugin:
        return 'srun --ntasks=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --mpi=none'
    each, count = spec.gpus_per_node, len(spec.nodes)
    return (
        f"srun --nodes={count} --ntasks={spec.ranks} --ntasks-per-node={each} "
        f'--cpus-per-task="$((SLURM_CPUS_ON_NODE / {each}))" --cpu-bind=none --kill-on-bad-exit=1 '
        f"--mpi={shlex.quote(plugin)}"
    )


def data_path(spec: JobSpec) -> str:
    """Return the directory of the nodes that is the volume of a job. Empty without one.

    Raises:
        InputError: the volume is no directory of the nodes.
    """
    return data_directory(spec.data) if spec.data else ""


def _hooks(spec: JobSpec) -> dict[str, str]:
    """Return the variables by which Enroot's hooks give a container the GPUs of the node, and ranks all adapters.

    The job's variables override those of the image. An image without them would get no GPU, and none gets adapters by
    default (NVIDIA/enroot: conf/hooks/98-nvidia.sh, 99-mellanox.sh).
    """
    return {
        "NVIDIA_VISIBLE_DEVICES": "all" if spec.gpus_per_node else "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "MELLANOX_VISIBLE_DEVICES": "void" if spec.kind == "plain-job" else "all",
    }


def step_words(spec: JobSpec, ways: SlurmWays, cycle_id: str, environment: Mapping[str, str]) -> str:
    """Return the command line of a job's step, whose task Pyxis runs in a container.

    The container is like a pod's: the program in CONFIG_DIR, the volume in DATA_DIR, no home, no entrypoint, a
    writable file system, and this environment before that of the image. A value of several lines cannot be named in
    `--container-env`, and reaches the task only where the image does not set it (NVIDIA/pyxis: README, args.c,
    pyxis_slurmstepd.c). An mpirun needs no MPI plugin of Slurm (slurm: srun.1 `--mpi=none`).
    """
    mounts = [f"{directory_of(spec, ways, cycle_id)}:{CONFIG_DIR}:ro"]
    mounts += [f"{data_path(spec)}:{DATA_DIR}"] if spec.data else []
    names = [name for name, value in environment.items() if value and "\n" not in value]
    words = [
        f"--container-image={pyxis_image(spec.image)}", f"--container-mounts={','.join(mounts)}",
        "--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint", "--container-writable",
        f"--container-env={','.join(names)}", *_command(spec, ways, environment),
    ]  # fmt: skip
    return f"{_step(spec, plugin_of(spec, ways))} {shlex.join(words)}"


def pyxis_image(image: str) -> str:
    """Return an image name in the form of Pyxis: `nvcr.io#nvidia/pytorch:25.08-py3` (NVIDIA/pyxis, README)."""
    registry, slash, rest = image.partition("/")
    named = bool(registry) and bool(slash) and ("." in registry or ":" in registry or registry == "localhost")
    return f"{registry}#{rest}" if named and "#" not in image else image


def whole_log(text: str, job_id: str) -> tuple[str, int | None]:
    """Return a log without our own lines, and the exit code of its last line. The code is None without that line."""
    body, _newline, last = text.rstrip("\n").rpartition("\n")
    match = _END.fullmatch(last)
    if match is None or match.group(1) != job_id:
        return text, None
    began = _began(body, job_id)
    body = body.replace(began.group(0), "", 1).removeprefix("\n") if began else body
    return f"{body}\n" if body else "", int(match.group(2))


def machines_of(text: str, job_id: str) -> dict[str, str]:
    """Return by node the host names that a job of several nodes has in its log, without domain."""
    found = {
        match.group(2): match.group(3).partition(".")[0] for match in _HAS.finditer(text) if match.group(1) == job_id
    }
    return {node: name for node, name in found.items() if name}


def machine_of(text: str, job_id: str) -> str:
    """Return the host name of a job's node without domain, as NCCL prints it. Empty if the log does not have it."""
    began = _began(text, job_id)
    return began.group(2).partition(".")[0] if began else ""


def _began(text: str, job_id: str) -> re.Match[str] | None:
    return next((match for match in _BEGAN.finditer(text) if match.group(1) == job_id), None)


def no_container(log: str) -> Ending | None:
    """Return the ending of a job whose container did not start, from the lines of srun and Pyxis. None if it started.

    The program of the test did not begin, so its exit code means nothing for the node.
    """
    match = _NO_CONTAINER.search(log)
    if match is None:
        return None
    if match.group("option"):
        hint = "install Pyxis 0.15 or newer, or state continuous.slurm_containers=none"
        return Ending(
            "refused", f"srun on the node has no Pyxis, or an old one ({match.group('option')[:120]}); {hint}"
        )
    return Ending("image", match.group(0).strip()[:200])


def no_program(log: str) -> Ending | None:
    """Return the ending of a job that did not find the program to start, from its log. None if it found it.

    Nothing ran, so its exit code means nothing for the nodes.
    """
    found = list(_NO_PROGRAM.finditer(log))
    if not found:
        return None
    first = found[0]
    if first.group("plugin"):
        reason = (
            f"srun has no such plugin ({first.group('plugin')[:120]}); `srun --mpi=list` names them, state one of them"
        )
        return Ending("no-program", f"{reason} as continuous.slurm_mpi")
    hosts = [match.group("host") for match in found if match.group("host")]
    program = first.group("program") or first.group("word") or first.group("path")
    where = f" on {first_of(list(dict.fromkeys(hosts)), 4)}" if hosts else ""
    return Ending("no-program", f"{program} is not there{where}")


def waits(job: SlurmJob) -> bool:
    """Tell whether a job has no node yet."""
    return job.state in _WAITS


def ending_of(job: SlurmJob, nodes: str) -> Ending | None:
    """Return how a job ended by its state in Slurm, None while it goes on. Its log may still contradict this.

    A job succeeded only if it is COMPLETED with exit code 0 on the nodes that it was made for. Anything else that ends
    it early means nothing for the nodes, and an unknown state means nothing at all. A job that Slurm requeued is
    `unknown`, because its log has no known start.

    Args:
        job: its state.
        nodes: the nodes that it was made for, sorted, separated by commas.
    """
    state, reported = job.state, f"job {job.job_id} is {job.state}{f' ({job.reason})' if job.reason else ''}"
    if job.restarts:
        return Ending("unknown", f"{reported}, and Slurm put it back into its queue {job.restarts} times")
    if state in _WAITS or state in _GOES_ON:
        return None
    if state in _BY_ITSELF or state == "TIMEOUT":
        if job.nodes != nodes:
            return Ending("unknown", f"{reported} on {job.nodes or 'no node'}, and was made for {nodes}")
        code = f"{reported}, exit code {job.exit_code}{f', signal {job.signal}' if job.signal else ''}"
        if state == "COMPLETED" and (job.exit_code or job.signal):
            return Ending("unknown", code)
        if state == "TIMEOUT":
            return Ending("timeout", reported)
        return Ending("succeeded" if state == "COMPLETED" else "failed", code)
    if state in ("PREEMPTED", "SUSPENDED", "STOPPED"):
        return Ending("preempted", reported)
    if state == "CANCELLED":
        return Ending("preempted", f"{reported}: somebody took its place back")
    if state == "DEADLINE":
        return Ending("unschedulable", reported)
    if state in ("NODE_FAIL", "BOOT_FAIL"):
        return Ending("lost-node", reported)
    return Ending("unknown", reported)
