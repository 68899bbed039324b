# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-direct: adapters can reach the memory of GPUs (GPUDirect RDMA).

NVIDIA's open kernel modules export it as DMA-BUF; the others need nvidia_peermem (GPU Operator's guide, "GPUDirect
RDMA"; nv_peer_mem in older releases). Without either all traffic goes through memory of the host. Gate
fabric_validation measures that; this check finds the reason an hour earlier.

Parser of `modinfo -F license nvidia`: kind of the driver's kernel modules.

NVIDIA's open kernel modules have `Dual MIT/GPL` (NVIDIA/open-gpu-kernel-modules, nv-frontend.c), the others `NVIDIA`.
"""

from __future__ import annotations

from typing import Literal

from ...collect.host_facts import FleetFacts
from ...outcome.model import Outcome, SubjectKind
from ...probe.text import plain, unreadable
from ...site.adapters import carries_gpu_traffic
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "modinfo -F license nvidia"
Kind = Literal["open", "proprietary"]
_KINDS: dict[str, Kind] = {"Dual MIT/GPL": "open", "NVIDIA": "proprietary"}


def parse(text: str) -> Kind:
    """Return the kind.

    Raises:
        InputError: another licence.
    """
    reported = plain(text).strip()
    if reported not in _KINDS:
        raise unreadable(_TOOL, reported, " or ".join(f"`{word}`" for word in _KINDS))
    return _KINDS[reported]


SPEC = CheckSpec(
    id="gpu-direct",
    gate="nodes",
    title="Adapters reach the memory of GPUs",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "host_driver", "infiniband|roce"),),
)
_PEERMEM = ("nvidia_peermem", "nv_peer_mem")


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge which kernel module the driver has; the proprietary one needs nvidia_peermem."""
    return per_host(SPEC, observed, context, _judge, needs=("module_licence", "modules"))


def _judge(host: NodeContext) -> Report:
    if not carries_gpu_traffic(host.sku):
        text = f"{host.sku.name} has no InfiniBand or RoCE adapter for GPU traffic"
        return Report(summary=text, evidence=host.evidence("modules"))
    kind, proof = host.facts.values["module_licence"], host.evidence("module_licence")
    if kind == "open":
        return Report(summary="open kernel modules, which export GPU memory as DMA-BUF", evidence=proof)
    loaded = [name for name in _PEERMEM if name in host.facts.values["modules"]]
    if loaded:
        return Report(
            summary=f"proprietary kernel module with {loaded[0]}", evidence=(*proof, *host.evidence("modules"))
        )
    text = f"proprietary kernel module, and none of {', '.join(_PEERMEM)} is loaded"
    hint = "`modprobe nvidia-peermem` on the node and /etc/modules-load.d; or NVIDIA's open kernel modules"
    found = Finding(cause="gpudirect-module-missing", text=text, hint=hint, marginal=True)
    return Report(summary=text, findings=(found,), evidence=(*proof, *host.evidence("modules")))


CHECK = Check(SPEC, OBSERVER, judge)
