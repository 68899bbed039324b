# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From which files of a simulated host a command makes its output: what its words and its scripts name, and no less.

The tools are scripts that print files beside them (prepare.py). A script that is named by the command, or by a script
that is, counts; and so does every file below `out` that one of them names, also by a pattern (`$drive.json`). Words in
comments count like any other: a file too many costs one more run of the tool, one too few would be a wrong answer.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

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
