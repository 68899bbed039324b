# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check stuck-processes: no program waits for a device or a file system that does not respond (state D).

Such a process cannot be killed, keeps GPUs and mounts in use, and in the end the node must be rebooted. A process may
be in this state for a moment; one that was started a minute ago and is in it in three readings is for a person to
decide.

Parser of three readings of `ps`, seconds apart: processes that wait and cannot be interrupted (state D, ps(1)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Measure, Outcome, SubjectKind
from ...probe.blocks import blocks
from ...probe.text import unreadable
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "ps -e -o pid,ppid,stat,etimes,comm"
_READINGS = ("1", "2", "3")
_ROW = re.compile(r"\s{0,12}(\d{1,9})\s+(\d{1,9})\s+(D\S{0,8})\s+(\d{1,12})\s+(\S.{0,80})")
_COUNT = re.compile(r"processes (\d{1,7})")
_KERNEL = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """A process that waited in every reading; `age_s` is how long ago it was started. Threads of the kernel are left
    out: some of them always wait so."""

    pid: int
    program: str
    age_s: int


def parse(text: str) -> tuple[Waiting, ...]:
    """Return the processes that waited in all readings.

    Raises:
        InputError: a reading is missing, or does not say of how many processes it is.
    """
    parts = blocks(text, _TOOL)
    if tuple(parts) != _READINGS:
        raise unreadable(_TOOL, f"readings {', '.join(parts)}", f"readings {', '.join(_READINGS)}")
    readings = [_reading(lines) for lines in parts.values()]
    always = set(readings[0]).intersection(*readings[1:])
    return tuple(readings[-1][pid] for pid in sorted(always))


def _reading(lines: list[str]) -> dict[int, Waiting]:
    found: dict[int, Waiting] = {}
    counts = []
    for line in lines:
        if count := _COUNT.fullmatch(line.strip()):
            counts.append(int(count[1]))
        elif row := _ROW.fullmatch(line.rstrip()):
            if _KERNEL not in (int(row[1]), int(row[2])):
                found[int(row[1])] = Waiting(int(row[1]), row[5], int(row[4]))
        elif line.strip():
            raise unreadable(_TOOL, line, "`4242 1 D 7200 python3`")
    if len(counts) != 1 or not counts[0]:
        raise unreadable(_TOOL, f"{counts} processes", "the number of all processes, once and not 0")
    return found


SPEC = CheckSpec(
    id="stuck-processes",
    gate="nodes",
    title="No program waits without end",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
)
# Younger processes may be tools of this very probe.
_AGE_S = 60
_NAMED = 4


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge processes that wait in every reading. A person decides, because a busy disk causes some too."""
    return per_host(SPEC, observed, context, _judge, needs=("waiting",))


def _judge(host: NodeContext) -> Report:
    waiting: tuple[Waiting, ...] = host.facts.values["waiting"]
    stuck = [process for process in waiting if process.age_s >= _AGE_S]
    findings: tuple[Finding, ...] = ()
    if stuck:
        named = ", ".join(f"{process.program} (pid {process.pid})" for process in stuck[:_NAMED])
        more = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
        text = f"{len(stuck)} in state D in three readings: {named}{more}"
        where = f"`cat /proc/{stuck[0].pid}/stack` on the node says on what it waits"
        hint = f"{where}; a GPU or a mount that hangs needs a reboot"
        findings = (Finding(cause="processes-stuck", text=text, hint=hint, marginal=True),)
    return Report(
        summary="no program waits without end",
        findings=findings,
        measured=(Measure("processes_stuck", len(stuck), "count"),),
        evidence=host.evidence("waiting"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
