# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs tests of idle nodes as jobs of Slurm: each alone on its node, followed to its end, given back to users at once.

Jobs of ours never wait long and come last (nice), are not requeued, and end by themselves at a time that Slurm knows
(time limit and deadline), also when their controller died. A job is ours by its comment and our user; no other job is
ever cancelled. While a job of a user waits for a node that we hold, our test there is cancelled and is still to do.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..outcome.errors import BringupError, InputError, UnavailableError
from ..probe import slurm_jobs, slurm_nodes
from ..probe.slurm_jobs import QUEUE_FORMAT, QueuedJob, SlurmJob
from ..runtime.clock import Deadline, now_utc
from ..runtime.files import RECIPES, make_dirs, write_atomic, writing
from ..runtime.process import CommandResult, run_command
from ..runtime.progress import Emit, Progress, silent
from ..workload.follow import Ending
from ..workload.job import CONFIG_DIR, DATA_DIR, JobResult, JobSpec, PodResult
from ..workload.manifests import data_directory

# A test of one node as a job of Slurm: its script, the words of sbatch, and what its end means. Pure. The directory
# of a job lies where controller and nodes see it by one path: the programs of the test are there, and its log. The
# last line of the log says that the script came to its end, so that a log that is cut, or of another job, is never
# taken for a whole one. (sbatch.1, scontrol.1, squeue.1 "JOB STATE CODES"; schedmd.com)

OWNER = "gpufleet.bringup"
LOG = "job.log"
_PROGRAMS = RECIPES / "workloads" / "slurm"
_BEGAN = re.compile(rf"^{re.escape(OWNER)}: job (\d{{1,12}}) runs on (\S{{1,253}})$", re.M)
# srun without the plugin does not know its options; with it, slurmstepd says why there is no container.
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
        # Limits of the node's own slurmd: this controller's are what it happens to have, 8 MiB of locked memory maybe.
        "--propagate=NONE",
    ]  # fmt: skip
    words += [f"--gres=gpu:{spec.gpus_per_node}"] if gpus is not None and spec.gpus_per_node else []
    stated = {"partition": ways.partition, "account": ways.account, "qos": ways.qos}
    return (*words, *(f"--{name}={value}" for name, value in stated.items() if value))


def directory_of(spec: JobSpec, ways: SlurmWays, cycle_id: str) -> Path:
    """Return the directory of a job."""
    return ways.directory / cycle_id / spec.name


def script_of(spec: JobSpec, ways: SlurmWays, cycle_id: str) -> str:
    """Return the script of a job: a line with the machine's name, its command, and a last line with its exit code."""
    environment = {"PYTHONDONTWRITEBYTECODE": "1", **spec.env}
    if ways.containers == "pyxis":
        command = step_words(spec, ways, cycle_id, environment)
        environment = {**_hooks(spec), **environment}
    else:
        directory, data = str(directory_of(spec, ways, cycle_id)), data_path(spec)
        environment = {name: data if value == DATA_DIR else value for name, value in environment.items()}
        command = shlex.join(word.replace(CONFIG_DIR, directory) for word in _command(spec, environment))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    first = f'echo "{OWNER}: job $SLURM_JOB_ID runs on $(uname -n)"'
    last = f'echo "{OWNER}: job $SLURM_JOB_ID ended with $rc"'
    return "\n".join(["#!/bin/sh", first, *lines, command, "rc=$?", last, 'exit "$rc"', ""])


def _command(spec: JobSpec, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what runs on the node: the command itself, or what starts it once for every GPU."""
    if spec.kind == "plain-job":
        return spec.command
    script = (_PROGRAMS / "ranks.sh").read_text(encoding="utf-8")
    return ("sh", "-c", script, "ranks.sh", str(spec.ranks), ",".join(environment), *spec.command)


def data_path(spec: JobSpec) -> str:
    """Return the directory of the nodes that is the volume of a job; empty without one.

    Raises:
        InputError: it is no directory of the nodes.
    """
    return data_directory(spec.data) if spec.data else ""


def _hooks(spec: JobSpec) -> dict[str, str]:
    """Return what Enroot's hooks are told that a container is to get of the node: GPUs, and for ranks all adapters.

    What the job says goes before what the image says; an image that says nothing would get no GPU, and none gets
    adapters by itself (NVIDIA/enroot: conf/hooks/98-nvidia.sh, 99-mellanox.sh).
    """
    return {
        "NVIDIA_VISIBLE_DEVICES": "all" if spec.gpus_per_node else "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "MELLANOX_VISIBLE_DEVICES": "void" if spec.kind == "plain-job" else "all",
    }


def step_words(spec: JobSpec, ways: SlurmWays, cycle_id: str, environment: Mapping[str, str]) -> str:
    """Return the command line of the one step of a job, whose task Pyxis puts into a container.

    As a pod has it: the program in CONFIG_DIR, the volume in DATA_DIR, no home, no entrypoint, a file system that can
    be written, and this environment before what the image says. Values of several lines cannot be named in
    `--container-env`, and reach the task where the image does not have them (NVIDIA/pyxis: README, args.c,
    pyxis_slurmstepd.c). Who starts ranks needs no MPI plugin of Slurm (slurm: srun.1 `--mpi=none`).
    """
    mounts = [f"{directory_of(spec, ways, cycle_id)}:{CONFIG_DIR}:ro"]
    mounts += [f"{data_path(spec)}:{DATA_DIR}"] if spec.data else []
    names = [name for name, value in environment.items() if value and "\n" not in value]
    words = [
        "--mpi=none", f"--container-image={pyxis_image(spec.image)}", f"--container-mounts={','.join(mounts)}",
        "--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint", "--container-writable",
        f"--container-env={','.join(names)}", *_command(spec, environment),
    ]  # fmt: skip
    # One task with all CPUs of the node: a step does not take them over from its job (srun.1, --cpus-per-task).
    return f'srun --ntasks=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" {shlex.join(words)}'


def pyxis_image(image: str) -> str:
    """Return the name of an image as pyxis has it: `nvcr.io#nvidia/pytorch:25.08-py3` (NVIDIA/pyxis, README)."""
    registry, slash, rest = image.partition("/")
    named = bool(registry) and bool(slash) and ("." in registry or ":" in registry or registry == "localhost")
    return f"{registry}#{rest}" if named and "#" not in image else image


def whole_log(text: str, job_id: str) -> tuple[str, int | None]:
    """Return a log without our own lines, and the exit code that the last one says; None where it is not that line."""
    body, _newline, last = text.rstrip("\n").rpartition("\n")
    match = _END.fullmatch(last)
    if match is None or match.group(1) != job_id:
        return text, None
    began = _began(body, job_id)
    body = body.replace(began.group(0), "", 1).removeprefix("\n") if began else body
    return f"{body}\n" if body else "", int(match.group(2))


def machine_of(text: str, job_id: str) -> str:
    """Return what the node of a job calls itself, without its domain, as NCCL says it; empty where its log does not
    say so."""
    began = _began(text, job_id)
    return began.group(2).partition(".")[0] if began else ""


def _began(text: str, job_id: str) -> re.Match[str] | None:
    return next((match for match in _BEGAN.finditer(text) if match.group(1) == job_id), None)


def no_container(log: str) -> Ending | None:
    """Return how a job ended whose container was never there, by what srun and Pyxis print; None where it was.

    The program of the test did not begin then, so whatever its exit code is says nothing about the node.
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


_COMMAND_S, _POLL_S = 60.0, 2.0
# How long a log may take to be seen here after its job, and how long Slurm may be silent.
_LOG_S, _PATIENCE_S = 30.0, 120.0
# A job that was cancelled is killed after KillWait (30 s), and its epilog has to end.
_GONE_S = 120.0
# What Slurm may end a job later than its time limit (OverTimeLimit is a site's own affair: then we cancel it).
_LATE_S = 120.0
_MOST_LOG_BYTES = 32 << 20
# What a job is told of this controller. Whatever else is set here (SLURM_*, SBATCH_*) would change it.
_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "SLURM_CONF", "LD_LIBRARY_PATH")
_FOR_ROOM = frozenset({"Resources", "Priority"})


@dataclass(frozen=True, slots=True)
class SlurmCommands:
    """Slurm's commands on this controller, those beside `scontrol` in the same directory as it."""

    scontrol: str = "scontrol"

    def run(self, name: str, *words: str, stdin: str = "") -> CommandResult:
        """Run one of them; its exit code is not looked at.

        Raises:
            NotFoundError: it is not there.
        """
        command = self.scontrol if name == "scontrol" else str(Path(self.scontrol).with_name(name))
        environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        return run_command([command, *words], _COMMAND_S, stdin=stdin, env=environment)

    def ask(self, name: str, *words: str) -> str:
        """Return what one of them prints.

        Raises:
            NotFoundError: it is not there.
            UnavailableError: it refuses, or does not answer in time.
        """
        done = self.run(name, *words)
        if done.rc != 0:
            raise UnavailableError(
                f"{name} {' '.join(words)}"[:200], f"{told(done)}.", "try it by hand on this controller: scontrol ping"
            )
        return done.stdout

    def queue(self) -> tuple[QueuedJob, ...]:
        """Return the jobs that wait or run, of all users that this one may see.

        Raises:
            BringupError: squeue does not answer.
        """
        return slurm_jobs.parse_queue(self.ask("squeue", "--noheader", "--array", f"--format={QUEUE_FORMAT}"))

    def job(self, job_id: str) -> SlurmJob:
        """Return how a job stands.

        Raises:
            BringupError: it is not known any more, or scontrol does not answer.
        """
        return slurm_jobs.parse(self.ask("scontrol", "show", "job", job_id), job_id)

    def names(self, nodes: str) -> frozenset[str]:
        """Return the nodes of a list as Slurm writes it (`gpu[01-04]`)."""
        return frozenset(self.ask("scontrol", "show", "hostnames", nodes).split()) if nodes else frozenset()

    def remove(self, cycles: Collection[str], emit: Emit = silent, limit_s: float = _GONE_S) -> tuple[str, ...]:
        """Cancel the jobs of these cycles, and return what is left of them in the time, with the command to remove it.

        Raises:
            BringupError: Slurm does not answer.
        """
        marks, deadline = {mark(cycle) for cycle in cycles}, Deadline.after(limit_s)
        asked: set[str] = set()
        while True:
            left = [job.job_id for job in self.queue() if job.user == os.geteuid() and job.comment in marks]
            for job_id in left:
                if job_id not in asked and self._ours(job_id, marks):
                    emit(f"cancelling job {job_id}, which a cycle left in Slurm")
                    self.run("scancel", job_id)
                    asked.add(job_id)
            if not left or deadline.left_s <= 0:
                return tuple(f"job {job_id} is still in Slurm: scancel {job_id}" for job_id in left)
            time.sleep(min(_POLL_S, max(0.1, deadline.left_s)))

    def _ours(self, job_id: str, marks: Collection[str]) -> bool:
        """Ask for the job itself: in a list, what another user wrote may look like a line."""
        with suppress(BringupError):
            job = self.job(job_id)
            return job.user == os.geteuid() and job.comment in marks
        return False


def told(done: CommandResult) -> str:
    """Return in words how a command failed."""
    if done.timed_out:
        return f"did not end within {_COMMAND_S:.0f} s"
    return f"exit code {done.rc}: {(done.stderr or done.stdout).strip()[:300] or 'nothing'}"


@dataclass(slots=True)
class _Running:
    """A job between sbatch and its end; `asked` is why we cancelled it."""

    spec: JobSpec
    job_id: str
    started: str = field(default_factory=now_utc)
    began_at: float = field(default_factory=time.monotonic)
    ran_at: float | None = None
    asked: Ending | None = None
    asked_at: float = 0.0
    ended_at: float | None = None
    partition: str = ""

    @property
    def node(self) -> str:
        return self.spec.nodes[0]


class SlurmRunner:
    """Runs the jobs of one cycle; `run` is what FleetCycle takes."""

    def __init__(
        self,
        commands: SlurmCommands,
        ways: SlurmWays,
        cycle_id: str,
        emit: Emit = silent,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is run yet."""
        self._commands, self._ways, self._cycle_id = commands, ways, cycle_id
        self._emit, self._sleep = emit, sleep
        self._running: dict[str, _Running] = {}
        self._silent_at: float | None = None
        # A list of nodes means the same at every look, and users' jobs wait through many of them.
        self._names: dict[str, frozenset[str]] = {}

    def run(
        self,
        specs: Sequence[JobSpec],
        progress: Progress,
        deadline: Deadline,
        on_result: Callable[[JobResult], None],
    ) -> None:
        """Run jobs, one on each node, and tell each result as soon as there is one.

        Raises:
            BringupError: Slurm is silent for too long, or the directory of the jobs cannot be written.
        """
        whole = False
        try:
            for spec in specs:
                refused = self._begin(spec)
                if refused is not None:
                    on_result(refused)
            while self._running:
                self._step(on_result, over=deadline.left_s <= 0)
                progress.tick(f"{len(self._running)} of {len(specs)} jobs of Slurm left")
                if self._running:
                    self._sleep(_POLL_S)
            whole = True
        finally:
            if not whole:
                with suppress(BringupError):
                    self._commands.remove([self._cycle_id], self._emit)
            with suppress(OSError):
                shutil.rmtree(self._ways.directory / self._cycle_id)

    def _begin(self, spec: JobSpec) -> JobResult | None:
        """Give a job to Slurm; return its result where that was refused."""
        directory, node = directory_of(spec, self._ways, self._cycle_id), spec.nodes[0]
        with writing(directory):
            make_dirs(directory)
        for name, text in spec.files.items():
            write_atomic(directory / name, text)
        seen = slurm_nodes.parse(self._commands.ask("scontrol", "show", "node", node))
        words = sbatch_words(spec, self._ways, self._cycle_id, seen[0].gpus)
        done = self._commands.run("sbatch", *words, stdin=script_of(spec, self._ways, self._cycle_id))
        job_id = done.stdout.strip().partition(";")[0]
        if done.rc == 0 and job_id.isdecimal():
            self._running[job_id] = _Running(spec, job_id)
            return None
        if done.rc == 0 or done.timed_out:
            # It may be there all the same.
            self._commands.remove([self._cycle_id], self._emit)
            return self._result(_Running(spec, ""), Ending("unknown", f"sbatch: {told(done)}"))
        return self._result(_Running(spec, ""), Ending("refused", f"sbatch: {told(done)}"))

    def _step(self, on_result: Callable[[JobResult], None], *, over: bool) -> None:
        """Look at all jobs once, and cancel those that have to give way."""
        try:
            wanted = self._wanted()
            seen = {job_id: self._look(job_id) for job_id in list(self._running)}
        except BringupError as error:
            self._bear(error)
            return
        self._silent_at = None
        for job_id, job in seen.items():
            entry = self._running[job_id]
            entry.partition = job.partition or entry.partition
            if not waits(job) and entry.ran_at is None:
                entry.ran_at = time.monotonic()
            ending = ending_of(job, entry.node)
            if ending is None:
                self._press(entry, job, wanted.get(job_id, ""), over=over)
                stuck = entry.asked is not None and time.monotonic() - entry.asked_at > _GONE_S
                if not stuck or entry.asked is None:
                    continue
                ending = Ending(entry.asked.state, f"{entry.asked.reason}; it is still {job.state} after scancel")
            elif ending.state in ("preempted", "unknown", "unschedulable"):
                # Some of these states still hold the node; one that ended takes no harm.
                self._commands.run("scancel", job_id)
                ending = entry.asked or ending
            if ending.state in ("succeeded", "failed"):
                whole = self._by_its_log(entry, ending)
                if whole is None:
                    continue
                ending = whole
            result = self._result(entry, ending)
            del self._running[job_id]
            on_result(result)

    def _by_its_log(self, entry: _Running, ending: Ending) -> Ending | None:
        """Return the end of a script as its log confirms it; None while the log may still be on its way to us."""
        entry.ended_at = entry.ended_at or time.monotonic()
        body, problem, code, _machine = self._log(entry)
        if code is None:
            late = time.monotonic() - entry.ended_at > _LOG_S
            return Ending("unknown", f"{ending.reason}; {problem}") if late else None
        if (code == 0) is not (ending.state == "succeeded"):
            return Ending("unknown", f"{ending.reason}; its log says exit code {code}")
        absent = no_container(body) if code and self._ways.containers == "pyxis" else None
        return absent or ending

    def _look(self, job_id: str) -> SlurmJob:
        """Return how a job stands; one that Slurm does not know any more, or tells otherwise, is in no known state."""
        try:
            return self._commands.job(job_id)
        except InputError as error:
            reason = str(error)
        except UnavailableError as error:
            if "Invalid job id" not in str(error):
                raise
            reason = "Slurm does not know it any more (MinJobAge)"
        return SlurmJob(job_id=job_id, user=os.geteuid(), state="UNKNOWN", reason=reason[:300])

    def _press(self, entry: _Running, job: SlurmJob, wanted: str, *, over: bool) -> None:
        """Cancel a job that has to go, once."""
        now, reason = time.monotonic(), None
        said = f"job {job.job_id} was {job.state}{f' ({job.reason})' if job.reason else ''}"
        if over:
            reason = Ending("aborted", f"the time of the cycle was over: {said}")
        elif wanted:
            reason = Ending("preempted", wanted)
        elif waits(job) and now - entry.began_at > entry.spec.placing_s:
            reason = Ending("unschedulable", f"{said} after {entry.spec.placing_s:.0f} s")
        elif entry.ran_at is not None and now - entry.ran_at > seconds_of(entry.spec, self._ways) + _LATE_S:
            reason = Ending("timeout", f"{said} longer than its time limit")
        if reason is None or entry.asked is not None:
            return
        entry.asked, entry.asked_at = reason, now
        self._emit(f"{entry.node}: cancelling {reason.reason}")
        self._commands.run("scancel", job.job_id)

    def _wanted(self) -> Mapping[str, str]:
        """Return by our job which job of a user waits for its node, or for any of the partition."""
        found: dict[str, str] = {}
        for other in self._commands.queue():
            if other.state != "PENDING" or other.reason not in _FOR_ROOM or other.comment.startswith(f"{OWNER}:"):
                continue
            named = self._nodes(other.asked) | self._nodes(other.planned)
            for entry in self._running.values():
                anywhere = not named and other.reason == "Resources" and entry.partition in other.partitions
                if entry.node in named or anywhere:
                    found[entry.job_id] = f"job {other.job_id} of user {other.user} waits for {entry.node}"
        return found

    def _nodes(self, text: str) -> frozenset[str]:
        if text not in self._names:
            self._names[text] = self._commands.names(text)
        return self._names[text]

    def _bear(self, error: BringupError) -> None:
        """Bear with a Slurm that does not answer, for a while."""
        now = time.monotonic()
        self._silent_at = self._silent_at or now
        if now - self._silent_at > _PATIENCE_S:
            raise error
        self._emit(f"Slurm does not answer, asking again: {error}")

    def _result(self, entry: _Running, ending: Ending) -> JobResult:
        """Return a result with what the job wrote."""
        log, problem, code, machine = self._log(entry) if entry.ran_at is not None else ("", "", None, "")
        pod = PodResult(
            name=f"job {entry.job_id}", node=entry.node, hostname=machine, exit_code=code, log=log, problem=problem,
            role="launcher",
        )  # fmt: skip
        return JobResult(
            name=entry.spec.name, state=ending.state, reason=ending.reason, pods=(pod,) if entry.job_id else (),
            started=entry.started, duration_s=time.monotonic() - entry.began_at, nodes=entry.spec.nodes,
        )  # fmt: skip

    def _log(self, entry: _Running) -> tuple[str, str, int | None, str]:
        """Return the log of a job, what is wrong with it, the exit code that it ends with, and the machine's name."""
        path = directory_of(entry.spec, self._ways, self._cycle_id) / LOG
        text, problem = _read(path)
        body, code = whole_log(text, entry.job_id)
        if code is None and not problem:
            problem = f"its log {path} is not whole, as this controller sees it"
        return body, problem, code, machine_of(text, entry.job_id)


def _read(path: Path) -> tuple[str, str]:
    try:
        if path.stat().st_size > _MOST_LOG_BYTES:
            return "", f"its log {path} is larger than {_MOST_LOG_BYTES >> 20} MiB"
        return path.read_text(encoding="utf-8", errors="replace"), ""
    except OSError as error:
        return "", f"its log {path} cannot be read on this controller: {error.strerror}"
