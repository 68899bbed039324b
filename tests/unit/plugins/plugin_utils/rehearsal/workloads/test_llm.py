# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated servers of language models, and the computed export: the product reads both as it would the real ones."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import legs_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.observe_inference import (
    ask_engines,
    health_of,
    leg_options,
    load_command,
    models_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    InferenceSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.routes import UrlRoute
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.session import HttpSession
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.aiperf import AiperfExport, parse
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, PlannedNode
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import Serving
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    inference_settings,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.aiperf_pods import (
    LoadOptions,
    as_text,
    export_of,
    load_options,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.llm_http import (
    LlmServer,
    write_tokenizer,
)


def stated_by(site: dict[str, Any]) -> InferenceSettings:
    """Return the settings of the gate where a site states these."""
    return checked_settings(InferenceSettings, "inference_acceptance", site)


SETTINGS = stated_by({})
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _wanted(settings: InferenceSettings, gpus: int, leg: int = 0) -> LoadOptions:
    """What a pod of the gate asks AIPerf for in one of its loads."""
    words = [*load_command(settings, "http://vllm-1:8000"), *leg_options(legs_for(settings.load, gpus)[leg])]
    return load_options(words)


def _export(serving: Serving | None = None, name: str = "load-1-1", leg: int = 0, **settings: Any) -> AiperfExport:
    wanted = _wanted(stated_by(settings), 8, leg)
    return parse(as_text(export_of(wanted, HARDWARE["h100"].gpu_kind, 8, serving or Serving(), name, NOW)))


def test_a_healthy_host_is_within_every_bound_by_far() -> None:
    found = _export()
    assert (found.requests, found.errors, found.mismatches) == (16_384, 0, 0)
    assert found.output_tokens_per_s / 8 > 1.3 * 6250
    assert found.ttft.at(99) < 1000
    assert found.tpot.at(99) < 30
    # Closed loop: as many requests at a time, each as long as it takes.
    ideal = 2048 * 128 / (found.latency.mean / 1000)
    assert found.output_tokens_per_s == pytest.approx(ideal, rel=0.05)


def _rehearsed(sku: str, *, full: bool = False) -> tuple[AiperfExport, InferenceSettings]:
    """What a rehearsal of two such hosts measures, and the settings of its site."""
    nodes = tuple(PlannedNode(name=name, sku=sku, rack="a") for name in ("gpu01", "gpu02"))
    model = healthy_cluster(ModelSpec(name="rehearsal", seed=1, nodes=nodes), HARDWARE)
    settings, gpus = stated_by(inference_settings(model, full=full)), len(model.nodes[0].gpus)
    wanted = _wanted(settings, gpus)
    export = export_of(wanted, model.nodes[0].accelerator, gpus, Serving(), "load-1-1", NOW)
    return parse(as_text(export)), settings


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("sku", sorted({kind.accelerator: name for name, kind in HARDWARE.items()}.values()))
def test_every_kind_of_host_rehearses_well(sku: str, full: bool) -> None:
    found, settings = _rehearsed(sku, full=full)
    slo, _source = settings.slo_of(HARDWARE[sku].accelerator)
    assert found.output_tokens_per_s / HARDWARE[sku].gpus > slo.throughput_per_gpu > 0
    assert 0 < found.ttft.at(99) < slo.ttft_ms
    assert 0 < found.tpot.at(99) < (slo.tpot_ms or settings.judge.tpot_tail * found.tpot.at(50))


def test_the_same_run_says_the_same_and_another_differs_a_little() -> None:
    assert _export() == _export()
    other = _export(name="load-1-2").output_tokens_per_s
    assert other != _export().output_tokens_per_s
    assert other == pytest.approx(_export().output_tokens_per_s, rel=0.03)


@pytest.mark.parametrize(
    ("serving", "field"),
    [
        (Serving(fail_every=16), "errors"),
        (Serving(short_every=4), "mismatches"),
    ],
)
def test_faults_that_are_counted(serving: Serving, field: str) -> None:
    assert getattr(_export(serving), field) > 100


def test_faults_that_take_time() -> None:
    assert _export(Serving(stall_ms=2600.0)).ttft.at(99) > 2600
    assert _export(Serving(slow_copy_ms=45.0)).tpot.at(99) > 60
    assert _export(Serving(slow_copy_ms=45.0)).tpot.at(50) < 30
    assert _export(Serving(rate=0.5)).output_tokens_per_s < 0.55 * _export().output_tokens_per_s


def test_a_warm_up_takes_the_cold_requests() -> None:
    cold = Serving(cold_ms=30_000.0)
    assert _export(cold).ttft.most < 30_000
    assert _export(cold, warmup_per_concurrency=0.0).ttft.most > 30_000


@contextmanager
def _serving(serving: Serving, name: str = "Qwen/Qwen3-8B") -> Iterator[int]:
    server = LlmServer(name=name, accelerator=HARDWARE["h100"].gpu_kind, copies=8, serving=serving)
    ports: Queue[int] = Queue()
    loops: Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def serve() -> None:
        end = asyncio.Event()
        loops.put((asyncio.get_running_loop(), end))
        socket = await asyncio.start_server(server.connected, "127.0.0.1", 0)
        ports.put(int(socket.sockets[0].getsockname()[1]))
        await end.wait()
        socket.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield ports.get(timeout=10)
    finally:
        loop, end = loops.get(timeout=10)
        loop.call_soon_threadsafe(end.set)
        thread.join(10)


def _route(port: int) -> UrlRoute:
    return UrlRoute(f"http://127.0.0.1:{port}")


def test_a_good_server_is_asked() -> None:
    with _serving(Serving()) as port:
        session = HttpSession(_route(port))
        assert health_of(session) == 200
        assert models_of(session) == ("Qwen/Qwen3-8B",)
        asked = ask_engines(_route(port), SETTINGS, 8)
    assert {answer.text for answer in asked.answers} == {" 11, 12, 13, 14, 15, 16, 17, 18,"}
    assert asked.engines == {str(engine): 2 for engine in range(8)}
    first = asked.answers[0]
    assert (first.status, first.completion_tokens, first.finish, first.problem) == (200, 16, "length", "")


def test_bad_servers_are_asked() -> None:
    with _serving(Serving(state="engine-dead")) as port:
        assert health_of(HttpSession(_route(port))) == 503
        dead = ask_engines(_route(port), SETTINGS, 8).answers
        assert {(answer.status, "EngineCore" in answer.problem) for answer in dead} == {(500, True)}
    with _serving(Serving(model="other")) as port:
        assert models_of(HttpSession(_route(port))) == ("other",)
    with _serving(Serving(answer="empty")) as port:
        assert ask_engines(_route(port), SETTINGS, 8).answers[0].text == ""
    (none,) = ask_engines(_route(9), SETTINGS, 1).answers
    assert none.status == 0
    assert "no answer" in none.problem


def test_one_engine_can_be_odd_mute_or_unsteady() -> None:
    with _serving(Serving(answer="gibberish", odd_engine=5)) as port:
        odd = [answer.engine for answer in ask_engines(_route(port), SETTINGS, 8).answers if "!" in answer.text]
        assert set(odd) == {5}
    with _serving(Serving(mute_engine=3)) as port:
        assert ask_engines(_route(port), SETTINGS, 8).engines["3"] == 0
    with _serving(Serving(answer="unsteady", odd_engine=2)) as port:
        found = ask_engines(_route(port), SETTINGS, 8).answers
        assert len({answer.text for answer in found if answer.engine == 2}) == 2
        assert len({answer.text for answer in found if answer.engine != 2}) == 1
    with _serving(Serving(answer="malformed")) as port:
        assert "not a completion" in ask_engines(_route(port), SETTINGS, 8).answers[0].problem


def test_prompts_that_are_not_in_the_cache_take_longer() -> None:
    cached, uncached, light = (_export(leg=leg) for leg in range(3))
    assert uncached.output_tokens_per_s < 0.9 * cached.output_tokens_per_s
    assert light.tpot.at(50) < 0.5 * cached.tpot.at(50)
    slow = Serving(prefill=0.7)
    assert _export(slow).output_tokens_per_s == cached.output_tokens_per_s
    assert _export(slow, leg=1).output_tokens_per_s < 0.75 * uncached.output_tokens_per_s


def _streamed(port: int, tokens: int) -> tuple[list[dict[str, Any]], str]:
    client = HTTPConnection("127.0.0.1", port, timeout=20)
    body = {
        "model": "Qwen/Qwen3-8B", "messages": [{"role": "user", "content": "x"}], "stream": True,
        "max_completion_tokens": tokens, "stream_options": {"include_usage": True},
    }  # fmt: skip
    client.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(event) for event in events[:-1]], events[-1]


def test_a_server_streams_token_by_token() -> None:
    with _serving(Serving()) as port:
        events, last = _streamed(port, 4)
    assert last == "[DONE]"
    assert len([event for event in events if event["choices"] and event["choices"][0]["delta"]]) == 4
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["usage"]["completion_tokens"] == 4


def test_a_short_answer_says_so_itself() -> None:
    with _serving(Serving(short_every=1)) as port:
        events, _last = _streamed(port, 8)
    assert events[-1]["usage"]["completion_tokens"] == 4
    assert events[-2]["choices"][0]["finish_reason"] == "stop"


def test_the_tokenizer_knows_every_byte_once(tmp_path: Path) -> None:
    document = json.loads((write_tokenizer(tmp_path) / "tokenizer.json").read_text())
    vocabulary = document["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(257))
