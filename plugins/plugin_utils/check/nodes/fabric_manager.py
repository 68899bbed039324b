# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check fabric-manager: the fabric manager runs on hosts with NVSwitches."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .driver_start import last_start
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="fabric-manager",
    gate="nodes",
    title="Fabric manager active on NVSwitch hosts",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    # The operator's pods have no systemd to query; the fabric state that check nvlink reads proves the same.
    applies=(needs("nvswitch", "host_driver"),),
    needs_driver=True,
    causes=("fabric-manager-inactive",),
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge hosts with NVSwitches of their own; others need no fabric manager."""
    return per_host(SPEC, observed, context, _judge)


def _judge(host: NodeContext) -> Report | Outcome:
    if not host.sku.nvswitches:
        return Report(summary=f"{host.sku.name} has no NVSwitch, so it needs no fabric manager")
    state = host.facts.fabric_manager
    if isinstance(state, ProbeFailure):
        return host.tool_failure("fabric_manager", state)
    findings: tuple[Finding, ...] = ()
    if state != "active":
        hint = "`systemctl enable --now nvidia-fabricmanager`; its version must be the driver's"
        text = f"nvidia-fabricmanager is {state}"
        if mismatch := [failure.text for failure in last_start(host) if failure.kind == "versions"]:
            text += f"; the driver in the kernel log: {mismatch[-1]}"
        findings = (Finding(cause="fabric-manager-inactive", text=text, hint=hint),)
    return Report(
        summary="nvidia-fabricmanager is active",
        findings=findings,
        measured=(Measure("nvidia_fabricmanager", state),),
        expected=(Expectation("nvidia_fabricmanager", "==", "active", Basis.RULE),),
        evidence=host.evidence("fabric_manager"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
