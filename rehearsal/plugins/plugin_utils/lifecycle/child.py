# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One process under the supervisor, and ending in order."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import bound_to_parent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import excerpt

from ..processes.spec import ChildState, Probe, ProcessSpec, identify

# Probes whether a local process serves.

_HOST = "127.0.0.1"
_TIMEOUT_S = 2.0


def serves(probe: Probe) -> bool:
    """Return whether the process responds as its probe expects, in a single try."""
    try:
        return _answers(probe) if probe.path else _accepts(probe.port)
    except (OSError, http.client.HTTPException):
        return False


def _accepts(port: int) -> bool:
    with socket.create_connection((_HOST, port), timeout=_TIMEOUT_S):
        return True


def _answers(probe: Probe) -> bool:
    if probe.ca_file:
        context = _tls(probe.ca_file, probe.cert_file, probe.key_file)
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            _HOST, probe.port, timeout=_TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(_HOST, probe.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", probe.path)
        return connection.getresponse().status == 200
    finally:
        connection.close()


@cache
def _tls(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file:
        context.load_cert_chain(cert_file, key_file)
    return context


# One process under the supervisor.

_TAIL_BYTES = 3000
_CLASH = "address already in use"


@dataclass(slots=True)
class Child:
    """A started process and its state."""

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
        """Check it once while it starts. Return a problem, or an empty text.

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
        """Return how it ended, for a message."""
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
        """Return whether its log reports that its port is taken."""
        return _CLASH in self.tail().lower()

    def stop(self, number: signal.Signals) -> None:
        """Send a signal to it and the process group that it leads."""
        if not self.running:
            return
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            self.process.send_signal(number)


def start_child(spec: ProcessSpec, logs: Path, environ: Mapping[str, str]) -> Child:
    """Start a process that ends with this one.

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


# Ends the children of children.

_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the subreaper of its descendants, so that it can end their orphans, too."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# Ending in order: on a signal this process first removes what it has begun.

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal arrived. Only `ending_in_order` may catch it."""


@contextmanager
def ending_in_order(alive: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """In this block SIGINT, SIGTERM and SIGHUP end the process only after cleanup.

    Ansible's workers die of a signal at once: a compiler and its temporary files would remain. Here a signal is noted,
    and raised by the next check whether the controller is alive. Raised anywhere it could hit the moment in which a
    child was started that is not yet known. Signals can be handled only in the main thread; elsewhere nothing changes.

    Args:
        alive: raises AbortedError once the controller is gone.

    Yields:
        The function to call in its place, often.
    """
    if threading.current_thread() is not threading.main_thread():
        yield alive
        return
    got: list[int] = []

    def look() -> None:
        if got:
            raise Ended
        alive()

    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number, handler in before.items():
        if handler not in (None, signal.SIG_IGN):
            signal.signal(number, lambda number, _frame: got.append(number))
    try:
        yield look
        look()
    except Ended:
        signal.signal(got[0], signal.SIG_DFL)
        os.kill(os.getpid(), got[0])
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
