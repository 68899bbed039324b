# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A host that dies during a task still gets a result: by keep-alive of its connection, at the latest by a time
limit."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ..outcome.errors import DeadlineError
from ..runtime.clock import elapsed_text

# Three unanswered probes, 15 seconds apart: ssh_config(5).
_KEEP_ALIVE = "-o ServerAliveInterval=15 -o ServerAliveCountMax=3"
_SSH_OPTIONS = ("ssh_args", "ssh_common_args", "ssh_extra_args")
MARGIN_S = 60.0


def keep_alive(connection: Any) -> None:
    """Let OpenSSH notice within a minute that a host is gone. A site that sets ServerAliveInterval keeps its own."""
    if getattr(connection, "transport", "") != "ssh":
        return
    reported = [str(connection.get_option(name) or "") for name in _SSH_OPTIONS]
    if not any("serveraliveinterval" in text.lower() for text in reported):
        connection.set_option(_SSH_OPTIONS[-1], f"{reported[-1]} {_KEEP_ALIVE}".strip())


@contextmanager
def host_limit(host: str, limit_s: float) -> Iterator[None]:
    """End what waits for a host when its time is over, with the programs that wait for it.

    Raises:
        DeadlineError: the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_number: int, _frame: FrameType | None) -> None:
        end_children()
        text = f"did not answer within {elapsed_text(limit_s)}, the limit of its tools and {MARGIN_S:.0f} s."
        raise DeadlineError(host, text, f"look at the console of {host}")

    before = signal.signal(signal.SIGALRM, over)
    left_s, _interval = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        # A time limit of the task itself goes on.
        signal.setitimer(signal.ITIMER_REAL, left_s)


def end_children() -> None:
    """Kill the child processes that are waited for: an ssh that stays would keep the tool on its host running."""
    with suppress(OSError, ValueError):
        for word in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
            os.kill(int(word), signal.SIGKILL)
