# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what one tool printed: the parsed value, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ..outcome.errors import InputError
from ..runtime.redaction import excerpt
from .host_evidence import ToolRun

T = TypeVar("T")
FailureKind = Literal["missing", "timeout", "empty", "garbage", "failed", "not-collected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """What is known about a tool beside its parser.

    Args:
        key: its name in the evidence (`nvidia_smi_xml`).
        slug: its name in causes (`nvidia-smi`).
        command: what a person types.
        owner: id of the check that reports when it gives nothing usable.
        rc_is_answer: it exits non-zero to say what it found, and prints it.
        may_be_cut: a part of its output says something true (a log); of any other tool a part says nothing.
        advice: what to do about a kind of failure, where the common advice does not fit.
    """

    key: str
    slug: str
    command: str
    owner: str
    rc_is_answer: bool = False
    may_be_cut: bool = False
    advice: Mapping[FailureKind, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """Why a tool gave nothing usable; `text` says what was found."""

    tool: ToolFacts
    kind: FailureKind
    text: str


def read_tool(
    tool: ToolFacts, run: ToolRun | None, parse: Callable[[str], T], why_not_run: str = ""
) -> T | ProbeFailure:
    """Return what the tool printed, parsed; `why_not_run` is the reason where there is no run of it."""
    if run is None:
        return ProbeFailure(tool, "not-collected", why_not_run or "the tool was not run")
    failure = _failure(tool, run)
    if failure is not None:
        return failure
    try:
        return parse(run.stdout)
    except InputError as error:
        # A tool that failed prints its trouble where its answer is expected.
        if run.rc == 0:
            return ProbeFailure(tool, "garbage", error.reason)
        return ProbeFailure(tool, "failed", _printed(run))


def _failure(tool: ToolFacts, run: ToolRun) -> ProbeFailure | None:
    command = " ".join(run.argv)
    if run.missing:
        return ProbeFailure(tool, "missing", f"{run.argv[0] if run.argv else tool.key} is not installed")
    if run.timed_out or run.rc is None:
        return ProbeFailure(tool, "timeout", f"`{command}` did not end within {run.duration_s:.0f} s")
    if run.rc != 0 and not (tool.rc_is_answer and run.stdout.strip()):
        return ProbeFailure(tool, "failed", _printed(run))
    if not run.stdout.strip():
        return ProbeFailure(tool, "empty", f"`{command}` ended with 0 and printed nothing")
    if run.truncated and not tool.may_be_cut:
        return ProbeFailure(tool, "garbage", f"the output of `{command}` was cut after {len(run.stdout)} characters")
    return None


def _printed(run: ToolRun) -> str:
    return f"`{' '.join(run.argv)}` ended with {run.rc}: {excerpt(f'{run.stdout.strip()} {run.stderr.strip()}', 300)}"
