# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a device says of itself: who it is, and what it computes with. Needs Python 3.9 and PyTorch."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

import torch


def identity(device: torch.device, slot: int) -> dict[str, Any]:
    """Return UUID, name and capability of a device, driver and libraries; empty for what it does not tell."""
    if device.type != "cuda":
        name = platform.processor() or platform.machine()
        return {
            "uuid": f"CPU-{slot}",
            "name": name,
            "driver": "",
            "capability": "",
            "multiprocessors": 0,
            **_libraries(),
        }
    known = torch.cuda.get_device_properties(device)
    uuid = str(getattr(known, "uuid", ""))
    return {
        "uuid": uuid if uuid.startswith("GPU-") or not uuid else f"GPU-{uuid}",
        "name": known.name,
        "driver": _driver(),
        "capability": f"{known.major}.{known.minor}",
        "multiprocessors": known.multi_processor_count,
        **_libraries(),
    }


def _libraries() -> dict[str, str]:
    cuda = str(torch.version.cuda or "")
    return {
        "torch": torch.__version__,
        "cuda": cuda,
        "cublas": _cublas(cuda.partition(".")[0]) if torch.cuda.is_available() else "",
        "cudnn": str(torch.backends.cudnn.version() or "") if torch.cuda.is_available() else "",
    }


def _driver() -> str:
    """Return the version of the driver, by NVML (nvmlSystemGetDriverVersion); empty where it does not tell it."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    text = ctypes.create_string_buffer(80)
    if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(80)):
        return ""
    return text.value.decode("ascii", "replace")


def _cublas(major: str) -> str:
    """Return the version of cuBLAS that PyTorch has loaded (cublasGetProperty); empty where that cannot be asked."""
    try:
        library = ctypes.CDLL(f"libcublas.so.{major}")
    except OSError:
        return ""
    parts = []
    for which in range(3):
        number = ctypes.c_int()
        if library.cublasGetProperty(which, ctypes.byref(number)):
            return ""
        parts.append(str(number.value))
    return ".".join(parts)
