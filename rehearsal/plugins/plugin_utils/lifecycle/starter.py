# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts, finds and stops a rehearsal from outside, for the modules."""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import sleep

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    AbortedError,
    BringupError,
    InputError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from ..places import python_argv
from ..processes.spec import (
    MARKER,
    SPEC_FILE,
    ProcessId,
    RehearsalState,
    SupervisorSpec,
    kill_all,
    marked,
    send,
    state_path,
)
from .mounts import unmount_below
from .request import INVENTORY_FILE, playbook_command, shown, stop_command
from .volatile import remove_volatile, remove_written

_POLL_S = 0.05
_STOP_LIMIT_S = 20.0


class PortClashError(UnavailableError):
    """A port was taken between its choice and its use. Choosing again helps."""


def id_prefix(directory: Path) -> str:
    """Return the common prefix of the ids of all rehearsals in a directory."""
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12] + "-"


def new_id(directory: Path) -> str:
    """Return the id of a new rehearsal in a directory."""
    return id_prefix(directory) + secrets.token_hex(4)


def read_state(directory: Path) -> RehearsalState | None:
    """Return the state of the rehearsal in a directory; None without a readable one."""
    try:
        return load(RehearsalState, state_path(directory))
    except InputError:
        return None


def start(spec: SupervisorSpec, progress: Progress, alive: Callable[[], None]) -> RehearsalState:
    """Start a supervisor and wait until its rehearsal is ready. Clean up the directory first.

    Raises:
        PortClashError: a port was taken meanwhile.
        BringupError: a process failed; the end of its log is the evidence.
        AbortedError: the controller ended meanwhile.
    """
    directory = Path(spec.directory)
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    spec_file = directory / SPEC_FILE
    write_atomic(spec_file, dumps(spec), 0o600)
    environment = {**os.environ, MARKER: spec.rehearsal_id}
    with (directory / "logs" / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(
            python_argv("rehearsal.lifecycle.supervisor", str(spec_file)), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, cwd=directory, env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        return _await_ready(spec, process, progress, alive)
    except BaseException:
        # After a failure the supervisor ends by itself. An interrupted wait has to end it.
        process.terminate()
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def _await_ready(
    spec: SupervisorSpec, process: subprocess.Popen[bytes], progress: Progress, alive: Callable[[], None]
) -> RehearsalState:
    directory = Path(spec.directory)
    while True:
        alive()
        ended = process.poll() is not None
        state = read_state(directory)
        if state is not None and state.rehearsal_id == spec.rehearsal_id:
            if state.phase in ("ready", "degraded"):
                return state
            if ended:
                raise _failure(state)
            if state.waiting_for:
                progress.tick(f"rehearsal: waiting for {', '.join(state.waiting_for)}")
        elif ended:
            tail = (directory / "logs" / "supervisor.log").read_text(errors="replace")[-1500:]
            hint = f"read {directory}/logs"
            raise BringupError("rehearsal supervisor", "ended before it said anything.", hint, (tail,))
        sleep(_POLL_S)


def _failure(state: RehearsalState) -> BringupError:
    if not state.problem:
        return AbortedError("rehearsal", "stopped while it was starting.")
    kind = PortClashError if state.port_clash else BringupError
    return kind("rehearsal", f"{state.problem}.", f"read {state.directory}/logs", state.evidence)


def refuse_second(directory: Path) -> None:
    """Raise UnavailableError if a running rehearsal owns the directory."""
    state = read_state(directory)
    if state is None or not state.supervisor.alive():
        return
    if not state.keep and not state.controller.alive():
        return  # it is stopping just now, and the sweep helps it
    owner = "kept" if state.keep else f"run by process {state.controller_pid}"
    hint = f"stop it: {stop_command(directory)}"
    if state.keep and (inventory := directory / INVENTORY_FILE).is_file():
        hint = f"go on with it, for example {playbook_command('validate', '-i', shown(inventory))}, or {hint}"
    raise UnavailableError(f"rehearsal in {directory}", f"one is up already ({owner}).", hint)


def stop(directory: Path) -> list[str]:
    """Stop the rehearsal in a directory, running or dead, and clean up. Return what was found.

    Raises:
        UnavailableError: a process or mount is still there afterwards.
    """
    state = read_state(directory)
    if state is None or not state.supervisor.alive():
        return sweep(directory)
    send(state.supervisor, signal.SIGTERM)
    deadline = Deadline.after(_STOP_LIMIT_S)
    while state.supervisor.alive() and deadline.left_s > 0:
        sleep(_POLL_S)
    return [f"rehearsal {state.rehearsal_id}", *sweep(directory)]


def sweep(directory: Path) -> list[str]:
    """Clean up after a dead run in a directory: processes, mounts, keys and databases. Return what was found.

    Raises:
        UnavailableError: something cannot be removed.
    """
    state = read_state(directory)
    recorded = [] if state is None else [state.supervisor, *(child.process for child in state.children)]
    known = [process for process in recorded if process.alive() and process.pid != os.getpid()]
    left = sorted({*known, *marked(id_prefix(directory))}, key=lambda process: process.pid)
    found = [f"process {process.pid} ({_command(process)})" for process in left]
    still = [f"process {process.pid}" for process in kill_all(left)]
    mounts = unmount_below(directory.resolve()) if directory.is_dir() else []
    still += [f"mount {point}" for point in mounts]
    if still:
        hint = "run it as the user who started the rehearsal"
        raise UnavailableError(f"rehearsal in {directory}", f"cannot remove {', '.join(still)}.", hint)
    return found + _remove_volatile(directory)


def _remove_volatile(directory: Path) -> list[str]:
    try:
        spec = load(SupervisorSpec, directory / SPEC_FILE)
    except InputError:
        return []
    left = [Path(name) for name in spec.volatile if Path(name).exists() and directory.resolve() in Path(name).parents]
    for path in left:
        remove_volatile(path)
    written = [f"what its simulators wrote in {directory}"] if spec.simulated and remove_written(directory) else []
    return [str(path) for path in left] + written


def _command(process: ProcessId) -> str:
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except OSError:
        return "?"
