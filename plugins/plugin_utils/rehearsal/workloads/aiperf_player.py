# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""AIPerf: its export is computed; with FULL AIPerf itself loads the server on loopback, by the pod's own command."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ..model.values import Node, Serving
from .aiperf_export import Wanted, as_text, export_of
from .player import STDERR, STDOUT, Cast, Json, Part, Player, Process, Scene, env_of, words_of
from .serving import facts
from .tokenizer import write_tokenizer
from .vllm_player import option

_CRASHED = 1
_SET = "inference"


def knows(pod: Json) -> bool:
    """Tell whether a pod runs AIPerf."""
    words = words_of(pod)
    return "aiperf" in words and "profile" in words


def perform(cast: Cast, scene: Scene) -> Mapping[str, Part] | None:
    """Return the part of the only pod once it runs."""
    if not cast.running:
        return None
    pod = cast.running[0]
    words, node = words_of(pod), scene.model.node(pod["spec"]["nodeName"])
    address = _address(words, pod)
    if address not in scene.ports:
        text = f"aiperf: error: cannot connect to {option(words, '--url', '')}"
        return {pod["metadata"]["name"]: Part(lines=((STDERR, text),), exit_code=_CRASHED, run_s=facts()["run_s"])}
    if scene.full is not None and node.name in _played_for_real(scene):
        return {pod["metadata"]["name"]: _real(pod, words, scene, scene.ports[address])}
    return {pod["metadata"]["name"]: _computed(cast.name, pod, words, node, scene)}


def _address(words: list[str], pod: Json) -> tuple[str, str]:
    host = option(words, "--url", "").partition("//")[2].partition(":")[0]
    return pod["metadata"]["namespace"], host


def _played_for_real(scene: Scene) -> list[str]:
    """The first hosts, those with something to find before the others: AIPerf is a big program for a small machine."""
    ordered = sorted(scene.model.nodes, key=lambda node: (node.serving == Serving(), node.name))
    return [node.name for node in ordered[: facts()["full_hosts"]]]


def _computed(name: str, pod: Json, words: list[str], node: Node, scene: Scene) -> Part:
    run_s, how = facts()["run_s"], node.serving
    start = ((STDOUT, "INFO     AIPerf System is CONFIGURING"), (STDOUT, "INFO     AIPerf System is PROFILING"))
    if how.benchmark == "hangs":
        return Part(lines=start, exit_code=None)
    if how.benchmark == "crashes":
        told = "aiperf.common.exceptions.InitializationError: Failed to configure all services"
        return Part(
            lines=(*start, (STDERR, "Traceback (most recent call last):"), (STDERR, told)),
            exit_code=_CRASHED,
            run_s=run_s,
        )
    wanted = wanted_of(words)
    text = as_text(export_of(wanted, node.accelerator, _copies(scene, node), how, name, scene.now))
    mark = env_of(pod).get("MARK", "")
    digest = hashlib.sha256(text.encode()).hexdigest()
    shown = [f"{mark} begin {len(text.encode())} {digest}", *text.split("\n"), f"{mark} end"]
    if how.benchmark == "truncated":
        shown = shown[: len(shown) * 2 // 3]
    lines = (*start, (STDOUT, "JSON Export: profile_export_aiperf.json"), (STDOUT, ""))
    return Part(lines=(*lines, *((STDOUT, line) for line in shown)), exit_code=0, run_s=run_s)


def _copies(scene: Scene, node: Node) -> int:
    return max(1, len(node.working_gpus))


def wanted_of(words: list[str]) -> Wanted:
    """Return the load that a command line asks for."""
    return Wanted(
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


def _real(pod: Json, words: list[str], scene: Scene, port: int) -> Part:
    """The pod's own command, with the program, the address and the tokenizer of this machine."""
    place = Path(scene.directory) / "aiperf" / pod["metadata"]["name"]
    tokenizer = write_tokenizer(Path(scene.directory) / "aiperf" / "tokenizer")
    here = {option(words, "--url", ""): f"http://127.0.0.1:{port}", "aiperf": scene.program(_SET, "aiperf")}
    argv = [here.get(word, word) for word in words]
    argv[argv.index("--tokenizer") + 1] = str(tokenizer)
    # Not HF_HUB_OFFLINE: with it AIPerf takes the path of a tokenizer for a name of the hub. Not TMPDIR either: its
    # sockets lie there, and the path of a socket is short.
    env = {
        **env_of(pod), "PACKAGE": "", "ARTIFACTS": str(place / "artifacts"), "HF_HOME": str(place / "hub"),
        "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "",
    }  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    return Part(process=Process(argv=tuple(argv), env=env, cwd=str(place)))


PLAYER = Player(name="aiperf", knows=knows, play=perform)
