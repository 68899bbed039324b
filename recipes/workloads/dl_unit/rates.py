# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How fast a device multiplies and copies: the median over short stretches of some seconds. Needs PyTorch 2.4."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from operations import Operation, drawn, product

_WARMING, _CALLS, _LEAST = 3, 10, 3
RATES = {"gemm-bf16": "TFLOP/s", "gemm-fp32": "TFLOP/s", "gemm-fp8": "TFLOP/s", "memory-copy": "GB/s"}


def products_per_s(operation: Operation, device: torch.device, size: int, seconds: float) -> float:
    """Return how many TFLOP are done in a second by products of two square matrices."""
    left, right = (tensor.to(device) for tensor in drawn(operation, 1, size)[:2])
    each = _seconds(lambda: product(left, right), device, seconds)
    return 2 * size**3 / each / 1e12


def copied_per_s(device: torch.device, size: int, seconds: float) -> float:
    """Return how many GB are read and written in a second when a device copies its own memory."""
    source, target = (torch.zeros(size, dtype=torch.uint8, device=device) for _which in range(2))
    return 2 * size / _seconds(lambda: target.copy_(source), device, seconds) / 1e9


def _seconds(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Return the median time of one call."""
    for _number in range(_WARMING):
        call()
    _wait(device)
    stretches, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(stretches) < _LEAST:
        began = time.perf_counter()
        for _number in range(_CALLS):
            call()
        _wait(device)
        stretches.append((time.perf_counter() - began) / _CALLS)
    return median(stretches)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
