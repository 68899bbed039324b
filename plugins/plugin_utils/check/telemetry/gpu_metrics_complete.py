# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every GPU of every expected host has metrics. In MIG mode, every slice has the profiling field."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...outcome.wording import count
from ..spec import Check, CheckSpec, JudgeContext
from .metrics_host import MetricsHost, gpus_measured, per_host, seen_in
from .model import FleetMetrics
from .observe_metrics import OBSERVER

SPEC = CheckSpec(
    id="gpu-metrics-complete",
    gate="telemetry",
    title="metrics of every GPU of every host",
    per=SubjectKind.NODE,
    duration_s=10.0,
    causes=("host-missing", "gpu-missing", "profiling-field-missing"),
)


def judge(observed: FleetMetrics, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host. A host without any metrics is one missing host, not eight missing GPUs."""
    return per_host(SPEC, observed, context, _judge_host, needs_series=False)


def _judge_host(host: MetricsHost) -> Outcome:
    fleet, expected = host.seen, host.expected
    metrics = fleet.metrics
    field, observed = metrics.settings.metrics.field, len(fleet.seen_uuids(expected))
    details: dict[str, Any] = {
        "measured": gpus_measured(observed),
        "expected": (Expectation("GPUs with metrics", "==", expected.count, Basis.RULE, expected.source),),
        "evidence": seen_in(metrics, field),
    }
    missing = fleet.missing(expected)
    unprofiled = tuple(gpu for gpu in missing if gpu.mig)
    up = any(exporter.health == "up" for exporter in fleet.exporters(expected))
    if unprofiled and (up or not fleet.is_silent(expected)):
        mig_field = metrics.settings.metrics.mig_field
        text = f"{count(len(unprofiled), 'GPU')} in MIG mode without {mig_field} for every slice"
        hint = f"add {mig_field} to the counters of dcgm-exporter (its ConfigMap); {field} does not exist in MIG mode"
        return host.answer.failed("profiling-field-missing", text, hint, more_subjects=host.gpus(unprofiled), **details)
    if fleet.is_silent(expected):
        return _host_missing(host, field, details)
    if fleet.lacking(expected):
        names = ", ".join(subject.name for subject in host.gpus(missing))
        text = f"{count(expected.count - observed, 'GPU')} of {expected.count} without a usable {field}" + (
            f": {names}" if names else ""
        )
        hint = (
            f"compare with nvidia-smi -L on {host.name}; look at the log of its dcgm-exporter (some releases drop idle "
            "GPUs once a claim of the DRA driver holds another one)"
        )
        return host.answer.failed("gpu-missing", text, hint, more_subjects=host.gpus(missing), **details)
    return host.answer.passed(f"metrics of {count(observed, 'GPU')} ({expected.source})", **details)


def _host_missing(host: MetricsHost, field: str, details: dict[str, Any]) -> Outcome:
    exporters = host.seen.exporters(host.expected)
    reported = "; ".join(f"target {entry.target} is {entry.health}: {entry.error}" for entry in exporters)
    text = f"no {field} of this host at all; {reported or 'Prometheus has no target there'}"
    pods = f"-l app=nvidia-dcgm-exporter --field-selector spec.nodeName={host.expected.node}"
    hint = f"kubectl get pods -A {pods}; read its log"
    return host.answer.failed("host-missing", text[:500], hint, **details)


CHECK = Check(SPEC, OBSERVER, judge)
