# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a simulated tool printed before is given again, as long as all that it was made from is the same.

A run reads every host eight times, and each reading starts up to two hundred programs of a shell to print what lies in
the host's files. A tool that is asked for the first time runs; its output is kept. It is given again, on any host, only
if the command, its environment, every tool and file of the host that its scripts name and the marks of
what was done to the host (a load, services) are, by inode, size, mode and time of writing, those of then: what hosts
have in common is one file with a link from each (prepare.py). What asks somebody (the fabric's simulator) or looks at
files of the host's own is never kept: only commands of the tools below are.
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

# From which files of a simulated host a command makes its output: what its words and its scripts name, and no less.
# The tools are scripts that print files beside them (prepare.py). A script that is named by the command, or by a
# script that is, counts; and so does every file below `out` that one of them names, also by a pattern
# (`$drive.json`). Words in comments count like any other: a file too many costs one more run of the tool, one too few
# would be a wrong answer.

Seen = tuple[str, int, int, int, int]
"""Path, inode, size, mode and time of writing (ns) of a file."""
# A word that can start a tool: `nvme smart-log`, `bin/nvme`, but not /sys/class/nvme.
_WORD = re.compile(r"(?:(?<![/\w.+$-])|(?<=bin/))[A-Za-z_][\w.+-]*")
# A name below `out` with something filled in: `$out/$drive.json`, `$out/dcgmi-diag-$level.json`.
_SLOT = re.compile(r"\$(?:\{\w+\}|\w+)|\*")
_FILLED = re.compile(rf"(?<=out/)[\w.-]*(?:(?:{_SLOT.pattern})[\w.-]*)+")
# A script that asks for the name of its host prints something else on each.
_ASKS_NAME = re.compile(r"\buname\b|\bhostname\b|GPUFLEET_REHEARSAL_HOST")
_MOST_BYTES = 1 << 16


class _Named(NamedTuple):
    """What a text names: tools, and files below `out`; and whether it asks for the name of its host."""

    tools: frozenset[str]
    files: tuple[Seen, ...]
    asks_name: bool


class HostFiles:
    """The tools of a host and what they print, as they are at one moment."""

    def __init__(self, home: str, marks: Sequence[Seen]) -> None:
        """Look at the files below `home`; `marks` says what was done to the host."""
        self.seen_at = time.monotonic()
        self._bin = f"{home}/bin"
        self._tools = {seen[0]: seen for seen in seen_below(self._bin)}
        self._out = [(seen[0].rpartition("/")[2], seen) for seen in seen_below(f"{home}/out")]
        self._marks = list(marks)
        self._scripts: dict[str, _Named] = {}

    def inputs(self, command: Sequence[str]) -> list[object]:
        """Return all that the output of a command follows from, beside the command itself."""
        found = [self._named_by(" ".join((os.path.basename(command[0]), *command[1:])))]
        tools: set[str] = set()
        for named in found:
            found += [self._named_by_tool(tool) for tool in sorted(named.tools - tools)]
            tools |= named.tools
        files = sorted({file for named in found for file in named.files})
        asks = any(named.asks_name for named in found)
        return [[self._tools[tool] for tool in sorted(tools)], files, self._marks, os.uname().nodename if asks else ""]

    def _named_by_tool(self, tool: str) -> _Named:
        """Return what a tool names; one that is no script, or a very long one, every file."""
        if tool not in self._scripts:
            with open(f"{self._bin}/{tool}", "rb") as file:
                content = file.read(_MOST_BYTES + 1)
            is_script = content.startswith(b"#!") and len(content) <= _MOST_BYTES
            self._scripts[tool] = self._named_by(content.decode("utf-8", "replace") if is_script else "out/*")
        return self._scripts[tool]

    def _named_by(self, text: str) -> _Named:
        patterns = {_SLOT.sub("*", found) for found in _FILLED.findall(text)}
        files = tuple(
            seen for name, seen in self._out if name in text or any(fnmatchcase(name, pattern) for pattern in patterns)
        )
        tools = frozenset(self._tools.keys() & set(_WORD.findall(text)))
        return _Named(tools, files, _ASKS_NAME.search(text) is not None)


def seen_below(directory: str) -> list[Seen]:
    """Return what is seen of every file below a directory, in the order of their paths below it; none without it."""
    return sorted(_below(directory, ""))


def _below(directory: str, path: str) -> Iterable[Seen]:
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        seen = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(seen.st_mode):
            yield from _below(entry.path, f"{path}{entry.name}/")
        elif stat.S_ISREG(seen.st_mode):
            yield (f"{path}{entry.name}", seen.st_ino, seen.st_size, seen.st_mode, seen.st_mtime_ns)


TOOLS = (
    "ethtool_stats", "port_counters", "efa_counters", "kernel_log", "nvidia_smi_xml", "nvidia_smi_topo",
    "nvidia_smi_nvlink", "nvidia_smi_nvlink_errors", "lspci", "lspci_bridges", "virtualisation", "rdma_link", "fi_info",
    "show_gids", "ibv_devinfo", "mlnx_qos", "roce_ecn", "pkeys", "dmidecode", "lsmod", "chronyc", "timedatectl",
    "phc2sys", "ntpq", "uname", "fabric_manager", "ofed_info", "dcgmi_health", "systemctl_show", "cpu_governors",
    "disk_space", "waiting_processes", "nvme_health", "network_mounts", "module_licence", "ipmi_sensors", "imex_domain",
    "lscpu", "free", "clock_source",
)  # fmt: skip
"""Tools of recipes/gates/<gate>/tools.yaml whose simulators print files of their host and nothing else."""
STATE_AT = "/run/gpu-node"
_CHUNK, _END_S = 1 << 16, 1.0
# So long what was seen of a host's files counts: all quick tools of one reading are asked within it.
_SEEN_S = 0.1
# No process has it (proc(5): pid_max is at most 4194304): what is sent there reaches nobody.
_NO_PID = (1 << 22) + 1
# nvidia-smi says when it was asked, in the fourth line.
_TIME = re.compile(rb"\A((?:[^\n]*\n){3}[^\n]*<timestamp>)[^<\n]*(?=</timestamp>)")
_ASKED = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
# Of plugins/module_utils/host_guard.py.
_BINDS = "end_with_parent"
_KNOWN = frozenset((*_ASKED, "env", "start_new_session", "preexec_fn"))
_Popen = subprocess.Popen


class KeptAnswers:
    """The answers that one process on a host is given."""

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
        """From now on, programs of this process are asked through here."""
        answers = self

        class Popen(_Popen[bytes]):
            """A program that runs, or what it printed before."""

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
        """Return where the answer to a command is kept, empty for a command whose answer is not."""
        if not isinstance(args, list) or tuple(args) not in self._commands or options.keys() - _KNOWN:
            return ""
        if any(options.get(name) != value for name, value in _ASKED.items()):
            return ""
        # A tool that wants to know on which host it is has that among its inputs.
        environment = {**(options.get("env") or os.environ)}
        environment.pop(HOST_VARIABLE, None)
        made_from = json.dumps([args, sorted(environment.items()), os.getcwd(), self._seen().inputs(args)])
        return f"{self._kept}/{hashlib.sha256(made_from.encode('utf-8', 'surrogateescape')).hexdigest()}"

    def forget(self) -> None:
        """Look at the host's files anew: a program that was started may change them."""
        self._files = None

    def _seen(self) -> HostFiles:
        files = self._files
        if files is None or time.monotonic() - files.seen_at >= _SEEN_S:
            files = self._files = HostFiles(self._tools, seen_below(self._state))
        return files

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


def _only_binds(between: Any) -> bool:
    """Tell whether all that is done between fork and program is to bind it to this process.

    Here everything ends with the command that started it (enclosure.py). With nothing to do there Python lends its
    memory to the child (vfork) and need not copy it, which is three of the four milliseconds of starting a program.
    """
    return isinstance(between, partial) and getattr(between.func, "__name__", "") == _BINDS


def _pass_on(source: IO[bytes], target: int, said: list[bytes], ends: list[int]) -> None:
    # Whoever reads may stop before the end.
    with suppress(OSError), source, open(target, "wb", 0) as copy:
        while chunk := os.read(source.fileno(), _CHUNK):
            said.append(chunk)
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
    # Renamed when it is whole: another command may read at any time.
    with open(own, "wb") as file:
        file.write(b"%d\n" % len(stdout) + stdout + stderr)
    os.rename(own, path)


def _stream(content: bytes) -> IO[bytes]:
    stream = os.fdopen(os.memfd_create("answer"), "w+b", 0)
    stream.write(content)
    stream.seek(0)
    return stream
