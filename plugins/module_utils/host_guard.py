# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Guards a host from tools that load its GPUs: processes on them, another run that loads them, the end of the caller.

Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from typing import Any

LOCK = "gpufleet-bringup.lock"
_PR_SET_PDEATHSIG = 1
_PROCESS = "<process_info>"


def processes_on_gpus(smi_xml: str) -> list[str]:
    """Return the compute processes on GPUs as `nvidia-smi -q -x` lists them, each with its pid.

    A display server (type G) does not compute and is not among them.
    """
    found = []
    for piece in smi_xml.split(_PROCESS)[1:]:
        entry = piece.partition("</process_info>")[0]
        if "C" in _inner(entry, "type"):
            found.append(f"{_inner(entry, 'process_name') or 'a process'} (pid {_inner(entry, 'pid') or '?'})")
    return found


def _inner(text: str, name: str) -> str:
    return text.partition(f"<{name}>")[2].partition(f"</{name}>")[0].strip()


@contextlib.contextmanager
def lock_of_host(owner: dict[str, Any]) -> Iterator[str]:
    """Lock this host for a tool that loads it. Yield an empty text, or what holds the lock.

    The lock ends with the process that took it, however that ends. `owner` is written to it: run, controller, command.
    """
    directory = "/run" if os.access("/run", os.W_OK) else tempfile.gettempdir()
    # Links are not followed, because any user may write to /tmp.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(os.path.join(directory, LOCK), flags, 0o600)
    except OSError as error:
        yield f"the lock {directory}/{LOCK} cannot be opened: {error.strerror}"
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            yield _holder(os.read(file, 4096))
            return
        os.ftruncate(file, 0)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.write(file, json.dumps(dict(owner, since=since, pid=os.getpid())).encode())
        yield ""
    finally:
        os.close(file)


def _holder(content: bytes) -> str:
    try:
        said = json.loads(content.decode("utf-8", "replace"))
        keys = ("run", "controller", "command", "since", "pid")
        words = [f"{key} {said[key]}" for key in keys if said.get(key)]
    except (ValueError, TypeError, AttributeError):
        words = []
    return "another run loads this host: " + (", ".join(words) or "it does not say which")


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent, of this pid, is gone. To be called in a child before its
    program starts.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went between fork and prctl, and no signal will come
        os._exit(1)


class Caller:
    """The processes above this one, up to the connection of the controller or the controller itself.

    Those above may end without harm: a restarted daemon, a shell that leaves its ansible-playbook running.
    """

    def __init__(self) -> None:
        above = _ancestors(64)
        ends = [number for number, pid in enumerate(above) if _is_connection(pid)]
        self._above = above[: ends[0] + 1] if ends else above[:1]

    def gone(self) -> bool:
        """Tell whether one of them ended, so that nothing waits for the result any more."""
        return _ancestors(len(self._above)) != self._above


def _is_connection(pid: int) -> bool:
    """Tell whether a process is OpenSSH's for one connection (sshd, sshd-session), or an ansible-playbook."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            name = comm.read()
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
            words = cmdline.read()
    except OSError:
        return False
    return name.startswith("sshd") or b"ansible-playbook" in words or b"ansible\0playbook" in words


def _ancestors(most: int) -> list[int]:
    """Return the pids above this process, nearest first, at most `most`, as far as /proc shows them."""
    found: list[int] = []
    pid = os.getppid()
    while pid > 0 and len(found) < most:
        found.append(pid)
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                # The command name may have spaces and parentheses: count fields after the last one.
                pid = int(stat.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found
