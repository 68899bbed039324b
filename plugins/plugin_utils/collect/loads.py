# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""State of the hosts before and after a load.

If the next load begins at once, the reading after one load is also the reading before the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..outcome.errors import InputError
from ..outcome.gates import LOADING_GATES
from ..runtime.files import RECIPES
from ..runtime.host_tools import HostTool, load_host_tools
from ..runtime.strict import decode, read_yaml
from .host_evidence import HostEvidence, ToolRun, evidence_file, read_evidence, write_evidence
from .tool_reading import read_tool

# Meaning of each XID: recipes/xid.yaml.

_BY_TEXT, _FATAL = re.compile(r"\b(Fatal|Nonfatal|Non-fatal)\b"), "Fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRule:
    """Meaning of one XID.

    - `meaning`: `fatal` (the GPU or node must be repaired), `marginal` (a person looks), `note` (reported only).
    - `by_text`: the driver prints Fatal or Nonfatal in the line itself, and only a fatal line counts as such.
    - `software`: the driver is as likely to blame as the GPU.
    - `in_service`: the meaning on a node that was accepted and works, where it differs.
    """

    number: int
    name: str
    meaning: Literal["fatal", "marginal", "note"]
    action: str
    source: str
    by_text: bool = False
    software: bool = False
    in_service: Literal["fatal", "marginal", "note"] | None = None

    def meaning_of(self, texts: Iterable[str]) -> Literal["fatal", "marginal", "note"]:
        """Return the meaning of log lines of this XID.

        With `by_text` a nonfatal line is a note: NVIDIA's catalogue ignores the nonfatal ones of 144 to 150, and an XID
        154 names the action where one is due.
        """
        if not self.by_text:
            return self.meaning
        words = [found[1] if (found := _BY_TEXT.search(text)) else "" for text in texts]
        if _FATAL in words:
            return self.meaning
        return "note" if words and all(words) else "marginal"


@dataclass(frozen=True, slots=True, kw_only=True)
class XidCatalogue:
    """All known XIDs. An unknown one counts as marginal."""

    xids: tuple[XidRule, ...]

    def __post_init__(self) -> None:
        numbers = [rule.number for rule in self.xids]
        twice = sorted({number for number in numbers if numbers.count(number) > 1})
        if twice or not numbers:
            raise InputError("recipes/xid.yaml", f"XIDs given twice: {twice}." if twice else "lists no XID.")

    def rule(self, number: int) -> XidRule | None:
        return next((rule for rule in self.xids if rule.number == number), None)


@cache
def load_xids(recipes: Path = RECIPES) -> XidCatalogue:
    """Return the catalogue that this release ships.

    Raises:
        InputError: the file is missing or invalid.
    """
    path = recipes / "xid.yaml"
    return decode(XidCatalogue, read_yaml(path), str(path))


# State of the hosts before and after a load: GPUs, kernel log, NVLinks and ports, each read twice with the same tools.
#
# For the diagnostic of gate nodes both readings are in one evidence file: the second one of a tool is `<tool>_after`.
# Around a benchmark gate there is a file for each host and moment: evidence/load/<gate>/<before|after>/<host>.json.

Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "after")
# Suffix of the second run of a tool.
AFTER = "_after"
_OF_FABRIC = "fabric-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading: `values` by fact, each parsed or a ProbeFailure with the reason."""

    reached: bool
    reason: str = ""
    evidence: str = ""
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Both readings of one host. `log_continues`: the second kernel log continues the first one without a gap."""

    before: Reading
    after: Reading
    log_continues: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBrackets:
    """Input of the judgement: hosts whose state was recorded, and the meaning of XIDs."""

    hosts: dict[str, Bracket]
    xids: XidCatalogue


def load_kind(gate: str, moment: Moment) -> str:
    """Return the kind of evidence of a reading around a gate (see host_evidence.evidence_file)."""
    return f"load/{gate}/{moment}"


def fabric_load_kind(gate: str, moment: Moment) -> str:
    """Return the kind of evidence of a reading of the whole fabric around a gate."""
    return f"load/{gate}/{_OF_FABRIC}{moment}"


def around_kind(options: Mapping[str, Any], kind: str, *, of_fabric: bool = False) -> str:
    """Return the kind of evidence of a task: `kind`, or that of the reading before or after the load of a gate.

    Raises:
        InputError: the options have a gate without a moment, or a moment without a gate.
    """
    around, moment = options.get("around_gate"), options.get("moment")
    if bool(around) != bool(moment):
        raise InputError("around_gate", "and moment are stated together or not at all.", "state the other one")
    if not around or not moment:
        return kind
    return (fabric_load_kind if of_fabric else load_kind)(around, moment)


def tools_asked_again() -> tuple[HostTool, ...]:
    """Return the tools of a reading: those that run again after the load."""
    return tuple(tool for tool in load_host_tools().used_by("host_probe") if tool.again)


def diagnostic_bracket(
    values: Mapping[str, Any], before: Mapping[str, ToolRun], after: Mapping[str, ToolRun], evidence: str
) -> Bracket:
    """Return the bracket around the diagnostic of a host.

    Args:
        values: parsed output before the diagnostic, by fact.
        before: runs of the tools before the diagnostic.
        after: runs of the tools after it.
        evidence: the file that has both.
    """
    first = {tool.fact: values[tool.fact] for tool in tools_asked_again()}
    return Bracket(
        before=Reading(reached=True, evidence=evidence, values=first),
        after=Reading(reached=True, evidence=evidence, values=_values(after)),
        log_continues=_continues(before.get("kernel_log"), after.get("kernel_log")),
    )


def after_diagnostic(tools: Mapping[str, ToolRun]) -> dict[str, ToolRun]:
    """Return the runs after the diagnostic by name of the tool; empty if there are none."""
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
    """Tell whether the last line of the first log is in the second.

    It is not after a reboot, nor where lines were lost. Of an output that was too long only the beginning and the end
    are kept; then the line has to be in the end.
    """
    if before is None or after is None:
        return False
    last = next((line for line in reversed(before.stdout.split("\n")) if line.strip()), "")
    kept = after.stdout.rpartition(" bytes cut ...]\n")[2] if after.truncated else after.stdout
    return bool(last) and last in kept.split("\n")


# The reading after one load also serves as the reading before the next, if the next load begins at once.
#
# Between the two only the decision about the first gate runs. Whatever happens in that time falls into the second
# bracket; with two separate readings it would be in neither. A reading serves only if the host was reached, and for at
# most FRESH_S.

# Seconds. The decision about a gate of a thousand hosts takes longer: their readings are too old, and they are read
# again.
FRESH_S = 60.0
# Time from this decision to the start of the load.
_ON_THE_WAY_S = 60.0


def just_read(run_dir: Path, gate: str, hosts: Iterable[str], now: datetime | None = None) -> tuple[str, ...]:
    """Return the hosts that were just read after the load of a gate and need no other reading before the next load."""
    moment = now or datetime.now(UTC)
    return tuple(host for host in hosts if _fresh(run_dir, gate, host, moment, FRESH_S) is not None)


def take_over(run_dir: Path, gate: str, hosts: Iterable[str], now: datetime | None = None) -> tuple[str, ...]:
    """Write the newest reading after another load as the one before this gate's load, and return the hosts.

    Only hosts without such a reading get one. Each reading keeps its own time and names the gate it comes from.

    Raises:
        OSError: the run directory cannot be written.
    """
    moment = now or datetime.now(UTC)
    taken = []
    for host in hosts:
        if (run_dir / evidence_file(host, load_kind(gate, "before"))).exists():
            continue
        others = (other for other in LOADING_GATES if other != gate)
        found = [
            (entry.started, other, entry)
            for other in others
            if (entry := _fresh(run_dir, other, host, moment, FRESH_S + _ON_THE_WAY_S)) is not None
        ]
        if found:
            _started, other, entry = max(found, key=lambda item: item[0])
            reason = f"read after the load of gate {other}, which nothing of this run followed"
            write_evidence(run_dir, replace(entry, reason=reason), load_kind(gate, "before"))
            taken.append(host)
    return tuple(taken)


def _fresh(run_dir: Path, gate: str, host: str, now: datetime, limit_s: float) -> HostEvidence | None:
    """Return a host's reading after a load if it is complete and no older than `limit_s`."""
    try:
        found = read_evidence(run_dir / evidence_file(host, load_kind(gate, "after")))
        began = datetime.fromisoformat(found.started)
    except (InputError, ValueError):
        return None
    wanted = {tool.name for tool in tools_asked_again()}
    whole = found.reached and not found.reason and wanted <= found.tools.keys()
    return found if whole and 0 <= (now - began).total_seconds() <= limit_s else None
