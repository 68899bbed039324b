# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One process under the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...runtime.bound import bound_to_parent
from ...runtime.clock import Deadline
from ...runtime.redaction import excerpt
from ..processes.process_table import identify
from ..processes.spec import ChildState, ProcessSpec
from .probing import serves

_TAIL_BYTES = 3000
_CLASH = "address already in use"


@dataclass(slots=True)
class Child:
    """A started process and what is known of it."""

    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    log: Path
    start_ticks: int
    deadline: Deadline
    healthy: bool = False

    @property
    def state(self) -> ChildState:
        name, pid, log = self.spec.name, self.process.pid, str(self.log)
        return ChildState(name=name, pid=pid, start_ticks=self.start_ticks, log=log, rc=self.process.returncode)

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def advance(self) -> str:
        """Look at it once while it starts; return a problem, or nothing.

        A process that ended without success, or is not healthy in time, is a problem and final.
        """
        if self.healthy:
            return "" if self.running or self.spec.once else self.ended()
        if not self.running:
            self.healthy = self.spec.once and self.process.returncode == 0
            return "" if self.healthy else self.ended()
        if not self.spec.once:
            self.healthy = self.spec.probe is None or serves(self.spec.probe)
        if not self.healthy and self.deadline.left_s <= 0:
            return f"{self.spec.name} is not ready after {self.deadline.limit_s:.0f} s"
        return ""

    def ended(self) -> str:
        """Return how it ended, for people."""
        code = self.process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{self.spec.name} {how}"

    def tail(self) -> str:
        """Return the end of its log, redacted."""
        try:
            text = self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return ""
        return excerpt(text, 1500)

    def clashed(self) -> bool:
        """Whether its log says that its port is taken."""
        return _CLASH in self.tail().lower()

    def stop(self, number: signal.Signals) -> None:
        """Signal it and the group that it leads."""
        if not self.running:
            return
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            self.process.send_signal(number)


def start_child(spec: ProcessSpec, logs: Path, environ: Mapping[str, str]) -> Child:
    """Start a process that dies with this one.

    Raises:
        OSError: the program cannot be run.
    """
    log = logs / f"{spec.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            spec.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**environ, **spec.env},
            cwd=spec.cwd or None, start_new_session=True, preexec_fn=bound_to_parent(),
        )  # fmt: skip
    identity = identify(process.pid)
    return Child(spec, process, log, identity.start_ticks if identity else 0, Deadline.after(spec.limit_s))
