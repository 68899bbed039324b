# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: data between hosts goes over RDMA and the planned adapters, directly from and to the GPUs."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Status, SubjectKind
from ...probe.nccl_debug import HostLog
from ..benchmark.network import OF_HOST
from ..benchmark.preconditions import by_slurm, nodes
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, Equals, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
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
    applies=(needs("kubernetes|slurm", "multi_node"), Equals()),
    causes=(
        "gpudirect-missing",
        "hca-filter-no-match",
        "hca-set-differs",
        "memlock-limit",
        "memory-registration-failed",
        "net-plugin-broken",
        "net-plugin-missing",
        "rdma-resource-missing",
        "socket-transport",
        "verbs-missing",
        "wrong-network",
    ),
)


# What the image lacks if all hosts report it, since they were given the same one.
_OF_THE_IMAGE = ("net-plugin-missing", "net-plugin-broken", "verbs-missing", "wrong-network")


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. If the image is wrong, all hosts of a SKU get one together."""
    shared = [
        found
        for cohort in cohorts_of(results, context.hardware).values()
        if (found := _wrong_image(context, cohort)) is not None
    ]
    covered = {subject.node for outcome in shared for subject in outcome.subjects}
    return (*shared, *judge_hosts(SPEC, results, context, _judge_host, skip=covered))


def _wrong_image(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return one unknown outcome if all hosts that ran with another one lack the same part of the image."""
    open_hosts = frozenset(cohort.open_hosts)
    ran = {name for run in cohort.results.in_phase("pair") for name in run.record.hosts if name in open_hosts}
    causes = {cohort.broken[name].cause for name in ran if name in cohort.broken}
    if not ran or len(ran & set(cohort.broken)) < len(ran) or len(causes) != 1 or not causes <= set(_OF_THE_IMAGE):
        return None
    first = sorted(ran)[0]
    found = cohort.broken[first]
    run = next(run for run in cohort.results.in_phase("pair") if first in run.record.hosts)
    text = f"all {len(ran)} hosts alike, so the image of the runs is wrong and no host: {found.text}"
    hint = f"{found.hint}: state it (settings of fabric_validation: image, program)"
    details = {"evidence": (_lines(run, cohort.results.plan.host(first)),), "more_subjects": nodes(sorted(ran))}
    return Answer.about_cluster(SPEC, context).unknown(found.cause, text[:500], hint, **details)


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    resource = cohort.results.plan.rdma_resource
    if host.name in cohort.without_rdma:
        hint = f"kubectl describe node {host.node}; fix the device plugin that offers {resource}"
        text = f"node {host.node} offers no {resource}, as other nodes do: its pods would get no network adapter"
        return answer.failed("rdma-resource-missing", text, hint)
    early = not_paired(answer, cohort, host)
    if early is not None:
        return early
    found = _judge_runs(answer, cohort, host)
    short = _short_offer(cohort, host) if found.status is Status.PASSED else ""
    if short:
        hint = f"kubectl describe node {host.node}; if that is all that it should offer, state rdma_count or accept it"
        hint = "state all of them (gpufleet_hcas of the host, setting hcas), or accept it" if by_slurm(answer) else hint
        return answer.marginal("rdma-resource-short", short, hint, evidence=found.evidence, measured=found.measured)
    return found


def _short_offer(cohort: SkuCohort, host: PlannedHost) -> str:
    """Return how a node offers fewer adapters than its host has. Empty: it does not, or a unit is not one adapter."""
    plan, ports = cohort.results.plan, cohort.sku.compute_hcas
    least = min(ports, cohort.sku.nics)
    if plan.settings.run.rdma_count or not 1 < host.rdma_offered < least:
        return ""
    if plan.rdma_resource == OF_HOST:
        return f"runs on {host.node} use {host.rdma_offered} adapters for GPU traffic, its SKU has {ports}"
    return f"node {host.node} offers {host.rdma_offered} {plan.rdma_resource}, its host has {ports} such adapters"


def _judge_runs(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    results = cohort.results
    runs = results.with_host(host.name, ("pair", "all"))
    observed = [(run, transport_of(run, host, results.plan, cohort.sku)) for run in runs]
    for run, transport in observed:
        if transport.proof == "broken":
            return _failed(answer, host, run, transport)
    for run, transport in observed:
        if transport.proof == "proven":
            return _proven(answer, host, run, transport)
    if all(run.problem for run, _transport in observed):
        return answer.blocked(by="nccl-results", because="no run with another host gave a result")
    text = "; ".join(dict.fromkeys(transport.text for _run, transport in observed))
    hint = "read the log; NCCL_DEBUG_SUBSYS must contain INIT and NET"
    proof = tuple(evidence(run) for run, _transport in observed)
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
            *_plugins(log),
            Measure("connections", len(channels), "count"),
            Measure("connections with GPUDirect", sum(channel.direct for channel in channels), "count"),
        ),
        evidence=(_lines(run, host),),
    )


def _plugins(log: HostLog | None) -> tuple[Measure, ...]:
    """Return the network plugin that NCCL loaded, its provider and number of adapters, as far as NCCL logs them."""
    if log is None:
        return ()
    words = (("plugin", log.plugins), ("provider", log.providers))
    reported = tuple(Measure(name, ", ".join(found)) for name, found in words if found)
    nics = log.provider_nics
    return (*reported, Measure("adapters of the provider", nics, "count")) if nics is not None else reported


def _lines(run: Run, host: PlannedHost) -> Evidence:
    log = host_log(run, host.name)
    words = [*(f"Using network {name}" for name in log.networks), *log.warnings[:3]] if log else []
    kept = evidence(run)
    return Evidence(kept.source, host.name, "; ".join(words)[:400], kept.path)


CHECK = Check(SPEC, OBSERVER, judge)
