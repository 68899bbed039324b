# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check hca-firmware-uniform: adapters of one type and name run the same firmware on all hosts of a SKU."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_hosts import OBSERVER
from .part_versions import Part, PartVersions

SPEC = CheckSpec(
    id="hca-firmware-uniform",
    gate="nodes",
    title="One adapter firmware for each place of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("infiniband",),
)


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """The firmware of most: adapters of one type in different places (compute, storage) may differ for good reason."""

    found = {host.name: _adapters(seen, host.name) for host in context.site.in_scope}
    versions = PartVersions(
        SPEC, found, lambda host, name: host.part(SubjectKind.HCA, name), word="firmware", needs="hcas"
    )
    return versions.judge(seen, context)


def _adapters(seen: FleetFacts, name: str) -> tuple[Part, ...]:
    hcas = seen.hosts[name].hcas if name in seen.hosts else ()
    found = () if isinstance(hcas, ProbeFailure) else hcas
    return tuple(Part(hca.name, (hca.kind, hca.name), hca.firmware) for hca in found)


CHECK = Check(SPEC, OBSERVER, judge)
