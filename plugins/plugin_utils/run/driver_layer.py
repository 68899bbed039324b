# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who owns the GPU driver decides what the recipe does about it: gpufleet_driver_owner and the recipe say the same.

An operator that installs a second driver, and a DRA driver that looks for the driver where the operator would have put
it, both fail on a host that brings its own: the DRA driver's init container waits for ever for nvidia-smi below
`nvidiaDriverRoot` (kubernetes-sigs/dra-driver-nvidia-gpu, hack/kubelet-plugin-prestart.sh). The modules gdrdrv and
nvidia_peermem are loaded by containers of the operator's driver DaemonSet (NVIDIA/gpu-operator,
assets/state-driver/0500_daemonset.yaml): without it, asking for them does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcome.errors import InputError
from ..site.model import DriverOwner

OPERATOR, DRA_DRIVER = "gpu-operator", "nvidia-dra-driver-gpu"
OPERATORS_ROOT, HOSTS_ROOT = "/run/nvidia/driver", "/"


def driver_overrides(
    owner: DriverOwner, values: Mapping[str, Mapping[str, Any]], stated: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what must be overridden so that the recipe leaves the driver to its owner; nothing where it does.

    Args:
        owner: who installs the driver.
        values: component of the recipe to its merged values, the site's overrides among them.
        stated: the site's own overrides, which are never overruled.

    Raises:
        InputError: the recipe's layers, or the site's overrides, say the opposite.
    """
    operator = values.get(OPERATOR)
    if operator is None:
        # Another operand of the platform brings the driver; what it does is not said by chart values.
        return {}
    installs = (operator.get("driver") or {}).get("enabled", True) is not False
    if owner is DriverOwner.OPERATOR:
        if not installs:
            reason = "is operator, and the recipe of these criteria leaves the driver to the host (driver.enabled)."
            hint = "set gpufleet_driver_owner: host, or override gpu-operator: {driver: {enabled: true}}"
            raise InputError("gpufleet_driver_owner", reason, hint)
        return {}
    overrides: dict[str, Any] = {}
    if installs:
        own = stated.get(OPERATOR) or {}
        if isinstance(own, Mapping) and (own.get("driver") or {}).get("enabled"):
            reason = "is host, and the overrides of gpu-operator switch its driver on."
            raise InputError("gpufleet_driver_owner", reason, "take that override away, or set it to operator")
        overrides[OPERATOR] = {"driver": {"enabled": False}}
    if (operator.get("gdrcopy") or {}).get("enabled"):
        _refuse(stated, ("gdrcopy",), "gdrdrv")
        overrides[OPERATOR] = {**overrides.get(OPERATOR, {}), "gdrcopy": {"enabled": False}}
    if ((operator.get("driver") or {}).get("rdma") or {}).get("enabled"):
        _refuse(stated, ("driver", "rdma"), "nvidia_peermem")
        below = overrides.get(OPERATOR, {})
        overrides[OPERATOR] = {**below, "driver": {**below.get("driver", {}), "rdma": {"enabled": False}}}
    dra = values.get(DRA_DRIVER)
    if dra is not None and dra.get("nvidiaDriverRoot") == OPERATORS_ROOT:
        own = stated.get(DRA_DRIVER) or {}
        if isinstance(own, Mapping) and own.get("nvidiaDriverRoot"):
            reason = f"is host, and nvidiaDriverRoot of {DRA_DRIVER} is {OPERATORS_ROOT}, the operator's place."
            raise InputError("gpufleet_driver_owner", reason, "take that override away, or name the host's own root")
        overrides[DRA_DRIVER] = {"nvidiaDriverRoot": HOSTS_ROOT}
    return overrides


def _refuse(stated: Mapping[str, Any], path: tuple[str, ...], module: str) -> None:
    """Refuse a module that the site's own overrides ask for and that only the operator's driver would load."""
    found: Any = stated.get(OPERATOR)
    for step in (*path, "enabled"):
        found = found.get(step) if isinstance(found, Mapping) else None
    if found:
        at = ".".join((*path, "enabled"))
        reason = f"is host, and {at} of {OPERATOR} would load {module} beside the operator's driver only."
        raise InputError("gpufleet_driver_owner", reason, f"take that override away, and load {module} on the hosts")
