# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reuses the output of a simulated tool as long as all of its inputs are the same.

A run reads every host eight times, and each reading starts up to two hundred programs of a shell that print the host's
files. A tool runs at the first request, and its output is kept. It is reused, on any host, only if these are the same
by inode, size, mode and modification time: the command, its environment, every tool and file of the host that its
scripts name, and the marks of changes to the host (a load, services). Files that hosts share are one file with a link
from each (prepare.py). A tool that queries something (the fabric's simulator) or reads files outside is never reused:
only the commands of the tools below are.
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
from fnmatch import fnmatchcase
from functools import partial
from typing import IO, Any, NamedTuple

from .enclosure import COMPILED_AT, HOST_VARIABLE, TOOLS_AT

# Inputs of a command on a simulated host: the files that its words and its scripts name, and no fewer. The tools are
# scripts that print files beside them (prepare.py). A script that is named by the command, or by another such script,
# counts; and so does every file below `out` that one of them names, also by a pattern (`$drive.json`). Words in
# comments count like any other: one file too many costs one more run of the tool, one too few would give wrong output.

Seen = tuple[str, int, int, int, int]
"""Path, inode, size, mode and modification time (ns) of a file."""
# A word that can start a tool: `nvme smart-log`, `bin/nvme`, but not /sys/class/nvme.
_WORD = re.compile(r"(?:(?<![/\w.+$-])|(?<=bin/))[A-Za-z_][\w.+-]*")
# A name below `out` with a variable part: `$out/$drive.json`, `$out/dcgmi-diag-$level.json`.
_SLOT = re.compile(r"\$(?:\{\w+\}|\w+)|\*")
_FILLED = re.compile(rf"(?<=out/)[\w.-]*(?:(?:{_SLOT.pattern})[\w.-]*)+")
# A script that reads the name of its host prints something else on each.
_ASKS_NAME = re.compile(r"\buname\b|\bhostname\b|GPUFLEET_REHEARSAL_HOST")
_MOST_BYTES = 1 << 16


class _Named(NamedTuple):
    """Tools and files below `out` in a text, and whether it reads the name of its host."""

    tools: frozenset[str]
    files: tuple[Seen, ...]
    asks_name: bool


class HostFiles:
    """Tools of a host and their output files, at one moment."""

    def __init__(self, home: str, marks: Sequence[Seen]) -> None:
        """Read the state of the files below `home`. `marks` are those of changes to the host."""
        self.seen_at = time.monotonic()
        self._bin = f"{home}/bin"
        self._tools = {observed[0]: observed for observed in seen_below(self._bin)}
        self._out = [(observed[0].rpartition("/")[2], observed) for observed in seen_below(f"{home}/out")]
        self._marks = list(marks)
        self._scripts: dict[str, _Named] = {}

    def inputs(self, command: Sequence[str]) -> list[object]:
        """Return all inputs of a command's output, beside the command itself."""
        found = [self._named_by(" ".join((os.path.basename(command[0]), *command[1:])))]
        tools: set[str] = set()
        for named in found:
            found += [self._named_by_tool(tool) for tool in sorted(named.tools - tools)]
            tools |= named.tools
        files = sorted({file for named in found for file in named.files})
        asks = any(named.asks_name for named in found)
        return [[self._tools[tool] for tool in sorted(tools)], files, self._marks, os.uname().nodename if asks else ""]

    def _named_by_tool(self, tool: str) -> _Named:
        """Return the names in a tool. A tool that is no script, or is very long, counts as naming every file."""
        if tool not in self._scripts:
            with open(f"{self._bin}/{tool}", "rb") as file:
                content = file.read(_MOST_BYTES + 1)
            is_script = content.startswith(b"#!") and len(content) <= _MOST_BYTES
            self._scripts[tool] = self._named_by(content.decode("utf-8", "replace") if is_script else "out/*")
        return self._scripts[tool]

    def _named_by(self, text: str) -> _Named:
        patterns = {_SLOT.sub("*", found) for found in _FILLED.findall(text)}
        files = tuple(
            observed
            for name, observed in self._out
            if name in text or any(fnmatchcase(name, pattern) for pattern in patterns)
        )
        tools = frozenset(self._tools.keys() & set(_WORD.findall(text)))
        return _Named(tools, files, _ASKS_NAME.search(text) is not None)


def seen_below(directory: str) -> list[Seen]:
    """Return the state of every file below a directory, in the order of relative paths; empty without the directory."""
    return sorted(_below(directory, ""))


def _below(directory: str, path: str) -> Iterable[Seen]:
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        observed = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(observed.st_mode):
            yield from _below(entry.path, f"{path}{entry.name}/")
        elif stat.S_ISREG(observed.st_mode):
            yield (f"{path}{entry.name}", observed.st_ino, observed.st_size, observed.st_mode, observed.st_mtime_ns)


NOT_KEPT = (
    "ibstat", "mlxlink", "os_release", "dcgmi_diag", "pcie_under_load", "sysctl", "kernel_cmdline", "cgroup_hierarchy",
)  # fmt: skip
"""Tools of recipes/gates/nodes/tools.yaml that query something, load the GPUs or read files outside of `out`. The
simulators of all others print files of their host and nothing else."""
STATE_AT = "/run/gpu-node"
_CHUNK, _END_S = 1 << 16, 1.0
# How long the state of a host's files counts as current: all quick tools of one reading run within it.
_SEEN_S = 0.1
# No process has this pid (proc(5): pid_max is at most 4194304), so a signal to it has no effect.
_NO_PID = (1 << 22) + 1
# nvidia-smi prints the current time in the fourth line.
_TIME = re.compile(rb"\A((?:[^\n]*\n){3}[^\n]*<timestamp>)[^<\n]*(?=</timestamp>)")
_ASKED = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
# Of plugins/module_utils/host_guard.py.
_BINDS = "end_with_parent"
_KNOWN = frozenset((*_ASKED, "env", "start_new_session", "preexec_fn"))
_Popen = subprocess.Popen


class KeptAnswers:
    """Kept outputs for one process on a host."""

    def __init__(
        self,
        commands: Iterable[Sequence[str]],
        *,
        tools: str = TOOLS_AT,
        kept: str = f"{COMPILED_AT}/answers",
        state: str = STATE_AT,
    ) -> None:
        self._commands = frozenset(tuple(command) for command in commands)
        self._tools, self._state = tools, state
        self._kept = kept
        self._files: HostFiles | None = None
        self._heard: list[_Heard] = []

    def offer(self) -> None:
        """Serve programs that this process starts from here on."""
        answers = self

        class Popen(_Popen[bytes]):
            """A program that runs, or its kept output."""

            def __init__(self, args: Any, *more: Any, **options: Any) -> None:
                path = "" if more else answers.place_of(args, options)
                found = _read(path) if path else None
                if found is None:
                    if _only_binds(options.get("preexec_fn")):
                        del options["preexec_fn"]
                    super().__init__(args, *more, **options)
                    answers.forget()
                    if path:
                        answers.hear(self, path)
                    return
                self.args, self.pid, self.stdin = args, _NO_PID, None
                self.returncode, *outputs = found
                self.stdout, self.stderr = (_stream(output) for output in outputs)

        subprocess.Popen = Popen  # type: ignore[misc,assignment]

    def place_of(self, args: Any, options: dict[str, Any]) -> str:
        """Return the file for the output of a command, empty for a command whose output is not kept."""
        if not isinstance(args, list) or tuple(args) not in self._commands or options.keys() - _KNOWN:
            return ""
        if any(options.get(name) != value for name, value in _ASKED.items()):
            return ""
        # For a tool that needs the host's name, that name is among its inputs.
        environment = {**(options.get("env") or os.environ)}
        environment.pop(HOST_VARIABLE, None)
        made_from = json.dumps([args, sorted(environment.items()), os.getcwd(), self._seen().inputs(args)])
        return f"{self._kept}/{hashlib.sha256(made_from.encode('utf-8', 'surrogateescape')).hexdigest()}"

    def forget(self) -> None:
        """Read the state of the host's files again, since a program that was started may change them."""
        self._files = None

    def _seen(self) -> HostFiles:
        files = self._files
        if files is None or time.monotonic() - files.seen_at >= _SEEN_S:
            files = self._files = HostFiles(self._tools, seen_below(self._state))
        return files

    def hear(self, process: subprocess.Popen[bytes], path: str) -> None:
        """Record the output of a program while it is read."""
        self._heard.append(_Heard(process, path))

    def keep(self) -> None:
        """Save the output of programs that ended with 0 and were read completely. Others run again next time."""
        for received in self._heard:
            reported = received.said()
            if reported is not None:
                # Without space it runs again, too.
                with suppress(OSError):
                    _write(received.path, *reported)


class _Heard:
    """Passes on the output of a program and records it."""

    def __init__(self, process: subprocess.Popen[bytes], path: str) -> None:
        self.path = path
        self._process = process
        self._said: list[list[bytes]] = [[], []]
        self._ends: list[int] = []
        self._threads: list[threading.Thread] = []
        for name, reported in zip(("stdout", "stderr"), self._said, strict=True):
            ours, theirs = os.pipe()
            # The copy has to reach its end when the program's own output does.
            source: IO[bytes] = getattr(process, name)
            setattr(process, name, os.fdopen(ours, "rb"))
            messages = (source, theirs, reported, self._ends)
            self._threads.append(threading.Thread(target=_pass_on, args=messages, daemon=True))
            self._threads[-1].start()

    def said(self) -> tuple[bytes, bytes] | None:
        """Return both outputs of a program that ended with 0; None if it did not, or is not read to its end."""
        for thread in self._threads:
            thread.join(_END_S)
        if self._process.returncode != 0 or len(self._ends) != len(self._said):
            return None
        stdout, stderr = (b"".join(said) for said in self._said)
        return stdout, stderr


def _only_binds(between: Any) -> bool:
    """Tell whether the only action between fork and exec is to bind the program to this process.

    Here everything ends with the command that started it (enclosure.py). Without such an action Python shares its
    memory with the child (vfork) and need not copy it, which saves three of the four milliseconds of starting a
    program.
    """
    return isinstance(between, partial) and getattr(between.func, "__name__", "") == _BINDS


def _pass_on(source: IO[bytes], target: int, reported: list[bytes], ends: list[int]) -> None:
    # The reader may stop before the end.
    with suppress(OSError), source, open(target, "wb", 0) as copy:
        while chunk := os.read(source.fileno(), _CHUNK):
            reported.append(chunk)
            left = memoryview(chunk)
            while left:
                left = left[copy.write(left) :]
        ends.append(target)


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
    # Renamed once complete, since another command may read it at any time.
    with open(own, "wb") as file:
        file.write(b"%d\n" % len(stdout) + stdout + stderr)
    os.rename(own, path)


def _stream(content: bytes) -> IO[bytes]:
    stream = os.fdopen(os.memfd_create("answer"), "w+b", 0)
    stream.write(content)
    stream.seek(0)
    return stream
