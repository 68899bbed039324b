# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes by identity: a pid alone can be somebody else's tomorrow, a pid with its start time cannot."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process: its pid and when it started (clock ticks since boot, field 22 of /proc/<pid>/stat)."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        state = _state(self.pid)
        return state is not None and state[1] == self.start_ticks and state[0] not in "ZX"


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a running process, None when there is none."""
    state = _state(pid)
    return ProcessId(pid, state[1]) if state is not None and state[0] not in "ZX" else None


def controller_pid() -> int:
    """Return the pid of the ansible-playbook, which forked the worker that an action runs in; elsewhere our own."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    return parent.pid if parent is not None and parent.pid is not None else os.getpid()


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command's name.

    Raises:
        OSError: there is no such process.
    """
    # The command name may hold spaces and parentheses: count fields after the last one.
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _state(pid: int) -> tuple[str, int] | None:
    try:
        fields = stat_fields(pid)
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
