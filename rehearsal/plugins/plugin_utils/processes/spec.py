# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Input of a supervisor (its processes) and its output (the state of the rehearsal), as values saved as JSON."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import (
    PROC,
    ProcessId,
    identify,
    stat_fields,
)

# Processes of a rehearsal: marked ones, descendants and orphans.

__all__ = [
    "MARKER",
    "Lineage",
    "ProcessId",
    "descendants",
    "identify",
    "kill_all",
    "lineage",
    "marked",
    "orphans",
    "send",
    "ticks_now",
]

MARKER = "GPUFLEET_REHEARSAL"
"""Environment variable of every process of a rehearsal. Its value is the rehearsal's id."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Properties that a forked process shares with its parent permanently: session, process group, program, arguments.

    `above` are the ancestors of the parent. One of them adopts its orphans: the nearest subreaper, or pid 1. It is not
    part of the comparison.
    """

    session: int
    group: int
    program: str
    words: bytes
    above: frozenset[int] = field(default=frozenset(), compare=False)


def lineage(pid: int) -> Lineage | None:
    """Return the lineage of a running process, None when it cannot be read."""
    try:
        fields, entry = stat_fields(pid), PROC / str(pid)
        words = (entry / "cmdline").read_bytes()
        above = frozenset(_ancestors(int(fields[1])))
        return Lineage(int(fields[3]), int(fields[2]), os.readlink(entry / "exe"), words, above) if words else None
    except (OSError, ValueError, IndexError):
        return None


def ticks_now() -> int:
    """Return the current time in the unit of start times: clock ticks since boot."""
    return int(float((PROC / "uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))


def orphans(parent: Lineage, since_ticks: int) -> set[ProcessId]:
    """Return forks of a process that ended, as far as this is certain, with their own descendants.

    A fork has the lineage of its parent, and an orphan is adopted by one of that parent's ancestors. The same command
    started independently has another parent. Only processes that started at `since_ticks` or later count: earlier ones
    were found as descendants while the parent existed.
    """
    found: set[ProcessId] = set()
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        identity = identify(pid)
        if identity is None or identity.start_ticks < since_ticks or lineage(pid) != parent:
            continue
        try:
            adopter = int(stat_fields(pid)[1])
        except (OSError, ValueError, IndexError):
            continue
        if adopter in parent.above:
            found |= {identity, *descendants(pid)}
    return found


def marked(prefix: str) -> list[ProcessId]:
    """Return the processes whose environment marks them as part of a rehearsal with that id or id prefix.

    This process and its ancestors are never among them.
    """
    wanted = f"{MARKER}={prefix}".encode()
    spared = set(_ancestors(os.getpid()))
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) in spared:
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        identity = identify(int(entry.name))
        if identity is not None and any(item.startswith(wanted) for item in environment):
            found.append(identity)
    return found


def _ancestors(pid: int) -> Iterable[int]:
    while pid > 0:
        yield pid
        try:
            pid = int(stat_fields(pid)[1])
        except (OSError, ValueError, IndexError):
            return


def descendants(pid: int) -> set[ProcessId]:
    """Return the running descendants of a process, without this process and its own descendants."""
    found: set[ProcessId] = set()
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            identity = identify(child) if child != os.getpid() else None
            if identity is not None:
                found.add(identity)
                waiting.append(child)
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
        return [int(word) for thread in threads for word in (thread / "children").read_text().split()]
    except (OSError, ValueError):
        return []


def send(process: ProcessId, number: signal.Signals) -> None:
    """Send a signal if that very process still runs."""
    if process.alive():
        try:
            os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def kill_all(processes: Iterable[ProcessId], limit_s: float = 5.0) -> list[ProcessId]:
    """Kill processes and wait until they are gone. Return those that still run."""
    left = [process for process in processes if process.alive()]
    for process in left:
        send(process, signal.SIGKILL)
    deadline = Deadline.after(limit_s)
    while left and deadline.left_s > 0:
        sleep(0.02)
        left = [process for process in left if process.alive()]
    return left


STATE_FILE = "rehearsal.json"
SPEC_FILE = "supervisor.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Health probe of a process: an HTTP(S) path that returns 200, or without `path` a port that accepts connections.

    With `ca_file` the probe uses TLS, with `cert_file` and `key_file` a client certificate.
    """

    port: int
    path: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process of the rehearsal.

    Args:
        name: unique; the log is `logs/<name>.log`.
        argv: program (absolute path) and arguments.
        wave: waves start in ascending order, each when the one before is healthy, and stop in descending order.
        probe: health probe; None: it counts as started at once.
        once: it does a step of the start and ends; exit code 0 is success, anything else fails the start.
        env: added to the supervisor's environment.
        limit_s: time to become healthy (or, with `once`, to end).
        grace_s: time between SIGTERM and SIGKILL at the stop; 0 kills at once, since a rehearsal has nothing to save.
    """

    name: str
    argv: tuple[str, ...]
    wave: int
    probe: Probe | None = None
    once: bool = False
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    limit_s: float = 60.0
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSpec:
    """Everything that one rehearsal runs.

    Args:
        rehearsal_id: `<digest of the directory>-<random>`; every process has it in its environment.
        keep: once everything is ready, do not end with the controller.
        volatile: paths deleted at the stop (keys, databases).
        simulated: whether simulators wrote into the directory, and their files are deleted as well.
        ends_run: end the controller when one of the processes dies.
    """

    rehearsal_id: str
    directory: str
    controller_pid: int
    controller_start: int
    keep: bool
    processes: tuple[ProcessSpec, ...]
    volatile: tuple[str, ...] = ()
    simulated: bool = False
    ports: dict[str, int] = field(default_factory=dict)
    kubeconfig: str = ""
    ends_run: bool = False

    @property
    def controller(self) -> ProcessId:
        """The process whose end ends the rehearsal."""
        return ProcessId(self.controller_pid, self.controller_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildState:
    """One started process: `rc` is None while it runs."""

    name: str
    pid: int
    start_ticks: int
    log: str
    rc: int | None = None

    @property
    def process(self) -> ProcessId:
        """Its identity."""
        return ProcessId(self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalState:
    """The state file `rehearsal.json`.

    Args:
        phase: starting, ready, degraded (a process died), failed, stopping or stopped.
        waiting_for: while starting, the processes not healthy yet.
        problem: why it is degraded or failed; `evidence` quotes the end of the log.
        port_clash: it failed because a port was taken that was free when it was chosen.
    """

    rehearsal_id: str
    phase: str
    directory: str
    supervisor_pid: int
    supervisor_start: int
    controller_pid: int
    controller_start: int
    keep: bool
    started: str
    updated: str
    children: tuple[ChildState, ...] = ()
    waiting_for: tuple[str, ...] = ()
    ports: dict[str, int] = field(default_factory=dict)
    kubeconfig: str = ""
    problem: str = ""
    evidence: tuple[str, ...] = ()
    port_clash: bool = False
    schema_version: int = SCHEMA_VERSION

    @property
    def supervisor(self) -> ProcessId:
        """The process that owns all others."""
        return ProcessId(self.supervisor_pid, self.supervisor_start)

    @property
    def controller(self) -> ProcessId:
        """The process that the rehearsal belongs to."""
        return ProcessId(self.controller_pid, self.controller_start)


def state_path(directory: Path) -> Path:
    """Return the path of a rehearsal's state file."""
    return directory / STATE_FILE
