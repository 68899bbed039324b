# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a supervisor is told (its processes) and what it says (the state of the rehearsal): values saved as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .process_table import ProcessId

STATE_FILE = "rehearsal.json"
SPEC_FILE = "supervisor.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How to see that a process serves: an HTTP(S) path that answers 200, or a port that accepts when `path` is empty.

    With `ca_file` the probe speaks TLS, with `cert_file` and `key_file` it shows a client certificate.
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
        probe: how to see that it serves; None: it counts as started at once.
        once: it does a step of the start and ends; exit code 0 is success, anything else fails the start.
        env: added to the supervisor's environment.
        limit_s: time to become healthy (or, with `once`, to end).
        grace_s: time between SIGTERM and SIGKILL at the stop; 0 kills at once (nothing of a rehearsal is worth saving).
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
    """Everything one rehearsal runs.

    Args:
        rehearsal_id: `<digest of the directory>-<random>`; every process carries it in its environment.
        keep: once everything is ready, do not end with the controller.
        volatile: paths deleted at the stop (keys, databases).
        ends_run: end the controller when one of the processes dies.
    """

    rehearsal_id: str
    directory: str
    controller_pid: int
    controller_start: int
    keep: bool
    processes: tuple[ProcessSpec, ...]
    volatile: tuple[str, ...] = ()
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
        port_clash: it failed because somebody took a port that was free when it was chosen.
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
