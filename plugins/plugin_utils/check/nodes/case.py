# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every check of gate nodes shares: one host at a time, who owns which tool, findings to outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...collect.host_facts import FleetFacts, HostFacts, ProbeFailure
from ...hardware.sku import Sku
from ...outcome.model import Evidence, Expectation, Measure, Outcome, Subject, SubjectKind, node_subject
from ...probe.nvidia_smi_model import Gpu, SmiLog
from ...site.model import DriverOwner, Host
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext

T = TypeVar("T")

# A tool that gave nothing usable is reported once, by the check that owns it; the others say that they wait for it.
_OWNERS = {
    "smi": ("gpu-census", "nvidia-smi", "nvidia-smi -q -x"),
    "topo": ("topology", "nvidia-smi-topo", "nvidia-smi topo -m"),
    "nvlink": ("nvlink", "nvidia-smi-nvlink", "nvidia-smi nvlink -s"),
    "diag": ("dcgm-diag", "dcgmi-diag", "dcgmi diag"),
    "fabric_manager": ("fabric-manager", "fabric-manager", "systemctl is-active nvidia-fabricmanager"),
    "pci": ("pci-census", "lspci", "lspci -Dnn"),
    "hcas": ("hca-state", "ibstat", "ibstat"),
    "kernel": ("kernel-xid", "kernel-log", "journalctl -k -b"),
    "clock": ("clock-sync", "chronyc", "chronyc tracking"),
    "kernel_release": ("kernel-uniform", "uname", "uname -r"),
    "os": ("os-uniform", "os-release", "cat /etc/os-release"),
    "ofed": ("ofed-uniform", "ofed-info", "ofed_info -s"),
}
_ADVICE = {
    "missing": "install it on the node",
    "timeout": "a hanging driver tool usually needs a reboot of the node",
    "empty": "run it on the node and read its exit code",
    "garbage": "run it on the node and compare",
    "failed": "run it on the node and mend what it says",
    "not-collected": "run the gate again",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One host as a check sees it."""

    spec: CheckSpec
    context: JudgeContext
    fleet: FleetFacts
    host: Host
    facts: HostFacts
    sku: Sku

    @property
    def answer(self) -> Answer:
        """Makes the outcomes about this host."""
        return Answer(self.spec, self.context, node_subject(self.host.name))

    def limit(self, name: str) -> Any:
        """Return a limit: what the site set for this check, else what this release ships."""
        return self.context.settings(self.spec.id).get(name, getattr(self.fleet.rules.limits, name))

    def gpu_index(self, bus_id: str) -> int | None:
        """Return the GPU's place: in the fleet's common list if this host's GPUs are part of it, else in its own."""
        own = tuple(gpu.bus_id for gpu in self.facts.smi.gpus) if isinstance(self.facts.smi, SmiLog) else ()
        common = self.fleet.slots.get(self.host.sku, ())
        places = common if len(common) == self.sku.gpus and set(own) <= set(common) else own
        return places.index(bus_id) if bus_id in places else None

    def gpu(self, bus_id: str) -> Subject:
        """Return the subject of a GPU, `gpu01/gpu3`; one without a place carries its address."""
        index = self.gpu_index(bus_id)
        return self.part(SubjectKind.GPU, f"gpu{index}" if index is not None else bus_id)

    def gpu_at(self, position: int) -> Subject:
        """Return the subject of the GPU that the driver's tools call by that number."""
        gpus = self.facts.smi.gpus if isinstance(self.facts.smi, SmiLog) else ()
        if position < len(gpus):
            return self.gpu(gpus[position].bus_id)
        return self.part(SubjectKind.GPU, f"gpu{position}")

    def gpu_named(self, position: int, uuid: str) -> Subject:
        """Return the subject of a GPU by its UUID; where that is not one GPU's alone, by the driver's number."""
        same = [gpu.bus_id for gpu in self.smi.gpus if gpu.uuid == uuid] if isinstance(self.facts.smi, SmiLog) else []
        return self.gpu(same[0]) if len(same) == 1 else self.gpu_at(position)

    def part(self, kind: SubjectKind, name: str) -> Subject:
        """Return the subject of a part of this host."""
        return Subject(kind, f"{self.host.name}/{name}", self.host.name)

    @property
    def smi(self) -> SmiLog:
        """The driver's document; only for checks that need `smi`."""
        return value_of(self.facts.smi)

    @property
    def live_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that answer; lost ones are gpu-census' business."""
        return tuple(gpu for gpu in self.smi.gpus if not gpu.trouble)

    def evidence(self, field_name: str, excerpt: str = "") -> tuple[Evidence, ...]:
        """Return the evidence of a tool of this host."""
        driver = field_name in ("smi", "topo", "nvlink", "diag", "fabric_manager")
        path = self.facts.driver_evidence if driver else self.facts.evidence
        return (Evidence(_OWNERS[field_name][2], self.host.name, excerpt, path),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not good; `parts` are the GPUs or HCAs that it is about."""

    cause: str
    text: str
    hint: str
    parts: tuple[Subject, ...] = ()
    marginal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check has to say about one host: without findings it passed, with `summary`."""

    summary: str
    findings: tuple[Finding, ...] = ()
    measured: tuple[Measure, ...] = ()
    expected: tuple[Expectation, ...] = ()
    evidence: tuple[Evidence, ...] = field(default=())


JudgeHost = Callable[[Case], Report | Outcome]


def value_of(value: T | ProbeFailure) -> T:
    """Return the parsed value of a tool that per_host has already found usable."""
    if isinstance(value, ProbeFailure):
        raise AssertionError(f"per_host let {value} through")
    return value


def per_host(
    spec: CheckSpec, value: FleetFacts, context: JudgeContext, judge_host: JudgeHost, needs: tuple[str, ...] = ()
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope.

    Args:
        spec: the check.
        value: the fleet.
        context: the context of the judgement.
        judge_host: judges one host whose needed tools all gave something usable.
        needs: fields of HostFacts that it needs.
    """
    outcomes: list[Outcome] = []
    for host in context.site.in_scope:
        outcomes.extend(_judged(spec, value, context, host, judge_host, needs))
    return tuple(outcomes)


def _judged(
    spec: CheckSpec,
    fleet: FleetFacts,
    context: JudgeContext,
    host: Host,
    judge_host: JudgeHost,
    needs: tuple[str, ...],
) -> tuple[Outcome, ...]:
    answer = Answer(spec, context, node_subject(host.name))
    facts, sku = fleet.hosts.get(host.name), context.hardware.get(host.sku)
    if facts is None:
        return (answer.unknown("evidence-missing", "nothing was collected from this host", "run the gate again"),)
    if sku is None:
        return (answer.unknown("sku-unknown", f"no hardware facts for SKU {host.sku!r}", "correct gpufleet_sku"),)
    case = Case(spec, context, fleet, host, facts, sku)
    blocked = _blocked(case, needs)
    if blocked is not None:
        return (blocked,)
    result = judge_host(case)
    return (result,) if isinstance(result, Outcome) else conclude(case, result)


def _blocked(case: Case, needs: tuple[str, ...]) -> Outcome | None:
    facts = case.facts
    through_pods = case.spec.needs_driver and case.context.site.driver_owner is DriverOwner.OPERATOR
    if not facts.reached and not through_pods:
        return case.answer.blocked(by="host-reached", because="the host was not reached")
    for name in needs:
        failure = getattr(facts, name)
        if isinstance(failure, ProbeFailure):
            return tool_failure(case, name, failure)
    return None


def tool_failure(case: Case, name: str, failure: ProbeFailure) -> Outcome:
    """Return the outcome for a tool that gave nothing usable: the owner says why, the others wait for the owner."""
    owner, _slug, command = _OWNERS[name]
    if owner != case.spec.id:
        return case.answer.blocked(by=owner, because=f"`{command}` gave nothing usable")
    smi = case.facts.smi
    troubled = isinstance(smi, SmiLog) and any(gpu.trouble for gpu in smi.gpus)
    if case.spec.needs_driver and name != "smi" and (isinstance(smi, ProbeFailure) or troubled):
        return case.answer.blocked(by="gpu-census", because="the driver cannot talk to every GPU")
    return tool_unusable(case, name, failure)


def tool_unusable(case: Case, name: str, failure: ProbeFailure) -> Outcome:
    """Return the outcome of the check that owns a tool which gave nothing usable."""
    _owner, slug, command = _OWNERS[name]
    return case.answer.unknown(
        f"{slug}-{failure.kind}",
        failure.text[:400],
        f"`{command}` on {case.host.name}: {_ADVICE[failure.kind]}",
        evidence=case.evidence(name, failure.text),
    )


def conclude(case: Case, report: Report) -> tuple[Outcome, ...]:
    """Return the outcomes of one host: passed, or one for every cause that was found, failed ones first."""
    details: dict[str, Any] = {
        "measured": report.measured,
        "expected": report.expected,
        "evidence": report.evidence,
    }
    if not report.findings:
        return (case.answer.passed(report.summary, **details),)
    outcomes: list[Outcome] = []
    for cause in sorted({f.cause for f in report.findings}, key=lambda name: _first(name, report.findings)):
        same = [finding for finding in report.findings if finding.cause == cause]
        parts = tuple(dict.fromkeys(part for finding in same for part in finding.parts))
        text = "; ".join(dict.fromkeys(finding.text for finding in same))
        make = case.answer.marginal if same[0].marginal else case.answer.failed
        outcomes.append(make(cause, text, same[0].hint, more_subjects=parts, **details))
    return tuple(outcomes)


def _first(cause: str, findings: tuple[Finding, ...]) -> tuple[bool, int]:
    position = next(n for n, finding in enumerate(findings) if finding.cause == cause)
    return findings[position].marginal, position


def count(number: int, thing: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def per_gpu(
    case: Case, judge_gpu: Callable[[Case, Gpu], list[Finding]], report: Callable[[int], Report]
) -> Report | Outcome:
    """Return the findings of every GPU that answers; without one, GPUs that do not answer leave the check open.

    Args:
        case: the host.
        judge_gpu: returns what is not good about one GPU.
        report: makes the report, given the number of GPUs judged; its findings are filled in here.
    """
    live = case.live_gpus
    findings = tuple(finding for gpu in live for finding in judge_gpu(case, gpu))
    silent = len(case.smi.gpus) - len(live)
    if not findings and (silent or not live):
        return case.answer.blocked(
            by="gpu-census", because=f"{count(silent, 'GPU')} of {len(case.smi.gpus)} do not answer"
        )
    return replace(report(len(live)), findings=findings)
