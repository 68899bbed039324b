# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a device of NVIDIA's DRA driver is, as its ResourceSlice says it. Pure.

Whole GPUs have type `gpu`, which is what the class of GPUs takes; MIG devices have type `mig` and the UUID of the GPU
that they are parts of, and where a GPU was parted beforehand it is not listed itself; `vfio` is a GPU once more, for
virtual machines (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/{deviceinfo,mig}.go and its chart,
deviceclass-gpu.yaml). A GPU that its health monitor lost, or that had a fatal XID, gets a taint with effect NoSchedule
(device_health.go there; KEP-5055): no claim gets it, while the slice lists it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = Mapping[str, Any]
_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def _part(device: Json, name: str) -> Any:
    """Return a part of a device; v1beta1 keeps it one level deeper."""
    return device.get(name) or (device.get("basic") or {}).get(name) or {}


def _attribute(device: Json, name: str) -> str:
    return str((_part(device, "attributes").get(name) or {}).get("string", ""))


def uuid_of(device: Json) -> str:
    """Return the UUID of a device, empty if it has none."""
    return _attribute(device, "uuid")


def is_whole_gpu(device: Json) -> bool:
    """Tell whether a device is a GPU and no part of one that the driver lists beside it."""
    return (_attribute(device, "type") or "gpu") == "gpu"


def is_kept_away(device: Json) -> bool:
    """Tell whether a taint keeps claims away from a device."""
    return any(taint.get("effect") in _KEEPS_AWAY for taint in _part(device, "taints") or ())


def gpus_covered(devices: Iterable[Json]) -> int:
    """Return of how many GPUs these devices are the whole or parts; what has no type, or a taint, counts for none."""
    open_ones = [device for device in devices if not is_kept_away(device)]
    whole = {uuid_of(d) or str(d.get("name")) for d in open_ones if _attribute(d, "type") == "gpu"}
    parts = {parent for d in open_ones if _attribute(d, "type") == "mig" and (parent := _attribute(d, "parentUUID"))}
    return len(whole | parts)
