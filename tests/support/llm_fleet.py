# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports of AIPerf, servers and loads of a fleet, as gate inference_acceptance sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.analysis import parse_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import (
    Load,
    Plan,
    PlannedHost,
    Results,
    Server,
    SmokeAnswer,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    InferenceSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
GOOD_ANSWER = SmokeAnswer(
    status=200, text=" 11, 12, 13,", finish="length", prompt_tokens=20, completion_tokens=16, latency_s=0.2
)


def distribution(middle: float, unit: str, count: int, *, spread: float = 0.5) -> dict[str, Any]:
    """A metric whose percentiles rise from a part of the middle to more than it."""
    places = {f"p{p}": middle * (1 - spread / 2 + spread * p / 100) for p in PERCENTILES}
    ends = {"min": middle * (1 - spread / 2), "max": middle * (1 + spread / 2), "std": middle * spread / 4}
    return {"unit": unit, "avg": middle, **places, **ends, "count": count, "sum": middle * count}


def export(
    *,
    throughput: float = 72_000.0,
    ttft: float = 400.0,
    tpot: float = 24.0,
    requests: int = 16_384,
    errors: int = 0,
    concurrency: int = 2048,
    tokens: float = 128.0,
    mismatches: int = 0,
    seed: int = 100,
    warmup: int = 2048,
    prompt_tokens: float = 136.0,
    **changes: Any,
) -> dict[str, Any]:
    """What AIPerf 0.13 writes, the metrics that matter; `changes` replace whole entries, None removes one."""
    data: dict[str, Any] = {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_count": {"unit": "requests", "avg": float(requests)},
        "request_error_rate": {"unit": "%", "avg": 100.0 * errors / (errors + requests)},
        "output_token_throughput": {"unit": "tokens/sec", "avg": throughput},
        "request_throughput": {"unit": "requests/sec", "avg": throughput / tokens},
        "benchmark_duration": {"unit": "sec", "avg": requests * tokens / throughput},
        "time_to_first_token": distribution(ttft, "ms", requests),
        "inter_token_latency": distribution(tpot, "ms", requests, spread=0.1),
        "request_latency": distribution(ttft + 127 * tpot, "ms", requests),
        "input_sequence_length": distribution(prompt_tokens, "tokens", requests, spread=0.0),
        "output_sequence_length": distribution(tokens, "tokens", requests, spread=0.0),
        "osl_mismatch_count": {"unit": "requests", "avg": float(mismatches)},
        "was_cancelled": False,
        "is_complete": True,
        "error_summary": [],
        "run_info": {"random_seed": seed},
        "input_config": {
            "phases": [
                *([{"kind": "warmup", "requests": warmup, "concurrency": concurrency}] if warmup else []),
                {"kind": "profiling", "requests": requests + errors, "concurrency": concurrency},
            ]
        },
    }
    if errors:
        data["error_request_count"] = {"unit": "requests", "avg": float(errors)}
        details = {"code": 500, "type": "Internal Server Error", "message": "boom"}
        data["error_summary"] = [{"error_details": details, "count": errors}]
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def fleet(count: int = 4, **settings: Any) -> Plan:
    """So many DGX H100 with eight free GPUs each."""
    hosts = tuple(
        PlannedHost(name=f"gpu{n:02d}", node=f"gpu{n:02d}", sku="dgx-h100", accelerator="h100", gpus=8, gpus_of_host=8)
        for n in range(1, count + 1)
    )
    return Plan(hosts=hosts, settings=checked_settings(InferenceSettings, "inference_acceptance", settings))


def server(host: str, **changes: Any) -> Server:
    """A server that is ready and answers."""
    answers = tuple(replace(GOOD_ANSWER, engine=engine) for engine in range(8) for _time in range(2))
    good = Server(
        host=host, state="ready", ready_s=40.0, health=200, models=("Qwen/Qwen3-8B",), answers=answers,
        engines={str(engine): 2 for engine in range(8)},
    )  # fmt: skip
    return replace(good, **changes)


# What differs between the loads of a server: its export, and what was asked for.
LEGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cached": ({}, {}),
    "uncached": (
        {"throughput": 60_000.0, "requests": 8192, "seed": 101, "warmup": 0},
        {"requests": 8192, "seed": 101, "warmup": 0},
    ),
    "light": (
        {"throughput": 14_000.0, "tpot": 9.0, "requests": 1024, "concurrency": 128, "seed": 102, "warmup": 128},
        {"requests": 1024, "concurrency": 128, "seed": 102, "warmup": 128},
    ),
}


def load(host: str, attempt: int = 1, **changes: Any) -> Load:
    """A load that ended well."""
    good = Load(
        host=host, attempt=attempt, state="succeeded", exit_code=0, gpus=8, concurrency=2048, requests=16_384,
        warmup=2048, seed=100, export=f"evidence/{host}-{attempt}.json",
    )  # fmt: skip
    return replace(good, **changes)


def results(
    plan: Plan,
    exports: dict[str, dict[str, Any]] | None = None,
    servers: dict[str, dict[str, Any]] | None = None,
    loads: dict[str, dict[str, Any]] | None = None,
    *,
    runs: int = 1,
    legs: dict[str, dict[str, dict[str, Any]]] | None = None,
) -> Results:
    """Servers and loads of a plan, all well but for what is given by host; hosts under load differ a little.

    `exports` and `loads` are about the first load of a host, `legs` has changes of the exports of the others by their
    name. A host whose first load is not well has no others.
    """
    found = []
    stand = tuple(server(host.name, **(servers or {}).get(host.name, {})) for host in plan.hosts)
    for number, host in enumerate(plan.hosts):
        for attempt in range(1, runs + 1):
            for leg, (usual, asked) in LEGS.items():
                own = {"throughput": 72_000.0, **usual}
                own["throughput"] *= 1 + number / 720
                wanted = asked
                if leg == "cached":
                    own.update((exports or {}).get(host.name, {}))
                    wanted = (loads or {}).get(host.name, {})
                own.update((legs or {}).get(host.name, {}).get(leg, {}))
                made = load(host.name, attempt, **{"leg": leg, **wanted})
                measured = parse_run(made, json.dumps(export(**own)), plan.settings)
                found.append(measured)
                if measured.problem:
                    break
    return Results(plan=plan, servers=stand, runs=tuple(found))
