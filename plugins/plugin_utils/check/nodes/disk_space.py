# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check disk-space: the file systems that the system writes to have room.

A full one keeps logs, images and containers from being written; kubelet then evicts pods, long before it is full.

Parser of `df -P -k <path> ...`: how full the file systems are that hold these paths (POSIX form).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "df -P -k"
_TITLE = re.compile(r"Filesystem\s+1(?:024|K)-blocks\s+Used\s+Available\s+(?:Capacity|Use%)\s+Mounted on\s*")
_ROW = re.compile(r"(\S.{0,300}?)\s+(\d{1,18})\s+(\d{1,18})\s+(-?\d{1,18})\s+(?:\d{1,3}%|-)\s+(/.*)")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One file system at its mount point; `free_kib` is what is left for programs without administrator rights."""

    mount: str
    used_kib: int
    free_kib: int

    @property
    def free_percent(self) -> float:
        """How much of what programs may use is free; 100 of one without a size."""
        whole = self.used_kib + max(self.free_kib, 0)
        return 100.0 if whole == 0 else 100.0 * max(self.free_kib, 0) / whole


def parse(text: str) -> tuple[FileSystem, ...]:
    """Return the file systems in the tool's order, each once: several paths may lie on one.

    Raises:
        InputError: no title, no row, or a line of another kind.
    """
    lines = [line for line in plain(text).splitlines() if line.strip()]
    if not lines or not _TITLE.fullmatch(lines[0]):
        raise unreadable(_TOOL, lines[0] if lines else "", "the title of `df -P -k`")
    found: dict[str, FileSystem] = {}
    for line in lines[1:]:
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(_TOOL, line, "`/dev/sda2 959786032 290512000 620000000 32% /`")
        found[match[5]] = FileSystem(match[5], int(match[3]), int(match[4]))
    if not found:
        raise unreadable(_TOOL, "no row", "at least one file system")
    return tuple(found.values())


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


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every file system that one of these paths is on."""
    return per_host(SPEC, observed, context, _judge, needs=(_FACT,))


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
