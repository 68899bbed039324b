# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods whose program really runs: one process each, its output written to the pod's log while it runs."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ...runtime.bound import bound_to_parent
from ..processes.process_table import descendants, identify, kill_all
from ..workloads.pod_simulator import STDERR, STDOUT, RealProcess
from .pod_log import cri_line


@dataclass(slots=True)
class RealPod:
    """A process and the threads that write its output to the log."""

    process: subprocess.Popen[str]
    readers: tuple[threading.Thread, ...]

    @property
    def exit_code(self) -> int | None:
        """Its exit code when all of its output is in the log, else None; 128 + n after signal n, as a shell has it."""
        code = self.process.poll()
        if code is None or any(reader.is_alive() for reader in self.readers):
            return None
        return 128 - code if code < 0 else code

    def stop(self) -> None:
        """Kill it and all its descendants."""
        found = descendants(self.process.pid)
        own = identify(self.process.pid)
        kill_all([*([own] if own else []), *found])
        self.process.wait()


def start(process: RealProcess, log: Path, wake: Callable[[], None]) -> RealPod:
    """Start a process. Call this from the main thread: the kernel ends the process with the thread that started it.

    Raises:
        OSError: it cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    child = subprocess.Popen(
        list(process.argv), env={**os.environ, **process.env}, cwd=process.cwd or None, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=bound_to_parent(),
    )  # fmt: skip
    lock = threading.Lock()
    streams = ((STDOUT, child.stdout), (STDERR, child.stderr))
    readers = tuple(
        threading.Thread(target=_write_down, args=(stream, pipe, log, lock, wake), daemon=True)
        for stream, pipe in streams
    )
    for reader in readers:
        reader.start()
    return RealPod(child, readers)


def _write_down(stream: str, pipe: IO[str] | None, log: Path, lock: threading.Lock, wake: Callable[[], None]) -> None:
    for line in pipe or ():
        with lock, log.open("a", encoding="utf-8") as file:
            file.write(cri_line(stream, line.rstrip("\n")))
    wake()
