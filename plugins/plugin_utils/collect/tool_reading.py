# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what tools of a host printed, from its saved evidence: each parsed value, or why there is none."""

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

# Reads what one tool printed: the parsed value, or why there is none.

# For one tool of one host; the longest outputs are read within two seconds.
_LIMIT_S = 60.0
# What a shell ends with where a program is not there (POSIX).
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """Why a tool gave nothing usable; `text` says what was found."""

    tool: HostTool
    kind: FailureKind
    text: str


# The reason of a reading whose tool has no run in the evidence: that run of the collection did not ask it.
NOT_RUN = "the tool was not run"


@cache
def parser_named(name: str) -> Callable[[str], Any]:
    """Return `parse` of that module of plugins/plugin_utils/probe.

    Raises:
        InputError: there is no such parser.
    """
    try:
        parse: Callable[[str], Any] = import_module(f"...probe.{name}", __name__).parse
    except (ImportError, AttributeError):
        reason = "is no module of plugins/plugin_utils/probe with a function parse."
        raise InputError(f"parser {name!r}", reason, "correct its entry in recipes/gates/<gate>/tools.yaml") from None
    return parse


def read_tool(tool: HostTool, run: ToolRun | None, why_not_run: str = "") -> Any:
    """Return what the tool printed, parsed, or a ProbeFailure; `why_not_run` is the reason where there is no run."""
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
        # A tool that failed prints its trouble where its answer is expected.
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
    # On one line: it becomes a part of a sentence.
    said = excerpt(" ".join(f"{run.stdout} {run.stderr}".split()), 300)
    return f"`{' '.join(run.argv)}` ended with {run.rc}: {said}"


# What tools of a host printed, parsed one by one, from its saved evidence.


def read_tools(host: str, run_dir: Path, owner: DriverOwner, tools: Sequence[HostTool]) -> list[Any]:
    """Return what these tools printed on a host, parsed, each a ProbeFailure where there is nothing usable."""
    evidence, _unread = evidence_of(host, run_dir, HOSTS)
    driver = evidence if owner is DriverOwner.HOST else evidence_of(host, run_dir, DRIVERS)[0]
    return [value_of(tool, driver if tool.asks_driver else evidence) for tool in tools]


def evidence_of(host: str, run_dir: Path, kind: str) -> tuple[HostEvidence, str]:
    """Return what was collected of a host, and why there is nothing usable: `missing`, `unreadable`, `unreachable`."""
    path = run_dir / evidence_file(host, kind)
    if not path.is_file():
        return HostEvidence(host=host, reached=False, reason="nothing was collected from this host"), "missing"
    try:
        evidence = read_evidence(path)
    except InputError as error:
        return HostEvidence(host=host, reached=False, reason=str(error)), "unreadable"
    return evidence, "" if evidence.reached else "unreachable"


def value_of(tool: HostTool, evidence: HostEvidence) -> Any:
    """Return what a tool printed, parsed; a ProbeFailure where there is nothing usable."""
    run = evidence.tools.get(tool.name) if evidence.reached else None
    return read_tool(tool, run, evidence.reason)
