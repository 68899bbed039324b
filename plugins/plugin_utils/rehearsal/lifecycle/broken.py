# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends the run whose rehearsal broke: what died is said where the run says everything, and the run is interrupted.

A gate cannot tell a dead simulator from a broken cluster, and would wait for its own time limits.
"""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from time import sleep

from ...runtime.clock import Deadline
from ..processes.process_table import ProcessId, send

# Ansible waits for the task that runs when it is interrupted; then it is asked in the way that it does not wait.
_INTERRUPT_S = 5.0
_TERMINATE_S = 5.0
_POLL_S = 0.05


def end_run(controller: ProcessId, problem: str, logs: str) -> None:
    """Say why on the standard error of the run, and end the run: as Ctrl-C does, else by SIGTERM, else by SIGKILL.

    Args:
        controller: the ansible-playbook that the rehearsal belongs to.
        problem: what died, and how.
        logs: where its log is.
    """
    text = f"\nrehearsal: {problem}, so this run says nothing of the site and ends. Read {logs}, then start it again.\n"
    with suppress(OSError):
        # Without waiting for whoever does not read. Not the terminal of this process, which has none.
        stream = os.open(f"/proc/{controller.pid}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            # The run goes on writing where it stopped in a file, over what somebody else has appended to it.
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
