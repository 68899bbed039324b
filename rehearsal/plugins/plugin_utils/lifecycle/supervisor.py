# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The process that owns every process of a rehearsal and ends them all when the controller is gone.

Run by `launch.py` with the path of a `supervisor.json`. It writes its state to `rehearsal.json`. It uses only the
standard library and the core, since it outlives Ansible.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from types import FrameType

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline, now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..processes.spec import (
    Lineage,
    ProcessId,
    ProcessSpec,
    RehearsalState,
    SupervisorSpec,
    descendants,
    identify,
    kill_all,
    lineage,
    marked,
    orphans,
    send,
    state_path,
    ticks_now,
)
from .child import Child, adopt_orphans, start_child
from .mounts import unmount_below
from .volatile import remove_volatile, remove_written

# Ends the run of a broken rehearsal: it writes the reason to the output of the run, and interrupts it. A gate cannot
# distinguish a dead simulator from a broken cluster, and would wait for its own time limits.

# On SIGINT Ansible waits for the running task. After that time it gets SIGTERM, on which it does not wait.
_INTERRUPT_S = 5.0
_TERMINATE_S = 5.0
_POLL_S = 0.05


def end_run(controller: ProcessId, problem: str, logs: str) -> None:
    """Write the reason to the standard error of the run, and end it: by SIGINT as Ctrl-C does, SIGTERM, or SIGKILL.

    Args:
        controller: the ansible-playbook that owns the rehearsal.
        problem: which process died, and how.
        logs: where its log is.
    """
    text = f"\nrehearsal: {problem}, so this run says nothing of the site and ends. Read {logs}, then start it again.\n"
    with suppress(OSError):
        # Never blocks on a reader that does not read. Not the terminal of this process, which has none.
        stream = os.open(f"/proc/{controller.pid}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            # The run writes at its own offset in a file, so that it would overwrite text that was appended by others.
            last = stat.S_ISREG(os.fstat(stream).st_mode)
            if not last:
                _write(stream, text)
            _end(controller)
            if last:
                _write(stream, text)
        finally:
            os.close(stream)
    _end(controller)


def _write(stream: int, text: str) -> None:
    with suppress(OSError):
        os.write(stream, text.encode())


def _end(controller: ProcessId) -> None:
    for number, limit_s in ((signal.SIGINT, _INTERRUPT_S), (signal.SIGTERM, _TERMINATE_S), (signal.SIGKILL, 1.0)):
        if not controller.alive():
            return
        send(controller, number)
        deadline = Deadline.after(limit_s)
        while controller.alive() and deadline.left_s > 0:
            sleep(_POLL_S)


_WATCH_S = 0.25
_ENDED_EARLY = 3


class _Stop(Exception):
    """The rehearsal ends: on request, with its controller, or after a failed start."""


@dataclass(slots=True)
class Supervisor:
    """Starts the processes of a rehearsal in waves, watches them, and stops them in reverse order.

    Args:
        spec: what to run.
        own: identity of this process.
    """

    spec: SupervisorSpec
    own: ProcessId
    children: list[Child] = field(default_factory=list)
    phase: str = "starting"
    problem: str = ""
    evidence: tuple[str, ...] = ()
    port_clash: bool = False
    started: str = field(default_factory=now_utc)
    stop_requested: bool = False
    workers: set[ProcessId] = field(default_factory=set)
    origin: Lineage | None = None
    looked_ticks: int = 0

    def run(self) -> int:
        """Run a rehearsal from start to end. Return the exit code."""
        try:
            for wave in _waves(self.spec.processes):
                self._start(wave)
            self.phase = "ready"
            self._say()
            self._watch()
        except _Stop:
            pass
        finally:
            self._end()
        return 1 if self.phase == "failed" else 0

    def _start(self, wave: list[ProcessSpec]) -> None:
        logs = Path(self.spec.directory) / "logs"
        fresh: list[Child] = []
        for spec in wave:
            self._check_life()
            try:
                fresh.append(start_child(spec, logs, os.environ))
            except OSError as error:
                self._fail(f"{spec.name} cannot be started: {error}", None)
            self.children.append(fresh[-1])
        self._say()
        while waiting := [child for child in fresh if not child.healthy]:
            self._check_life()
            for child in self.children:
                problem = child.advance()
                if problem:
                    self._fail(problem, child)
            if len(waiting) != sum(not child.healthy for child in fresh):
                self._say()
            sleep(_POLL_S)

    def _watch(self) -> None:
        while True:
            self._check_life()
            _reap_adopted({child.process.pid for child in self.children})
            dead = [child for child in self.children if not child.spec.once and not child.running]
            if dead and self.phase == "ready":
                self.phase, self.problem, self.evidence = "degraded", dead[0].ended(), (dead[0].tail(),)
                self._say()
                if self.spec.ends_run:
                    end_run(self.spec.controller, self.problem, str(Path(self.spec.directory) / "logs"))
            sleep(_WATCH_S)

    def _check_life(self) -> None:
        """End on request, or when the controller is gone. A kept rehearsal outlives the controller once it is up."""
        bound = not self.spec.keep or self.phase == "starting"
        alive = self.spec.controller.alive()
        if self.stop_requested or (bound and not alive):
            raise _Stop
        if bound and alive:
            # The workers of a killed ansible-playbook keep running, and only this record shows whose they were.
            self.looked_ticks = ticks_now()
            self.origin = lineage(self.spec.controller_pid) or self.origin
            self.workers = descendants(self.spec.controller_pid)

    def _fail(self, problem: str, child: Child | None) -> None:
        self.phase, self.problem = "failed", problem
        if child is not None:
            self.evidence, self.port_clash = (child.tail(),), child.clashed()
        raise _Stop

    def _end(self) -> None:
        if self.phase != "failed":
            self.phase = "stopping"
        if not self.spec.controller.alive():
            # One that was forked between the last check and the end is identified by what it shares with its parent.
            forked = orphans(self.origin, self.looked_ticks) if self.origin else set()
            kill_all(self.workers | forked)
        for wave in reversed(_waves(tuple(child.spec for child in self.children))):
            names = {spec.name for spec in wave}
            _stop_wave([child for child in self.children if child.spec.name in names])
        kill_all(marked(self.spec.rehearsal_id))
        directory = Path(self.spec.directory).resolve()
        mounted = unmount_below(directory)
        for name in self.spec.volatile:
            remove_volatile(Path(name))
        # After a failed start the same files are used again, with other ports.
        if self.spec.simulated and self.phase != "failed" and not mounted:
            remove_written(directory)
        if self.phase != "failed":
            self.phase = "stopped"
        self._say()

    def _say(self) -> None:
        spec = self.spec
        waiting = tuple(child.spec.name for child in self.children if not child.healthy)
        state = RehearsalState(
            rehearsal_id=spec.rehearsal_id, phase=self.phase, directory=spec.directory, supervisor_pid=self.own.pid,
            supervisor_start=self.own.start_ticks, controller_pid=spec.controller_pid,
            controller_start=spec.controller_start, keep=spec.keep, started=self.started, updated=now_utc(),
            children=tuple(child.state for child in self.children),
            waiting_for=waiting if self.phase == "starting" else (), ports=spec.ports, kubeconfig=spec.kubeconfig,
            problem=self.problem, evidence=self.evidence, port_clash=self.port_clash,
        )  # fmt: skip
        write_atomic(state_path(Path(spec.directory)), dumps(state), 0o600)


def _waves(processes: tuple[ProcessSpec, ...]) -> list[list[ProcessSpec]]:
    numbers = sorted({process.wave for process in processes})
    return [[process for process in processes if process.wave == number] for number in numbers]


def _stop_wave(children: list[Child]) -> None:
    for child in children:
        child.stop(signal.SIGTERM if child.spec.grace_s > 0 else signal.SIGKILL)
    deadline = Deadline.after(max((child.spec.grace_s for child in children), default=0.0))
    while any(child.running for child in children) and deadline.left_s > 0:
        sleep(_POLL_S)
    for child in children:
        child.stop(signal.SIGKILL)
    for child in children:
        child.process.wait()


def _reap_adopted(own: set[int]) -> None:
    """Reap ended orphans, but leave the exit status of our own children to `subprocess`."""
    for pid in _ended_children():
        if pid in own:
            return
        os.waitpid(pid, os.WNOHANG)


def _ended_children() -> Iterator[int]:
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        yield ended.si_pid


def main(spec_file: str) -> int:
    """Run the supervisor. Only one may run in a directory."""
    spec = load(SupervisorSpec, Path(spec_file))
    own = identify(os.getpid())
    if own is None:
        return _ENDED_EARLY
    with (Path(spec.directory) / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _ENDED_EARLY
        adopt_orphans()
        supervisor = Supervisor(spec, own)

        def request_stop(_number: int, _frame: FrameType | None) -> None:
            supervisor.stop_requested = True

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, request_stop)
        return supervisor.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
