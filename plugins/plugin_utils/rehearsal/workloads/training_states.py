# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the training program samples of a simulated GPU: clock, power, heat and what holds the clock down.

Healthy: a busy GPU of a data centre runs at its power limit and says so all the time (`sw_power_cap`), below its
greatest clock (NVIDIA's NVML reference, nvmlClocksEventReasons). Heat comes with the load within a few minutes. What
hardware does for heat or for the power brake is told beside that as `hw_slowdown`.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

from ..model.values import Gpu
from .performance import TrainingSpeed

_PERIOD_S = 10.0
_WARMING_S, _COLD_C = 120.0, 34.0


@dataclass(frozen=True, slots=True)
class DeviceStates:
    """The samples of one GPU."""

    gpu: Gpu
    facts: TrainingSpeed
    draw: random.Random

    def pace_at(self, seconds: float) -> float:
        """Return the part of its rate that the GPU has after so many seconds of load, as far as held_down says."""
        held = self.gpu.held_down
        return 1 - held.share * (1 - held.clock) if held.reason and seconds >= held.after_s else 1.0

    def lines(self, load_s: float) -> list[dict[str, Any]]:
        """Return the states over a load: one sample a second, ten in a line."""
        count = max(1, math.ceil(load_s / _PERIOD_S))
        return [self._line(n + 1, min(load_s, (n + 1) * _PERIOD_S), load_s) for n in range(count)]

    def _line(self, number: int, at_s: float, load_s: float) -> dict[str, Any]:
        samples = max(1, round(min(_PERIOD_S, at_s - (number - 1) * _PERIOD_S)))
        held = self.gpu.held_down
        active = round(samples * held.share) if held.reason and at_s > held.after_s else 0
        reasons = {held.reason: active} if active else {}
        if active and held.reason.startswith("hw_"):
            reasons["hw_slowdown"] = active
        if active < samples and self.gpu.compute >= 1.0:
            reasons["sw_power_cap"] = samples - active
        part = (self.pace_at(at_s) if active else 1.0) * min(1.0, self.gpu.compute)
        clock = self.facts.clock_max_mhz * self.facts.busy_clock * part * (1 + self.draw.gauss(0.0, 0.008))
        heat = self.facts.temperature_c + (20.0 if "thermal" in held.reason else 0.0)
        return {
            "number": number, "at_s": round(at_s, 3), "samples": samples, "clock_mhz": round(clock, 1),
            "clock_min_mhz": round(clock * 0.97), "power_w": round(self.facts.power_limit_w * 0.99 * part, 1),
            "temperature_c": round(heat - (heat - _COLD_C) * math.exp(-at_s / _WARMING_S)),
            "reasons": dict(sorted(reasons.items())),
        }  # fmt: skip
