# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public incidents with a confirmed cause, rebuilt from what their threads say: what gate inference_acceptance makes of
them. Each names its thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gate8 import bad, judged
from llm_fleet import GOOD_ANSWER, fleet, results, server

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.analysis import to_load_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import Plan, Results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

READY, SMOKE = "inference-endpoint-ready", "inference-smoke"


def _without_loads(found: Results, *hosts: str) -> Results:
    return replace(found, runs=tuple(m for m in found.runs if m.load.host not in hosts))


def _dead(plan: Plan, log: str, state: str = "failed") -> dict[str, Any]:
    """A server as the observer notes it that ended so with this log."""
    error = plan.settings.understand(log)
    known = {} if error is None else {"cause": error.cause, "hint": error.hint, "blames_host": error.blames_host}
    return {"state": state, "answers": (), "engines": {}, "models": (), "health": 0, **known}


def test_tensor_parallel_8_for_a_model_of_one_gpu_is_the_arguments_of_all_and_no_host() -> None:
    """vllm-project/vllm#6131: eight A100, Llama 3 8B, GPUs under 50 % busy."""
    plan = fleet(4, tensor_parallel=8)
    answers = (GOOD_ANSWER,) * 2
    found = results(
        plan,
        servers={host.name: {"answers": answers, "engines": {}} for host in plan.hosts},
        exports={host.name: {"throughput": 8 * 2400.0 + n} for n, host in enumerate(plan.hosts)},
    )
    outcomes = [o for o in judged(found) if o.check == "inference-throughput"]
    assert {o.cause for o in outcomes} == {"throughput-low"}
    assert all("every host of SKU dgx-h100" in o.hint and "tensor_parallel 8" in o.hint for o in outcomes)


def test_prompts_longer_than_asked_for_are_another_tokenizer_and_no_slow_host() -> None:
    """vllm-project/vllm#44708: the server counts more input tokens than the client sent."""
    long = {"prompt_tokens": 310.0, "ttft": 2400.0}
    found = judged(results(fleet(), exports={host.name: long for host in fleet().hosts}))
    assert {entry[:3] for entry in bad(found)} == {("inference-errors", "tokenizer-mismatch", "other")}


def test_a_chat_template_around_the_prompt_is_no_other_tokenizer() -> None:
    found = judged(results(fleet(), exports={host.name: {"prompt_tokens": 165.0} for host in fleet().hosts}))
    assert bad(found) == set()


def test_a_hub_that_refuses_many_pods_is_no_crash_of_a_host() -> None:
    """huggingface/transformers#34841, huggingface/Google-Cloud-Containers#145."""
    log = (
        "File .../requests/models.py, line 1024, in raise_for_status\n"
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for URL: .../resolve/main/config.json\n"
        "OSError: We couldn't connect to the hub to load the files\n"
    )
    plan = fleet()
    for state in ("failed", "timeout"):
        found = _without_loads(results(plan, servers={"gpu03": _dead(plan, log, state)}), "gpu03")
        assert bad(judged(found)) == {(READY, "model-hub-rate-limited", "other", "gpu03")}


def test_a_load_that_the_hub_let_wait_is_made_again_and_its_first_try_forgotten() -> None:
    plan = fleet()
    limited = {
        "state": "failed",
        "exit_code": 1,
        "reason": "exit code 1: HTTPError: 429 Client Error: Too Many Requests",
    }
    found = results(plan, loads={"gpu02": limited})
    assert to_load_again(found) == ("gpu02",)
    assert bad(judged(found)) == {("inference-errors", "model-hub-rate-limited", "other", "gpu02")}
    again = results(plan)
    second = tuple(replace(m, load=replace(m.load, attempt=2)) for m in again.runs if m.load.host == "gpu02")
    assert bad(judged(replace(found, runs=found.runs + second))) == set()


def test_the_same_exclamation_marks_on_every_host_are_the_model_and_no_gpu() -> None:
    """vllm-project/vllm#14126: overflow in half precision, every prompt, every host."""
    marks = tuple(replace(answer, text="!!!!!!!!!!!!!!!!!!!!") for answer in server("x").answers)
    found = judged(results(fleet(), servers={host.name: {"answers": marks} for host in fleet().hosts}))
    assert {entry[:3] for entry in bad(found)} == {(SMOKE, "model-numerics", "other")}
    assert not any(o.status is Status.FAILED for o in found)
    alone = judged(results(fleet(), servers={"gpu02": {"answers": marks}}))
    assert bad(alone) == {(SMOKE, "smoke-wrong-answer", "failed", "gpu02")}


def test_a_server_that_hangs_after_nccl_began_is_not_known() -> None:
    """vllm-project/vllm#33041: IOMMU and ACS between two PCIe GPUs; it writes nothing more."""
    plan = fleet()
    log = "INFO NCCL version 2.27.3+cuda12.9\nINFO [pynccl.py:70] vLLM is using nccl==2.27.3\n"
    found = _without_loads(results(plan, servers={"gpu01": _dead(plan, log, "timeout")}), "gpu01")
    assert bad(judged(found)) == {(READY, "not-ready-in-time", "other", "gpu01")}


def test_a_context_longer_than_the_cache_is_named() -> None:
    """vllm-project/vllm#2418."""
    log = (
        "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in "
        "KV cache (3664). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
    )
    plan = fleet()
    found = _without_loads(results(plan, servers={"gpu01": _dead(plan, log)}), "gpu01")
    assert bad(judged(found)) == {(READY, "kv-cache-out-of-memory", "failed", "gpu01")}


def test_one_copy_that_computes_wrong_is_named() -> None:
    """What a GPU computes wrong shows in the answer of its engine, and in no other's."""
    odd = tuple(replace(a, text=" 12 11 1 1 1") if a.engine == 6 else a for a in server("x").answers)
    found = judged(results(fleet(), servers={"gpu04": {"answers": odd}}))
    assert bad(found) == {(SMOKE, "smoke-differs", "other", "gpu04")}
    wrong = tuple(replace(a, text=" 7 7 7 7") if a.engine == 6 else a for a in server("x").answers)
    found = judged(results(fleet(), servers={"gpu04": {"answers": wrong}}))
    assert bad(found) == {(SMOKE, "smoke-wrong-answer", "failed", "gpu04")}


def test_an_image_that_is_too_old_says_nothing_about_the_host() -> None:
    """All hosts were given it; that it is no question of weights is said, too."""
    plan = fleet(2)
    log = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    found = _without_loads(results(plan, servers={"gpu02": _dead(plan, log)}), "gpu02")
    (outcome,) = [o for o in judged(found) if o.check == READY and o.status is not Status.PASSED]
    assert (outcome.status, outcome.cause) == (Status.OTHER, "image-without-gpu-code")
    assert "vLLM died" in outcome.summary and "weights" not in outcome.summary
