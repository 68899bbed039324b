# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the last sample of every GPU is younger than two scrape intervals, by the clock of Prometheus."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ..spec import Check, CheckSpec, JudgeContext
from .metrics_host import MetricsHost, per_host, seen_in
from .model import FleetMetrics
from .observe_metrics import OBSERVER

SPEC = CheckSpec(
    id="gpu-metrics-fresh",
    gate="telemetry",
    title="fresh metrics of every GPU",
    per=SubjectKind.NODE,
    duration_s=10.0,
    causes=("stale-series",),
)


def judge(observed: FleetMetrics, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host.

    Prometheus returns a value for five minutes, so only the sample's timestamp gives its age.
    """
    return per_host(SPEC, observed, context, _judge_host)


def _judge_host(host: MetricsHost) -> Outcome:
    fleet, metrics = host.seen, host.seen.metrics
    series = fleet.relevant(host.expected)
    query = f"timestamp({metrics.settings.metrics.field})"
    if any(entry.interval_s <= 0 for entry in series):
        text = "the scrape interval of its series is not known: Prometheus has no target with their job and instance"
        hint = "state it: gpufleet_settings.telemetry.interval_s"
        return host.answer.unknown("interval-unknown", text, hint, evidence=seen_in(metrics, query))
    limit = min(fleet.limit_s(entry) for entry in series)
    oldest = max(metrics.at - entry.at for entry in series)
    stale = fleet.stale(host.expected)
    intervals = metrics.settings.metrics.fresh_intervals
    basis = f"{intervals:g} x {limit / intervals:g} s scrape interval"
    limits = (Expectation("age of the last sample", "<=", limit, Basis.RULE, basis),)
    if stale:
        worst, age = max(stale, key=lambda pair: abs(pair[1]))
        subjects = host.affected(fleet.seen_uuids(host.expected), (entry.uuid for entry, _age in stale))
        whose = count(len(subjects), "GPU") if subjects else "every GPU of this host"
        text = f"the last sample of {whose} is {age:.0f} s old, at most {fleet.limit_s(worst):g} s are allowed"
        if age < 0:
            text = f"the last sample of {whose} is {-age:.0f} s in the future: the exporter's clock is wrong"
        hint = "its exporter hangs, or sends times of its own: restart it, and compare with `dcgmi dmon -e 203`"
        return host.answer.failed(
            "stale-series",
            text,
            hint,
            measured=(Measure("age of the last sample", round(age, 1), "s"),),
            expected=limits,
            evidence=seen_in(metrics, query),
            more_subjects=subjects,
        )
    measured = (Measure("age of the last sample", round(oldest, 1), "s"),)
    text = f"the oldest sample is {oldest:.1f} s old"
    return host.answer.passed(text, measured=measured, expected=limits, evidence=seen_in(metrics, query))


CHECK = Check(SPEC, OBSERVER, judge)
