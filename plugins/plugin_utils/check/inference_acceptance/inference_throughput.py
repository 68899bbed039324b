# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host generates as many tokens per second and GPU as the SLO demands, and as its peers do."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...verdict.shared import Shared
from ..benchmark.preconditions import answer_for_host, no_reference
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import Figures
from .model import PlannedHost, Results
from .observe_inference import OBSERVER
from .preconditions import no_figures
from .rendering import load_evidence

SPEC = CheckSpec(
    id="inference-throughput",
    gate="inference_acceptance",
    title="Output throughput per GPU",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=300.0,
    requires=("kubernetes",),
    causes=("throughput-low", "slow-group", "slower-than-peers"),
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    figures = Figures(results)
    together = _together(context, figures)
    covered = {name for shared in together for name in shared.slow}
    return (
        *(_slow_group(context, figures, shared) for shared in together),
        *(
            _judge(answer_for_host(SPEC, context, host), results, figures, host)
            for host in results.plan.hosts
            if host.name not in covered
        ),
    )


def _together(context: JudgeContext, figures: Figures) -> list[Shared]:
    """Return, for each SKU, what hosts share that are slower than their peers and reach all bounds otherwise."""
    found = []
    for sku in figures.plan.skus:
        compared = [host.name for host in figures.plan.hosts_of(sku) if figures.loads[host.name]]
        slow = [name for name in compared if figures.missed(name) == ("peers",)]
        shared = explained(context, slow, compared) if slow else None
        found += [shared] if shared is not None else []
    return found


def _slow_group(context: JudgeContext, figures: Figures, shared: Shared) -> Outcome:
    name = min(shared.slow, key=figures.throughput)
    text = f"{name} generates {figures.throughput(name):,.0f} tokens/s per GPU, peers {figures.peers(name).median:,.0f}"
    return slow_group(SPEC, context, shared, text, **_details(figures, figures.plan.host(name)))


def _judge(answer: Answer, results: Results, figures: Figures, host: PlannedHost) -> Outcome:
    missing = no_figures(answer, results, host)
    if missing is not None:
        return missing
    value, (slo, _source) = figures.throughput(host.name), figures.slo(host.name)
    details = _details(figures, host)
    text = f"{value:,.0f} tokens/s per GPU on {host.gpus} GPUs"
    if not slo.throughput_per_gpu:
        hint = "state one: slo: {throughput_per_gpu: ...} in the settings of the gate"
        return no_reference(answer, text, hint, **details)
    missed = figures.missed(host.name)
    if "throughput" in missed:
        text = f"{text}, the SLO is {slo.throughput_per_gpu:,.0f} less {results.plan.settings.judge.slack:.0%}"
        hint = "look at GPU clocks and power of this host, at its neighbours' load, and at the server's arguments"
        return answer.failed("throughput-low", text, hint, **details)
    if "peers" in missed:
        return _below_peers(answer, figures, host, text, details)
    return answer.passed(text, **details)


def _below_peers(
    answer: Answer, figures: Figures, host: PlannedHost, text: str, details: dict[str, tuple[object, ...]]
) -> Outcome:
    peers = figures.peers(host.name)
    text = f"{text}, its peers reach {peers.median:,.0f}"
    for word in ("tpot", "ttft"):
        if word in figures.missed(host.name):
            return answer.blocked(by=f"inference-{word}", because=f"{text}, as its latency already shows")
    if peers.cohort_to_blame:
        hint = "too many hosts differ to blame one: compare how they are set up"
        return answer.marginal("cohort-uneven", text, hint, **details)
    hint = "look at GPU clocks, power and temperature of this host; run gates nodes and fabric_validation for it"
    return answer.failed("slower-than-peers", text, hint, **details)


def _details(figures: Figures, host: PlannedHost) -> dict[str, tuple[object, ...]]:
    measured, export = figures.middle(host.name)
    value, settings = figures.throughput(host.name), figures.plan.settings
    (slo, source), peers = figures.slo(host.name), figures.peers(host.name)
    runs = len(figures.loads[host.name])
    expected = []
    if slo.throughput_per_gpu:
        arithmetic = (
            f"{slo.throughput_per_gpu:g} ({source}) x (1 - {settings.judge.slack:g}) = {figures.floor(host.name):g}; "
            f"measured {value * host.gpus:.1f} tokens/s / {host.gpus} of {host.gpus_of_host} GPUs = {value:.1f}"
        )
        floor = Expectation(
            "output throughput per GPU", ">=", figures.floor(host.name), Basis.SLO, "tokens/s", arithmetic
        )
        expected.append(floor)
    if peers.evaluated:
        limit = round(peers.limit, 1)
        expected.append(
            Expectation("output throughput per GPU", ">=", limit, Basis.PEERS, "tokens/s", peers.arithmetic)
        )
    return {
        "measured": (
            Measure("output throughput per GPU", round(value, 1), "tokens/s"),
            Measure("output throughput", round(value * host.gpus, 1), "tokens/s"),
            Measure("requests per second", round(export.requests_per_s, 2), "1/s"),
            Measure("GPUs", host.gpus, "count"),
            Measure("requests at a time", measured.load.concurrency, "count"),
            Measure("input tokens", settings.load.input_tokens, "count"),
            Measure("output tokens", settings.load.output_tokens, "count"),
            Measure("model", settings.server.model),
            Measure("server", settings.server.image.rpartition("/")[2]),
            Measure("runs", runs, "count"),
        ),
        "expected": tuple(expected),
        "evidence": tuple(load_evidence(load) for load in figures.loads[host.name]),
    }


CHECK = Check(SPEC, OBSERVER, judge)
