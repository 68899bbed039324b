# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check bios-uniform: machines of one product have one firmware (BIOS)."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe import dmidecode
from ...probe.dmidecode import DmiTable
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions, VersionSettings

SPEC = CheckSpec(
    id="bios-uniform",
    gate="nodes",
    title="One BIOS on all machines of a product",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    settings=VersionSettings,
)
_NAME = "BIOS"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the firmware against that of most machines of a product, or against the configured one where there is
    one."""
    versions = PartVersions(
        SPEC,
        {host.name: _machine(observed, host.name) for host in context.site.in_scope},
        lambda host, _name: host.answer.subject,
        word="BIOS version",
        needs="dmi",
        stated=context.settings_of(SPEC.id, VersionSettings).version,
    )
    return versions.judge(observed, context)


def _machine(observed: FleetFacts, name: str) -> tuple[Part, ...]:
    table = observed.hosts[name].read("dmi", DmiTable) if name in observed.hosts else None
    if table is None or isinstance(table, ProbeFailure):
        return ()
    system = next(iter(table.of_kind(dmidecode.SYSTEM)), None)
    product = "" if system is None else f"{system.value('Manufacturer')} {system.value('Product Name')}".strip()
    found = table.of_kind(dmidecode.BIOS)
    # An empty version is a record without one; PartVersions leaves such a host unknown.
    return tuple(Part(_NAME, (_NAME, product), record.value("Version")) for record in found) or (
        Part(_NAME, (_NAME, product), ""),
    )


CHECK = Check(SPEC, OBSERVER, judge)
