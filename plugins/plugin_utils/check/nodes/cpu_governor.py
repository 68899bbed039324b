# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check cpu-governor: processors have the same governor on all hosts of a SKU, and the configured one if there is one.

`powersave` is the dynamic governor of intel_pstate and amd_pstate and no fault by itself (Linux:
Documentation/admin-guide/pm/intel_pstate.rst), so `performance` is required only where the site configures it.

Parser of CPU frequency governors, counted by `uniq -c`.

Linux: Documentation/admin-guide/pm/cpufreq.rst, scaling_governor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe.text import plain, unreadable
from ..kit.finding import Finding
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions

_TOOL = "sort | uniq -c of scaling_governor"
_CPU_GOVERNORS_NONE = "no governor"
_LINE = re.compile(r"\s*(\d{1,6}) ([a-z_]{1,30})")


def parse(text: str) -> dict[str, int]:
    """Return the number of frequency policies by governor; empty where the kernel sets no frequency.

    Raises:
        InputError: nothing, a line of another kind, or a governor twice.
    """
    if text.strip() == _CPU_GOVERNORS_NONE:
        return {}
    found: dict[str, int] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None or match[2] in found or not int(match[1]):
            raise unreadable(_TOOL, line, f"`64 performance`, every governor once, or `{_CPU_GOVERNORS_NONE}`")
        found[match[2]] = int(match[1])
    if not found:
        raise unreadable(_TOOL, "nothing", f"`64 performance` or `{_CPU_GOVERNORS_NONE}`")
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGovernorSettings:
    """Settings of check cpu-governor."""

    governor: str = setting(
        "Governor that all processors must have, such as performance; empty: not stated, a host that differs from most "
        "is for a person.",
        default="",
    )


SPEC = CheckSpec(
    id="cpu-governor",
    gate="nodes",
    title="Processors clocked alike on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("cpu-governor-wrong",),
    settings=CpuGovernorSettings,
)
_NONE = "none"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host. Another governor than the configured one fails; without one, a difference may be intended, so a
    person decides."""
    versions = PartVersions(
        SPEC,
        {host.name: _compared(observed, context, host.name, host.sku) for host in context.site.in_scope},
        lambda host, _name: host.answer.subject,
        word="CPU governor",
        needs="governors",
        rules=_rules,
    )
    return versions.judge(observed, context)


def _compared(observed: FleetFacts, context: JudgeContext, name: str, sku: str) -> tuple[Part, ...]:
    governors = observed.hosts[name].read("governors", dict) if name in observed.hosts else {}
    if name not in observed.hosts or isinstance(governors, ProbeFailure):
        return ()
    if context.settings_of(SPEC.id, CpuGovernorSettings, sku).governor:
        return ()
    return (Part("processors", ("processors",), _reported(governors)),)


def _reported(governors: Mapping[str, int]) -> str:
    """Return the governors as a text; how many processors have each is named only where they differ within the host."""
    if len(governors) < 2:
        return next(iter(governors), _NONE)
    return ", ".join(f"{name} on {number}" for name, number in sorted(governors.items()))


def _rules(host: NodeContext) -> list[Finding]:
    configured, governors = host.settings(CpuGovernorSettings).governor, host.facts.values["governors"]
    if not configured or set(governors) == {configured}:
        return []
    if not governors:
        text = f"the kernel sets no frequency here (a virtual machine?), expected governor {configured}"
        hint = f"state no governor for SKU {host.entry.sku}, or set it where the machine's clocks are set"
        return [Finding(cause="cpu-governor-not-shown", text=text, hint=hint, marginal=True)]
    text = f"CPU governor {_reported(governors)}, expected {configured} on all"
    hint = (
        f"`cpupower frequency-set -g {configured}` on the node, and make it last over boots (tuned, cpupower.service)"
    )
    return [Finding(cause="cpu-governor-wrong", text=text, hint=hint)]


CHECK = Check(SPEC, OBSERVER, judge)
