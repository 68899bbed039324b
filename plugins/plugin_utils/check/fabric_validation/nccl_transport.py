# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: data between hosts goes over RDMA and the planned adapters, straight from and to the GPUs."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import SkuCohort
from .model import PlannedHost, Results, Run
from .observe_nccl import OBSERVER
from .preconditions import judge_hosts, not_paired
from .rendering import evidence
from .transport import Transport, host_log, transport_of

SPEC = CheckSpec(
    id="nccl-transport",
    gate="fabric_validation",
    title="NCCL uses the network of the fabric: its adapters, GPUDirect where it has RDMA",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    requires=("kubernetes", "multi_node"),
    between_hosts=True,
    causes=(
        "gpudirect-missing",
        "hca-filter-no-match",
        "hca-set-differs",
        "memlock-limit",
        "net-plugin-missing",
        "rdma-resource-missing",
        "socket-transport",
        "verbs-missing",
        "wrong-network",
    ),
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_hosts(SPEC, results, context, _judge_host)


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    if host.name in cohort.without_rdma:
        resource = cohort.results.plan.rdma_resource
        hint = f"kubectl describe node {host.node}; fix the device plugin that offers {resource}"
        text = f"node {host.node} offers no {resource}, as other nodes do: its pods would get no network adapter"
        return answer.failed("rdma-resource-missing", text, hint)
    return not_paired(answer, cohort, host) or _judge_runs(answer, cohort, host)


def _judge_runs(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    results = cohort.results
    runs = results.with_host(host.name, ("pair", "all"))
    seen = [(run, transport_of(run, host, results.plan, cohort.sku)) for run in runs]
    for run, transport in seen:
        if transport.proof == "broken":
            return _failed(answer, host, run, transport)
    for run, transport in seen:
        if transport.proof == "proven":
            return _proven(answer, host, run, transport)
    if all(run.problem for run, _transport in seen):
        return answer.blocked(by="nccl-results", because="no run with another host gave a result")
    text = "; ".join(dict.fromkeys(transport.text for _run, transport in seen))
    hint = "read the log; NCCL_DEBUG_SUBSYS must contain INIT and NET"
    proof = tuple(evidence(run) for run, _transport in seen)
    return answer.unknown("transport-unproven", f"not proven: {text}", hint, evidence=proof)


def _failed(answer: Answer, host: PlannedHost, run: Run, transport: Transport) -> Outcome:
    return answer.failed(
        transport.cause,
        f"{host.name}: {transport.text}"[:500],
        transport.hint,
        evidence=(_lines(run, host),),
        expected=(Expectation("adapters", "==", ", ".join(run.record.hcas.get(host.name, ())), Basis.INVENTORY),),
    )


def _proven(answer: Answer, host: PlannedHost, run: Run, transport: Transport) -> Outcome:
    log = host_log(run, host.name)
    channels = log.network_channels if log else ()
    return answer.passed(
        transport.text,
        measured=(
            Measure("network", log.networks[0] if log and log.networks else ""),
            Measure("adapters", len(log.devices) if log else 0, "count"),
            Measure("connections", len(channels), "count"),
            Measure("connections with GPUDirect", sum(channel.direct for channel in channels), "count"),
        ),
        evidence=(_lines(run, host),),
    )


def _lines(run: Run, host: PlannedHost) -> Evidence:
    log = host_log(run, host.name)
    words = [*(f"Using network {name}" for name in log.networks), *log.warnings[:3]] if log else []
    kept = evidence(run)
    return Evidence(kept.source, host.name, "; ".join(words)[:400], kept.path)


CHECK = Check(SPEC, OBSERVER, judge)
