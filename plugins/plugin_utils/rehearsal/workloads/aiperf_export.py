# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The export of AIPerf, computed: a closed loop of concurrent requests against the server of serving.py."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from math import dist
from typing import Any

from ...hardware.accelerator import Accelerator
from ..model.values import Serving
from .serving import Completion, completion, pace, serving_data

Json = dict[str, Any]
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The load that the command line of AIPerf asks for."""

    model: str
    url: str
    endpoint: str
    tokenizer: str
    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int
    warmup: int
    entries: int
    seed: int


@dataclass(frozen=True, slots=True)
class _LoadResult:
    """The result of a load: completions of the warm-up and of the load, and its duration."""

    warmup: tuple[Completion, ...]
    answers: tuple[Completion, ...]
    duration_ms: float


@lru_cache(maxsize=64)
def _load_result(
    accelerator: Accelerator, copies: int, serving: Serving, concurrency: int, counts: tuple[int, int, int, int]
) -> _LoadResult:
    warmup, requests, tokens, entries = counts
    # A prompt that was asked before is in the cache.
    how = pace(accelerator, concurrency / copies, serving, cached=entries < requests)
    answers = [completion(number, copies, tokens, how, serving) for number in range(warmup + requests)]
    # The warm-up ends before the load begins. During the load a free slot takes the next request at once.
    places = [0.0] * min(concurrency, requests)
    for found in answers[warmup:]:
        heapq.heapreplace(places, places[0] + found.latency_ms)
    return _LoadResult(tuple(answers[:warmup]), tuple(answers[warmup:]), max(places))


def export_of(
    load: LoadOptions, accelerator: Accelerator, copies: int, serving: Serving, name: str, now: datetime
) -> Json:
    """Return the export.

    Args:
        load: the load.
        accelerator: kind of the server's GPUs.
        copies: copies of the model that share the requests.
        serving: the server in the model.
        name: seeds the noise: a run that is repeated under another name differs a little.
        now: end of the load.
    """
    counts = (load.warmup, load.requests, load.output_tokens, load.entries)
    result = _load_result(accelerator, copies, serving, load.concurrency, counts)
    noise = 1.0 + random.Random(name).gauss(0.0, serving_data()["noise"])
    good = [found for found in result.answers if not found.failed]
    duration_s = result.duration_ms * noise / 1000
    failed = len(result.answers) - len(good)
    data: Json = {
        "schema_version": serving_data()["versions"]["schema"],
        "aiperf_version": serving_data()["versions"]["aiperf"],
        "benchmark_id": f"{random.Random(name).getrandbits(48):012x}",
        **_metrics(load, good, failed, duration_s, noise),
        "input_config": _config(load),
        "run_info": {"random_seed": load.seed, "trial": 0, "cli_command": f"aiperf profile --model '{load.model}'"},
        "was_cancelled": False,
        "is_complete": True,
        "error_summary": _errors(failed),
        "start_time": (now - timedelta(seconds=duration_s)).replace(tzinfo=None).isoformat(),
        "end_time": now.replace(tzinfo=None).isoformat(),
    }
    if result.warmup:
        before = [found.ttft_ms * noise for found in result.warmup]
        data["warmup_metrics"] = {"time_to_first_token": _distribution(before, "ms")}
    return data


def as_text(export: Json) -> str:
    """Return an export as AIPerf writes it."""
    return json.dumps(export, indent=2)


def _metrics(load: LoadOptions, good: Sequence[Completion], failed: int, duration_s: float, noise: float) -> Json:
    tokens = [float(found.tokens) for found in good]
    total, inputs = sum(tokens), float(load.input_tokens)
    tpots = [found.tpot_ms * noise for found in good]
    short = sum(found.tokens != load.output_tokens for found in good)
    figures = {
        "request_throughput": ("requests/sec", len(good) / duration_s),
        "request_count": ("requests", float(len(good))),
        "completed_request_count": ("requests", float(len(good) + failed)),
        "output_token_throughput": ("tokens/sec", total / duration_s),
        "total_token_throughput": ("tokens/sec", (total + inputs * len(good)) / duration_s),
        "total_output_tokens": ("tokens", total),
        "total_osl": ("tokens", total),
        "total_isl": ("tokens", inputs * len(good)),
        "benchmark_duration": ("sec", duration_s),
        "osl_mismatch_count": ("requests", float(short)),
        "request_error_rate": ("%", 100.0 * failed / (len(good) + failed)),
        "effective_concurrency": ("requests", float(load.concurrency)),
    }
    if failed:
        figures["error_request_count"] = ("requests", float(failed))
    distributions = {
        "time_to_first_token": ([found.ttft_ms * noise for found in good], "ms"),
        "time_to_second_token": (tpots, "ms"),
        "inter_token_latency": (tpots, "ms"),
        "request_latency": ([found.latency_ms * noise for found in good], "ms"),
        "output_sequence_length": (tokens, "tokens"),
        "output_token_count": (tokens, "tokens"),
        "input_sequence_length": ([inputs] * len(good), "tokens"),
    }
    return {
        **{key: {"unit": unit, "avg": value} for key, (unit, value) in figures.items()},
        **{key: _distribution(values, unit) for key, (values, unit) in distributions.items()},
    }


def _distribution(values: Sequence[float], unit: str) -> Json:
    ordered, total = sorted(values), sum(values)
    mean = total / len(ordered)
    spread = dist(ordered, [mean] * len(ordered)) / len(ordered) ** 0.5
    places = {f"p{p}": _percentile(ordered, p) for p in _PERCENTILES}
    ends = {"min": ordered[0], "max": ordered[-1], "std": spread, "count": len(ordered), "sum": total}
    return {"unit": unit, "avg": mean, **places, **ends}


def _percentile(ordered: Sequence[float], percent: int) -> float:
    place = percent / 100 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _errors(failed: int) -> list[Json]:
    if not failed:
        return []
    message = json.dumps({"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError"}})
    return [{"error_details": {"code": 500, "type": "Internal Server Error", "message": message}, "count": failed}]


def _config(load: LoadOptions) -> Json:
    plain = asdict(load)
    phases: list[Json] = [
        {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": load.requests,
         "concurrency": load.concurrency},
    ]  # fmt: skip
    if load.warmup:
        before = {"exclude_from_results": True, "requests": load.warmup, "concurrency": load.concurrency}
        phases.insert(0, {"name": "warmup", "kind": "warmup", "type": "concurrency", **before})
    return {
        "models": {"items": [{"name": plain["model"]}]},
        "endpoint": {
            "urls": [plain["url"]], "type": plain["endpoint"], "streaming": True,
            "extra": {"ignore_eos": True, "temperature": 0},
        },
        "phases": phases,
        "tokenizer": {"name": plain["tokenizer"]},
    }  # fmt: skip
