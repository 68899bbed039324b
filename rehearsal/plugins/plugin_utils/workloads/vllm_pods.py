# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""vLLM: the pod runs until it is removed (controllers/llm_servers.py serves its requests), or fails as vLLM does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .llm_http import serving_data
from .pod_simulator import STDERR, STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of

_CRASHES, _NO_IMAGE = "CrashLoopBackOff", "ImagePullBackOff"
_SERVES = ("ok", "engine-dead")
# Messages of programs before the process ends: vLLM (vllm/v1/worker, vllm/v1/engine), PyTorch (torch/cuda),
# transformers (utils/hub.py) and huggingface_hub (errors.py); the hub's refusal as in huggingface/transformers#21129
# and #34841.
_LAST_WORDS = {
    "memory-full": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity "
    "of 79.11 GiB of which 632.00 MiB is free.",
    "memory-taken": "ValueError: Free memory on device (8.12/79.11 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    "no-gpus": "RuntimeError: No CUDA GPUs are available",
    "crashing": "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    "model-missing": "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. Repository Not Found for url.",
    "hub-unreachable": "OSError: We couldn't connect to the model hub to load the files, and couldn't find them in the "
    "cached files.",
    "hub-refuses": "OSError: There was a specific connection error when trying to load the model:\n429 Client Error: "
    "Too Many Requests for url: /resolve/main/config.json",
}


def handles(pod: Json) -> bool:
    """Tell whether a pod runs vLLM's server."""
    return words_of(pod)[:2] == ["vllm", "serve"]


def option(words: Sequence[str], name: str, default: str) -> str:
    """Return the value of an option of a command line."""
    return words[words.index(name) + 1] if name in words[:-1] else default


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput]:
    """Return the output of each running server."""
    return {pod["metadata"]["name"]: _output(pod, context) for pod in group.running}


def _output(pod: Json, context: SimContext) -> PodOutput:
    words, node = words_of(pod), context.model.node(pod["spec"]["nodeName"])
    state = node.serving.state
    if state == "image-missing":
        return PodOutput(exit_code=None, fault=_NO_IMAGE)
    lines = [
        _info(f"vLLM API server version {serving_data()['versions']['vllm']}"),
        _info(f"non-default args: {words[2:]}"),
    ]
    if state == "kv-cache-full":
        return PodOutput(lines=(*lines, *_out_of_memory(words)), exit_code=None, fault=_CRASHES)
    if state not in _SERVES:
        return PodOutput(lines=(*lines, *_dying(state)), exit_code=None, fault=_CRASHES)
    if node.serving.hub_refusals:
        recovers_s = serving_data()["refusal_s"] * node.serving.hub_refusals
        return PodOutput(lines=(*lines, *_dying("hub-refuses")), exit_code=None, fault=_CRASHES, recovers_s=recovers_s)
    port = option(words, "--port", "8000")
    lines += [
        _info(f"Starting vLLM API server 0 on http://0.0.0.0:{port}"),
        (STDERR, "INFO:     Application startup complete."),
    ]
    return PodOutput(lines=tuple(lines), exit_code=None)


def _info(text: str) -> tuple[str, str]:
    return STDOUT, f"(APIServer pid=1) INFO 11-21 12:00:00 [api_server.py:1896] {text}"


def _out_of_memory(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    length = option(words, "--max-model-len", "40960")
    raised = (
        f"ValueError: To serve at least one request with the models's max seq len ({length}), (18.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.31 GiB). Based on the available memory, the "
        "estimated maximum model length is 704. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` "
        "when initializing the engine."
    )
    core = "(EngineCore_DP0 pid=312) ERROR 11-21 12:00:41 [core.py:708]"
    return (
        (STDERR, f"{core} EngineCore failed to start."),
        (STDERR, f"{core} Traceback (most recent call last):"),
        (STDERR, f"{core} {raised}"),
        (STDERR, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    )


def _dying(state: str) -> tuple[tuple[str, str], ...]:
    return tuple((STDERR, f"(APIServer pid=1) {line}") for line in _LAST_WORDS[state].split("\n"))


SIMULATOR = PodSimulator(name="vllm", handles=handles, simulate=simulate)
