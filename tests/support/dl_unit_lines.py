# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the DL unit test for tests of its parser and judges: a healthy host, as the program writes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

OPERATIONS = (
    "gemm-bf16", "gemm-fp32", "gemm-fp8", "exact-bf16", "exact-fp32", "exact-fp8", "convolution", "attention",
    "layer-norm", "reductions", "copies",
)  # fmt: skip
TOLERANCES = {
    "gemm-bf16": 0.01, "gemm-fp32": 2e-5, "gemm-fp8": 0.01, "convolution": 0.02, "attention": 0.04, "layer-norm": 2e-5,
    "reductions": 2e-5,
}  # fmt: skip
RATES = {"gemm-bf16": 720.0, "gemm-fp32": 52.0, "gemm-fp8": 1300.0, "memory-copy": 2800.0}
IDENTITY = {
    "name": "NVIDIA H100 80GB HBM3", "driver": "570.158.01", "capability": "9.0", "multiprocessors": 132,
    "torch": "2.8.0", "cuda": "12.9", "cublas": "12.9.1", "cudnn": "91200",
}  # fmt: skip


def lines_of(gpus: int, *, repeats: int = 3, fp8: bool = True, prefix: str = "GPU-") -> list[dict[str, Any]]:
    """Return the lines of a healthy host."""
    begin = {"event": "begin", "gpus": gpus, "device": "cuda", "repeats": repeats, "seed": 1, "size": 4096}
    lines = [begin]
    for slot in range(gpus):
        own = [{"event": "gpu", "uuid": f"{prefix}{slot}", **IDENTITY}]
        for run in range(1, repeats + 1):
            own += [_op(name, run, fp8) for name in OPERATIONS]
        for name, tolerance in TOLERANCES.items():
            if fp8 or name != "gemm-fp8":
                own.append({"event": "reference", "op": name, "error": tolerance / 8, "tolerance": tolerance})
        for name, value in RATES.items():
            if fp8 or name != "gemm-fp8":
                unit = "GB/s" if name == "memory-copy" else "TFLOP/s"
                own.append({"event": "rate", "name": name, "value": value, "unit": unit, "together": True})
        lines += [{**line, "slot": slot} for line in own]
        lines.append({"event": "end", "slot": slot, "lines": len(own)})
    lines.append({"event": "done", "exit_codes": [0] * gpus})
    return lines


def _op(name: str, run: int, fp8: bool) -> dict[str, Any]:
    if not fp8 and name.endswith("fp8"):
        return {"event": "op", "op": name, "run": run, "digest": "", "wrong": None, "absent": "no float8"}
    known = name.startswith("exact") or name == "copies"
    digest = hashlib.sha256(name.encode()).hexdigest()
    return {"event": "op", "op": name, "run": run, "digest": digest, "wrong": 0 if known else None, "absent": ""}


def text_of(lines: Iterable[dict[str, Any]]) -> str:
    """Return lines as a log."""
    return "".join(json.dumps({"schema_version": 1, **line}, separators=(",", ":")) + "\n" for line in lines)
