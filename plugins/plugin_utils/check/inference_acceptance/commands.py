# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands of the gate: vLLM's, AIPerf's, and the script that brings AIPerf's export out of its pod. Pure."""

from __future__ import annotations

from .settings import InferenceSettings

# By way of the log, for it needs nothing that a log has not: no exec into a pod that ended, no volume, no way out.
# Length and digest show whether the log was cut.
_SCRIPT = """\
set -u
if [ -n "$PACKAGE" ]; then
  python3 -m pip install --quiet --no-cache-dir --root-user-action=ignore "$PACKAGE" || exit 72
fi
code=0
"$@" --artifact-dir "$ARTIFACTS" || code=$?
export_file=$ARTIFACTS/profile_export_aiperf.json
if [ -s "$export_file" ]; then
  size=$(wc -c < "$export_file" | tr -d ' ')
  digest=$(sha256sum < "$export_file" | cut -d' ' -f1)
  printf '\\n%s begin %s %s\\n' "$MARK" "$size" "$digest"
  cat "$export_file"
  printf '\\n%s end\\n' "$MARK"
fi
exit "$code"
"""


def server_command(settings: InferenceSettings, gpus: int) -> tuple[str, ...]:
    """Return how vLLM is started on so many GPUs: as many copies of the model as fit."""
    server = settings.server
    copies = gpus // server.tensor_parallel
    words = [
        "vllm", "serve", server.model, "--served-model-name", server.name, "--host", "0.0.0.0",
        "--port", str(server.port), "--tensor-parallel-size", str(server.tensor_parallel),
        "--max-model-len", str(server.max_model_len),
        "--gpu-memory-utilization", f"{server.gpu_memory_utilization:g}",
    ]  # fmt: skip
    if copies > 1:
        words += ["--data-parallel-size", str(copies)]
    return (*words, *server.arguments)


def load_command(settings: InferenceSettings, url: str, gpus: int) -> tuple[str, ...]:
    """Return AIPerf's command: the same requests every time, answers of a fixed length, nothing drawn by chance."""
    load, server = settings.load, settings.server
    words = [
        "aiperf", "profile", "--model", server.name, "--url", url, "--endpoint-type", load.endpoint, "--streaming",
        "--tokenizer", load.tokenizer or server.model, "--use-server-token-count",
        "--synthetic-input-tokens-mean", str(load.input_tokens), "--synthetic-input-tokens-stddev", "0",
        "--output-tokens-mean", str(load.output_tokens), "--output-tokens-stddev", "0",
        "--extra-inputs", "ignore_eos:true", "--extra-inputs", "temperature:0",
        "--concurrency", str(load.concurrency(gpus)), "--request-count", str(load.requests(gpus)),
        "--num-dataset-entries", str(load.dataset_entries), "--random-seed", str(load.seed),
        "--request-timeout-seconds", f"{load.request_s:g}",
        "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics",
    ]  # fmt: skip
    if warmup := load.warmup(gpus):
        words += ["--warmup-request-count", str(warmup)]
    return tuple(words)


def load_in_pod(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of the pod that runs it; it takes PACKAGE, ARTIFACTS and MARK from its environment."""
    return ("/bin/sh", "-c", _SCRIPT, "load", *command)
