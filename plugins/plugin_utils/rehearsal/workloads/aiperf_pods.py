# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""AIPerf: its export is computed; with FULL the pod's own command runs AIPerf against the server on loopback."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..model.values import Node, Serving
from .aiperf_export import LoadOptions, as_text, export_of
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
from .serving import serving_data
from .tokenizer import write_tokenizer
from .vllm_pods import option

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
    """Return the hosts on which AIPerf really runs, faulty ones first: this machine cannot run it for all of them."""
    ordered = sorted(context.model.nodes, key=lambda node: (node.serving == Serving(), node.name))
    return [node.name for node in ordered[: serving_data()["full_hosts"]]]


def _computed(name: str, pod: Json, words: list[str], node: Node, context: SimContext) -> PodOutput:
    run_s, how = serving_data()["run_s"], node.serving
    start = ((STDOUT, "INFO     AIPerf System is CONFIGURING"), (STDOUT, "INFO     AIPerf System is PROFILING"))
    if how.benchmark == "hangs":
        return PodOutput(lines=start, exit_code=None)
    if how.benchmark == "crashes":
        told = "aiperf.common.exceptions.InitializationError: Failed to configure all services"
        return PodOutput(
            lines=(*start, (STDERR, "Traceback (most recent call last):"), (STDERR, told)),
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
    """Return the load that a command line of AIPerf asks for."""
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
    """Return the pod's own command with the program, the address and the tokenizer of this machine."""
    place = Path(context.directory) / "aiperf" / pod["metadata"]["name"]
    tokenizer = write_tokenizer(Path(context.directory) / "aiperf" / "tokenizer")
    here = {option(words, "--url", ""): f"http://127.0.0.1:{port}", "aiperf": context.program(_SET, "aiperf")}
    argv = [here.get(word, word) for word in words]
    argv[argv.index("--tokenizer") + 1] = str(tokenizer)
    # Not HF_HUB_OFFLINE: with it AIPerf takes the path of a tokenizer for a name of the hub. Not TMPDIR either: its
    # sockets lie there, and the path of a socket is short.
    env = {
        **env_of(pod), "PACKAGE": "", "ARTIFACTS": str(place / "artifacts"), "HF_HOME": str(place / "hub"),
        # Compiled modules stay with the set, so that another checkout of this user has them.
        "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": "",
        # Else a directory of each load stays in /tmp, which in a pod is the pod's own (ai-dynamo/aiperf,
        # common/environment.py).
        "AIPERF_DATASET_MMAP_BASE_PATH": str(place),
    }  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    return PodOutput(process=RealProcess(argv=tuple(argv), env=env, cwd=str(place)))


SIMULATOR = PodSimulator(name="aiperf", handles=handles, simulate=simulate)
