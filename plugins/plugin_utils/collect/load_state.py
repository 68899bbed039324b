# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""State of the hosts before and after a load: GPUs, kernel log, NVLinks and ports, each read twice from the same tools.

The diagnostic of gate nodes is bracketed within its own evidence: the second reading of a tool is kept as
`<tool>_after`. Around a benchmark gate it is a file for each host: evidence/load/<gate>/<before|after>/<host>.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..outcome.errors import InputError
from ..runtime.host_tools import HostTool, load_host_tools
from .host_evidence import ToolRun, evidence_file, read_evidence
from .tool_reading import read_tool
from .xid_catalogue import XidCatalogue

Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "after")
# What a tool that is asked again is called the second time.
AFTER = "_after"
_OF_FABRIC = "fabric-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading: `values` by fact, each parsed or the ProbeFailure that says why there is none."""

    reached: bool
    reason: str = ""
    evidence: str = ""
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Both readings of one host; `log_continues`: the second kernel log goes on where the first one ended."""

    before: Reading
    after: Reading
    log_continues: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBrackets:
    """What is judged: hosts whose state was recorded, and what XIDs mean."""

    hosts: dict[str, Bracket]
    xids: XidCatalogue


def load_kind(gate: str, moment: Moment) -> str:
    """Return the kind of evidence of a reading around a gate (see host_evidence.evidence_file)."""
    return f"load/{gate}/{moment}"


def fabric_load_kind(gate: str, moment: Moment) -> str:
    """Return the kind of evidence of a reading of the whole fabric around a gate."""
    return f"load/{gate}/{_OF_FABRIC}{moment}"


def around_kind(options: Mapping[str, Any], kind: str, *, of_fabric: bool = False) -> str:
    """Return the kind of evidence that a task asks for: `kind`, or one of two readings around the load of a gate.

    Raises:
        InputError: the options state a gate without a moment, or a moment without a gate.
    """
    around, moment = options.get("around_gate"), options.get("moment")
    if bool(around) != bool(moment):
        raise InputError("around_gate", "and moment are stated together or not at all.", "state the other one")
    if not around or not moment:
        return kind
    return (fabric_load_kind if of_fabric else load_kind)(around, moment)


def tools_asked_again() -> tuple[HostTool, ...]:
    """Return the tools that a reading consists of."""
    return tuple(tool for tool in load_host_tools().used_by("host_probe") if tool.again)


def diagnostic_bracket(
    values: Mapping[str, Any], before: Mapping[str, ToolRun], after: Mapping[str, ToolRun], evidence: str
) -> Bracket:
    """Return the bracket around the diagnostic of a host.

    Args:
        values: what its tools said before, parsed, by fact.
        before: what its tools did before.
        after: what they did after it.
        evidence: the file of both.
    """
    first = {tool.fact: values[tool.fact] for tool in tools_asked_again()}
    return Bracket(
        before=Reading(reached=True, evidence=evidence, values=first),
        after=Reading(reached=True, evidence=evidence, values=_values(after)),
        log_continues=_continues(before.get("kernel_log"), after.get("kernel_log")),
    )


def after_diagnostic(tools: Mapping[str, ToolRun]) -> dict[str, ToolRun]:
    """Return what the tools did after the diagnostic, by their own names; empty if they were not asked again."""
    return {name.removesuffix(AFTER): run for name, run in tools.items() if name.endswith(AFTER)}


def load_brackets(run_dir: Path, gate: str, hosts: tuple[str, ...], xids: XidCatalogue) -> LoadBrackets:
    """Return the brackets around a gate; a host that lacks one of the files is left out."""
    found = {host: bracket for host in hosts if (bracket := _bracket(run_dir, gate, host)) is not None}
    return LoadBrackets(hosts=found, xids=xids)


def _bracket(run_dir: Path, gate: str, host: str) -> Bracket | None:
    files = [evidence_file(host, load_kind(gate, moment)) for moment in MOMENTS]
    if not all((run_dir / name).is_file() for name in files):
        return None
    readings: list[Reading] = []
    runs: list[Mapping[str, ToolRun]] = []
    for name in files:
        try:
            evidence = read_evidence(run_dir / name)
        except InputError as error:
            readings.append(Reading(reached=False, reason=str(error), evidence=name))
            runs.append({})
            continue
        same = evidence.host == host
        reason = evidence.reason if same else f"{name} holds the evidence of {evidence.host!r}"
        tools = evidence.tools if evidence.reached and same else {}
        readings.append(Reading(reached=evidence.reached and same, reason=reason, evidence=name, values=_values(tools)))
        runs.append(tools)
    logs = [tools.get("kernel_log") for tools in runs]
    return Bracket(before=readings[0], after=readings[1], log_continues=_continues(*logs))


def _values(tools: Mapping[str, ToolRun]) -> dict[str, Any]:
    return {tool.fact: read_tool(tool, tools.get(tool.name)) for tool in tools_asked_again()}


def _continues(before: ToolRun | None, after: ToolRun | None) -> bool:
    """Tell whether the last line of the first log is in the second: not after a reboot, nor where lines were lost.

    Of an output that was too long the beginning and the end are kept; then it must be in the end.
    """
    if before is None or after is None:
        return False
    last = next((line for line in reversed(before.stdout.split("\n")) if line.strip()), "")
    kept = after.stdout.rpartition(" bytes cut ...]\n")[2] if after.truncated else after.stdout
    return bool(last) and last in kept.split("\n")
