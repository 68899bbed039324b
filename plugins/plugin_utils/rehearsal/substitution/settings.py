# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings with which the gates run on simulated hardware: short time limits, and bounds for what really runs here."""

from __future__ import annotations

from typing import Any

from ..model.values import ClusterModel
from ..workloads.performance import performance
from ..workloads.serving import serving_data

# Seconds between the two readings of link counters: the simulated ones grow fast.
COUNTER_INTERVAL_S = 2
# Nothing restarts by itself here, so a short window shows as much as a long one.
GPU_STACK = {"stays_ready_s": 1.0}
STORAGE = "storage-integrity"
AT_ONCE = ("parallel", "downloads")
# With more nodes than that the turns of the hosts would be most of gate inference_acceptance.
_MANY, _SERVING = 16, 64
# Long enough for some rounds.
BURN_IN = {"hours": 20 / 3600}
# A small cluster on one machine delays no alert.
TELEMETRY = {"settle_s": 20.0, "load_s": 10.0, "fire_s": 10.0, "arrive_s": 15.0, "rule_interval_s": 1}


def nccl_settings(nodes: int) -> dict[str, Any]:
    """Return the settings of gate fabric_validation: a run takes seconds here, so one that hangs is given up soon."""
    return {"timeout_s": 60.0 + 0.1 * nodes, "schedule_s": 30.0}


def dl_unit_settings(nodes: int) -> dict[str, Any]:
    """Return the settings of the DL unit test: it takes seconds here."""
    return {"timeout_s": 60.0 + 0.1 * nodes, "pull_s": 120.0}


def training_settings(nodes: int, *, full: bool) -> dict[str, Any]:
    """Return the settings of gate training_acceptance: short waits and, where the program really trains, a model that
    a CPU can train. How fast that is depends on what else this machine does, so times hardly count then."""
    waits: dict[str, Any] = {"timeout_s": 60.0 + 0.1 * nodes, "schedule_s": 20.0, "total_s": 600.0 + nodes}
    if not full:
        return waits
    shape = {"layers": 2, "hidden": 128, "heads": 4, "sequence": 64, "batch": 4, "vocabulary": 128}
    model = {
        "device": "cpu",
        "dtype": "float32",
        "steps": 50,
        # One window after the first steps: each second takes every core.
        "load_s": 12.0,
        "shape": {**shape, "learning_rate": 0.001},
    }
    # A core has about this peak; many ranks share one.
    times = {"peak_tflops": 0.05, "mfu": 0.0001, "step_time_cv": 9.0, "step_time_cv_bad": 9.0, "growth": 9.0}
    peers = {"peer_marginal": 0.7, "peer_bad": 0.8, "repeats": 1, "start_s": 120.0, "data_factor": 100.0}
    return {**waits, "timeout_s": 300.0 + 60.0 * nodes, "total_s": 3600.0, "stuck_s": 120.0, **model, **times, **peers}


def storage_settings(nodes: int) -> dict[str, Any]:
    """Return the settings of check storage-integrity: a little of the simulated volume at once for all hosts, and what
    a site would know of its storage: a third of what performance.yaml says, and three times as late."""
    floor = {name: round(speed.mib_s / 3, 1) for name, speed in performance().storage.items()}
    late = {name: round(speed.p99_ms * 3, 3) for name, speed in performance().storage.items()}
    return {
        "volume": {"hostPath": {"path": "/mnt/shared"}}, "claim": {}, "size_mib": 1, "threads": 2, "seconds": 0.05,
        "rate_mib_s": 0, "parallel": nodes, "timeout_s": 60.0 + 0.1 * nodes, "schedule_s": 30.0, "pull_s": 120.0,
        "floor_mib_s": floor, "p99_ms": late,
    }  # fmt: skip


def at_once(nodes: int) -> dict[str, int]:
    """Return how many hosts of a large fleet serve, and fetch weights, at a time: there is no hub to be spared, and a
    simulated server is there in a second, where a real one takes minutes and the turn of the next costs nothing."""
    return {} if nodes <= _MANY else {"parallel": max(_SERVING, nodes), "downloads": nodes // 4}


def inference_settings(model: ClusterModel, *, full: bool) -> dict[str, Any]:
    """Return the settings of gate inference_acceptance: short waits, bounds for GPUs that have none of their own, and,
    where a real AIPerf makes the load, a small one with bounds for it: this machine is no GPU server."""
    nodes, data = len(model.nodes), serving_data()
    waits: dict[str, Any] = {"ready_s": 60.0 + 0.1 * nodes, "schedule_s": 30.0, "timeout_s": 60.0 + 0.1 * nodes}
    waits |= at_once(nodes)
    if full:
        # The host of the real one has computed ones as peers, which no real one reaches.
        load = {
            "concurrency_per_gpu": 1, "output_tokens": 16, "least_requests": 32, "requests_per_concurrency": 4,
            "uncached_per_concurrency": 2, "light_per_gpu": 0,
        }  # fmt: skip
        judged = {"dataset_entries": 16, "repeats": 1, "peer_tolerance": 0.95, "slo": data["slo"]["full"]}
        return {**waits, "timeout_s": 300.0, **load, **judged}
    known = all(node.accelerator.name in data["published"] for node in model.nodes)
    return waits if known else {**waits, "slo": data["slo"]["default"]}
