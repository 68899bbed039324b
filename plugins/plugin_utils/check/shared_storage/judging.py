# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge each host by what it reaches on the shared volume, with one rule for throughput and latency. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome
from ..benchmark.plan import BenchmarkHost
from ..benchmark.preconditions import no_reference, nodes, not_repeated
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .analysis import Figures, Metric, Results, Run
from .settings import KEY, PATTERNS

INTEGRITY = KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The causes that a check reports.

    Attributes:
        metric: the figure.
        slow: cause for one slow host.
        all_slow: cause for all hosts being slow.
        setting: the setting of the site's limit.
        after: check and figure that judge a host first.
    """

    metric: Metric
    slow: str
    all_slow: str
    setting: str
    after: tuple[str, Metric] | None = None

    @property
    def uneven(self) -> str:
        return f"{self.slow}-uneven"


_HINT = (
    "look at this host's mount (options, server address, retransmissions: nfsstat -rc, mount), its adapter and route"
)
_ALL = "every host is slow alike, so no host is to blame: look at the storage itself, its servers and its network"
_ALONE = "measure again; if it stays, see whether that host alone reads from a cache, or state what is expected"
_UNEVEN = "too many hosts differ to blame one: compare their mounts, and what else uses the volume now"
_STATE = "measure again when less uses the volume, or state what is expected, by pattern: gpufleet_settings"


def judge_metric(spec: CheckSpec, rule: Rule, results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. Hosts that are slow because of something they share get one together."""
    figures = Figures(results)
    reported: list[Outcome] = []
    covered: set[str] = set()
    for cohort, hosts in figures.cohorts().items():
        outcome, about = _together(spec, rule, context, figures, cohort, hosts)
        if outcome is not None:
            reported.append(outcome)
            covered.update(about)
    rest = [host for host in results.plan.hosts if host.name not in covered]
    return (*reported, *(_judge(Answer.about_host(spec, context, host.name), rule, figures, host) for host in rest))


def _together(
    spec: CheckSpec, rule: Rule, context: JudgeContext, figures: Figures, cohort: str, hosts: list[str]
) -> tuple[Outcome | None, tuple[str, ...]]:
    """Return the one outcome for several hosts, with their names. None: each host is judged by itself."""
    metric = rule.metric
    slow = [host for host in hosts if figures.slow_itself(metric, host)]
    if rule.after is not None:
        slow = [host for host in slow if not figures.missed(rule.after[1], host)]
    blamed = figures.blamed(metric, cohort)
    proven = bool(blamed) or all(len(figures.runs[host]) >= figures.plan.settings.repeats for host in slow)
    far = any(figures.far(metric, host, name) for host in slow for name in figures.slow_itself(metric, host))
    undecided = next((why for name in blamed if (why := figures.peers(metric, cohort, name).undecided)), "")
    alike = figures.alike(metric, cohort) if proven and far else frozenset()
    shared = explained(context, slow, hosts, alone=bool(undecided), alike=alike) if proven and far else None
    if shared is not None:
        first = shared.slow[0]
        text = f"{first}: {_reported(figures, metric, first, figures.slow_itself(metric, first)[0])}"
        return slow_group(spec, context, shared, text, **_details(figures, metric, first)), tuple(shared.slow)
    if not blamed or len(hosts) < 2:
        return _blind(spec, rule, context, figures, cohort, hosts)
    pattern, answer = blamed[0], Answer.about_cluster(spec, context)
    first = min(hosts, key=lambda host: metric.rate(figures.value(metric, host, pattern)))
    details = {**_details(figures, metric, first), "more_subjects": nodes(hosts)}
    if rule.after is not None and figures.blamed(rule.after[1], cohort):
        return answer.blocked(by=rule.after[0], because="most hosts are slow alike", more_subjects=nodes(hosts)), (
            *hosts,
        )
    bound = metric.bound(figures.plan.settings, pattern)
    middle = figures.peers(metric, cohort, pattern).median
    if bound and middle < metric.rate(bound):
        text = f"{pattern}: the faster hosts of {len(hosts)} have {metric.rate(middle):,.4g} {metric.unit}"
        text += f", the site states {bound:g}"
        return answer.failed(rule.all_slow, text, _ALL, **details), tuple(hosts)
    count = len(figures.peers(metric, cohort, pattern).suspects)
    text = f"{pattern}: {count} of {len(hosts)} hosts are far below the faster ones, the slowest is {first}"
    if undecided:
        text, hint = f"{text}; {undecided}", f"{_ALONE}, by pattern: gpufleet_settings.{KEY}.{rule.setting}"
        return answer.marginal(rule.uneven, text, hint, **details), tuple(hosts)
    return answer.marginal(rule.uneven, text, _UNEVEN, **details), tuple(hosts)


def _blind(
    spec: CheckSpec, rule: Rule, context: JudgeContext, figures: Figures, cohort: str, hosts: list[str]
) -> tuple[Outcome | None, tuple[str, ...]]:
    """Return the outcome for hosts that differ so much that a comparison would not detect a slow one, with their names.

    These hosts are not judged by this figure. None: a slow host would be detected.
    """
    metric = rule.metric
    pattern = figures.blind(metric, cohort)
    about = [host for host in hosts if not figures.missed(metric, host) and not figures.doubtful(metric, host)]
    if not pattern or not about:
        return None, ()
    peers, observed = figures.peers(metric, cohort, pattern), figures.sees(metric, cohort, pattern)
    text = f"{pattern}: {len(hosts)} hosts differ by {peers.spread / peers.median:.0%} of their {metric.name} (one "
    text += (
        f"deviation), so that one with {max(observed, 0.01):.0%} of the speed of its peers could pass for one of them"
    )
    details = {**_details(figures, metric, about[0]), "more_subjects": nodes(about)}
    answer, hint = Answer.about_cluster(spec, context), f"{_STATE}.{KEY}.{rule.setting}"
    return answer.marginal(rule.uneven, text, hint, **details), tuple(about)


def _judge(answer: Answer, rule: Rule, figures: Figures, host: BenchmarkHost) -> Outcome:
    metric, settings = rule.metric, figures.plan.settings
    if host.closed or not figures.runs[host.name]:
        why = host.closed or "fio gave no figures on it"
        return answer.blocked(by=INTEGRITY, because=why)
    missed = figures.missed(metric, host.name)
    details = _details(figures, metric, host.name)
    if missed and rule.after is not None and figures.missed(rule.after[1], host.name):
        return answer.blocked(by=rule.after[0], because=_reported(figures, metric, host.name, missed[0]), **details)
    if missed:
        # Patterns in which the host itself is slow come first.
        order = (*figures.slow_itself(metric, host.name), *missed)
        pattern = next((name for name in order if figures.far(metric, host.name, name)), order[0])
        text = _reported(figures, metric, host.name, pattern)
        if len(figures.runs[host.name]) < settings.repeats:
            return not_repeated(answer, text, **details)
        if figures.of_its_moment(metric, host.name, pattern):
            reported = f"{text}; but once at least, hosts that were measured beside it had no more"
            return answer.marginal(rule.uneven, reported, f"{_STATE}.{KEY}.{rule.setting}", **details)
        if figures.by_chance(metric, host.name, pattern):
            reported = (
                f"{text}; but the same host has {_times(figures, metric, host.name, pattern)} times more or less of "
            )
            reported += "what others have from one moment to the next (one deviation), which is no proof either way"
            return answer.marginal(rule.uneven, reported, f"{_STATE}.{KEY}.{rule.setting}", **details)
        if figures.far(metric, host.name, pattern):
            return answer.failed(rule.slow, text, _HINT, **details)
        return answer.marginal(f"{rule.slow}-marginal", text, _HINT, **details)
    doubtful = figures.doubtful(metric, host.name)
    if doubtful:
        text = _doubt(figures, metric, host.name, doubtful[0])
        if len(figures.runs[host.name]) < settings.repeats:
            return not_repeated(answer, text, **details)
        return answer.marginal(rule.uneven, text, f"{_HINT}; {_STATE}.{KEY}.{rule.setting}", **details)
    text = "; ".join(f"{name} {figures.value(metric, host.name, name):,.4g} {metric.unit}" for name in PATTERNS)
    unknown = [name for name in PATTERNS if not _known(figures, metric, host.name, name)]
    if unknown:
        hint = f"state what is expected in gpufleet_settings.{KEY}.{rule.setting}, by pattern"
        return no_reference(answer, f"{text}: too few hosts are alike to compare {unknown[0]}", hint, **details)
    return answer.passed(text, **details)


def _known(figures: Figures, metric: Metric, host: str, pattern: str) -> bool:
    """Return whether there was something to compare a good figure with: a limit of the site, or enough peers."""
    return (
        bool(metric.bound(figures.plan.settings, pattern))
        or figures.peers(metric, figures.cohort(host), pattern).enough
    )


def _reported(figures: Figures, metric: Metric, host: str, pattern: str) -> str:
    peers = figures.peers(metric, figures.cohort(host), pattern)
    text = f"{pattern}: {metric.name} {figures.value(metric, host, pattern):,.4g} {metric.unit}"
    if host in peers.suspects and peers.median > 0:
        return f"{text}, its peers have {metric.rate(peers.median):,.4g}"
    return f"{text}, the site states {metric.bound(figures.plan.settings, pattern):g}"


def _times(figures: Figures, metric: Metric, host: str, pattern: str) -> str:
    return f"{math.exp(figures.wanders(metric, figures.cohort(host), pattern)):.1f}"


def _doubt(figures: Figures, metric: Metric, host: str, pattern: str) -> str:
    """Return the text for a host that is slow without proof."""
    peers, part = figures.peers(metric, figures.cohort(host), pattern), figures.moment(metric, host, pattern)
    text = f"{pattern}: {metric.name} {figures.value(metric, host, pattern):,.4g} {metric.unit}, its peers have "
    text += f"{metric.rate(peers.median):,.4g}"
    if part is not None:
        text += f", and it had {part:.0%} of what others had at the same moments"
    return f"{text}; hosts differ by {peers.spread / peers.median:.0%} (one deviation), which is no proof either way"


def _details(figures: Figures, metric: Metric, host: str) -> Mapping[str, Any]:
    runs, settings = figures.runs[host], figures.plan.settings
    measured = [Measure("runs", len(runs), "count"), *_conditions(figures, runs[0])]
    expected = []
    for pattern in PATTERNS:
        measured.append(
            Measure(f"{pattern} {metric.name}", round(figures.value(metric, host, pattern), 4), metric.unit)
        )
        comparison = "<=" if metric.reversed else ">="
        bound, peers = metric.bound(settings, pattern), figures.peers(metric, figures.cohort(host), pattern)
        if bound:
            expected.append(Expectation(f"{pattern} {metric.name}", comparison, bound, Basis.SLO, metric.unit))
        if peers.evaluated and peers.limit > 0:
            words = f"in 1/{metric.unit}: {peers.arithmetic}" if metric.reversed else peers.arithmetic
            limit = round(metric.rate(peers.limit), 4)
            expected.append(Expectation(f"{pattern} {metric.name}", comparison, limit, Basis.PEERS, metric.unit, words))
    return {"measured": tuple(measured), "expected": tuple(expected), "evidence": evidence(runs)}


def _conditions(figures: Figures, run: Run) -> tuple[Measure, ...]:
    """Return the conditions that must be equal for two figures to be compared (recipes/figures.yaml)."""
    settings = figures.plan.settings
    return (
        Measure("volume", settings.volume_word),
        Measure("fio", run.reading.version),
        Measure("past the page cache", "yes" if run.reading.direct else "no"),
        Measure("written", settings.size_mib, "MiB"),
        Measure("threads", settings.threads, "threads"),
        Measure("rate limit", settings.rate_mib_s, "MiB/s"),
        Measure("hosts at a time", settings.at_a_time(len(figures.plan.hosts)), "hosts"),
    )


def evidence(runs: tuple[Run, ...]) -> tuple[Evidence, ...]:
    """Return the logs of the runs of one host."""
    return tuple(
        Evidence(
            f"fio, run {run.record.attempt}",
            run.record.host,
            run.reading.problem.text[:200] if run.reading.problem else f"{run.record.duration_s:.0f} s",
            run.record.log,
        )
        for run in runs
    )
