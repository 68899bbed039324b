# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the DL unit test with one bit flipped in what one GPU computes: a program of its own, started by a test.

The program itself knows nothing of it. SPOILED says where: `<slot>:<operation>:<times>`, such as `2:gemm-bf16:123` for
every time or `2:attention:2` for the second time alone. Arguments: the directory of the program, then its own.
"""

from __future__ import annotations

import os
import sys
from typing import Any

sys.path.insert(0, sys.argv[1])

import dl_unit
import operations
import torch

# Each GPU's process would do it for itself when it asks for deterministic algorithms: 3 s of CPU that it shares here.
import torch._inductor.config

SLOT, OPERATION, TIMES = os.environ["SPOILED"].split(":")
computed, compared = operations.run, operations.reference_error
started = dl_unit.Gpu.__init__
state: dict[str, Any] = {"slot": None, "times": 0, "comparing": False}


def start(gpu: Any, options: Any, slot: int, barrier: Any) -> None:
    state["slot"] = slot
    started(gpu, options, slot, barrier)


def run(operation: Any, inputs: Any, device: Any) -> Any:
    results = computed(operation, inputs, device)
    if str(state["slot"]) == SLOT and operation.name == OPERATION and not state["comparing"]:
        state["times"] += 1
        if str(state["times"]) in TIMES:
            bits = results[0].view(torch.uint8).view(-1)
            bits[bits.numel() // 2] ^= 1
    return results


def reference_error(*arguments: Any) -> float:
    state["comparing"] = True
    error: float = compared(*arguments)
    state["comparing"] = False
    return error


dl_unit.Gpu.__init__ = start
operations.run, operations.reference_error = run, reference_error
sys.exit(dl_unit.main(sys.argv[2:]))
