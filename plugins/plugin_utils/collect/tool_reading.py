# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parses the tool output in a host's saved evidence. Each tool gives a value, or a ProbeFailure with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..outcome.errors import DeadlineError, InputError
from ..runtime.clock import time_limit
from ..runtime.host_tools import FailureKind, HostTool
from ..runtime.redaction import excerpt
from ..site.model import DriverOwner
from .host_evidence import DRIVERS, HOSTS, HostEvidence, ToolRun, evidence_file, read_evidence

# For one tool of one host. The longest outputs are parsed within two seconds.
_LIMIT_S = 60.0
# Exit status of a shell for a program that is not there (POSIX).
_NOT_FOUND = 127
_ROOMS = __name__.rpartition(".collect.")[0]


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """A tool gave nothing usable: `kind` is why, `text` what was found."""

    tool: HostTool
    kind: FailureKind
    text: str


# Reason where the evidence has no run of the tool: that collection did not include it.
NOT_RUN = "the tool was not run"


def parser_place(name: str) -> tuple[str, str]:
    """Return the module and the function of a parser, by its name in an entry of recipes/gates/<gate>/tools.yaml.

    - `lspci`: `parse` of probe/lspci.py.
    - `nodes.disk_space`: `parse` of check/nodes/disk_space.py, the only check that reads it.
    - `nodes.clock_sync.ntpq`: `parse_ntpq` of check/nodes/clock_sync.py, which has several.
    """
    place, _dot, one = name.partition(".")[2].partition(".")
    if not place:
        return f"{_ROOMS}.probe.{name}", "parse"
    return f"{_ROOMS}.check.{name.partition('.')[0]}.{place}", f"parse_{one}" if one else "parse"


@cache
def parser_named(name: str) -> Callable[[str], Any]:
    """Return the parser of that name (see parser_place). It is imported by name, and then alone.

    Raises:
        InputError: there is no such parser.
    """
    module, function = parser_place(name)
    try:
        parse: Callable[[str], Any] = getattr(import_module(module), function)
    except (ImportError, AttributeError):
        path = module.removeprefix(f"{_ROOMS}.").replace(".", "/")
        reason = f"expected a function {function} in plugins/plugin_utils/{path}.py."
        raise InputError(f"parser {name!r}", reason, "correct its entry in recipes/gates/<gate>/tools.yaml") from None
    return parse


def read_tool(tool: HostTool, run: ToolRun | None, why_not_run: str = "") -> Any:
    """Return the parsed output of a tool, or a ProbeFailure.

    `why_not_run` is the reason where there is no run.
    """
    if run is None:
        return ProbeFailure(tool, "not-collected", why_not_run or NOT_RUN)
    failure = _failure(tool, run)
    if failure is not None:
        return failure
    try:
        with time_limit(f"reading of `{' '.join(run.argv)}`", _LIMIT_S, ""):
            return parser_named(tool.parser)(run.stdout)
    except DeadlineError as error:
        return ProbeFailure(tool, "garbage", f"{error.subject} {error.reason}")
    except InputError as error:
        # A tool that failed prints its error where its output is expected.
        if run.rc == 0:
            return ProbeFailure(tool, "garbage", error.reason)
        return ProbeFailure(tool, "failed", _ended(run))


def _failure(tool: HostTool, run: ToolRun) -> ProbeFailure | None:
    command = " ".join(run.argv)
    if run.withheld:
        kind: FailureKind = "held" if run.withheld == "held" else "in-use"
        return ProbeFailure(tool, kind, f"`{command}` was not run: {run.stderr[:300]}")
    if run.missing or (run.argv[:1] == ("sh",) and run.rc == _NOT_FOUND and not run.stdout.strip()):
        name = run.argv[0] if run.argv and run.missing else tool.shown.partition(" ")[0]
        return ProbeFailure(tool, "missing", f"{name} is not installed")
    if run.timed_out or run.rc is None:
        return ProbeFailure(tool, "timeout", f"`{command}` did not end within {run.duration_s:.0f} s")
    if run.rc != 0 and not (tool.rc_is_answer and run.stdout.strip()):
        return ProbeFailure(tool, "failed", _ended(run))
    if not run.stdout.strip():
        return ProbeFailure(tool, "empty", f"`{command}` ended with 0 and printed nothing")
    if run.truncated and not tool.may_be_cut:
        text = f"the output of `{command}` was cut after {len(run.stdout)} characters"
        return ProbeFailure(tool, "garbage", text)
    return None


def _ended(run: ToolRun) -> str:
    # On one line, since it becomes part of a sentence.
    reported = excerpt(" ".join(f"{run.stdout} {run.stderr}".split()), 300)
    return f"`{' '.join(run.argv)}` ended with {run.rc}: {reported}"


def read_tools(host: str, run_dir: Path, owner: DriverOwner, tools: Sequence[HostTool]) -> list[Any]:
    """Return the parsed output of these tools of a host. A tool without usable output gives a ProbeFailure."""
    evidence, _unread = evidence_of(host, run_dir, HOSTS)
    driver = evidence if owner is DriverOwner.HOST else evidence_of(host, run_dir, DRIVERS)[0]
    return [value_of(tool, driver if tool.asks_driver else evidence) for tool in tools]


def evidence_of(host: str, run_dir: Path, kind: str) -> tuple[HostEvidence, str]:
    """Return the evidence of a host, and an empty text.

    Without usable evidence the text is the reason: `missing`, `unreadable` or `unreachable`.
    """
    path = run_dir / evidence_file(host, kind)
    if not path.is_file():
        return HostEvidence(host=host, reached=False, reason="nothing was collected from this host"), "missing"
    try:
        evidence = read_evidence(path)
    except InputError as error:
        return HostEvidence(host=host, reached=False, reason=str(error)), "unreadable"
    return evidence, "" if evidence.reached else "unreachable"


def value_of(tool: HostTool, evidence: HostEvidence) -> Any:
    """Return the parsed output of a tool, or a ProbeFailure."""
    run = evidence.tools.get(tool.name) if evidence.reached else None
    return read_tool(tool, run, evidence.reason)
