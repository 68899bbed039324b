# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of gate inference_acceptance, and the commands that follow from them."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.locked import (
    is_locked,
    lock_object,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import legs_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.observe_inference import (
    leg_exit,
    leg_options,
    legs_env,
    load_command,
    load_in_pod,
    permissions,
    server_command,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.settings import (
    InferenceSettings,
    Slo,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.aiperf import export_in, without_exports


def stated_by(site: dict[str, Any]) -> InferenceSettings:
    """Return the settings of the gate where a site states these."""
    return checked_settings(InferenceSettings, "inference_acceptance", site)


def test_a_site_sets_what_it_wants() -> None:
    settings = stated_by(
        {"load_image": "own/aiperf", "image": "own/vllm", "model": "/models/x", "slo": {"ttft_ms": 500}},
    )
    assert (settings.load.image, settings.server.image, settings.server.name) == ("own/aiperf", "own/vllm", "/models/x")
    assert settings.slo_of("h100")[0].ttft_ms == 500
    assert settings.slo_of("h100")[0].throughput_per_gpu == 0


@pytest.mark.parametrize(
    "stated",
    [
        {"modle": "x"},
        {"slo": {"ttft": 5}},
        {"slo": 5},
        {"concurrency_per_gpu": 0},
        {"gpu_memory_utilization": 1.5},
        {"reach": "magic"},
        {"reach": "url"},
        {"token_secret": "token"},
        {"volume": {"nfs": {}}, "claim": {"accessModes": []}},
        {"smoke_expect": "("},
        {"ttft_percentile": 98},
        {"slack": 1},
        {"stage": True},
        {"downloads": 0},
    ],
)
def test_what_is_no_setting_is_an_error(stated: dict[str, Any]) -> None:
    with pytest.raises(BringupError):
        stated_by(stated)


def test_shipped_bounds_are_for_their_model_accelerator_and_load() -> None:
    assert stated_by({}).slo_of("h100")[0].throughput_per_gpu == 6250
    assert stated_by({}).slo_of("gb200")[0].throughput_per_gpu == 12500
    assert stated_by({}).slo_of("t4")[0].throughput_per_gpu == 0
    assert stated_by({"model": "x"}).slo_of("h100")[0].throughput_per_gpu == 0
    assert stated_by({"concurrency_per_gpu": 64}).slo_of("h100")[0].ttft_ms == 0


@pytest.mark.parametrize(
    ("words", "cause", "flag"),
    [
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
         "kv-cache-out-of-memory", "gpu_memory_utilization"),
        ("The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache",
         "kv-cache-out-of-memory", "max_model_len"),
        ("the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV\n"
         " cache memory (6.93 GiB)", "kv-cache-out-of-memory", "max_model_len"),
        ("Free memory on device (1/79 GiB) on startup is less than desired GPU memory utilization", "gpu-memory-in-use",
         "nvidia-smi"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "gpu-out-of-memory", "max_num_seqs"),
        ("OSError: There was a specific connection error when trying to load a/b:\n429 Client Error: Too Many Requests "
         "for url: .../resolve/main/config.json", "model-hub-rate-limited", "downloads"),
        ("Client error '429 Too Many Requests' for url '.../main/config.json'", "model-hub-rate-limited", "stage"),
        ("GatedRepoError: 401 Client Error", "model-not-found", "token_secret"),
        ("OSError: We couldn't connect to 'the hub' to load the files", "model-hub-unreachable", "volume"),
        ("RuntimeError: No CUDA GPUs are available", "gpu-not-usable", "gpu_stack"),
        # vllm-project/vllm#21661, #1710; huggingface/huggingface_hub#4128
        ("(EngineCore_0 pid=7) RuntimeError: NCCL error: unhandled cuda error", "nccl-error", "fabric_validation"),
        ("RuntimeError: NCCL error: ncclShmOpen: unhandled system error", "shm-too-small", "emptyDir"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device",
         "image-without-gpu-code", "image"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found 12020).", "driver-too-old", "update"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "driver-too-old", "update"),
        ("OSError: a/b is not a local folder and is not a valid model identifier listed on 'https://hub'\nIf this is a "
         "private repository, make sure to pass a token", "model-not-found", "token_secret"),
    ],
)  # fmt: skip
def test_last_words_of_a_server(words: str, cause: str, flag: str) -> None:
    found = stated_by({}).understand(f"INFO started\n{words}\n")
    assert found is not None
    assert found.cause == cause
    assert flag in found.hint
    assert stated_by({}).understand("INFO all is well") is None


def test_a_server_without_fabric_manager_says_802(shared: Path) -> None:
    """findings/captures-fails: huggingface/huggingface_hub#4128, NVIDIA/nvrc#159."""
    log = (shared / "findings/captures-fails/P118-vllm-server-errors.log").read_text(encoding="utf-8")
    found = stated_by({}).understand(log)
    assert found is not None
    assert (found.cause, found.blames_host) == ("fabric-manager-not-ready", True)


def test_a_server_uses_every_gpu_of_its_host() -> None:
    words = server_command(
        stated_by({"tensor_parallel": 2, "arguments": ["--enforce-eager"]}),
        8,
    )
    assert words[:3] == ("vllm", "serve", "Qwen/Qwen3-8B")
    assert words[words.index("--tensor-parallel-size") + 1] == "2"
    assert words[words.index("--data-parallel-size") + 1] == "4"
    assert words[-1] == "--enforce-eager"
    assert "--data-parallel-size" not in server_command(stated_by({}), 1)


def test_an_engine_does_not_wait_for_the_api_server_of_others() -> None:
    def count(gpus: int, **stated: Any) -> str:
        words = server_command(stated_by(stated), gpus)
        return words[words.index("--api-server-count") + 1] if "--api-server-count" in words else ""

    assert count(8) == "8"
    assert count(8, tensor_parallel=2) == "4"
    assert count(8, api_servers=3) == "3"
    assert count(1) == ""
    # The published figures have a front end for every engine.
    assert stated_by({"api_servers": 1}).slo_of("h100")[0].throughput_per_gpu == 0


@pytest.mark.parametrize("accelerator", ["b200", "b300", "gb300"])
def test_no_part_has_the_bounds_of_another(accelerator: str) -> None:
    assert stated_by({}).slo_of(accelerator)[0] == Slo()


def test_no_part_has_a_mean_for_a_percentile() -> None:
    assert {slo.tpot_ms for slos in stated_by({}).slos.values() for slo in slos.values()} == {0}


def test_the_load_is_the_same_every_time() -> None:
    words = load_command(stated_by({}), "http://vllm-1:8000")
    options = dict(pairwise(words))
    assert options["--synthetic-input-tokens-stddev"] == options["--output-tokens-stddev"] == "0"
    assert {"ignore_eos:true", "temperature:0", "--use-server-token-count"} <= set(words)
    first, *_others = legs_for(stated_by({}).load, 8)
    options = dict(pairwise(leg_options(first)))
    assert options["--random-seed"] == "100"
    assert options["--concurrency"] == "2048"
    assert options["--request-count"] == "16384"
    assert options["--warmup-request-count"] == "2048"
    assert stated_by({}).load.requests(1) == 2048
    assert stated_by({"concurrency_per_gpu": 1}).load.requests(1) == 1000
    cold, *_others = legs_for(stated_by({"warmup_per_concurrency": 0.0}).load, 8)
    assert "--warmup-request-count" not in leg_options(cold)


def test_one_load_asks_every_prompt_once_and_one_has_another_operating_point() -> None:
    cached, uncached, light = legs_for(stated_by({}).load, 8)
    assert cached.prompts < cached.requests
    assert (uncached.prompts, uncached.warmup, uncached.concurrency) == (uncached.requests, 0, cached.concurrency)
    assert len({cached.seed, uncached.seed, light.seed}) == 3
    assert light.concurrency == 128
    assert [leg.name for leg in legs_for(stated_by({"uncached_per_concurrency": 0, "light_per_gpu": 0}).load, 8)] == [
        "cached"
    ]


@pytest.mark.parametrize(("code", "written"), [(0, True), (3, True), (0, False)])
def test_the_pods_script_brings_the_exports_out(tmp_path: Path, code: int, written: bool) -> None:
    body = '{"schema_version": "1.4",\n "x": "\\u00e4"}\n'
    program = tmp_path / "aiperf"
    write = f"printf '%s' '{body}' > $dir/profile_export_aiperf.json" if written else ":"
    program.write_text(
        f"#!/bin/sh\nfor last do dir=$last; done\nmkdir -p $dir; echo profiling $*; {write}; exit {code}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    command = load_in_pod((str(program), "profile"))
    env = {"PATH": "/usr/bin:/bin", "PACKAGE": "", "LOCK": "", "ARTIFACTS": f"{tmp_path}/a", "MARK": "mark-1"}
    legs = legs_for(stated_by({}).load, 8)
    done = subprocess.run(
        command, env={**env, **legs_env(legs)}, capture_output=True, text=True, check=False, timeout=20
    )
    assert done.returncode == code, done.stderr
    assert "--concurrency 2048 --request-count 16384" in done.stdout
    assert export_in(done.stdout, "mark-1-cached") == (body if written else None)
    assert leg_exit(done.stdout, "mark-1-cached") == code
    # A load that failed is the last one.
    assert leg_exit(done.stdout, "mark-1-light") == (None if code else 0)
    assert export_in(done.stdout, "mark-1-light") == (body if written and not code else None)
    rest = without_exports(done.stdout, "mark-1")
    assert "profiling" in rest
    assert "schema_version" not in rest
    assert "mark-1" not in rest


@pytest.mark.parametrize(("lock", "asked"), [("/etc/program/aiperf.txt", True), ("", False)])
def test_the_pod_installs_what_has_the_locked_digests(tmp_path: Path, lock: str, asked: bool) -> None:
    python, program = tmp_path / "python3", tmp_path / ".local/bin/aiperf"
    program.parent.mkdir(parents=True)
    for path, text in ((python, f"echo $* > {tmp_path}/asked"), (program, "exit 0")):
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "PACKAGE": "aiperf==0.13.0", "LOCK": lock}
    env |= {"ARTIFACTS": f"{tmp_path}/a", "MARK": "m", **legs_env(legs_for(stated_by({}).load, 8))}
    done = subprocess.run(load_in_pod(("aiperf", "profile")), env=env, capture_output=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    words = (tmp_path / "asked").read_text(encoding="utf-8").split()
    assert ("--require-hashes" in words and "--no-deps" in words) is asked
    assert words[-1] == (lock or "aiperf==0.13.0")


def test_the_shipped_package_is_locked_and_one_of_the_site_is_not() -> None:
    assert is_locked(stated_by({}).load.package)
    assert not any(is_locked(package) for package in ("", "aiperf", "aiperf==0.12.0", "--hash=sha256"))
    text = lock_object({})["data"]["aiperf.txt"]
    packages = [line for line in text.splitlines() if "==" in line]
    assert len(packages) > 100 and all("--hash=sha256:" in text.split(line, 1)[1][:200] for line in packages)
    assert len(text) < 900_000, "a ConfigMap holds a megabyte"


def test_permissions_follow_the_way_to_the_servers() -> None:
    def words(**stated: Any) -> set[str]:
        return {f"{p.verb} {p.resource}/{p.subresource} {p.namespace}".strip() for p in permissions(stated_by(stated))}

    assert "create pods/portforward" in words()
    assert {"get services/proxy", "create services/proxy"} <= words(reach="service-proxy")
    assert "create pods/portforward" not in words(reach="service-proxy")
    assert "get secrets/ ai" in words(token_secret="ai/hub/token")
    assert "create configmaps/" in words() and "create configmaps/" not in words(package="")
    assert "create persistentvolumeclaims/" in words(claim={"accessModes": ["ReadOnlyMany"]})


def test_a_wrong_setting_is_told_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="throughput"):
        stated_by({"slo": {"throughput": 5}})
