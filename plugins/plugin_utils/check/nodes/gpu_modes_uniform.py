# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-modes-uniform: the GPUs of a SKU have the same settings: compute mode, GSP firmware, clock limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...collect.host_facts import FleetFacts
from ...outcome.model import Outcome, SubjectKind
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ..kit.finding import Finding
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions

SPEC = CheckSpec(
    id="gpu-modes-uniform",
    gate="nodes",
    title="GPUs of a SKU are set to work alike",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
)
_GSP = "GSP firmware"
_LIMITED = "clocks limited by a setting"
_COMPUTE, _PROHIBITED = "compute mode", "Prohibited"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the modes of each GPU against those of most GPUs of the SKU.

    A GPU with other modes computes differently, or not at all, with the same driver.
    """
    live = {host.name: _live(observed, host.name) for host in context.site.in_scope}
    known: dict[str, dict[str, None]] = {}
    for host in context.site.in_scope:
        for gpu in live[host.name]:
            known.setdefault(host.sku, {}).update(dict.fromkeys(gpu.modes))
    versions = PartVersions(
        SPEC,
        {
            host.name: tuple(part for gpu in live[host.name] for part in _parts(gpu, known[host.sku]))
            for host in context.site.in_scope
        },
        lambda host, bus_id: host.gpu(bus_id),
        word="state",
        needs="smi",
        rules=_rules,
    )
    return versions.judge(observed, context)


def _live(observed: FleetFacts, name: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the driver can talk to.

    GSP firmware of the driver's own version is named `of the driver`, because driver-uniform already compares drivers.
    """
    smi = observed.hosts[name].smi if name in observed.hosts else None
    if not isinstance(smi, SmiLog):
        return ()
    own = {_GSP: "of the driver"}
    return tuple(
        replace(gpu, modes={**gpu.modes, **own}) if gpu.modes.get(_GSP) == smi.driver_version else gpu
        for gpu in smi.gpus
        if not gpu.trouble
    )


def _parts(gpu: Gpu, known: Mapping[str, None]) -> list[Part]:
    """Return the modes of a GPU. A mode that other GPUs of the SKU report and this one does not counts as different."""
    return [
        Part(gpu.bus_id, (gpu.product, mode), f"{mode} {gpu.modes.get(mode, 'not reported')}")
        for mode in known
        # Check gpu-throttle reports a GPU that lists no reasons for its clocks.
        if mode != _LIMITED or gpu.clock_events is not None
    ]


def _rules(host: NodeContext) -> list[Finding]:
    return [
        Finding(
            cause="compute-prohibited",
            text=f"{gpu.bus_id}: {_COMPUTE} {_PROHIBITED}, so no program can use the GPU",
            hint=f"`nvidia-smi -i <gpu> -c 0` on {host.name}",
            subjects=(host.gpu(gpu.bus_id),),
            marginal=True,
        )
        for gpu in host.live_gpus
        if gpu.modes.get(_COMPUTE) == _PROHIBITED
    ]


CHECK = Check(SPEC, OBSERVER, judge)
