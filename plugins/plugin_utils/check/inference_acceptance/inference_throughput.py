# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host generates as many tokens per second and GPU as the SLO requires, and as its peers do."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...verdict.shared import Shared
from ..benchmark.preconditions import no_reference
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import Figures
from .model import CACHED, TITLES, PlannedHost, Results, legs_for
from .observe_inference import OBSERVER
from .preconditions import ERRORS, no_figures
from .rendering import conditions, load_evidence

SPEC = CheckSpec(
    id="inference-throughput",
    gate="inference_acceptance",
    title="Output throughput per GPU",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=1800.0,
    applies=(needs("kubernetes"),),
    causes=("throughput-low", "slow-group", "slower-than-peers", "below-peers"),
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    figures = Figures(results)
    together = _together(context, figures)
    covered = {name for shared in together for name in shared.slow}
    return (
        *(_slow_group(context, figures, shared) for shared in together),
        *(
            _judge(Answer.about_host(SPEC, context, host.name), results, figures, host)
            for host in results.plan.hosts
            if host.name not in covered
        ),
    )


def _together(context: JudgeContext, figures: Figures) -> list[Shared]:
    """Return, for each SKU, what its slow hosts share that are below their peers but reach all other bounds."""
    found = []
    for sku in figures.plan.skus:
        compared = [host.name for host in figures.plan.hosts_of(sku) if figures.loads[host.name]]
        slow = [name for name in compared if figures.missed(name) == ("peers",)]
        # Hosts that are only marginally slower are left to a person, host by host.
        far = any(figures.far_below(name, leg) for name in slow for leg in figures.slow_legs(name))
        alone = any(figures.peers(name, leg).undecided for name in slow for leg in figures.slow_legs(name))
        alike = figures.alike(sku) if far else frozenset()
        shared = explained(context, slow, compared, alone=alone, alike=alike) if far else None
        found += [shared] if shared is not None else []
    return found


def _slow_group(context: JudgeContext, figures: Figures, shared: Shared) -> Outcome:
    leg = figures.slow_legs(shared.slow[0])[0]
    name = min(shared.slow, key=lambda slow: figures.throughput(slow, leg))
    text = (
        f"{name} generates {figures.throughput(name, leg):,.0f} tokens/s per GPU {TITLES[leg]}".rstrip()
        + f", peers {figures.peers(name, leg).median:,.0f}"
    )
    return slow_group(SPEC, context, shared, text, **_details(figures, figures.plan.host(name)))


def _judge(answer: Answer, results: Results, figures: Figures, host: PlannedHost) -> Outcome:
    missing = no_figures(answer, results, host)
    if missing is not None:
        return missing
    unloaded = _unloaded(results, figures, host)
    if unloaded:
        return answer.blocked(by=ERRORS, because=f"no load of {host.name} {unloaded} gave figures")
    value, (slo, _source) = figures.throughput(host.name), figures.slo(host.name)
    details = _details(figures, host)
    text = f"{value:,.0f} tokens/s per GPU on {host.gpus} GPUs"
    missed = figures.missed(host.name)
    if "throughput" in missed:
        text = f"{text}, the SLO is {slo.throughput_per_gpu:,.0f} less {results.plan.settings.judge.slack:.0%}"
        return answer.failed("throughput-low", text, _why_low(figures, host), **details)
    if "peers" in missed:
        return _below_peers(answer, figures, host, details)
    if not slo.throughput_per_gpu:
        measured = f"slo: {{throughput_per_gpu: {figures.typical(host.sku):.0f}}}"
        hint = (
            "nothing is published for this accelerator, model and load with this server; a person can accept what was "
            f"measured: {measured} in gpufleet_settings.inference_acceptance"
        )
        return no_reference(answer, text, hint, **details)
    return answer.passed(text, **details)


def _unloaded(results: Results, figures: Figures, host: PlannedHost) -> str:
    """Return the title of a load of which a host has no figures. Empty: it has all, or is of a run with only one load.

    Runs from before there were several loads are recognised by their missing seed.
    """
    if not any(measured.load.seed for measured in results.loads_of(host.name)):
        return ""
    wanted = (leg.name for leg in legs_for(results.plan.settings.load, host.gpus))
    return next((TITLES[name] for name in wanted if name not in figures.legs(host.name)), "")


def _why_low(figures: Figures, host: PlannedHost) -> str:
    hosts, server = figures.plan.hosts_of(host.sku), figures.plan.settings.server
    if len(hosts) > 1 and figures.all_slow(host.sku):
        return (
            f"every host of SKU {host.sku} is too slow, so look at what they share first: the server's arguments "
            f"(tensor_parallel {server.tensor_parallel} is for models that do not fit on one GPU), model and load"
        )
    return "look at GPU clocks and power of this host, at its neighbours' load, and at the server's arguments"


def _below_peers(
    answer: Answer, figures: Figures, host: PlannedHost, details: dict[str, tuple[object, ...]]
) -> Outcome:
    slow = figures.slow_legs(host.name)
    leg = next((name for name in slow if figures.far_below(host.name, name)), slow[0])
    peers = figures.peers(host.name, leg)
    where = f" {TITLES[leg]}" if TITLES[leg] else ""
    text = (
        f"{figures.throughput(host.name, leg):,.0f} tokens/s per GPU on {host.gpus} GPUs{where}, "
        f"its peers reach {peers.median:,.0f}"
    )
    for word in ("tpot", "ttft"):
        if word in figures.missed(host.name):
            return answer.blocked(by=f"inference-{word}", because=f"{text}, as its latency already shows")
    if peers.cohort_to_blame:
        hint = "too many hosts differ to blame one: compare how they are set up"
        text = f"{text}; {peers.undecided}" if peers.undecided else text
        return answer.marginal("cohort-uneven", text, hint, **details)
    hint = "look at GPU clocks, power and temperature of this host; run gates nodes and fabric_validation for it"
    if not figures.far_below(host.name, leg):
        return answer.marginal("below-peers", text, hint, **details)
    return answer.failed("slower-than-peers", text, hint, **details)


def _details(figures: Figures, host: PlannedHost) -> dict[str, tuple[object, ...]]:
    measured, export = figures.middle(host.name)
    value, settings = figures.throughput(host.name), figures.plan.settings
    slo, source = figures.slo(host.name)
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
    for leg in figures.legs(host.name):
        peers, name = figures.peers(host.name, leg), f"output throughput per GPU {TITLES[leg]}".strip()
        if peers.evaluated:
            limit = round(peers.limit, 1)
            expected.append(Expectation(name, ">=", limit, Basis.PEERS, "tokens/s", peers.arithmetic))
    return {
        "measured": (
            Measure("output throughput per GPU", round(value, 1), "tokens/s"),
            Measure("output throughput", round(value * host.gpus, 1), "tokens/s"),
            Measure("requests per second", round(export.requests_per_s, 2), "1/s"),
            *conditions(figures.plan, host, measured.load),
            Measure("runs", runs, "count"),
            *_other_legs(figures, host),
        ),
        "expected": tuple(expected),
        "evidence": tuple(load_evidence(load) for load in figures.loads[host.name]),
    }


def _other_legs(figures: Figures, host: PlannedHost) -> tuple[Measure, ...]:
    others = (leg for leg in figures.legs(host.name) if leg != CACHED)
    return tuple(
        Measure(f"output throughput per GPU {TITLES[leg]}", round(figures.throughput(host.name, leg), 1), "tokens/s")
        for leg in others
    )


CHECK = Check(SPEC, OBSERVER, judge)
