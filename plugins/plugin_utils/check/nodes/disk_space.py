# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check disk-space: the file systems that the system writes to have room.

A full one keeps logs, images and containers from being written; kubelet then evicts pods, long before it is full.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.disk_space import FileSystem
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpaceSettings:
    """Settings of check disk-space."""

    # Below it an operator of some thousand GPUs takes a host out (imbue-ai/cluster-health, health checks).
    free_percent: float = setting(
        "How much of /, /var, /var/lib, /var/log and /tmp must at least be free.",
        default=5,
        unit="%",
        minimum=0,
        maximum=100,
    )


SPEC = CheckSpec(
    id="disk-space",
    gate="nodes",
    title="Room on the system's disks",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("disk-full",),
    settings=DiskSpaceSettings,
)
_FACT, _ROOT = "disk_space", "/"


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every file system that one of these paths is on."""
    return per_host(SPEC, seen, context, _judge, needs=(_FACT,))


def _judge(host: NodeContext) -> Report | Outcome:
    systems: tuple[FileSystem, ...] = host.facts.values[_FACT]
    least = host.settings(DiskSpaceSettings).free_percent
    if not any(system.mount == _ROOT for system in systems):
        text = f"df lists {', '.join(system.mount for system in systems)}, and not the root file system"
        return host.answer.unknown("disk-space-not-reported", text, "`df -P -k /`", evidence=host.evidence(_FACT))
    fullest = min(systems, key=lambda system: system.free_percent)
    return Report(
        summary=f"{count(len(systems), 'file system')}, {fullest.free_percent:.0f} % or more free",
        findings=tuple(_finding(host, system, least) for system in systems if system.free_percent < least),
        measured=(Measure("free_min", round(fullest.free_percent, 1), "%"),),
        expected=(Expectation("free_min", ">=", least, Basis.RULE, "%"),),
        evidence=host.evidence(_FACT),
    )


def _finding(host: NodeContext, system: FileSystem, least: float) -> Finding:
    text = (
        f"{system.mount}: {system.free_percent:.1f} % free ({system.free_kib / 1048576:.1f} GiB), expected {least:g} %"
    )
    hint = f"`du -xh -d 2 {system.mount} | sort -h | tail` on {host.name}; old images: `crictl rmi --prune`"
    return Finding(cause="disk-full", text=text, hint=hint)


CHECK = Check(SPEC, OBSERVER, judge)
