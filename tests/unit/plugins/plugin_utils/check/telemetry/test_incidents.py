# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public incidents of GPU metrics with a confirmed cause, replayed as evidence. Each names the thread it is from."""

from __future__ import annotations

from gpu_metrics import Metrics

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status


def _held(metrics: Metrics) -> list[Outcome]:
    return [o for o in metrics.outcomes() if o.status is not Status.PASSED and not o.blocked_by]


def test_a_service_monitor_without_the_label_that_prometheus_selects() -> None:
    """prometheus-operator/prometheus-operator#1470, NVIDIA/gpu-operator#363: no target at all."""
    metrics = Metrics()
    metrics.rows.clear()
    (found,) = _held(metrics)
    assert (found.check, found.status, found.cause) == ("gpu-metrics-scraped", Status.FAILED, "telemetry-blind")
    assert "serviceMonitorSelector" in found.hint


def test_idle_gpus_vanish_once_one_is_claimed() -> None:
    """NVIDIA/dcgm-exporter#569: of eight GPUs only the claimed one has series. The GPUs are not lost."""
    metrics = Metrics()
    for gpu in range(1, 8):
        metrics.drop("gpu02", gpu)
    (found,) = _held(metrics)
    assert (found.check, found.cause) == ("gpu-metrics-complete", "gpu-missing")
    assert "7 GPUs of 8" in found.summary and "idle GPUs" in found.hint


def test_the_xid_series_is_blank_after_an_upgrade_of_the_exporter() -> None:
    """NVIDIA/dcgm-exporter issues 646 and 700: utilisation is there, and an alert on XIDs can never fire."""
    metrics = Metrics(without_fields={"DCGM_FI_DEV_XID_ERRORS": ("gpu01", "gpu02", "gpu03")})
    (found,) = _held(metrics)
    assert (found.check, found.cause, found.rating) == ("gpu-metrics-alertable", "metric-missing", Rating.MARGINAL)
    assert "an alert on it cannot fire" in found.hint


def test_an_exporter_between_two_restarts_for_memory() -> None:
    """pytorch/ci-infra#1011: its target does not answer; gate gpu_stack names the memory limit."""
    metrics = Metrics(down={"gpu02": "connection refused"})
    metrics.drop("gpu02")
    (found,) = _held(metrics)
    assert (found.check, found.cause) == ("gpu-metrics-complete", "host-missing")
    assert "connection refused" in found.summary
