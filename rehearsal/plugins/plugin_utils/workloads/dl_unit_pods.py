# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The DL unit test: the lines of the program in recipes/workloads/dl_unit/, computed from the model.

A test compares these lines with those of the program itself. Equal GPUs give equal digests, as cuBLAS documents it
(chapter "Results Reproducibility"). The share of its peak that a GPU reaches is that of public measurements of H100
(NVIDIA/cutlass, media/docs: 700 to 800 of 989 TFLOPS in bfloat16), for every model.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

from ..model.values import Gpu, Node
from .performance import performance
from .pod_simulator import STDERR, STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of

_PROGRAM = "dl_unit.py"
_TOLERANCES = {
    "gemm-bf16": 0.01, "gemm-fp32": 2e-5, "gemm-fp8": 0.01, "convolution": 0.02, "attention": 0.04, "layer-norm": 2e-5,
    "reductions": 2e-5,
}  # fmt: skip
_OPERATIONS = (
    "gemm-bf16", "gemm-fp32", "gemm-fp8", "exact-bf16", "exact-fp32", "exact-fp8", "convolution", "attention",
    "layer-norm", "reductions", "copies",
)  # fmt: skip
_KNOWN = ("exact-bf16", "exact-fp32", "exact-fp8", "copies")
_SHARE, _COPY_SHARE, _FP32_TFLOPS, _OTHER_TFLOPS = 0.73, 0.88, 50.0, 100.0
_VERSIONS = {"torch": "2.8.0a0+34c6371d24.nv25.08", "cuda": "13.0", "cublas": "13.0.0", "cudnn": "91200"}
_FP8_FROM = (8, 9)
_FLIPPED_RUN, _WRONG_ROWS, _WRONG_BYTES, _INEXACT = 2, 3, 1, 20.0
# SIGKILL, as from the kernel's OOM killer.
_KILLED = 137
_GPU_NOISE = 0.004
# Share of its power limit that a GPU draws in large matrix products.
_LOAD_POWER = 0.97


def handles(pod: Json) -> bool:
    """Tell whether a pod runs the DL unit test."""
    return any(word.rsplit("/", 1)[-1] == _PROGRAM for word in words_of(pod))


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output of the one pod."""
    if not group.running:
        return None
    pod = group.running[0]
    name, node = str(pod["metadata"]["name"]), context.model.node(pod["spec"]["nodeName"])
    if node.unit_test == "image-missing":
        return {name: PodOutput(exit_code=None, fault="ImagePullBackOff")}
    if not context.model.stack.unit_torch:
        reported = ("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'torch'")
        return {name: PodOutput(lines=tuple((STDERR, line) for line in reported), exit_code=1)}
    words = (word.partition("=") for word in words_of(pod) if word.startswith("--"))
    options = {name: value for name, _mark, value in words}
    draw = random.Random(f"{context.model.seed}/{group.name}/{node.name}/dl-unit")
    host = _Host(node, context.skus[node.sku], options, draw, context.model.stack.unit_efficiency)
    lines = tuple((STDOUT, json.dumps({"schema_version": 1, **line}, separators=(",", ":"))) for line in host.lines())
    if node.unit_test == "ends-early":
        return {name: PodOutput(lines=lines[: len(lines) // 2], exit_code=_KILLED, run_s=performance().run_s.base)}
    return {name: PodOutput(lines=lines, exit_code=int(any(host.exit_codes)), run_s=performance().run_s.base)}


class _Host:
    """The lines of one host."""

    def __init__(
        self, node: Node, sku: Sku, options: Mapping[str, str], draw: random.Random, efficiency: float
    ) -> None:
        self.node, self.sku, self.draw, self.efficiency = node, sku, draw, efficiency
        self.gpus, self.repeats = int(options["--gpus"]), int(options["--repeats"])
        self.seed, self.size = int(options["--seed"]), int(options["--size"])
        self.load_s = float(options.get("--load-s", 0))
        self.load_share = float(options.get("--load-share", 1))
        self.exit_codes: list[int] = []
        major, _dot, minor = node.accelerator.compute_capability.partition(".")
        self.fp8 = (int(major or 0), int(minor or 0)) >= _FP8_FROM

    def lines(self) -> Iterator[dict[str, Any]]:
        yield {
            "event": "begin", "gpus": self.gpus, "device": "cuda", "repeats": self.repeats, "seed": self.seed,
            "size": self.size,
        }  # fmt: skip
        there = self.node.working_gpus
        for slot in range(self.gpus):
            if slot >= len(there):
                text = f"PyTorch sees {len(there)} devices, {self.gpus} were asked for"
                yield {"event": "error", "slot": slot, "doing": "start", "kind": "LookupError", "text": text}
                self.exit_codes.append(1)
                continue
            gpu = there[slot]
            yield from self._gpu(slot, gpu)
            self.exit_codes.append(int(gpu.numerics == "crashes"))
        yield {"event": "done", "exit_codes": self.exit_codes}

    def _gpu(self, slot: int, gpu: Gpu) -> Iterator[dict[str, Any]]:
        own: list[dict[str, Any]] = [self._identity(gpu)]
        if gpu.numerics == "crashes":
            text = "CUDA error: uncorrectable ECC error encountered"
            failure = {"event": "error", "slot": slot, "doing": "gemm-bf16", "kind": "AcceleratorError", "text": text}
            yield {"event": own[0]["event"], "slot": slot, **own[0]}
            yield failure
            return
        cold = max(1, self.repeats - 1)
        own += [self._op(gpu, name, run) for run in range(1, cold + 1) for name in _OPERATIONS]
        own += [
            {
                "event": "reference",
                "op": name,
                "error": tolerance * (_INEXACT if gpu.numerics == "inexact" else self.draw.uniform(0.02, 0.3)),
                "tolerance": tolerance,
            }
            for name, tolerance in _TOLERANCES.items()
            if self.fp8 or name != "gemm-fp8"
        ]
        own += self._rates(gpu)
        if self.load_s > 0:
            own.append(self._load(gpu))
        own += [self._op(gpu, name, run) for run in range(cold + 1, self.repeats + 1) for name in _OPERATIONS]
        yield from ({"event": line["event"], "slot": slot, **line} for line in own)
        yield {"event": "end", "slot": slot, "lines": len(own)}

    def _identity(self, gpu: Gpu) -> dict[str, Any]:
        return {
            "event": "gpu", "uuid": gpu.uuid, "name": gpu.product, "driver": self.node.driver_version,
            "capability": self.node.accelerator.compute_capability, "multiprocessors": 132, **_VERSIONS,
        }  # fmt: skip

    def _op(self, gpu: Gpu, name: str, run: int) -> dict[str, Any]:
        if name.endswith("fp8") and not self.fp8:
            absent = f"no float8 with compute capability {self.node.accelerator.compute_capability}"
            return {"event": "op", "op": name, "run": run, "digest": "", "wrong": None, "absent": absent}
        bits = f"{gpu.product}/{self.node.driver_version}/{_VERSIONS}/{self.seed}/{self.size}/{name}"
        wrong = 0 if name in _KNOWN else None
        if gpu.numerics == "gemm-wrong" and name == "gemm-bf16":
            bits += f"/{gpu.uuid}"
        if gpu.numerics == "bit-flips" and name == "attention" and run == _FLIPPED_RUN:
            bits += "/flipped"
        if gpu.numerics == "known-wrong" and name == "exact-bf16":
            bits, wrong = f"{bits}/{gpu.uuid}", _WRONG_ROWS
        if gpu.numerics == "copies-wrong" and name == "copies":
            bits, wrong = f"{bits}/{gpu.uuid}", _WRONG_BYTES
        digest = hashlib.sha256(bits.encode()).hexdigest()
        return {"event": "op", "op": name, "run": run, "digest": digest, "wrong": wrong, "absent": ""}

    def _load(self, gpu: Gpu) -> dict[str, Any]:
        """Return the load of a GPU. Products in bfloat16 reach its power limit, so the share of that limit counts."""
        limit_w = performance().training.power_limit_w * gpu.power_limit
        drawn = gpu.gemm * _LOAD_POWER
        loaded_s = self.load_s if drawn >= self.load_share else 0.0
        return {
            "event": "load", "seconds": self.load_s, "loaded_s": loaded_s, "limit_w": limit_w,
            "mean_w": round(limit_w * drawn, 1),
        }  # fmt: skip

    def _rates(self, gpu: Gpu) -> list[dict[str, Any]]:
        peaks = self.sku.peak_tflops
        tflops = {
            "gemm-bf16": peaks.get("bf16", _OTHER_TFLOPS), "gemm-fp32": peaks.get("fp32", _FP32_TFLOPS),
            "gemm-fp8": peaks.get("fp8", 2 * peaks.get("bf16", _OTHER_TFLOPS)),
        }  # fmt: skip
        found = [
            (name, peak * _SHARE * gpu.gemm * self.efficiency, "TFLOP/s")
            for name, peak in tflops.items()
            if self.fp8 or not name.endswith("fp8")
        ]
        found.append(("memory-copy", (self.sku.hbm_tb_per_s or 1.0) * 1e3 * _COPY_SHARE * gpu.hbm, "GB/s"))
        return [
            {
                "event": "rate", "name": name, "value": round(value * (1 + self.draw.gauss(0, _GPU_NOISE)), 6),
                "unit": unit, "together": True,
            }
            for name, value, unit in found
        ]  # fmt: skip


SIMULATOR = PodSimulator(name="dl-unit", handles=handles, simulate=simulate)
