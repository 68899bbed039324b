# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check vbios-uniform: the GPUs of a SKU run the same VBIOS."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Outcome, SubjectKind
from ...probe.nvidia_smi_xml import SmiLog
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions, VersionSettings

SPEC = CheckSpec(
    id="vbios-uniform",
    gate="nodes",
    title="One VBIOS for the GPUs of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    settings=VersionSettings,
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge against setting `version`, else against the VBIOS of most GPUs of that product in the SKU."""

    found = {host.name: _gpus(observed, host.name) for host in context.site.in_scope}
    configured = context.settings_of(SPEC.id, VersionSettings).version
    versions = PartVersions(
        SPEC, found, lambda host, bus_id: host.gpu(bus_id), word="VBIOS", needs="smi", stated=configured
    )
    return versions.judge(observed, context)


def _gpus(observed: FleetFacts, name: str) -> tuple[Part, ...]:
    smi = observed.hosts[name].smi if name in observed.hosts else None
    gpus = smi.gpus if isinstance(smi, SmiLog) else ()
    return tuple(Part(gpu.bus_id, (gpu.product,), gpu.vbios or "") for gpu in gpus if not gpu.trouble)


CHECK = Check(SPEC, OBSERVER, judge)
