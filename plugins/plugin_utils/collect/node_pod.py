# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The script that a pod runs to query the kernel of its node, and its output as facts of a host. Pure.

It needs a shell with `timeout`, `grep`, `head` and `tail`: every image of a distribution has them, and busybox.
"""

from __future__ import annotations

import re
import shlex

from ..runtime.host_tools import HostTool, load_host_tools
from ..runtime.redaction import redact
from .host_evidence import ToolRun
from .host_facts import HostFacts
from .tool_reading import read_tool

# Tool output is kept here until all tools have ended.
OUT = "/out"
_MOST_BYTES, _STDERR_BYTES = 2_000_000, 300
_BEGIN, _STDERR, _END, _DONE = "gpufleet-begin", "gpufleet-stderr", "gpufleet-end", "gpufleet-done"
_PART = re.compile(
    rf"^{_BEGIN} (?P<name>\w+) (?P<rc>\d+)\n(?P<out>.*?)\n{_STDERR} (?P=name)\n(?P<err>.*?)\n{_END} (?P=name)$",
    re.MULTILINE | re.DOTALL,
)
# Exit status of `timeout` at the limit: GNU's own code, and the signals that busybox passes on.
_TIMED_OUT = (124, 137, 143)


def node_script(limit_s: float) -> str:
    """Return the script: it runs all tools in parallel, each with its time limit, and then prints their output."""
    tools = load_host_tools().of_nodes()
    requested = [f"ask {tool.name} {_seconds(tool, limit_s)} {shlex.join(tool.node_command)} &" for tool in tools]
    return "\n".join(
        (
            "export LC_ALL=C",
            f'ask() {{ n={OUT}/$1; s=$2; shift 2; timeout "$s" "$@" >$n 2>$n.err; echo $? >$n.rc; }}',
            *requested,
            "wait",
            f"for t in {' '.join(tool.name for tool in tools)}; do",
            f'  echo "{_BEGIN} $t $(cat {OUT}/$t.rc)"; head -c {_MOST_BYTES} {OUT}/$t; echo',
            f'  echo "{_STDERR} $t"; tail -c {_STDERR_BYTES} {OUT}/$t.err; echo; echo "{_END} $t"',
            "done",
            f"echo {_DONE}",
        )
    )


def _seconds(tool: HostTool, limit_s: float) -> int:
    return max(1, int(min(tool.timeout_s, limit_s)))


def is_whole(log: str) -> bool:
    """Tell whether the script ran to its end."""
    return log.rstrip().endswith(_DONE)


def node_facts(host: str, log: str, limit_s: float) -> HostFacts:
    """Return the facts of a host from the log of its pod. A tool without output has the reason in place of a value.

    Args:
        host: its name in the snapshot.
        log: log of the pod.
        limit_s: time limit of each tool.
    """
    printed = {found["name"]: found for found in _PART.finditer(log)}
    values = {}
    for tool in load_host_tools().of_nodes():
        found = printed.get(tool.name)
        run = None if found is None else _run(tool, found, limit_s)
        values[tool.fact] = read_tool(tool, run, "the pod's log has no such part")
    return HostFacts(host=host, reached=True, values=values)


def _run(tool: HostTool, found: re.Match[str], limit_s: float) -> ToolRun:
    rc = int(found["rc"])
    return ToolRun(
        argv=tool.node_command,
        rc=rc,
        stdout=redact(found["out"]),
        stderr=redact(found["err"].strip()),
        duration_s=float(_seconds(tool, limit_s)),
        timed_out=rc in _TIMED_OUT,
        missing=rc in (126, 127),
        truncated=len(found["out"].encode()) >= _MOST_BYTES,
    )
