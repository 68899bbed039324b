# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every GPU multiplies and copies as fast as its peers, and as its model can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.dl_unit import RATES
from ...verdict.ceiling import CeilingLimits
from ..benchmark.plan import BenchmarkHost
from ..benchmark.preconditions import merged, no_reference, nodes, not_repeated
from ..benchmark.shared_cause import CAUSE as SLOW_GROUP
from ..benchmark.shared_cause import explained, slow_group
from ..dl_unit.model import Kind, Results, evidence, gpu_subjects
from ..dl_unit.rates import ALWAYS, Rates, peak_of, reference_of
from ..dl_unit.settings import RATE, GemmRateSettings
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_dl_unit import OBSERVER

SPEC = CheckSpec(
    id=RATE,
    gate="fabric_validation",
    title="Matrix products and memory of every GPU are as fast as those of its peers",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=180.0,
    applies=(needs("kubernetes|slurm"),),
    causes=("slow-gemm", "slow-memory", SLOW_GROUP, "cohort-slow"),
    settings=GemmRateSettings,
)
_NUMERICS = "gpu-numerics"
_HINTS = {
    "slow-gemm": "`nvidia-smi -q -d PERFORMANCE,POWER,CLOCK` under load on the host: clocks, why they are lower, power",
    "slow-memory": "`nvidia-smi -q -d ECC,ROW_REMAPPER,CLOCK` on the host: memory clock, remapped rows",
}
_ALL = "all share it: compare image, driver, clocks and power limits with a known good fleet"
_UNEVEN = "too many GPUs differ to blame one: compare clocks, power limits and cooling of the slower with the faster"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. Hosts that are slow because of something they share get one together."""
    rates = Rates(results, context.hardware, context.settings_of(RATE, GemmRateSettings))
    reported: list[Outcome] = []
    covered: set[str] = set()
    for kind, hosts in rates.cohorts.items():
        outcome, about = _together(context, rates, kind, hosts)
        if outcome is not None:
            reported.append(outcome)
            covered.update(about)
    rest = [host for host in results.plan.hosts if host.name not in covered]
    alone = [(host.name, _judge(Answer.about_host(SPEC, context, host.name), rates, host)) for host in rest]
    # If another check explains it, one outcome covers all hosts of that explanation.
    same = [(name, (found.blocked_by, found.summary) if found.blocked_by else None, found) for name, found in alone]
    return (*reported, *merged(same))


def _together(
    context: JudgeContext, rates: Rates, kind: Kind, hosts: tuple[str, ...]
) -> tuple[Outcome | None, tuple[str, ...]]:
    """Return the one outcome for several hosts, with their names. None: each host is judged by itself."""
    slow = [host for host in hosts if rates.missed(host)]
    blamed = rates.blamed(kind)
    proven = bool(blamed) or all(len(rates.results.whole(host)) >= rates.limits.repeats for host in slow)
    shared = explained(context, slow, hosts) if proven else None
    if shared is not None:
        first = shared.slow[0]
        text = _reported(rates, first, next(iter(rates.missed(first))))
        return slow_group(SPEC, context, shared, text, **_details(rates, first)), tuple(shared.slow)
    if not blamed:
        return None, ()
    rate, answer = blamed[0], Answer.about_cluster(SPEC, context)
    peers, floor = rates.peers[kind, rate], rates.floor(kind[0], rate)
    first = min(hosts, key=lambda host: min(rates.values[host].get(rate, {}).values(), default=0.0))
    details = {**_details(rates, first), "more_subjects": nodes(hosts)}
    if floor is not None and peers.median < floor:
        text = f"{rate}: the faster GPUs of {len(hosts)} hosts reach {peers.median:,.4g} {RATES[rate]}, expected are "
        text += f"{floor:,.4g} ({_floor_text(rates, kind[0], rate)})"
        return answer.failed("cohort-slow", text, _ALL, **details), hosts
    text = f"{rate}: {len(peers.suspects)} GPUs are far below the faster ones, the slowest is in {first}"
    return answer.marginal("rates-uneven", text, _UNEVEN, **details), hosts


def _judge(answer: Answer, rates: Rates, host: BenchmarkHost) -> Outcome:
    if host.closed:
        return answer.blocked(by="nccl-results", because=f"no run was possible: {host.closed}")
    if host.name not in rates.values:
        return _without_rates(answer, rates, host.name)
    missed, details = rates.missed(host.name), _details(rates, host.name)
    if missed:
        rate = next(iter(missed))
        text = _reported(rates, host.name, rate)
        if len(rates.results.whole(host.name)) < rates.limits.repeats:
            return not_repeated(answer, text, **details)
        cause = "slow-memory" if rate == "memory-copy" else "slow-gemm"
        slots = sorted({slot for slots in missed.values() for slot in slots})
        subjects = gpu_subjects(tuple((host.name, slot) for slot in slots))
        return answer.failed(cause, text, _HINTS[cause], more_subjects=subjects, **details)
    if below := rates.below(host.name):
        return _marginal(answer, rates, host.name, below, details)
    found = rates.values[host.name]
    text = "; ".join(f"{rate} {min(found[rate].values()):,.4g} {RATES[rate]}" for rate in RATES if rate in found)
    unknown = [rate for rate in ALWAYS if not rates.held(host.name, rate)]
    if unknown:
        hint = "state the peak in a hardware file of the site, or test more GPUs of its kind at once"
        return no_reference(answer, f"{text}: too few GPUs are alike to compare {unknown[0]}", hint, **details)
    return answer.passed(f"slowest GPU: {text}", **details)


def _marginal(
    answer: Answer, rates: Rates, host: str, below: Mapping[str, tuple[int, ...]], details: dict[str, Any]
) -> Outcome:
    rate, slots = next(iter(below.items()))
    values = rates.values[host][rate]
    slowest = min(slots, key=lambda slot: values[slot])
    peers = rates.peers[rates.kinds[host, slowest], rate]
    more = f" and {len(slots) - 1} more" if len(slots) > 1 else ""
    text = (
        f"{host}: gpu{slowest}{more}: {rate} {values[slowest]:,.4g} {RATES[rate]}, its peers reach {peers.median:,.4g}"
        f": {1 - values[slowest] / peers.median:.1%} less, from {rates.limits.peer_margin:.0%} on a person decides"
    )
    hint = _HINTS["slow-memory" if rate == "memory-copy" else "slow-gemm"]
    all_slots = sorted({slot for found in below.values() for slot in found})
    subjects = gpu_subjects(tuple((host, slot) for slot in all_slots))
    return answer.marginal("rate-below-peers", text, hint, more_subjects=subjects, **details)


def _without_rates(answer: Answer, rates: Rates, host: str) -> Outcome:
    if not rates.results.whole(host):
        return answer.blocked(by=_NUMERICS, because="the DL unit test gave no figures on it")
    text = "its GPUs did not wait for each other, so that they were not measured under the load of all"
    return answer.unknown("not-together", text, "run the gate again", evidence=evidence(rates.results.of(host)))


def _reported(rates: Rates, host: str, rate: str) -> str:
    slots = rates.missed(host)[rate]
    values = rates.values[host][rate]
    slowest = min(slots, key=lambda slot: values[slot])
    kind = rates.kinds[host, slowest]
    peers, floor = rates.peers[kind, rate], rates.floor(kind[0], rate)
    more = f" and {len(slots) - 1} more" if len(slots) > 1 else ""
    text = f"{host}: gpu{slowest}{more}: {rate} {values[slowest]:,.4g} {RATES[rate]}"
    return f"{text}, its peers reach {peers.median:,.4g}" if peers.evaluated else f"{text}, expected {floor or 0:,.4g}"


def _floor_text(rates: Rates, sku: str, rate: str) -> str:
    peak, found = peak_of(rates.hardware[sku], rate) or 0.0, reference_of(rates.hardware[sku], rate)
    part = rates.limits.floor[rate]
    if found and found * CeilingLimits().bad > peak * part:
        return f"{CeilingLimits().bad:g} x {found:,.4g}, the best that is published of {sku}"
    return f"{part:g} x {peak:g}, the peak of {sku}"


def _details(rates: Rates, host: str) -> dict[str, Any]:
    log = rates.results.whole(host)[0]
    identity = next(test.identity for test in log.tests if test.identity is not None)
    measured = [
        Measure("GPUs", len(log.tests), "count"), Measure("runs", len(rates.results.whole(host)), "count"),
        Measure("size", rates.results.plan.settings.rate_size, "count"), Measure("torch", identity.torch),
        Measure("cublas", identity.cublas),
    ]  # fmt: skip
    expected = []
    for rate, values in rates.values[host].items():
        unit, slowest = RATES[rate], min(values, key=lambda slot: values[slot])
        measured.append(Measure(rate, round(values[slowest], 4), unit))
        kind = rates.kinds[host, slowest]
        peers, floor = rates.peers[kind, rate], rates.floor(kind[0], rate)
        if floor is not None:
            words = f"{_floor_text(rates, kind[0], rate)}, for the faster GPUs"
            expected.append(Expectation(rate, ">=", round(floor, 4), Basis.CEILING, unit, words))
        if peers.evaluated:
            expected.append(Expectation(rate, ">=", round(peers.limit, 4), Basis.PEERS, unit, peers.arithmetic))
    return {
        "measured": tuple(measured), "expected": tuple(expected), "evidence": evidence(rates.results.of(host))
    }  # fmt: skip


CHECK = Check(SPEC, OBSERVER, judge)
