# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host for the checks of gate nodes: its parsed tools, its hardware facts, names for its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ...collect.host_facts import FleetFacts, HostFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Evidence, Outcome, Subject, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...runtime.host_tools import load_host_tools
from ...site.adapters import ComputeAdapters, compute_adapters
from ...site.model import DriverOwner
from ..kit import host_context
from ..kit.finding import Finding, Report
from ..spec import CheckSpec, JudgeContext

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeContext(host_context.HostContext[FleetFacts]):
    """One host with the parsed output of its tools."""

    @property
    def facts(self) -> HostFacts:
        return self.seen.hosts[self.name]

    def gpu_index(self, bus_id: str) -> int | None:
        """Return the GPU's index.

        It is that in the fleet's common list if this host's GPUs are part of it, else that in its own list. None for a
        GPU that is in neither.
        """
        own = tuple(gpu.bus_id for gpu in self.facts.smi.gpus) if isinstance(self.facts.smi, SmiLog) else ()
        common = self.seen.slots.get(self.entry.sku, ())
        places = common if len(common) == self.sku.gpus and set(own) <= set(common) else own
        return places.index(bus_id) if bus_id in places else None

    def gpu(self, bus_id: str) -> Subject:
        """Return the subject of a GPU, `gpu01/gpu3`; one without an index has its PCI address as name."""
        index = self.gpu_index(bus_id)
        return self.part(SubjectKind.GPU, f"gpu{index}" if index is not None else bus_id)

    def gpu_at(self, position: int) -> Subject:
        """Return the subject of the GPU with that number in the driver's tools."""
        gpus = self.facts.smi.gpus if isinstance(self.facts.smi, SmiLog) else ()
        if position < len(gpus):
            return self.gpu(gpus[position].bus_id)
        return self.part(SubjectKind.GPU, f"gpu{position}")

    def gpu_named(self, position: int, uuid: str) -> Subject:
        """Return the subject of a GPU by its UUID; where several GPUs have that UUID, by the driver's number."""
        same = [gpu.bus_id for gpu in self.smi.gpus if gpu.uuid == uuid] if isinstance(self.facts.smi, SmiLog) else []
        return self.gpu(same[0]) if len(same) == 1 else self.gpu_at(position)

    def adapters(self, configured: Sequence[str] = ()) -> ComputeAdapters:
        """Return the adapters for GPU traffic; `configured` are names from a setting, before inventory and plan."""
        hcas, topology = self.facts.hcas, self.facts.topo
        return compute_adapters(
            self.entry,
            self.sku,
            None if isinstance(hcas, ProbeFailure) else hcas,
            None if isinstance(topology, ProbeFailure) else topology,
            tuple(configured) or self.entry.hcas or self.seen.planned_hcas.get(self.name, ()),
        )

    @property
    def smi(self) -> SmiLog:
        """The parsed `nvidia-smi -q -x`; only for checks that need `smi`."""
        return value_of(self.facts.smi)

    @property
    def driver_branch(self) -> int:
        """The branch of the driver: 580 for 580.105.08; only for checks that need `smi`."""
        return int(self.smi.driver_version.partition(".")[0])

    @property
    def live_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the driver can talk to; check gpu-census reports the others."""
        return tuple(gpu for gpu in self.smi.gpus if not gpu.trouble)

    def evidence(self, fact: str, excerpt: str = "") -> tuple[Evidence, ...]:
        """Return the evidence of the tool that a fact comes from."""
        tool = load_host_tools().of_fact(fact)
        return (Evidence(tool.shown, self.name, excerpt, self._evidence_path(fact)),)

    def _evidence_path(self, fact: str) -> str:
        driver = load_host_tools().of_fact(fact).asks_driver
        return self.facts.driver_evidence if driver else self.facts.evidence

    def tool_failure(self, fact: str, failure: ProbeFailure) -> Outcome:
        """Return the outcome of a tool that gave nothing usable.

        The check that owns the tool reports why; other checks are blocked by it. A driver that cannot talk to every GPU
        explains the failures of all other driver tools.
        """
        smi = self.facts.smi
        lost = isinstance(smi, ProbeFailure) or any(gpu.trouble for gpu in smi.gpus)
        if failure.tool.owner == self.spec.id and self.spec.needs_driver and fact != "smi" and lost:
            return self.answer.blocked(by="gpu-census", because="the driver cannot talk to every GPU")
        return self.answer.tool_failure(failure, self.name, self._evidence_path(fact))


JudgeNode = Callable[[NodeContext], Report | Outcome]


def value_of(value: T | ProbeFailure) -> T:
    """Return the parsed value of a tool that per_host already found usable."""
    if isinstance(value, ProbeFailure):
        raise AssertionError(f"per_host let {value} through")
    return value


def per_host(
    spec: CheckSpec, observed: FleetFacts, context: JudgeContext, judge_host: JudgeNode, needs: tuple[str, ...] = ()
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope (see kit.host_context.per_host).

    Args:
        spec: the check.
        observed: the fleet.
        context: the context of the judgement.
        judge_host: judges one host whose needed tools all gave something usable.
        needs: facts of the host that it needs (see recipes/gates/<gate>/tools.yaml).
    """

    def before(host: NodeContext) -> Outcome | None:
        return _not_collected(host) or _first_failure(host, needs)

    return host_context.per_host(NodeContext, spec, observed, context, judge_host, before=before)


def _not_collected(host: NodeContext) -> Outcome | None:
    if host.name not in host.seen.hosts:
        return host.answer.unknown("evidence-missing", "nothing was collected from this host", "run the gate again")
    through_pods = host.spec.needs_driver and host.context.site.driver_owner is DriverOwner.OPERATOR
    if not host.facts.reached and not through_pods:
        return host.answer.blocked(by="host-reached", because="the host was not reached")
    return None


def _first_failure(host: NodeContext, needs: tuple[str, ...]) -> Outcome | None:
    for name in needs:
        failure = host.facts.values[name]
        if isinstance(failure, ProbeFailure):
            return host.tool_failure(name, failure)
    return None


@dataclass(frozen=True, slots=True)
class Unreported:
    """What a GPU that has a feature must report; `missing` is whether it does not."""

    cause: str
    what: str
    missing: Callable[[Gpu], bool]


def per_gpu(
    host: NodeContext,
    judge_gpu: Callable[[NodeContext, Gpu], list[Finding]],
    report: Callable[[int], Report],
    needs: tuple[Unreported, ...] = (),
) -> Report | Outcome:
    """Return the findings of every GPU that the driver can talk to.

    Without a finding, GPUs that it cannot talk to leave the check unknown.

    Args:
        host: the host.
        judge_gpu: returns what is not good about one GPU.
        report: makes the report from the number of judged GPUs; its findings are filled in here.
        needs: what every GPU must report, so that the absence of findings proves something.
    """
    live = host.live_gpus
    findings = tuple(finding for gpu in live for finding in judge_gpu(host, gpu))
    not_reporting = len(host.smi.gpus) - len(live)
    if not findings and (not_reporting or not live):
        text = f"{count(not_reporting, 'GPU')} of {len(host.smi.gpus)} do not answer"
        return host.answer.blocked(by="gpu-census", because=text)
    for need in needs if not findings else ():
        blind = [gpu for gpu in live if need.missing(gpu)]
        if blind:
            return host.answer.unknown(
                need.cause,
                f"the driver reports no {need.what} for {', '.join(gpu.bus_id for gpu in blind)}, and "
                f"{host.sku.gpu_product} has it",
                f"read `nvidia-smi -q -i {blind[0].bus_id}` on {host.name}; update a driver that does not know it",
                more_subjects=tuple(host.gpu(gpu.bus_id) for gpu in blind),
                evidence=host.evidence("smi"),
            )
    return replace(report(len(live)), findings=findings)
