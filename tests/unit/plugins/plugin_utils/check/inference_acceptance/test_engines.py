# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every engine of a server answers, by the server's own count; one that answers otherwise is named."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from gate8 import bad, judged
from llm_fleet import GOOD_ANSWER, fleet, results, server

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.observe_inference import (
    ask_engines,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    InferenceSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.model import Answer, Request
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline

SMOKE = "inference-smoke"


class Vllm:
    """A server with some engines, as the routes see it: `heeds` the header, some engines `mute`, one answers `odd`."""

    text = "a server"

    def __init__(self, *, heeds: bool = True, mute: tuple[int, ...] = (), odd: int = -1, metrics: bool = True) -> None:
        self.heeds, self.mute, self.odd, self.metrics = heeds, mute, odd, metrics
        self.finished = dict.fromkeys(range(8), 5)
        self.asked = 0
        self.lock = threading.Lock()

    def send(self, request: Request, _deadline: Deadline) -> Answer:
        if request.path == "/metrics":
            lines = [
                f'vllm:request_success_total{{engine="{engine}",finished_reason="{why}",model_name="m"}} {count}.0'
                for engine, count in self.finished.items()
                for why, count in (("length", count), ("stop", 0))
            ]
            return Answer(200, "\n".join(lines if self.metrics else ["# nothing"]).encode())
        with self.lock:
            named = request.headers.get("X-data-parallel-rank") if self.heeds else None
            engine = int(named) if named is not None else self.asked % 8
            self.asked += 1
            engine = engine if engine not in self.mute else 0
            self.finished[engine] += 1
        text = "!!!!" if engine == self.odd else " 11, 12, 13,"
        usage = {"prompt_tokens": 20, "completion_tokens": 16}
        return Answer(
            200, json.dumps({"choices": [{"text": text, "finish_reason": "length"}], "usage": usage}).encode()
        )


def _settings(**stated: Any) -> InferenceSettings:
    return checked_settings(InferenceSettings, "inference_acceptance", stated)


@pytest.mark.parametrize("heeds", [True, False])
def test_every_engine_is_asked_whether_the_server_heeds_the_header_or_not(heeds: bool) -> None:
    asked = ask_engines(Vllm(heeds=heeds), _settings(), 8)
    assert {answer.engine for answer in asked.answers} == set(range(8))
    assert len(asked.answers) >= 16
    assert asked.engines.keys() == {str(engine) for engine in range(8)}
    assert min(asked.engines.values()) >= 1
    found = results(fleet(), servers={"gpu02": {"answers": asked.answers, "engines": asked.engines}})
    assert bad(judged(found)) == set()


def test_an_engine_that_never_answers_is_no_pass() -> None:
    asked = ask_engines(Vllm(mute=(5,)), _settings(), 8)
    found = judged(results(fleet(), servers={"gpu02": {"answers": asked.answers, "engines": asked.engines}}))
    assert bad(found) == {(SMOKE, "engines-unasked", "other", "gpu02")}
    outcome = next(o for o in found if o.cause == "engines-unasked")
    assert "7 of 8 engines answered; no answer came from engine 5" in outcome.summary


def test_the_engine_that_answers_wrongly_is_named_with_its_gpu() -> None:
    asked = ask_engines(Vllm(odd=5), _settings(), 8)
    found = judged(results(fleet(), servers={"gpu02": {"answers": asked.answers, "engines": asked.engines}}))
    assert bad(found) == {(SMOKE, "smoke-wrong-answer", "failed", "gpu02")}
    assert "engine 5 (GPU 5)" in next(o for o in found if o.check == SMOKE and o.cause).summary


def test_without_the_servers_own_count_it_is_not_known_who_answered() -> None:
    asked = ask_engines(Vllm(metrics=False), _settings(), 8)
    assert "request_success" in asked.uncounted
    changes = {"answers": asked.answers, "engines": asked.engines, "uncounted": asked.uncounted}
    assert bad(judged(results(fleet(), servers={"gpu02": changes}))) == {(SMOKE, "engines-unasked", "other", "gpu02")}


def test_two_answers_of_eight_engines_are_no_pass() -> None:
    """A server asked twice, as runs of earlier releases did, leaves up to six GPUs without an answer."""
    found = results(fleet(), servers={"gpu02": {"answers": (GOOD_ANSWER,) * 2, "engines": {}}})
    assert bad(judged(found)) == {(SMOKE, "engines-unasked", "other", "gpu02")}


def test_one_engine_needs_no_count() -> None:
    asked = ask_engines(Vllm(metrics=False), _settings(), 1)
    assert (len(asked.answers), asked.uncounted) == (2, "")
    plan = fleet(4, tensor_parallel=8)
    servers = {host.name: {"answers": asked.answers, "engines": {}} for host in plan.hosts}
    assert bad(judged(results(plan, servers=servers))) == set()


def test_an_engine_that_differs_from_its_equals_waits_for_a_person() -> None:
    good = server("gpu02").answers
    odd = tuple(replace(a, text=" 11, 12, 14,") if a.engine == 3 else a for a in good)
    found = judged(results(fleet(), servers={"gpu02": {"answers": odd}}))
    assert bad(found) == {(SMOKE, "smoke-differs", "other", "gpu02")}
    assert "engine 3 (GPU 3)" in next(o for o in found if o.cause == "smoke-differs").summary


def test_an_engine_whose_answers_are_missing_is_no_pass() -> None:
    kept = tuple(answer for answer in server("gpu02").answers if answer.engine < 4)
    found = judged(results(fleet(), servers={"gpu02": {"answers": kept}}))
    assert bad(found) == {(SMOKE, "engines-unasked", "other", "gpu02")}
    assert "engine 4, 5, 6, 7 was not asked 2 times" in next(o for o in found if o.cause == "engines-unasked").summary
