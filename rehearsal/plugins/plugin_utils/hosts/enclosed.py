# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs one command on a simulated host, from the controller's side."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError

from .asking import ask, resident_of
from .enclosure import REFUSAL_PREFIX, REFUSED

_START = "import sys; sys.path.insert(0, {directory!r}); import enclosure; enclosure.run()"


def enclosed_argv(root: Path, host: str, command: str) -> list[str]:
    """Return the command line that runs a shell command on a simulated host. It ends with the calling process."""
    # Imported, not run as a file: so Python keeps the compiled form, which halves the start time.
    start = _START.format(directory=str(Path(__file__).resolve().parent))
    return [sys.executable, "-I", "-S", "-c", start, str(root), host, str(os.getpid()), command]


def run_enclosed(root: Path, host: str, command: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """Run a shell command on a simulated host. Return exit code, standard output and standard error.

    However this ends (a signal at a time limit, the end of the process), no process of the command is left.

    Raises:
        UnavailableError: namespaces or the overlay are refused here. The command was not run.
    """
    resident = resident_of(root)
    if resident is None:
        code, stdout, stderr = _run_alone(root, host, command, stdin)
    else:
        with resident:
            code, stdout, stderr = _requested(resident, host, command, stdin)
    first = stderr.decode("utf-8", "replace")
    if code == REFUSED and first.startswith(REFUSAL_PREFIX):
        reason = first.removeprefix(REFUSAL_PREFIX).strip()
        hint = (
            "rehearse as root, or where users may make namespaces (sysctl user.max_user_namespaces, Linux 5.12 or "
            "later), with the rehearsal directory on a local disk and not inside an unprivileged container"
        )
        raise UnavailableError(f"simulated host {host}", f"it cannot be separated from this machine: {reason}.", hint)
    return code, stdout, stderr


def _run_alone(root: Path, host: str, command: str, stdin: bytes) -> tuple[int, bytes, bytes]:
    """Run it in a separate process: hosts that were prepared outside a rehearsal have no resident program."""
    process = subprocess.Popen(
        enclosed_argv(root, host, command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin)
    except BaseException:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, stdout, stderr


def _requested(resident: socket.socket, host: str, command: str, stdin: bytes) -> tuple[int, bytes, bytes]:
    try:
        return ask(resident, host, command, stdin)
    except ConnectionError as error:
        hint = "look into logs/hosts.log of the rehearsal directory, or start the rehearsal again"
        raise UnavailableError(f"simulated host {host}", f"went away: {error}.", hint) from None
