# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-kernel-module: no driver other than NVIDIA's has the GPUs.

With nouveau loaded NVIDIA's module cannot take the GPUs, and a host may crash when the operator's driver pod starts
(NVIDIA/k8s-driver-manager#37). If `nvidia` is loaded too, nouveau has none of them.
"""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...site.model import DriverOwner
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="gpu-kernel-module",
    gate="nodes",
    title="No other driver holds the GPUs",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("nouveau-loaded",),
)
_OTHER, _OURS = "nouveau", "nvidia"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host: nouveau without nvidia fails. Where the operator will install the driver a person decides,
    because the operator may unload it."""
    return per_host(SPEC, observed, context, _judge, needs=("modules",))


def _judge(host: NodeContext) -> Report | Outcome:
    modules = host.facts.read("modules", frozenset)
    loaded = set(modules) if isinstance(modules, frozenset) else set()
    waits = host.context.site.driver_owner is DriverOwner.OPERATOR
    findings: tuple[Finding, ...] = ()
    if not waits and not loaded & {_OURS, _OTHER}:
        if isinstance(host.facts.smi, ProbeFailure):
            return host.answer.blocked(by="gpu-census", because="the driver is not loaded")
        text = "`lsmod` does not list nvidia, and nvidia-smi answers"
        return host.answer.unknown(
            "modules-contradict", text, "run both on the node", evidence=host.evidence("modules")
        )
    if _OTHER in loaded and _OURS not in loaded:
        text = "kernel module nouveau is loaded, and nvidia is not"
        hint = "`echo blacklist nouveau > /etc/modprobe.d/nouveau.conf`, rebuild the initramfs and reboot the node"
        cause = "nouveau-before-the-driver" if waits else "nouveau-loaded"
        findings = (Finding(cause=cause, text=text, hint=hint, marginal=waits),)
    note = ", beside nouveau, which holds no GPU" if _OTHER in loaded else ""
    return Report(
        summary=f"kernel module nvidia is loaded{note}" if _OURS in loaded else "kernel module nouveau is not loaded",
        findings=findings,
        expected=(Expectation("nouveau", "==", "not loaded", Basis.RULE),),
        evidence=host.evidence("modules"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
