# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check hca-firmware-uniform: adapters of a type run one firmware.

This holds for all adapters for GPU traffic of a SKU. Other adapters are compared with those in the same place of other
hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...site.model import Host
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .hca_state import SPEC as HCA_STATE
from .hca_state import HcaStateSettings
from .node_context import NodeContext
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class HcaFirmwareSettings:
    """Settings of check hca-firmware-uniform."""

    versions: dict[str, str] = setting(
        "The firmware that every adapter of a type must have, by the type that `ibstat` prints, such as "
        "{MT4129: 28.43.2566}; for other types that of most like them.",
        default={},
    )


SPEC = CheckSpec(
    id="hca-firmware-uniform",
    gate="nodes",
    title="One firmware for the adapters of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "infiniband|roce"),),
    settings=HcaFirmwareSettings,
)
_COMPUTE = "for GPU traffic"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge each firmware against that of most.

    Adapters for GPU traffic are compared with each other, within a host and over all hosts: a slot whose adapter is out
    of date on every host would look uniform otherwise. An adapter for storage or management is compared with those in
    its place.
    """
    found = {host.name: _adapters(observed, context, host) for host in context.site.in_scope}
    versions = PartVersions(
        SPEC,
        found,
        lambda host, name: host.part(SubjectKind.HCA, name),
        word="firmware",
        needs="hcas",
        stated_by_kind=context.settings_of(SPEC.id, HcaFirmwareSettings).versions,
    )
    return versions.judge(observed, context)


def _adapters(observed: FleetFacts, context: JudgeContext, entry: Host) -> tuple[Part, ...]:
    hcas = observed.hosts[entry.name].hcas if entry.name in observed.hosts else ()
    if isinstance(hcas, ProbeFailure) or entry.sku not in context.hardware:
        return ()
    configured = context.settings_of(HCA_STATE.id, HcaStateSettings, entry.sku).hcas
    names = NodeContext(SPEC, context, observed, entry).adapters(configured).names if hcas else ()
    compute = {name.partition(":")[0] for name in names}
    return tuple(
        Part(hca.name, (hca.kind, _COMPUTE if hca.name in compute else hca.name), hca.firmware) for hca in hcas
    )


CHECK = Check(SPEC, OBSERVER, judge)
