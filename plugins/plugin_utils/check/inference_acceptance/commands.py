# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands of the gate: vLLM's, AIPerf's, and the script that brings AIPerf's export out of its pod. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .legs import Leg
from .settings import InferenceSettings

# By way of the log, for it needs nothing that a log has not: no exec into a pod that ended, no volume, no way out.
# Length and digest show whether the log was cut.
# Each load has its options in a variable LEG_<name>, in words without blanks.
_SCRIPT = """\
set -u
if [ -n "$PACKAGE" ]; then
  PATH=${HOME:-/tmp}/.local/bin:$PATH
  tries=0
  if [ -n "$LOCK" ]; then set_of="--require-hashes --no-deps --requirement $LOCK"; else set_of=$PACKAGE; fi
  until python3 -m pip install --quiet --no-cache-dir --root-user-action=ignore $set_of; do
    tries=$((tries + 1))
    [ "$tries" -lt 3 ] || exit 72
    sleep $((tries * 15))
  done
fi
code=0
for leg in $LEGS; do
  eval "options=\\$LEG_$leg"
  "$@" $options --artifact-dir "$ARTIFACTS/$leg" || code=$?
  export_file=$ARTIFACTS/$leg/profile_export_aiperf.json
  if [ -s "$export_file" ]; then
    size=$(wc -c < "$export_file" | tr -d ' ')
    digest=$(sha256sum < "$export_file" | cut -d' ' -f1)
    printf '\\n%s-%s begin %s %s\\n' "$MARK" "$leg" "$size" "$digest"
    cat "$export_file"
    printf '\\n%s-%s end\\n' "$MARK" "$leg"
  fi
  printf '\\n%s-%s exit %s\\n' "$MARK" "$leg" "$code"
  [ "$code" = 0 ] || break
done
exit "$code"
"""


def server_command(settings: InferenceSettings, gpus: int) -> tuple[str, ...]:
    """Return how vLLM is started on so many GPUs: as many copies of the model as fit, each with an API server.

    With one API server, which is the default, that process bounds the throughput of all engines (vLLM's guide "Data
    Parallel Deployment" names `--api-server-count` for it; measured in vllm-project/vllm#17546).
    """
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
    if (fronts := server.api_servers or copies) > 1:
        words += ["--api-server-count", str(fronts)]
    return (*words, *server.arguments)


def load_command(settings: InferenceSettings, url: str) -> tuple[str, ...]:
    """Return AIPerf's command: the same requests every time, answers of a fixed length, nothing drawn by chance."""
    load, server = settings.load, settings.server
    return (
        "aiperf", "profile", "--model", server.name, "--url", url, "--endpoint-type", load.endpoint, "--streaming",
        "--tokenizer", load.tokenizer or server.model, "--use-server-token-count",
        "--synthetic-input-tokens-mean", str(load.input_tokens), "--synthetic-input-tokens-stddev", "0",
        "--output-tokens-mean", str(load.output_tokens), "--output-tokens-stddev", "0",
        "--extra-inputs", "ignore_eos:true", "--extra-inputs", "temperature:0",
        "--request-timeout-seconds", f"{load.request_s:g}",
        "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics",
    )  # fmt: skip


def leg_options(leg: Leg) -> tuple[str, ...]:
    """Return what one load adds to AIPerf's command."""
    words = [
        "--concurrency", str(leg.concurrency), "--request-count", str(leg.requests),
        "--num-dataset-entries", str(leg.prompts), "--random-seed", str(leg.seed),
    ]  # fmt: skip
    if leg.warmup:
        words += ["--warmup-request-count", str(leg.warmup)]
    return tuple(words)


def load_in_pod(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of the pod that makes all loads; it takes PACKAGE, LOCK (a file with the digests of
    all that is installed, or empty), ARTIFACTS, MARK and those of `legs_env` from its environment."""
    return ("/bin/sh", "-c", _SCRIPT, "load", *command)


def legs_env(legs: Iterable[Leg]) -> dict[str, str]:
    """Return the environment that tells the pod which loads to make."""
    options = {f"LEG_{leg.name}": " ".join(leg_options(leg)) for leg in legs}
    return {"LEGS": " ".join(name.removeprefix("LEG_") for name in options), **options}


def leg_exit(log: str, mark: str) -> int | None:
    """Return the exit code of a load whose end the pod wrote to its log; None if it did not end."""
    found = re.search(rf"^{re.escape(mark)} exit (\d{{1,3}})$", log, re.MULTILINE)
    return int(found.group(1)) if found else None
