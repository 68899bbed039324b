# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Samples clock, power, temperature and throttle reasons of a rank's device once a second while it trains.

A GPU is asked through NVML, whose library every GPU container has: functions and bits as in NVIDIA's NVML API reference
(docs.nvidia.com/deploy/nvml-api, nvmlDeviceQueries and nvmlClocksEventReasons). A CPU has its clock in /proc/cpuinfo.
What a device does not tell is None. Needs Python 3.9, nothing else.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

PERIOD_S = 1.0
# Bits of nvmlDeviceGetCurrentClocksThrottleReasons, in the words of nvidia-smi.
REASONS = {
    0x1: "gpu_idle", 0x2: "applications_clocks_setting", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}  # fmt: skip
_SM_CLOCK = 1
_CORE_TEMPERATURE = 0


@dataclass(frozen=True)
class Sample:
    """One look at a device: MHz, W, degrees C, and the names of what holds its clock down; None: not told."""

    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: tuple[str, ...] | None = None


class Device(Protocol):
    """What can be sampled; `power_limit_w` and `clock_max_mhz` are None where the device does not tell them."""

    power_limit_w: float | None
    clock_max_mhz: float | None

    def sample(self) -> Sample: ...


class Nvml:
    """A GPU, by its UUID."""

    def __init__(self, uuid: str, library: Any = None) -> None:
        """Open the library of the driver and find the GPU.

        Raises:
            OSError: there is no such library, or it does not know the GPU.
        """
        self.library = library or ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        if self.library.nvmlInit_v2() or self.library.nvmlDeviceGetHandleByUUID(
            name.encode(), ctypes.byref(self.handle)
        ):
            raise OSError(f"NVML does not know {name}")
        limit = self._number("nvmlDeviceGetEnforcedPowerLimit")
        self.power_limit_w = None if limit is None else limit / 1e3
        self.clock_max_mhz: float | None = self._number("nvmlDeviceGetMaxClockInfo", _SM_CLOCK)

    def _number(self, function: str, *arguments: int, kind: Any = ctypes.c_uint) -> int | None:
        """Return the number that a function gives; None where this driver or GPU does not tell it."""
        value = kind()
        call = getattr(self.library, function, None)
        if call is None or call(self.handle, *arguments, ctypes.byref(value)):
            return None
        return int(value.value)

    def sample(self) -> Sample:
        power = self._number("nvmlDeviceGetPowerUsage")
        # The name that all drivers have; newer ones call the same `ClocksEventReasons`, too.
        bits = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return Sample(
            clock_mhz=self._number("nvmlDeviceGetClockInfo", _SM_CLOCK),
            power_w=None if power is None else power / 1e3,
            temperature_c=self._number("nvmlDeviceGetTemperature", _CORE_TEMPERATURE),
            reasons=None if bits is None else words_of(bits),
        )


class Cpu:
    """The processor, where a training is tried without a GPU: its mean clock, and no reason that could hold it down."""

    power_limit_w: float | None = None
    clock_max_mhz: float | None = None

    def __init__(self, info: Path = Path("/proc/cpuinfo")) -> None:
        self.info = info

    def sample(self) -> Sample:
        try:
            lines = self.info.read_text(encoding="utf-8").splitlines()
        except OSError:
            return Sample()
        clocks = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
        return Sample(clock_mhz=sum(clocks) / len(clocks) if clocks else None, reasons=())


def words_of(bits: int) -> tuple[str, ...]:
    """Return the names of reasons; a bit that NVML did not have when this was written keeps its number."""
    known = [name for bit, name in REASONS.items() if bits & bit]
    unknown = bits & ~sum(REASONS)
    return (*known, *(f"bit_{n}" for n in range(64) if unknown >> n & 1))


@dataclass
class Sampler:
    """Samples a device in a thread; `taken` gives what came together since it was asked last."""

    device: Device
    samples: list[Sample] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)
    done: Any = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin, as a thread that ends with the process."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.done.wait(PERIOD_S):
            seen = self.device.sample()
            with self.lock:
                self.samples.append(seen)

    def taken(self) -> dict[str, Any]:
        """Return the samples of the time since the last call in one line, and forget them."""
        with self.lock:
            samples, self.samples = self.samples, []
        return summary(samples)


def summary(samples: list[Sample]) -> dict[str, Any]:
    """Return how many samples there are, means, extremes, and how often each reason was given.

    A figure that not every sample has is None: half of the answers would look like all of them.
    """
    clocks = _whole([sample.clock_mhz for sample in samples])
    powers = _whole([sample.power_w for sample in samples])
    temperatures = _whole([sample.temperature_c for sample in samples])
    told = [sample.reasons for sample in samples if sample.reasons is not None]
    names = sorted({name for reasons in told for name in reasons})
    counts = {name: sum(name in reasons for reasons in told) for name in names}
    return {
        "samples": len(samples),
        "clock_mhz": round(sum(clocks) / len(clocks), 1) if clocks else None,
        "clock_min_mhz": min(clocks) if clocks else None,
        "power_w": round(sum(powers) / len(powers), 1) if powers else None,
        "temperature_c": max(temperatures) if temperatures else None,
        "reasons": counts if samples and len(told) == len(samples) else None,
    }


def _whole(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None] if None not in values else []
