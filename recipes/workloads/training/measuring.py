# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The times of a step, and many steps in one line. Needs PyTorch 2.1."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor


class Clock:
    """When a step began, when its data was made, its gradients were there, and it ended; on a GPU by its own clock."""

    def __init__(self, device: torch.device, parts: int) -> None:
        self.parts, self.left = parts, 0
        self.on_gpu = device.type == "cuda"
        self.events = [torch.cuda.Event(enable_timing=True) for _end in range(2)] if self.on_gpu else []
        self.begun_at = self.fed_at = self.computed_at = 0.0

    def begin(self) -> None:
        self.begun_at, self.left = time.perf_counter(), self.parts

    def fed(self) -> None:
        """Take the time at which the step's data was made."""
        self.fed_at = time.perf_counter()
        if self.on_gpu:
            self.events[0].record()

    def gradients(self, _gradient: Tensor) -> None:
        self.computed_at, self.left = time.perf_counter(), self.left - 1
        if self.on_gpu:
            self.events[1].record()

    @property
    def waiting(self) -> bool:
        """Whether this rank has done its part of the step."""
        return self.left == 0 and (not self.on_gpu or self.events[1].query())

    def times(self) -> Times:
        """Return the times of the step; everything must have ended."""
        if self.on_gpu:
            torch.cuda.synchronize()
        step_s = time.perf_counter() - self.begun_at
        compute_s = self.events[0].elapsed_time(self.events[1]) / 1e3 if self.on_gpu else self.computed_at - self.fed_at
        return Times(step_s, compute_s, self.fed_at - self.begun_at)


@dataclass(frozen=True)
class Times:
    """Seconds of a whole step, of this rank's own arithmetic in it, and of making its data."""

    step_s: float
    compute_s: float
    data_s: float


@dataclass
class Window:
    """Steps that are told together: after the first ones, whose lines say everything, logs would grow without end."""

    times: list[Times] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    first: int = 0

    def add(self, number: int, loss: float, times: Times) -> None:
        self.first = self.first or number
        self.times.append(times)
        self.losses.append(loss)

    def line(self) -> dict[str, Any]:
        """Return what is told of them, and where a loss was no number any more.

        Of the whole step mean, deviation and the longest, of a rank's own part the median: pauses are not its rate.
        """
        steps, computed = [t.step_s for t in self.times], [t.compute_s for t in self.times]
        middle = sum(steps) / len(steps)
        spread = math.sqrt(sum((seconds - middle) ** 2 for seconds in steps) / len(steps))
        finite = [loss for loss in self.losses if math.isfinite(loss)]
        bad = next((n for n, loss in enumerate(self.losses) if not math.isfinite(loss)), None)
        return {
            "first": self.first, "count": len(steps), "loss": round(sum(finite) / len(finite), 5) if finite else "nan",
            "not_finite_from": 0 if bad is None else self.first + bad,
            "step_time_s": round(middle, 6), "step_time_sd_s": round(spread, 6),
            "step_time_max_s": round(max(steps), 6), "compute_s": round(median(computed), 6),
            "compute_max_s": round(max(computed), 6),
            "data_s": round(median(t.data_s for t in self.times), 6),
        }  # fmt: skip
