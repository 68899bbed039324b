# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the simulated tools of a host printed before is given again, as long as all that it was made from is the same.

A run reads every host eight times, and each reading starts up to a hundred programs of a shell to print what lies in
the host's files. A tool that is asked for the first time runs; its output is kept. It is given again only if the
command, its environment, every tool of the host, every file that they print and the marks of what was done to the host
(a load, services) are, by inode, size, mode and time of writing, those of then. What asks somebody (the fabric's
simulator) or looks at files of the host's own is never kept: only commands of the tools below are.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, Any

from .enclosure import COMPILED_AT, TOOLS_AT

TOOLS = (
    "ethtool_stats", "port_counters", "efa_counters", "kernel_log", "nvidia_smi_xml", "nvidia_smi_topo",
    "nvidia_smi_nvlink", "nvidia_smi_nvlink_errors",
)  # fmt: skip
"""Tools of recipes/tools.yaml whose simulators print files of their host and nothing else."""
STATE_AT = "/run/gpu-node"
_CHUNK, _END_S = 1 << 16, 1.0
# No process has it (proc(5): pid_max is at most 4194304): what is sent there reaches nobody.
_NO_PID = (1 << 22) + 1
# nvidia-smi says when it was asked, in the fourth line.
_TIME = re.compile(rb"\A((?:[^\n]*\n){3}[^\n]*<timestamp>)[^<\n]*(?=</timestamp>)")
_ASKED = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
_KNOWN = frozenset((*_ASKED, "env", "start_new_session", "preexec_fn"))
_Popen = subprocess.Popen


class KeptAnswers:
    """The answers of one host, for one process on it."""

    def __init__(
        self,
        commands: Iterable[Sequence[str]],
        *,
        tools: str = TOOLS_AT,
        kept: str = f"{COMPILED_AT}/answers",
        state: str = STATE_AT,
    ) -> None:
        self._commands = frozenset(tuple(command) for command in commands)
        self._inputs = (f"{tools}/bin", f"{tools}/out", state)
        self._kept = kept
        self._heard: list[_Heard] = []

    def offer(self) -> None:
        """From now on, programs of this process are asked through here."""
        answers = self

        class Popen(_Popen[bytes]):
            """A program that runs, or what it printed before."""

            def __init__(self, args: Any, *more: Any, **options: Any) -> None:
                path = "" if more else answers.place_of(args, options)
                found = _read(path) if path else None
                if found is None:
                    super().__init__(args, *more, **options)
                    if path:
                        answers.hear(self, path)
                    return
                self.args, self.pid, self.stdin = args, _NO_PID, None
                self.returncode, *outputs = found
                self.stdout, self.stderr = (_stream(output) for output in outputs)

        subprocess.Popen = Popen  # type: ignore[misc,assignment]

    def place_of(self, args: Any, options: dict[str, Any]) -> str:
        """Return where the answer to a command is kept, empty for a command whose answer is not."""
        if not isinstance(args, list) or tuple(args) not in self._commands or options.keys() - _KNOWN:
            return ""
        if any(options.get(name) != value for name, value in _ASKED.items()):
            return ""
        environment = sorted((options.get("env") or os.environ).items())
        inputs = [_fingerprint(directory) for directory in self._inputs]
        made_from = json.dumps([args, environment, os.getcwd(), os.uname().nodename, inputs])
        return f"{self._kept}/{hashlib.sha256(made_from.encode('utf-8', 'surrogateescape')).hexdigest()}"

    def hear(self, process: subprocess.Popen[bytes], path: str) -> None:
        """Listen to a program while it is read."""
        self._heard.append(_Heard(process, path))

    def keep(self) -> None:
        """Write down what ended well, in whole; for the others the program is asked again."""
        for heard in self._heard:
            said = heard.said()
            if said is not None:
                # Without room it is asked again, too.
                with suppress(OSError):
                    _write(heard.path, *said)


class _Heard:
    """Passes on what a program prints, and remembers it."""

    def __init__(self, process: subprocess.Popen[bytes], path: str) -> None:
        self.path = path
        self._process = process
        self._said: list[list[bytes]] = [[], []]
        self._ends: list[int] = []
        self._threads: list[threading.Thread] = []
        for name, said in zip(("stdout", "stderr"), self._said, strict=True):
            ours, theirs = os.pipe()
            # The copy that is read has to say that it ended when the program's own does.
            source: IO[bytes] = getattr(process, name)
            setattr(process, name, os.fdopen(ours, "rb"))
            told = (source, theirs, said, self._ends)
            self._threads.append(threading.Thread(target=_pass_on, args=told, daemon=True))
            self._threads[-1].start()

    def said(self) -> tuple[bytes, bytes] | None:
        """Return both outputs of a program that ended with 0; None if it did not, or is not read to its end."""
        for thread in self._threads:
            thread.join(_END_S)
        if self._process.returncode != 0 or len(self._ends) != len(self._said):
            return None
        stdout, stderr = (b"".join(said) for said in self._said)
        return stdout, stderr


def _pass_on(source: IO[bytes], target: int, said: list[bytes], ends: list[int]) -> None:
    # Whoever reads may stop before the end.
    with suppress(OSError), source, open(target, "wb", 0) as copy:
        while chunk := os.read(source.fileno(), _CHUNK):
            said.append(chunk)
            left = memoryview(chunk)
            while left:
                left = left[copy.write(left) :]
        ends.append(target)


def _fingerprint(directory: str) -> list[list[Any]]:
    """Return name, inode, size, mode and time of writing of every file below a directory."""
    found: list[list[Any]] = []
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return found
    for entry in entries:
        seen = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(seen.st_mode):
            found.append([entry.name, _fingerprint(entry.path)])
        elif stat.S_ISREG(seen.st_mode):
            found.append([entry.name, seen.st_ino, seen.st_size, seen.st_mode, seen.st_mtime_ns])
    return found


def _read(path: str) -> tuple[int, bytes, bytes] | None:
    try:
        with open(path, "rb") as file:
            length = int(file.readline())
            stdout, stderr = file.read(length), file.read()
    except (OSError, ValueError):
        return None
    if len(stdout) != length:
        return None
    return 0, _TIME.sub(lambda found: found.group(1) + time.asctime().encode(), stdout, count=1), stderr


def _write(path: str, stdout: bytes, stderr: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    own = f"{path}.{os.getpid()}-{os.uname().nodename}"
    # Renamed when it is whole: another command may read at any time.
    with open(own, "wb") as file:
        file.write(b"%d\n" % len(stdout) + stdout + stderr)
    os.rename(own, path)


def _stream(content: bytes) -> IO[bytes]:
    stream = os.fdopen(os.memfd_create("answer"), "w+b", 0)
    stream.write(content)
    stream.seek(0)
    return stream
