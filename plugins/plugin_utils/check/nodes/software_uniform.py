# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of software that is the same on every host: operating system, kernel, control groups, network driver
package."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts, HostFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.os_release import OsRelease
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .uniform import Uniformity, VersionSettings, each_once, shared_outcome, split_outcome, uniformity

# Plain facts that should be the same on every host: kernel, operating system, network driver package.

_NONE = "none"


def judge_same(
    spec: CheckSpec, observed: FleetFacts, context: JudgeContext, *, field: str, word: str
) -> tuple[Outcome, ...]:
    """Return an outcome for every host: all must have setting `version`, else the value of most hosts."""
    facts = {host.name: observed.hosts[host.name] for host in context.site.in_scope if host.name in observed.hosts}
    known = {name: text for name, host in facts.items() if (text := _text(host, field)) is not None}
    same = uniformity(known, context.settings_of(spec.id, VersionSettings).version)
    # A package that is not installed is a fact (inbox drivers), not a failed tool.
    needs = () if field == "ofed" else (field,)
    hint = f"state the right one: gpufleet_settings: {{{spec.id}: {{version: ...}}}}"
    cause = f"{spec.id.removesuffix('-uniform')}-split"
    split = shared_outcome(lambda first: split_outcome(first, known, cause, word, hint, marginal=True))

    def judge_host(host: NodeContext) -> Report | Outcome:
        if same.expected or host.name not in known:
            return _judge(host, field, word, same)
        return split(host)

    return each_once(per_host(spec, observed, context, judge_host, needs=needs))


def _text(facts: HostFacts, field: str) -> str | None:
    value = getattr(facts, field)
    if isinstance(value, ProbeFailure):
        return _NONE if field == "ofed" and value.kind == "missing" else None
    return f"{value.id} {value.version_id}".strip() if isinstance(value, OsRelease) else str(value)


def _judge(host: NodeContext, field: str, word: str, same: Uniformity) -> Report | Outcome:
    text = _text(host.facts, field)
    if text is None:
        failure = getattr(host.facts, field)
        return host.answer.unknown(f"ofed-info-{failure.kind}", failure.text, "run `ofed_info -s` on the node")
    slug = host.spec.id.removesuffix("-uniform")
    findings: tuple[Finding, ...] = ()
    if text != same.expected:
        reported = f"{word} {text}, expected {same.expected} ({same.text()})"
        hint = f"bring {host.name} to {same.expected}, or accept the difference (gpufleet_acceptances)"
        findings = (Finding(cause=f"{slug}-mismatch", text=reported, hint=hint, marginal=True),)
    basis = Basis.RULE if same.stated else Basis.PEERS
    return Report(
        summary=f"{word} {text}, as on every host",
        findings=findings,
        measured=(Measure(field, text),),
        expected=(Expectation(field, "==", same.expected, basis, arithmetic=same.text()),) if same.expected else (),
        evidence=host.evidence(field),
    )


def _uniform(check: str, field: str, word: str, title: str) -> Check[FleetFacts]:
    """Return the check that this field of HostFacts is the same on every host; `word` names it in sentences."""
    spec = CheckSpec(
        id=check,
        gate="nodes",
        title=title,
        per=SubjectKind.NODE,
        compares=True,
        disturbs=Disturbance.HOST_COMMAND,
        applies=(needs("host_access"),),
        settings=VersionSettings,
    )

    def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
        """Judge every host. A difference may be intended, so it is marginal: a person accepts it, or the host is
        corrected."""
        return judge_same(spec, observed, context, field=field, word=word)

    return Check(spec, OBSERVER, judge)


CHECKS = (
    _uniform("os-uniform", "os", "operating system", "One operating system in the fleet"),
    _uniform("kernel-uniform", "kernel_release", "kernel", "One kernel release in the fleet"),
    _uniform("ofed-uniform", "ofed", "OFED or DOCA package", "One network driver package in the fleet"),
    # Kubelet, container runtime and slurmd choose their cgroup driver by the hierarchy (cgroup2fs is version 2), and
    # limits of memory and devices work differently.
    _uniform("cgroup-uniform", "cgroup", "control groups", "One version of control groups in the fleet"),
)
