# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check driver-uniform: every host runs the same GPU driver."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.nvidia_smi_xml import SmiLog
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .uniform import Uniformity, VersionSettings, each_once, shared_outcome, split_outcome, uniformity

SPEC = CheckSpec(
    id="driver-uniform",
    gate="nodes",
    title="One driver version in the fleet",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("driver-mismatch", "driver-split"),
    settings=VersionSettings,
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the driver of every host against setting `version`, else against that of most hosts; the minority fails."""
    versions = {
        host.name: smi.driver_version
        for host in context.site.in_scope
        if host.name in observed.hosts and isinstance(smi := observed.hosts[host.name].smi, SmiLog)
    }
    same = uniformity(versions, context.settings_of(SPEC.id, VersionSettings).version)
    hint = "state the right one: gpufleet_settings: {driver-uniform: {version: ...}}"
    split = shared_outcome(
        lambda first: split_outcome(first, versions, "driver-split", "driver version", hint, marginal=False)
    )

    def judge_host(host: NodeContext) -> Report | Outcome:
        return _judge(host, same) if same.expected else split(host)

    return each_once(per_host(SPEC, observed, context, judge_host, needs=("smi",)))


def _judge(host: NodeContext, same: Uniformity) -> Report:
    version = host.smi.driver_version
    findings: tuple[Finding, ...] = ()
    if version != same.expected:
        text = f"driver {version}, expected {same.expected} ({same.text()})"
        hint = f"install driver {same.expected} on {host.name} and reboot it"
        findings = (Finding(cause="driver-mismatch", text=text, hint=hint),)
    basis = Basis.RULE if same.stated else Basis.PEERS
    expected = (Expectation("driver_version", "==", same.expected, basis, arithmetic=same.text()),)
    return Report(
        summary=f"driver {version}, as on every host",
        findings=findings,
        measured=(Measure("driver_version", version),),
        expected=expected if same.expected else (),
        evidence=host.evidence("smi"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
