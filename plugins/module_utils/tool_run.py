# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs tools on a node, each with a time limit. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.host_guard import Caller, end_with_parent

_CHUNK = 65536
_KILL_WAIT_S = 5.0
_DRAIN_WAIT_S = 2.0
_LOOK_S = 1.0
_LOOK_FOR_STOP_S = 0.2
# The caller of this process. It is read at the start, because later it may be gone. A fork has another caller.
_CALLERS = {os.getpid(): Caller()}
# Directories of administrators' tools. A login without a login shell often lacks them.
_MORE_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/mellanox/bin")


class _Stopped(Exception):
    """The tool may be stopped: its output is complete enough."""


class _Kept:
    """The beginning and the end of a stream, at most `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.cut = 0

    def add(self, chunk: bytes) -> None:
        """Append to the end. `cut` counts the bytes that were dropped from the middle."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room < len(chunk) else b""
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self.cut += surplus

    @property
    def any(self) -> bool:
        """Whether there was any output."""
        return bool(self._head)

    def text(self) -> str:
        """Return the text. If bytes were cut, a line has their number."""
        mark = b"\n[... %d bytes cut ...]\n" % self.cut if self.cut else b""
        return bytes(self._head + mark + self._tail).decode("utf-8", "replace")


def tool_environment() -> dict[str, str]:
    """Return the environment for tools: locale C, and the directories of administrators' tools at the end of PATH."""
    environment = dict(os.environ, LC_ALL="C", LANG="C")
    path = environment.get("PATH", "").split(os.pathsep)
    environment["PATH"] = os.pathsep.join([p for p in path if p] + [p for p in _MORE_PATH if p not in path])
    return environment


def run_tool(
    argv: list[str], timeout_s: float, max_output_bytes: int, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Run a tool and return its result as plain data. No failure of the tool is an error here.

    A tool that runs until it is ended gets `stop`. Once that is set and the tool has printed something, it is killed,
    and its exit code is 0.

    At the time limit, or if this process or its controller ends, its whole process group is killed. A process that
    cannot be killed (a driver that hangs in the kernel) is left behind without waiting.
    """
    result: dict[str, Any] = {
        "argv": list(argv), "rc": None, "stdout": "", "stderr": "", "duration_s": 0.0,
        "timed_out": False, "missing": False, "truncated": False,
    }  # fmt: skip
    environment = tool_environment()
    if shutil.which(argv[0], path=environment["PATH"]) is None:
        result["missing"] = True
        return result
    started = time.monotonic()
    try:
        # Not `with`: leaving the block would wait for a process that may never end. Not run_command: it has no time
        # limit, and this runs outside of modules too.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            preexec_fn=functools.partial(end_with_parent, os.getpid()),
        )
    except OSError as error:
        result.update(rc=126, stderr=f"cannot be started: {error.strerror}")
        return result
    streams = [_follow(stream, max_output_bytes) for stream in (process.stdout, process.stderr)]
    try:
        enough = None if stop is None else lambda: stop.is_set() and streams[0][0].any
        result["rc"] = _ended(process, timeout_s, enough)
    except _Stopped:
        result["rc"] = 0
        _kill_group(process)
    except subprocess.TimeoutExpired:
        result["timed_out"] = True
        _kill_group(process)
    except BaseException:
        # Also for a signal that ends this process: the tool must not outlive it.
        _kill_group(process)
        raise
    result["duration_s"] = round(time.monotonic() - started, 3)
    for name, (kept, thread) in zip(("stdout", "stderr"), streams):
        # A daemon that the tool started may keep the pipe open forever.
        thread.join(_DRAIN_WAIT_S)
        result[name] = kept.text()
        result["truncated"] = result["truncated"] or kept.cut > 0
    return result


def _ended(process: subprocess.Popen[bytes], timeout_s: float, enough: Callable[[], bool] | None) -> int:
    """Return the exit code of a tool.

    Raises:
        _Stopped: its output is complete enough.
        TimeoutExpired: its time is over.
        SystemExit: the controller is gone, so that nothing waits for the result and nothing else would end the tool.
    """
    end = time.monotonic() + timeout_s
    caller = _CALLERS.get(os.getpid()) or _CALLERS.setdefault(os.getpid(), Caller())
    look_s = _LOOK_S if enough is None else _LOOK_FOR_STOP_S
    while True:
        left_s = end - time.monotonic()
        try:
            return process.wait(timeout=max(0.0, min(look_s, left_s)))
        except subprocess.TimeoutExpired:
            if enough is not None and enough():
                raise _Stopped() from None
            if left_s <= look_s:
                raise
            if caller.gone():
                raise SystemExit("the controller is gone") from None


def _follow(stream: IO[bytes] | None, limit: int) -> tuple[_Kept, threading.Thread]:
    kept = _Kept(limit)

    def drain() -> None:
        if stream is None:
            return
        while True:
            chunk = os.read(stream.fileno(), _CHUNK)
            if not chunk:
                return
            kept.add(chunk)

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    return kept, thread


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_KILL_WAIT_S)
