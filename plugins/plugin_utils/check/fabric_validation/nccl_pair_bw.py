# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: two hosts at a time reach what their adapters allow. What is slow is named: host, adapter, rail or path."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Measure, Outcome, Subject, SubjectKind
from ..benchmark.preconditions import nodes, not_repeated
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, Equals, JudgeContext, needs
from .analysis import Rails, SkuCohort, cohorts_of
from .bandwidth import BandwidthResult, same_leaves
from .model import PlannedHost, Results
from .observe_nccl import OBSERVER
from .pair_round import NOT_SPLIT
from .preconditions import judge_hosts, not_paired, unreferenced
from .rendering import evidence, figures, link, rate_text, steered

SPEC = CheckSpec(
    id="nccl-pair-bw",
    gate="fabric_validation",
    title="Bandwidth between hosts, in disjoint pairs",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    applies=(needs("kubernetes|slurm", "multi_node"), Equals()),
    causes=("cohort-slow", "pair-bandwidth-low", "slow-adapter", "slow-group", "slow-node", "slow-path", "slow-rail"),
)
_ADAPTER_HINT = "`ibstat` and `mlxlink -d {hca} -c -e` on {host}, counters of its switch port; reseat or change it"
_NODE_HINT = "all of its adapters are slow: compare PCIe links, ACS, IOMMU, CPU frequency and NUMA with a good host"
_RAIL_HINT = "look at the leaf switches of that rail: `ibqueryerrors`, `iblinkinfo`, their uplinks and firmware"
_PATH_HINT = "both hosts are fine with others: look at the links between their leaves, and at adaptive routing"
_COHORT_HINT = "all pairs are slow alike: look at spine links, adaptive routing, image, NCCL version and settings"
_UNCLEAR_HINT = "there is no host known to be good to compare with: fix or add hosts, then run the gate again"


_LEAF_HINT = (
    "both are fine with others and hang on the same leaf switches: look at ports and cables of both hosts there"
)
_FACTS = "compute_hcas and hca_rate_gbps, or published_busbw"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. If something that several hosts share is to blame, they get one together."""
    shared: list[Outcome] = []
    covered: set[str] = set()
    for cohort in cohorts_of(results, context.hardware).values():
        outcome = _not_split(context, cohort) or _judge_shared(context, cohort) or _slow_group(context, cohort)
        if outcome is not None:
            shared.append(outcome)
            # A slow adapter beside a slow rail is a finding of its own.
            covered |= {subject.node for subject in outcome.subjects} - set(cohort.slow_beside)
    return (*shared, *judge_hosts(SPEC, results, context, _judge_host, skip=covered))


def _not_split(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return one outcome if no run over the adapters alone was split as it should. None: some were."""
    open_hosts = frozenset(cohort.open_hosts)
    legs = [run for run in cohort.results.in_phase("adapters") if run.record.hosts[0] in open_hosts]
    spoiled = [run for run in legs if run.problem is not None and run.problem.cause == NOT_SPLIT]
    if not spoiled or len(spoiled) < len(legs) or spoiled[0].problem is None:
        return None
    names = tuple(dict.fromkeys(name for run in spoiled for name in run.record.hosts))
    hint = "use an image whose nccl-tests know NCCL_TESTS_SPLIT (setting image of fabric_validation)"
    details = {"evidence": tuple(map(evidence, spoiled[:8])), "more_subjects": nodes(names)}
    return Answer.about_cluster(SPEC, context).unknown(NOT_SPLIT, spoiled[0].problem.text, hint, **details)


def _judge_shared(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return one outcome for several hosts if a rail or the whole cohort is slow. None: neither is."""
    slow = [s for s in cohort.pairs if cohort.pair_good(s) is False and s.problem is None]
    if not slow or not (cohort.all_slow or cohort.slow_rails):
        return None
    names = tuple(dict.fromkeys(name for s in slow for name in s.hosts))
    if not cohort.all_slow and cohort.blame.nodes:
        names = tuple(name for name in names if name in cohort.blame.nodes)
    worst = min(slow, key=lambda s: s.rated.ratio if s.rated else s.value)
    details = figures(worst, cohort.limits)
    if cohort.slow_rails:
        rails = tuple(Subject(SubjectKind.RAIL, f"rail{rail}") for rail in cohort.slow_rails)
        looked = cohort.rails_of(cohort.rail_pairs[0])
        text = f"{_rail_words(cohort.slow_rails)} slow on every pair that was looked at: {_rail_rates(looked)}"
        text += _leaf_words(cohort, names)
        answer = Answer(SPEC, context, rails[0])
        return answer.failed("slow-rail", text, _RAIL_HINT, **{**details, "more_subjects": rails[1:] + nodes(names)})
    answer = Answer.about_cluster(SPEC, context)
    make = answer.failed if any(s.verdict == "bad" for s in slow) else answer.marginal
    tried = len({frozenset(s.hosts) for s in slow})
    text = (
        f"{tried} of {len({frozenset(s.hosts) for s in cohort.pairs})} pairs are slow alike, however hosts are paired, "
    )
    text += f"so what they share is to blame: {rate_text(worst)}"
    text += steered(worst)
    return make("cohort-slow", text, _COHORT_HINT, **{**details, "more_subjects": nodes(names)})


def _slow_group(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return one outcome for slow hosts that share something which the others do not have. None: they do not."""
    shared = explained(context, cohort.blame.nodes, cohort.usable)
    slow = [] if shared is None else [s for name in shared.slow for s in cohort.bad_pairs_of(name) if s.problem is None]
    if shared is None or not slow:
        return None
    worst = min(slow, key=lambda s: s.value)
    what = f"{' with '.join(worst.hosts)}: {rate_text(worst)}"
    return slow_group(SPEC, context, shared, what, **figures(worst, cohort.limits))


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    unpaired = not_paired(answer, cohort, host)
    if unpaired is not None:
        return unpaired
    if host.name in cohort.broken:
        return answer.blocked(by="nccl-transport", because=cohort.broken[host.name].text)
    if host.name in cohort.slow_beside:
        return _beside_rail(answer, cohort, host.name)
    if host.name in cohort.blame.nodes:
        return _slow_host(answer, cohort, host.name)
    paths = (*cohort.paths_of.get(host.name, ()), *cohort.unclear_of.get(host.name, ()))
    if paths:
        return _slow_path(answer, cohort, paths[0])
    good = next((s for s in cohort.pairs_of(host.name) if cohort.pair_good(s)), None)
    if good is not None:
        return _good(answer, cohort, good)
    return _unknown(answer, cohort, host.name)


def _good(answer: Answer, cohort: SkuCohort, deciding: BandwidthResult) -> Outcome:
    full = next((leg for r in cohort.rounds if (leg := r.full.find(deciding.hosts))), deciding)
    details = figures(full, cohort.limits)
    text = f"{' with '.join(full.hosts)}: {rate_text(full)}"
    if full.verdict == "unknown":
        return unreferenced(answer, cohort.sku_name, text, _FACTS, **details)
    adapters = next((leg for r in cohort.rounds if (leg := r.adapters.find(deciding.hosts))), None)
    if adapters is not None:
        slowest = Measure("busbw over adapters alone", round(adapters.value, 2), "GB/s")
        more = {"measured": (*details["measured"], slowest), "evidence": (*details["evidence"],)}
        more["evidence"] += tuple(map(evidence, adapters.runs))
        expected = (*details["expected"], *figures(adapters, cohort.limits)["expected"])
        return answer.passed(f"{text}; {rate_text(adapters)}", **{**details, **more, "expected": expected})
    if cohort.has_adapters and not cohort.adapter_runs:
        hint = "run the gate again with this release"
        words = "this run did not record runs over the adapters alone, and between two hosts NVLink can hide a slow one"
        return answer.unknown("adapters-not-measured", f"{text}; {words}", hint, **details)
    return answer.passed(text, **details)


def _slow_host(answer: Answer, cohort: SkuCohort, name: str) -> Outcome:
    bad = cohort.bad_pairs_of(name)
    slow = [s for s in bad if s.problem is None]
    if not slow:
        return answer.blocked(by="nccl-results", because="its runs with other hosts give no figure")
    details = figures(slow[0], cohort.limits)
    partners = ", ".join(other for s in bad for other in s.hosts if other != name)
    text = f"{name} is slow with {partners}: {rate_text(slow[0])}"
    if all(s.verdict == "marginal" for s in slow):
        cause = "unsaturated" if slow[0].unsaturated else "pair-bandwidth-marginal"
        return answer.marginal(cause, text, _NODE_HINT, **details)
    rails = next((cohort.rails_of(pair) for pair in cohort.rail_pairs if name in pair), None)
    if rails is None or not rails.slow:
        return answer.failed("slow-node", text, _NODE_HINT, **_with_rails(details, rails))
    return _slow_adapter(answer, cohort, name, rails, text, details)


def _slow_adapter(
    answer: Answer, cohort: SkuCohort, name: str, rails: Rails, text: str, details: dict[str, Any]
) -> Outcome:
    hcas = [cohort.results.plan.host(name).hcas[rail].partition(":")[0] for rail in rails.slow]
    parts = tuple(Subject(SubjectKind.HCA, f"{name}/{hca}", name) for hca in hcas)
    return answer.failed(
        "slow-adapter",
        f"{', '.join(hcas)} of {name} is slow ({_rail_rates(rails)}); {text}",
        _ADAPTER_HINT.format(hca=hcas[0], host=name),
        **{**_with_rails(details, rails), "more_subjects": parts},
    )


def _beside_rail(answer: Answer, cohort: SkuCohort, name: str) -> Outcome:
    """Return the outcome for adapters that are slow in addition to a slow rail."""
    mine = cohort.slow_beside[name]
    rails = next(
        r for pair in cohort.rail_pairs if name in pair and set((r := cohort.rails_of(pair)).slow) >= set(mine)
    )
    rest = Rails(pair=rails.pair, values=rails.values, slow=mine, complete=True)
    text = f"beside {_rail_words(cohort.slow_rails)} slow on every host"
    return _slow_adapter(answer, cohort, name, rest, text, {})


def _slow_path(answer: Answer, cohort: SkuCohort, pair: tuple[str, str]) -> Outcome:
    result = next(s for s in cohort.pairs_of(pair[0]) if s.hosts == pair)
    if result.problem is not None:
        return answer.blocked(by="nccl-results", because="the run of the pair gives no figure")
    details = {**figures(result, cohort.limits), "more_subjects": (link(pair),)}
    text = f"{' with '.join(pair)}: {rate_text(result)}"
    known = pair in cohort.blame.paths
    if result.verdict == "marginal":
        cause = "unsaturated" if result.unsaturated else "pair-bandwidth-marginal"
        return answer.marginal(cause, text, _PATH_HINT if known else _UNCLEAR_HINT, **details)
    if known:
        hint = _LEAF_HINT if same_leaves(cohort.results.plan, pair) else _PATH_HINT
        return answer.failed("slow-path", f"{text}; both are fine with others", hint, **details)
    rails = next((cohort.rails_of(looked) for looked in cohort.rail_pairs if set(looked) == set(pair)), None)
    named = cohort.looped(rails.pair) if rails and rails.pair in cohort.loop_pairs else {}
    if rails and answer.subject.name in named:
        own = Rails(pair=rails.pair, values=rails.values, slow=named[answer.subject.name], complete=True)
        alone = f"the host alone, over one adapter at a time, shows the same; {text}"
        return _slow_adapter(answer, cohort, answer.subject.name, own, alone, details)
    if named:
        culprit = next(iter(named))
        return answer.blocked(by=SPEC.id, because=f"its only partner {culprit} has a slow adapter")
    more = f"; {_rail_words(rails.slow)} slow ({_rail_rates(rails)})" if rails and rails.slow else ""
    return answer.failed("pair-bandwidth-low", f"{text}{more}", _UNCLEAR_HINT, **_with_rails(details, rails))


def _unknown(answer: Answer, cohort: SkuCohort, name: str) -> Outcome:
    mine: list[BandwidthResult] = list(cohort.pairs_of(name))
    spoilers = [other for s in mine for other in s.hosts if other in cohort.broken]
    if spoilers:
        return answer.blocked(by="nccl-transport", because=f"its only partner {spoilers[0]} has no RDMA")
    result = mine[0]
    if result.problem is not None:
        return answer.blocked(by="nccl-results", because="its run gives no figure")
    details = figures(result, cohort.limits)
    if result.verdict == "open":
        return not_repeated(answer, rate_text(result), **details)
    return unreferenced(answer, cohort.sku_name, rate_text(result), _FACTS, **details)


def _with_rails(details: dict[str, Any], rails: Rails | None) -> dict[str, Any]:
    if rails is None:
        return details
    rates = tuple(Measure(f"busbw over rail{rail}", round(value, 2), "GB/s") for rail, value in rails.values.items())
    return {**details, "measured": (*details.get("measured", ()), *rates)}


def _leaf_words(cohort: SkuCohort, names: tuple[str, ...]) -> str:
    """Return the leaf switches of the slow rails as text. Empty without a cabling plan."""
    hosts = [host for host in cohort.hosts if host.name in names]
    leaves = {host.leaves[rail] for host in hosts for rail in cohort.slow_rails if rail < len(host.leaves)}
    return f"; leaf switches {', '.join(sorted(leaves))}" if leaves else ""


def _rail_words(rails: tuple[int, ...]) -> str:
    return f"{', '.join(f'rail{rail}' for rail in rails)} {'is' if len(rails) == 1 else 'are'}"


def _rail_rates(rails: Rails) -> str:
    rates = {rail: f"{value:.1f} GB/s" for rail, value in rails.values.items()}
    slow = ", ".join(f"rail{rail} {rates.get(rail, 'no result')}" for rail in rails.slow)
    others = [value for rail, value in rails.values.items() if rail not in rails.slow]
    return f"{slow}, others {min(others):.1f} and more" if others else slow


CHECK = Check(SPEC, OBSERVER, judge)
