# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""AIPerf: its export is computed. With FULL the pod's own command runs AIPerf against the server on loopback."""

from __future__ import annotations

import hashlib
import heapq
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from math import dist
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator

from ..model.values import Node, Serving
from .llm_http import Completion, completion, pace, serving_data, write_tokenizer
from .pod_simulator import (
    STDERR,
    STDOUT,
    Json,
    PodGroup,
    PodOutput,
    PodSimulator,
    RealProcess,
    SimContext,
    env_of,
    words_of,
)
from .vllm_pods import option

# The computed export of AIPerf: a closed loop of concurrent requests against the server of llm_http.py.

_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The load in AIPerf's command line."""

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
    """Result of a load: completions of the warm-up and of the load, and its duration."""

    warmup: tuple[Completion, ...]
    answers: tuple[Completion, ...]
    duration_ms: float


@lru_cache(maxsize=64)
def _load_result(
    accelerator: Accelerator, copies: int, serving: Serving, concurrency: int, counts: tuple[int, int, int, int]
) -> _LoadResult:
    warmup, requests, tokens, entries = counts
    # A repeated prompt is in the cache.
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
        accelerator: GPU model of the server.
        copies: copies of the model that share the requests.
        serving: the server in the model.
        name: seeds the noise, so that a run repeated under another name differs a little.
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


_CRASHED = 1
_SET = "inference"


def handles(pod: Json) -> bool:
    words = words_of(pod)
    return "aiperf" in words and "profile" in words


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output of the only pod once it runs."""
    if not group.running:
        return None
    pod = group.running[0]
    words, node = words_of(pod), context.model.node(pod["spec"]["nodeName"])
    address = _address(words, pod)
    if address not in context.ports:
        text = f"aiperf: error: cannot connect to {option(words, '--url', '')}"
        return {
            pod["metadata"]["name"]: PodOutput(
                lines=((STDERR, text),), exit_code=_CRASHED, run_s=serving_data()["run_s"]
            )
        }
    if context.full is not None and node.name in _real_hosts(context):
        return {pod["metadata"]["name"]: _real(pod, words, context, context.ports[address])}
    return {pod["metadata"]["name"]: _computed(group.name, pod, words, node, context)}


def _address(words: list[str], pod: Json) -> tuple[str, str]:
    host = option(words, "--url", "").partition("//")[2].partition(":")[0]
    return pod["metadata"]["namespace"], host


def _real_hosts(context: SimContext) -> list[str]:
    """Return the hosts on which AIPerf really runs, faulty ones first. This machine cannot run it for all of them."""
    ordered = sorted(context.model.nodes, key=lambda node: (node.serving == Serving(), node.name))
    return [node.name for node in ordered[: serving_data()["full_hosts"]]]


def _computed(name: str, pod: Json, words: list[str], node: Node, context: SimContext) -> PodOutput:
    run_s, how = serving_data()["run_s"], node.serving
    start = ((STDOUT, "INFO     AIPerf System is CONFIGURING"), (STDOUT, "INFO     AIPerf System is PROFILING"))
    if how.benchmark == "hangs":
        return PodOutput(lines=start, exit_code=None)
    if how.benchmark == "crashes":
        reported = "aiperf.common.exceptions.InitializationError: Failed to configure all services"
        return PodOutput(
            lines=(*start, (STDERR, "Traceback (most recent call last):"), (STDERR, reported)),
            exit_code=_CRASHED,
            run_s=run_s,
        )
    env, shown = env_of(pod), list(start)
    for leg in env.get("LEGS", "").split():
        load = load_options([*words, *env[f"LEG_{leg}"].split()])
        text = as_text(export_of(load, node.accelerator, _copies(context, node), how, f"{name}-{leg}", context.now))
        # Only the very first requests are cold.
        how = replace(how, cold_ms=0.0)
        mark, digest = f"{env.get('MARK', '')}-{leg}", hashlib.sha256(text.encode()).hexdigest()
        ended = [f"{mark} end", "", f"{mark} exit 0"]
        printed = [f"{mark} begin {len(text.encode())} {digest}", *text.split("\n"), *ended]
        if how.benchmark == "truncated":
            printed = printed[: len(printed) * 2 // 3]
        shown += [(STDOUT, line) for line in ("JSON Export: profile_export_aiperf.json", "", *printed)]
        if how.benchmark == "truncated":
            break
    return PodOutput(lines=tuple(shown), exit_code=0, run_s=run_s)


def _copies(context: SimContext, node: Node) -> int:
    return max(1, len(node.working_gpus))


def load_options(words: list[str]) -> LoadOptions:
    """Return the load in a command line of AIPerf."""
    return LoadOptions(
        model=option(words, "--model", ""),
        url=option(words, "--url", ""),
        endpoint=option(words, "--endpoint-type", "chat"),
        tokenizer=option(words, "--tokenizer", ""),
        input_tokens=int(option(words, "--synthetic-input-tokens-mean", "550")),
        output_tokens=int(option(words, "--output-tokens-mean", "128")),
        concurrency=int(option(words, "--concurrency", "1")),
        requests=int(option(words, "--request-count", "10")),
        warmup=int(option(words, "--warmup-request-count", "0")),
        entries=int(option(words, "--num-dataset-entries", "100")),
        seed=int(option(words, "--random-seed", "0")),
    )


def _real(pod: Json, words: list[str], context: SimContext, port: int) -> PodOutput:
    """Return the pod's own command with the program, address and tokenizer of this machine."""
    place = Path(context.directory) / "aiperf" / pod["metadata"]["name"]
    tokenizer = write_tokenizer(Path(context.directory) / "aiperf" / "tokenizer")
    here = {option(words, "--url", ""): f"http://127.0.0.1:{port}", "aiperf": context.program(_SET, "aiperf")}
    argv = [here.get(word, word) for word in words]
    argv[argv.index("--tokenizer") + 1] = str(tokenizer)
    # Not HF_HUB_OFFLINE: with it AIPerf takes the path of a tokenizer for a name of the hub. Not TMPDIR either: it has
    # AIPerf's sockets, and the path of a socket has to be short.
    env = {
        **env_of(pod), "PACKAGE": "", "ARTIFACTS": str(place / "artifacts"), "HF_HOME": str(place / "hub"),
        # Compiled modules stay with the set, so that another checkout of this user has them.
        "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": "",
        # Otherwise a directory of each load stays in /tmp, which in a pod is the pod's own (ai-dynamo/aiperf,
        # common/environment.py).
        "AIPERF_DATASET_MMAP_BASE_PATH": str(place),
    }  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    return PodOutput(process=RealProcess(argv=tuple(argv), env=env, cwd=str(place)))


SIMULATOR = PodSimulator(name="aiperf", handles=handles, simulate=simulate)
