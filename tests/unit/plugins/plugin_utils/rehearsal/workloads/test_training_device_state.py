# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the training program asks a GPU for its state: NVML's functions and bits, and what a driver does not tell."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[6] / "recipes" / "workloads" / "training" / "device_state.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    """The file as a module; in a pod it lies beside train.py."""
    spec = importlib.util.spec_from_file_location("training_device_state", SOURCE)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


class Library:
    """NVML as its reference describes it: every function returns 0 and writes through its last argument."""

    def __init__(self, **values: int) -> None:
        self.values = {
            "nvmlDeviceGetClockInfo": 1755, "nvmlDeviceGetMaxClockInfo": 1980, "nvmlDeviceGetPowerUsage": 693_500,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000, "nvmlDeviceGetTemperature": 71,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,
        } | values  # fmt: skip
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:
        return 0 if uuid == b"GPU-1" else 6

    def __getattr__(self, name: str) -> Any:
        if name not in self.values:
            raise AttributeError(name)

        def call(_handle: Any, *arguments: Any) -> int:
            self.asked.append((name, arguments[:-1]))
            if self.values[name] < 0:
                return 3
            ctypes.cast(arguments[-1], ctypes.POINTER(type(arguments[-1]._obj))).contents.value = self.values[name]
            return 0

        return call


def test_a_gpu_tells_clock_power_heat_and_reasons(program: ModuleType) -> None:
    library = Library(nvmlDeviceGetCurrentClocksThrottleReasons=0x4 | 0x8 | 0x40)
    gpu = program.Nvml("1", library)
    assert (gpu.power_limit_w, gpu.clock_max_mhz) == (700.0, 1980)
    seen = gpu.sample()
    assert (seen.clock_mhz, seen.power_w, seen.temperature_c) == (1755, 693.5, 71)
    assert seen.reasons == ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown")
    # The clock of the multiprocessors, and the temperature of the core.
    assert ("nvmlDeviceGetClockInfo", (1,)) in library.asked and ("nvmlDeviceGetTemperature", (0,)) in library.asked


def test_what_a_driver_does_not_tell_is_none_and_not_zero(program: ModuleType) -> None:
    """NVML_ERROR_NOT_SUPPORTED, as in virtual machines."""
    seen = program.Nvml("GPU-1", Library(nvmlDeviceGetPowerUsage=-1, nvmlDeviceGetTemperature=-1)).sample()
    assert (seen.power_w, seen.temperature_c, seen.clock_mhz) == (None, None, 1755)


def test_a_gpu_that_nvml_does_not_know_is_an_error(program: ModuleType) -> None:
    with pytest.raises(OSError, match="GPU-2"):
        program.Nvml("GPU-2", Library())


def test_bits_that_are_newer_keep_their_number(program: ModuleType) -> None:
    assert program.words_of(0) == ()
    assert program.words_of(0x20 | 1 << 12) == ("sw_thermal_slowdown", "bit_12")


def test_samples_are_told_together_and_never_better_than_they_are(program: ModuleType) -> None:
    sample = program.Sample
    told = program.summary(
        [sample(1700.0, 690.0, 70.0, ("sw_power_cap",)), sample(1800.0, 700.0, 72.0, ("sw_power_cap", "hw_slowdown"))]
    )
    assert told == {
        "samples": 2, "clock_mhz": 1750.0, "clock_min_mhz": 1700.0, "power_w": 695.0, "temperature_c": 72.0,
        "reasons": {"hw_slowdown": 1, "sw_power_cap": 2},
    }  # fmt: skip
    half = program.summary([sample(1700.0, None, 70.0, None), sample(1800.0, 700.0, 72.0, ())])
    assert (half["power_w"], half["reasons"], half["clock_mhz"]) == (None, None, 1750.0)
    assert program.summary([])["reasons"] is None and program.summary([])["clock_mhz"] is None


def test_a_processor_tells_its_clock(program: ModuleType, tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\ncpu MHz\t\t: 2000.0\nprocessor\t: 1\ncpu MHz\t\t: 3000.0\n")
    assert program.Cpu(info).sample() == program.Sample(clock_mhz=2500.0, reasons=())
    assert program.Cpu(tmp_path / "nothing").sample().clock_mhz is None
