# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: each GPU is exported by one target. If it is scraped twice, every sum doubles and every alert fires twice."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ...outcome.wording import count
from ..spec import Check, CheckSpec, JudgeContext
from .metrics_host import MetricsHost, per_host, seen_in
from .model import FleetMetrics
from .observe_metrics import OBSERVER

SPEC = CheckSpec(
    id="gpu-metrics-unique",
    gate="telemetry",
    title="one series for each GPU",
    per=SubjectKind.NODE,
    duration_s=10.0,
    causes=("duplicate-series",),
)


def judge(observed: FleetMetrics, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_host(SPEC, observed, context, _judge_host)


def _judge_host(host: MetricsHost) -> Outcome:
    fleet, expected = host.seen, host.expected
    metrics, doubles, uuids = fleet.metrics, fleet.doubles(expected), fleet.seen_uuids(expected)
    evidence = seen_in(metrics, f"count by (UUID) ({metrics.settings.metrics.field}) > 1")
    if doubles:
        targets = ", ".join(next(iter(doubles.values())))
        text = f"{count(len(doubles), 'GPU')} with more than one series, from: {targets}"
        hint = (
            "two exporters or two monitors for one host: remove one of them; kubectl get servicemonitors,podmonitors -A"
        )
        subjects = host.affected(uuids, doubles)
        return host.answer.failed("duplicate-series", text, hint, evidence=evidence, more_subjects=subjects)
    return host.answer.passed(f"{count(len(uuids), 'GPU')}, each from one target", evidence=evidence)


CHECK = Check(SPEC, OBSERVER, judge)
