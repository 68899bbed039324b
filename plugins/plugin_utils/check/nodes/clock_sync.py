# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check clock-sync: the clock follows a time source closely enough."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSyncSettings:
    """Settings of check clock-sync."""

    clock_offset_s: float = setting("Largest difference to the time source, either way.", unit="s", above=0)


SPEC = CheckSpec(
    id="clock-sync",
    gate="nodes",
    title="Clock synchronised",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
    causes=("clock-not-synchronised", "clock-offset", "clock-daemon-down"),
    settings=ClockSyncSettings,
)
_HINT = "`chronyc sources -v` on the node; check its time servers in chrony.conf and `systemctl restart chrony`"
_NO_DAEMON = "506 cannot talk to daemon"
# Leap second announcements are no trouble.
_GOOD_LEAP = ("Normal", "Insert second", "Delete second")


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """An offset of 0 without a source means nothing, so leap status and stratum come first."""
    return per_host(SPEC, seen, context, _judge)


def _judge(host: NodeContext) -> Report | Outcome:
    clock = host.facts.clock
    if isinstance(clock, ProbeFailure):
        if _NO_DAEMON in clock.text.lower():
            text = "chronyd does not run (506 Cannot talk to daemon)"
            return host.answer.failed(
                "clock-daemon-down",
                text,
                "`systemctl enable --now chrony` on the node",
                evidence=host.evidence("clock"),
            )
        return host.tool_failure("clock", clock)
    limit = host.settings(ClockSyncSettings).clock_offset_s
    findings: tuple[Finding, ...] = ()
    if clock.leap_status not in _GOOD_LEAP or clock.stratum == 0:
        text = f"leap status {clock.leap_status!r}, stratum {clock.stratum}"
        findings = (Finding(cause="clock-not-synchronised", text=text, hint=_HINT),)
    elif abs(clock.offset_s) > limit:
        text = f"clock is {clock.offset_s * 1000:+.3f} ms off, allowed {limit * 1000:g} ms"
        findings = (Finding(cause="clock-offset", text=text, hint=_HINT),)
    return Report(
        summary=f"{clock.offset_s * 1e6:+.1f} us off, stratum {clock.stratum}",
        findings=findings,
        measured=(Measure("offset", clock.offset_s, "s"), Measure("stratum", clock.stratum)),
        expected=(Expectation("offset", "<=", limit, Basis.RULE, "s"),),
        evidence=host.evidence("clock"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
