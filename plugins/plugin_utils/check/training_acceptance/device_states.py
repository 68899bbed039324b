# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the samples of a GPU's clock, power and heat say over a whole run. Pure.

`sw_power_cap` is the usual state of a GPU under full load and blames nobody by itself. Heat and the power brake are
never usual. Names are NVML's (nvmlClocksEventReasons in NVIDIA's NVML API reference).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ...probe.training_log_model import RankLog
from .model import Run

# Heat and power supply: from hardware and driver.
HELD_DOWN = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
# At least so many samples for a second of load: the program takes one a second.
_LEAST_RATE = 0.2
_OPTIONAL = ("clock_min_mhz", "power_w", "temperature_c")


@dataclass(frozen=True)
class DeviceState:
    """The samples of one rank together."""

    log: RankLog

    @cached_property
    def samples(self) -> int:
        return sum(state.samples for state in self.log.states)

    @property
    def missing(self) -> str:
        """What was not sampled, in words; empty if there is enough to judge."""
        wanted = _LEAST_RATE * self.log.load_s
        if self.samples < max(1.0, wanted):
            return f"{self.samples} samples in {self.log.load_s:.0f} s of load"
        told = [state for state in self.log.states if state.samples]
        lacking = [name for name in ("clock_mhz", "reasons") if any(getattr(state, name) is None for state in told)]
        if lacking:
            return f"its device does not tell {' and '.join(lacking)}"
        # A driver that does not say it never says it.
        uneven = [name for name in _OPTIONAL if len({getattr(state, name) is None for state in told}) > 1]
        return f"only some of its samples tell {' and '.join(uneven)}" if uneven else ""

    @cached_property
    def reasons(self) -> dict[str, float]:
        """Part of the samples in which each reason held the clock down."""
        counts: Counter[str] = Counter()
        for state in self.log.states:
            counts.update(state.reasons or {})
        return {name: count / self.samples for name, count in counts.items()} if self.samples else {}

    @property
    def held_down(self) -> tuple[str, float]:
        """The reason of heat or power supply that was given most often, and its part of the samples."""
        found = {name: part for name, part in self.reasons.items() if name in HELD_DOWN}
        # hw_slowdown is set beside the reason for it, which says more.
        name = max(found, key=lambda word: (found[word], word != "hw_slowdown"), default="")
        return name, found.get(name, 0.0)

    def clocks(self) -> tuple[float, ...]:
        """Mean clock of every state in MHz."""
        return tuple(state.clock_mhz for state in self.log.states if state.clock_mhz is not None)

    @property
    def text(self) -> str:
        """Clock, power and heat in words; empty where nothing was sampled."""
        clocks = self.clocks()
        if not clocks:
            return ""
        end = median(clocks[-3:])
        parts = [
            f"{median(clocks):.0f} MHz" + (f" ({end:.0f} at the end)" if abs(end / median(clocks) - 1) > 0.02 else "")
        ]
        power = [state.power_w for state in self.log.states if state.power_w is not None]
        limit = self.log.setup.power_limit_w if self.log.setup else None
        if power:
            parts.append(f"{median(power):.0f} W" + (f" of {limit:.0f}" if limit else ""))
        heat = [state.temperature_c for state in self.log.states if state.temperature_c is not None]
        if heat:
            parts.append(f"{max(heat):.0f} C")
        often = [f"{name} in {100 * part:.0f} %" for name, part in sorted(self.reasons.items()) if part >= 0.01]
        return ", ".join((*parts, *often))


def states_of(run: Run) -> dict[str, DeviceState]:
    """Return the samples of every GPU of a run."""
    return {rank.gpu: DeviceState(rank.log) for rank in run.ranks}
