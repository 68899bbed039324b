# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check clock-source: the kernel reads its time from the processor, with the same clock source on all hosts of a
SKU."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ..kit.finding import Finding
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions

SPEC = CheckSpec(
    id="clock-source",
    gate="nodes",
    title="The kernel keeps its time by a fast clock",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
)
# Each reading leaves the processor and takes a microsecond (Linux, Documentation/timers/timekeeping.rst); the kernel
# takes one of them when it no longer trusts the time stamp counter.
_SLOW = frozenset(("hpet", "acpi_pm", "jiffies", "pit"))


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host. A clock outside the processor slows every reading of the time; a clock source that differs from
    most hosts is marginal."""
    found = {host.name: _source(observed, host.name) for host in context.site.in_scope}
    versions = PartVersions(
        SPEC,
        {name: _compared(source) for name, source in found.items()},
        lambda host, _name: host.answer.subject,
        word="clock source",
        needs="clock_source",
        rules=lambda host: _rules(found[host.name]),
    )
    return versions.judge(observed, context)


def _source(observed: FleetFacts, name: str) -> str:
    """Return the clock source, empty where it is not known."""
    reported = observed.hosts[name].read("clock_source", str) if name in observed.hosts else ""
    return "" if isinstance(reported, ProbeFailure) else reported


def _compared(source: str) -> tuple[Part, ...]:
    """Return the clock source to compare with other hosts. A slow one is left out, since it is judged by itself."""
    return (Part("clock source", ("clock source",), source),) if source and source not in _SLOW else ()


def _rules(source: str) -> list[Finding]:
    if source not in _SLOW:
        return []
    text = (
        f"the kernel reads its time from {source}, expected a clock of the processor (tsc, or that of its hypervisor)"
    )
    hint = "`journalctl -k -b | grep -i -e clocksource -e tsc` says why; update the BIOS, or reboot the node"
    return [Finding(cause="clock-source-slow", text=text, hint=hint, marginal=True)]


CHECK = Check(SPEC, OBSERVER, judge)
