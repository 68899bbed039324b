# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: Prometheus responds and has GPU metrics. Without them every later gate runs unmonitored."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .metrics_host import seen_in
from .model import FleetMetrics
from .observe_metrics import OBSERVER

SPEC = CheckSpec(
    id="gpu-metrics-scraped",
    gate="telemetry",
    title="Prometheus has GPU metrics",
    per=SubjectKind.CLUSTER,
    duration_s=10.0,
    causes=("telemetry-blind",),
)


def judge(observed: FleetMetrics, context: JudgeContext) -> tuple[Outcome, ...]:
    answer = Answer.about_cluster(SPEC, context)
    if observed.problem is not None:
        problem = observed.problem
        return (answer.unknown(problem.cause, f"{problem.subject}: {problem.reason}", problem.hint),)
    field = observed.settings.metrics.field
    if not observed.series:
        down = [exporter for exporter in observed.exporters if exporter.health != "up"]
        text = f"not one series of {field}, and no target for it"
        hint = (
            "kubectl get servicemonitors,podmonitors -A --show-labels: one must carry the labels that Prometheus "
            "selects (kubectl get prometheuses -A -o yaml, serviceMonitorSelector)"
        )
        if down:
            text = f"not one series of {field}: {down[0].target} does not answer ({down[0].error})"
            hint = "look at the exporters: kubectl get pods -A -l app=nvidia-dcgm-exporter"
        return (answer.failed("telemetry-blind", text, hint, evidence=seen_in(observed, field)),)
    # Check gpu-metrics-complete reports how many hosts and GPUs have them: it knows how many there are.
    return (answer.passed(f"{observed.where} has {field}", evidence=seen_in(observed, field)),)


CHECK = Check(SPEC, OBSERVER, judge)
