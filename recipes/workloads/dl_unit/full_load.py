# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps a device at work for minutes, and says for how long it drew most of the power that it may draw.

A pod that runs is not a GPU under load: what counts is the power that the driver reads (NVML, nvmlDeviceGetPowerUsage,
an average of a second on most GPUs) against the limit that it holds (nvmlDeviceGetEnforcedPowerLimit). Needs
PyTorch 2.4.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import torch
from operations import Operation, drawn, product

_CALLS = 10
_SAMPLE_S = 1.0


class PowerMeter:
    """Power and limit of one GPU by its UUID, in watts; None where the driver does not tell them."""

    def __init__(self, uuid: str) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if not library.nvmlInit_v2() and not library.nvmlDeviceGetHandleByUUID(
            uuid.encode(), ctypes.byref(self._handle)
        ):
            self._library = library

    def watts(self) -> float | None:
        """Return what it draws now."""
        return self._read("nvmlDeviceGetPowerUsage")

    def limit_w(self) -> float | None:
        """Return what it may draw."""
        return self._read("nvmlDeviceGetEnforcedPowerLimit")

    def _read(self, name: str) -> float | None:
        found = ctypes.c_uint()
        if self._library is None or getattr(self._library, name)(self._handle, ctypes.byref(found)):
            return None
        return found.value / 1000


def full_load(
    operation: Operation, device: torch.device, size: int, seconds: float, share: float, meter: PowerMeter
) -> dict[str, float | None]:
    """Multiply for so many seconds; return them, those at `share` of the limit or above, the limit and the mean power.

    `loaded_s` and the watts are None where the driver tells no power: then nobody knows how hard the device worked.
    """
    left, right = (tensor.to(device) for tensor in drawn(operation, 1, size)[:2])
    limit_w = meter.limit_w()
    began = before = time.perf_counter()
    loaded_s, joules = 0.0, 0.0
    known = limit_w is not None
    while before - began < seconds:
        watts = None
        while time.perf_counter() - before < _SAMPLE_S:
            for _number in range(_CALLS):
                product(left, right)
            # Read while there is work in the queue, for GPUs that tell the power of the moment.
            watts = meter.watts()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        now = time.perf_counter()
        known = known and watts is not None
        if watts is not None and limit_w is not None:
            joules += watts * (now - before)
            loaded_s += (now - before) if watts >= share * limit_w else 0.0
        before = now
    took_s = before - began
    return {
        "seconds": round(took_s, 3),
        "loaded_s": round(loaded_s, 3) if known else None,
        "limit_w": limit_w if known else None,
        "mean_w": round(joules / took_s, 1) if known and took_s > 0 else None,
    }
