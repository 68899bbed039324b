# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs tests as jobs of Slurm: each alone on idle nodes, followed to its end, its nodes returned to users at once.

Our jobs do not wait long and have the lowest priority (nice), are not requeued, and end at a time that Slurm knows
(time limit and deadline), also when their controller died. A job is ours by its comment and our user; no other job is
ever cancelled. While a user's job waits for a node that we hold, our test there is cancelled and stays to do.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..outcome.errors import BringupError, InputError, UnavailableError
from ..probe import slurm_jobs, slurm_nodes
from ..probe.slurm_jobs import QUEUE_FORMAT, QueuedJob, SlurmJob
from ..runtime.clock import Deadline, now_utc, unlimited
from ..runtime.files import make_dirs, write_atomic, writing
from ..runtime.process import CommandResult, run_command
from ..runtime.progress import Emit, Progress, silent
from .follow import Ending
from .free_slurm import free_in_slurm
from .job import JobResult, JobSpec, PodResult
from .node_use import Use
from .slurm_script import (
    LOG,
    OWNER,
    SlurmWays,
    directory_of,
    ending_of,
    machine_of,
    machines_of,
    mark,
    no_container,
    no_program,
    sbatch_words,
    script_of,
    seconds_of,
    waits,
    whole_log,
)

_COMMAND_S, _POLL_S = 60.0, 2.0
# How long a log may take to be visible here after its job has ended, and how long Slurm may not respond.
_LOG_S, _PATIENCE_S = 30.0, 120.0
# A cancelled job is killed after KillWait (30 s), and then its epilog has to end.
_GONE_S = 120.0
# How much later than its time limit Slurm may end a job. OverTimeLimit is up to the site: we cancel the job then.
_LATE_S = 120.0
_MOST_LOG_BYTES = 32 << 20
# The environment that sbatch gets. Other variables of this controller (SLURM_*, SBATCH_*) would change the job.
_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "SLURM_CONF", "LD_LIBRARY_PATH")
_LIST = frozenset("[,")
_FOR_ROOM = frozenset({"Resources", "Priority"})


@dataclass(frozen=True, slots=True)
class SlurmCommands:
    """Slurm's commands on this controller. The others are in the directory of `scontrol`."""

    scontrol: str = "scontrol"

    def run(self, name: str, *words: str, stdin: str = "") -> CommandResult:
        """Run one of them. Its exit code is not checked.

        Raises:
            NotFoundError: there is no such program.
        """
        command = self.scontrol if name == "scontrol" else str(Path(self.scontrol).with_name(name))
        environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        return run_command([command, *words], _COMMAND_S, stdin=stdin, env=environment)

    def ask(self, name: str, *words: str) -> str:
        """Return the output of one of them.

        Raises:
            NotFoundError: there is no such program.
            UnavailableError: it fails, or does not end in time.
        """
        done = self.run(name, *words)
        if done.rc != 0:
            raise UnavailableError(
                f"{name} {' '.join(words)}"[:200], f"{told(done)}.", "try it by hand on this controller: scontrol ping"
            )
        return done.stdout

    def queue(self) -> tuple[QueuedJob, ...]:
        """Return the pending and running jobs of all users that this one may see.

        Raises:
            BringupError: squeue fails.
        """
        return slurm_jobs.parse_queue(self.ask("squeue", "--noheader", "--array", f"--format={QUEUE_FORMAT}"))

    def job(self, job_id: str) -> SlurmJob:
        """Return the state of a job.

        Raises:
            BringupError: Slurm does not know it any more, or scontrol fails.
        """
        return slurm_jobs.parse(self.ask("scontrol", "show", "job", job_id), job_id)

    def reserved(self, name: str) -> frozenset[str]:
        """Return the nodes of a reservation. There are none without a name.

        Raises:
            InputError: what scontrol prints is not that reservation.
            BringupError: there is none of that name, or scontrol fails.
        """
        if not name:
            return frozenset()
        return self.names(slurm_jobs.parse_reservation(self.ask("scontrol", "show", "reservation", name), name))

    def names(self, nodes: str) -> frozenset[str]:
        """Expand a node list of Slurm (`gpu[01-04]`) to names."""
        return frozenset(self.ask("scontrol", "show", "hostnames", nodes).split()) if nodes else frozenset()

    def remove(self, cycles: Collection[str], emit: Emit = silent, limit_s: float = _GONE_S) -> tuple[str, ...]:
        """Cancel the jobs of these cycles. Return those left at the time limit, with the command that cancels them.

        Raises:
            BringupError: Slurm does not respond.
        """
        marks, deadline = {mark(cycle) for cycle in cycles}, Deadline.after(limit_s)
        requested: set[str] = set()
        while True:
            left = [job.job_id for job in self.queue() if job.user == os.geteuid() and job.comment in marks]
            for job_id in left:
                if job_id not in requested and self._ours(job_id, marks):
                    emit(f"cancelling job {job_id}, which an earlier run left in Slurm")
                    self.run("scancel", job_id)
                    requested.add(job_id)
            if not left or deadline.left_s <= 0:
                return tuple(f"job {job_id} is still in Slurm: scancel {job_id}" for job_id in left)
            time.sleep(min(_POLL_S, max(0.1, deadline.left_s)))

    def _ours(self, job_id: str, marks: Collection[str]) -> bool:
        """Query the job itself: in a list, a text of another user may look like a line."""
        with suppress(BringupError):
            job = self.job(job_id)
            return job.user == os.geteuid() and job.comment in marks
        return False


def told(done: CommandResult) -> str:
    """Return the text on how a command failed."""
    if done.timed_out:
        return f"did not end within {_COMMAND_S:.0f} s"
    return f"exit code {done.rc}: {(done.stderr or done.stdout).strip()[:300] or 'nothing'}"


@dataclass(slots=True)
class _Running:
    """A job until its end.

    Its number is empty before sbatch. `asked` is why we cancelled it. `turn_at` is when its nodes were first free of
    our other jobs. `kept` is whether its nodes were not free at the last look.
    """

    spec: JobSpec
    job_id: str
    started: str = field(default_factory=now_utc)
    began_at: float = field(default_factory=time.monotonic)
    ran_at: float | None = None
    asked: Ending | None = None
    asked_at: float = 0.0
    ended_at: float | None = None
    partition: str = ""
    turn_at: float = 0.0
    kept: bool = False

    @property
    def nodes(self) -> str:
        """The nodes in the form that ending_of compares."""
        return ",".join(sorted(self.spec.nodes))


class SlurmRunner:
    """Runs the jobs of one cycle or gate. FleetCycle calls `run`."""

    def __init__(
        self,
        commands: SlurmCommands,
        ways: SlurmWays,
        cycle_id: str,
        emit: Emit = silent,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store the arguments. No command is run yet."""
        self._commands, self._ways, self._cycle_id = commands, ways, cycle_id
        self._emit, self._sleep = emit, sleep
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, _Running] = {}
        self._silent_at: float | None = None
        # A list of nodes always has the same names, and users' jobs wait through many looks.
        self._names: dict[str, frozenset[str]] = {}

    def run(
        self,
        specs: Sequence[JobSpec],
        progress: Progress,
        deadline: Deadline,
        on_result: Callable[[JobResult], None],
        parallel: int = 0,
    ) -> None:
        """Run jobs and report each result as soon as there is one. Jobs that share a node run one after the other.

        Args:
            specs: the jobs, each with a name of its own.
            progress: gets the progress lines.
            deadline: jobs that are not done then are `aborted`.
            on_result: is called with each result.
            parallel: how many may run at once; 0 for all.

        Raises:
            BringupError: Slurm does not respond for too long, or the directory of the jobs cannot be written.
        """
        whole = False
        self._waiting = {spec.name: _Running(spec, "") for spec in specs}
        try:
            while self._waiting or self._running:
                self._begin_next(on_result, parallel or len(specs), over=deadline.left_s <= 0)
                self._step(on_result, over=deadline.left_s <= 0)
                left = len(self._running) + len(self._waiting)
                progress.tick(f"{left} of {len(specs)} jobs of Slurm left")
                if left:
                    self._sleep(_POLL_S)
            whole = True
        finally:
            if not whole:
                with unlimited(), suppress(BringupError):
                    self._commands.remove([self._cycle_id], self._emit)
            with suppress(OSError):
                shutil.rmtree(self._ways.directory / self._cycle_id)

    def _begin_next(self, on_result: Callable[[JobResult], None], most: int, *, over: bool) -> None:
        """Submit the jobs that may begin, and end those that may not begin any more."""
        taken = {node for entry in self._running.values() for node in entry.spec.nodes}
        for name, entry in list(self._waiting.items()):
            if over:
                ending: Ending | None = Ending("aborted", "the time of all jobs was over before it began")
            elif len(self._running) >= most or not taken.isdisjoint(entry.spec.nodes):
                continue
            else:
                taken |= set(entry.spec.nodes)
                # Its time to be placed begins when its nodes are free of our other jobs.
                entry.turn_at = entry.turn_at or time.monotonic()
                try:
                    ending = self._begin(entry)
                except UnavailableError as error:
                    self._bear(error)
                    return
                if ending is None and not entry.job_id:
                    continue
            del self._waiting[name]
            if ending is not None:
                on_result(self._result(entry, ending))

    def _begin(self, entry: _Running) -> Ending | None:
        """Submit a job. Return its ending if that was refused.

        While its nodes are still completing a job, nothing is submitted and it stays without a number.
        """
        spec = entry.spec
        nodes = slurm_nodes.parse(self._commands.ask("scontrol", "show", "node", ",".join(spec.nodes)))
        ending = self._kept_from(entry, nodes)
        if ending is not None or entry.kept:
            return ending
        directory = directory_of(spec, self._ways, self._cycle_id)
        with writing(directory):
            make_dirs(directory)
        for name, text in spec.files.items():
            write_atomic(directory / name, text)
        gpus = next((node.gpus for node in nodes if node.gpus is not None), None)
        words = sbatch_words(spec, self._ways, self._cycle_id, gpus)
        done = self._commands.run("sbatch", *words, stdin=script_of(spec, self._ways, self._cycle_id))
        entry.started, entry.began_at = now_utc(), time.monotonic()
        job_id = done.stdout.strip().partition(";")[0]
        if done.rc == 0 and job_id.isdecimal():
            entry.job_id = job_id
            self._running[job_id] = entry
            return None
        if done.rc == 0 or done.timed_out:
            # It may have been submitted all the same.
            self._commands.remove([self._cycle_id], self._emit)
            return Ending("unknown", f"sbatch: {told(done)}")
        return Ending("refused", f"sbatch: {told(done)}")

    def _kept_from(self, entry: _Running, nodes: Sequence[slurm_nodes.SlurmNode]) -> Ending | None:
        """Return why a job is not submitted: its nodes are in use by others.

        It is not left to Slurm, because in a partition that may preempt others our job could displace theirs.
        """
        reserved = self._commands.reserved(self._ways.reservation)
        uses = free_in_slurm(entry.spec.nodes, nodes, reserved=reserved)
        on_hold = [use for use in uses.values() if not use.free]
        leaving = any("COMPLETING" in node.flags for node in nodes)
        entry.kept = bool(on_hold)
        if not on_hold or (leaving and time.monotonic() - entry.turn_at <= entry.spec.placing_s):
            return None
        busy = all(use.use is Use.BUSY for use in on_hold)
        return Ending("preempted" if busy else "unschedulable", f"node {on_hold[0].name}: {on_hold[0].why}")

    def _step(self, on_result: Callable[[JobResult], None], *, over: bool) -> None:
        """Look at all jobs once, and cancel those that have to make room."""
        if not self._running:
            return
        try:
            wanted = self._wanted()
            observed = {job_id: self._look(job_id) for job_id in list(self._running)}
        except BringupError as error:
            self._bear(error)
            return
        self._silent_at = None
        for job_id, job in observed.items():
            entry = self._running[job_id]
            entry.partition = job.partition or entry.partition
            if not waits(job) and entry.ran_at is None:
                entry.ran_at = time.monotonic()
            ending = ending_of(job, entry.nodes)
            if ending is None:
                self._press(entry, job, wanted.get(job_id, ""), over=over)
                stuck = entry.asked is not None and time.monotonic() - entry.asked_at > _GONE_S
                if not stuck or entry.asked is None:
                    continue
                ending = Ending(entry.asked.state, f"{entry.asked.reason}; it is still {job.state} after scancel")
            elif ending.state in ("preempted", "unknown", "unschedulable"):
                # In some of these states the job still holds the node. Cancelling one that has ended does no harm.
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
        """Return the ending of a script as its log confirms it. None while the log may still be on its way."""
        entry.ended_at = entry.ended_at or time.monotonic()
        body, problem, code, _machines = self._log(entry)
        if code is None:
            late = time.monotonic() - entry.ended_at > _LOG_S
            return Ending("unknown", f"{ending.reason}; {problem}") if late else None
        if (code == 0) is not (ending.state == "succeeded"):
            return Ending("unknown", f"{ending.reason}; its log says exit code {code}")
        absent = no_container(body) if code and self._ways.containers == "pyxis" else None
        return absent or (no_program(body) if code else None) or ending

    def _look(self, job_id: str) -> SlurmJob:
        """Return the state of a job. It is UNKNOWN if Slurm does not know the job any more or prints another one."""
        try:
            job = self._commands.job(job_id)
            # A list of one node is the name of the node.
            return replace(job, nodes=",".join(sorted(self._nodes(job.nodes)))) if _LIST & set(job.nodes) else job
        except InputError as error:
            reason = str(error)
        except UnavailableError as error:
            if "Invalid job id" not in str(error):
                raise
            reason = "Slurm does not know it any more (MinJobAge)"
        return SlurmJob(job_id=job_id, user=os.geteuid(), state="UNKNOWN", reason=reason[:300])

    def _press(self, entry: _Running, job: SlurmJob, wanted: str, *, over: bool) -> None:
        """Cancel a job that has to end. This is done once."""
        now, reason = time.monotonic(), None
        reported = f"job {job.job_id} was {job.state}{f' ({job.reason})' if job.reason else ''}"
        if over:
            reason = Ending("aborted", f"the time of the cycle was over: {reported}")
        elif wanted:
            reason = Ending("preempted", wanted)
        elif waits(job) and now - entry.began_at > entry.spec.placing_s:
            reason = Ending("unschedulable", f"{reported} after {entry.spec.placing_s:.0f} s")
        elif entry.ran_at is not None and now - entry.ran_at > seconds_of(entry.spec, self._ways) + _LATE_S:
            reason = Ending("timeout", f"{reported} longer than its time limit")
        if reason is None or entry.asked is not None:
            return
        entry.asked, entry.asked_at = reason, now
        self._emit(f"{entry.nodes}: cancelling {reason.reason}")
        self._commands.run("scancel", job.job_id)

    def _wanted(self) -> Mapping[str, str]:
        """Return by our job which user's job waits for its node, or for any node of the partition."""
        found: dict[str, str] = {}
        for other in self._commands.queue():
            if other.state != "PENDING" or other.reason not in _FOR_ROOM or other.comment.startswith(f"{OWNER}:"):
                continue
            named = self._nodes(other.asked) | self._nodes(other.planned)
            for entry in self._running.values():
                anywhere = not named and other.reason == "Resources" and entry.partition in other.partitions
                if anywhere or not named.isdisjoint(entry.spec.nodes):
                    found[entry.job_id] = f"job {other.job_id} of user {other.user} waits for {entry.nodes}"
        return found

    def _nodes(self, text: str) -> frozenset[str]:
        if text not in self._names:
            self._names[text] = self._commands.names(text)
        return self._names[text]

    def _bear(self, error: BringupError) -> None:
        """Tolerate for a while that Slurm does not respond, then raise the error."""
        now = time.monotonic()
        self._silent_at = self._silent_at or now
        if now - self._silent_at > _PATIENCE_S:
            raise error
        self._emit(f"Slurm does not answer, asking again: {error}")

    def _result(self, entry: _Running, ending: Ending) -> JobResult:
        """Return the result of a job with its log."""
        known = entry.job_id and entry.ran_at is not None
        log, problem, code, machines = self._log(entry) if known else ("", "", None, {})
        pods = tuple(
            PodResult(
                name=f"job {entry.job_id}", node=node, hostname=machines.get(node, ""), exit_code=code, log=log,
                problem=problem, role="launcher" if index == 0 else "worker", index=index,
            )
            for index, node in enumerate(entry.spec.nodes)
        )  # fmt: skip
        return JobResult(
            name=entry.spec.name, state=ending.state, reason=ending.reason, pods=pods if entry.job_id else (),
            started=entry.started, duration_s=time.monotonic() - entry.began_at, nodes=entry.spec.nodes,
        )  # fmt: skip

    def _log(self, entry: _Running) -> tuple[str, str, int | None, dict[str, str]]:
        """Return the log of a job, its problem, its exit code, and by node the host name of the machine."""
        path = directory_of(entry.spec, self._ways, self._cycle_id) / LOG
        text, problem = _read(path)
        body, code = whole_log(text, entry.job_id)
        if code is None and not problem:
            problem = f"its log {path} is not whole, as this controller sees it"
        if len(entry.spec.nodes) > 1:
            return body, problem, code, machines_of(text, entry.job_id)
        return body, problem, code, {entry.spec.nodes[0]: machine_of(text, entry.job_id)}


def _read(path: Path) -> tuple[str, str]:
    try:
        if path.stat().st_size > _MOST_LOG_BYTES:
            return "", f"its log {path} is larger than {_MOST_LOG_BYTES >> 20} MiB"
        return path.read_text(encoding="utf-8", errors="replace"), ""
    except OSError as error:
        return "", f"its log {path} cannot be read on this controller: {error.strerror}"
