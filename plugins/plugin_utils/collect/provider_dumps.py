# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a provider's own list of a cluster's GPU pools and add-ons.

No object of Kubernetes has who installs the driver and which device plugin runs. The names and values are upstream's
(NVIDIA/aicr pkg/collector/k8s), so that its constraints hold. Pools that differ are `Mixed`, which no constraint
requires. Without GPU pools there is no such reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..outcome.errors import InputError
from ..snapshot.model import Attributes

Row = Mapping[str, Any]
MIXED = "Mixed"
_INSTALLED, _DISABLED = "Installed", "Disabled"

# Azure's sizes with NVIDIA GPUs, without those of the same families that have AMD GPUs (learn.microsoft.com, "GPU
# accelerated virtual machine sizes": ND MI300X v5, NVads V710 v5).
_AZURE_GPU = re.compile(r"standard_n[cdv](?!.*_(mi3\d\dx|v620|v710)(_|$))", re.IGNORECASE)


def _aks_driver(pool: Row) -> str:
    """Return who installs the driver of an agent pool (Azure REST API, AgentPool, GPUProfile).

    AKS does, unless the profile has `None`. A pool whose whole stack AKS manages is `Managed`.
    """
    profile = pool.get("gpuProfile") or {}
    whole = profile.get("nvidia")
    if whole is not None and str(whole.get("managementMode")).lower() != "unmanaged":
        return "Managed"
    return str(profile.get("driver") or "Install")


# From the first version on GKE installs a driver where a pool does not configure it; from the second on also in pools
# that it created itself (cloud.google.com/kubernetes-engine/docs/how-to/gpus, "Automatic driver installation").
_GKE_INSTALLS, _GKE_INSTALLS_IN_ITS_OWN = (1, 30, 1, 1156000), (1, 32, 2, 1297000)
_GKE_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)-gke\.(\d+)")


def _gke_driver(pool: Row, accelerator: Row) -> str:
    """Return whether GKE installs the driver of an accelerator (its API, GPUDriverInstallationConfig)."""
    config = accelerator.get("gpuDriverInstallationConfig")
    configured = str((config or {}).get("gpuDriverVersion") or "")
    if configured == "INSTALLATION_DISABLED":
        return _DISABLED
    if configured in ("DEFAULT", "LATEST"):
        return _INSTALLED
    if configured not in ("", "GPU_DRIVER_VERSION_UNSPECIFIED"):
        return f"Unknown({configured})"
    version = _GKE_VERSION.fullmatch(str(pool.get("version")))
    if version is None:
        return "NotConfigured" if config is None else "NotInstalled"
    own = (pool.get("autoscaling") or {}).get("autoprovisioned")
    since = _GKE_INSTALLS_IN_ITS_OWN if own else _GKE_INSTALLS
    return _INSTALLED if tuple(map(int, version.groups())) >= since else _DISABLED


def _one_of(modes: Iterable[str]) -> str:
    found = set(modes)
    return found.pop() if len(found) == 1 else MIXED


def _pools(key: str, modes: list[tuple[str, str]]) -> Attributes:
    """Return the readings of GPU pools from their names and modes."""
    readings: Attributes = {"gpu-pool-count": len(modes)}
    if modes:
        readings["gpu-pools"] = ",".join(f"{name}={mode}" for name, mode in sorted(modes))
        readings[key] = _one_of(mode for _name, mode in modes)
    return readings


def _aks(rows: list[Row]) -> Attributes:
    return _pools("gpu-driver", [(row["name"], _aks_driver(row)) for row in rows if _AZURE_GPU.match(row["vmSize"])])


def _gke(rows: list[Row]) -> Attributes:
    listed = [(row, row["config"].get("accelerators")) for row in rows]
    modes = [(row["name"], _one_of(_gke_driver(row, gpu) for gpu in gpus)) for row, gpus in listed if gpus]
    return _pools("gpu-driver-installation", modes)


def _oke(rows: list[Row]) -> Attributes:
    """Return whether Oracle's add-on provides the device plugin.

    An add-on that is neither installed nor absent gives its state.
    """
    states = {row["name"].lower(): row["lifecycle-state"].lower() for row in rows}
    state = states.get("nvidiagpuplugin", "absent")
    plugin = {"active": "installed", "absent": "absent"}.get(state, f"addon-{state}")
    return {"addon-count": len(rows), "nvidia-gpu-plugin": plugin}


class _Dump(NamedTuple):
    """How to read a list: the command that prints it, the key of its rows (empty: the whole document), the reader."""

    command: str
    below: str
    read: Callable[[list[Row]], Attributes]


_DUMPS = {
    "aks-gpu-pools": _Dump("az aks nodepool list -o json", "", _aks),
    "gke-gpu-pools": _Dump("gcloud container node-pools list --cluster CLUSTER --format=json", "", _gke),
    "oke-addons": _Dump("oci ce cluster list-addons --cluster-id OCID --all --output json", "data", _oke),
}


def provider_readings(configured: Iterable[str]) -> dict[str, Attributes]:
    """Return the readings of each part of a snapshot for which a dump is given.

    Args:
        configured: `PART=FILE`, where the file has the output of the provider's tool.

    Raises:
        InputError: no such part, one twice, or a file that cannot be read or is not what that tool prints.
    """
    found: dict[str, Attributes] = {}
    for text in configured:
        part, _equals, place = (word.strip() for word in text.partition("="))
        if part not in _DUMPS or not place:
            raise InputError(f"provider {text!r}", "is no PART=FILE.", f"parts are {', '.join(_DUMPS)}")
        if part in found:
            raise InputError(f"provider {text!r}", f"{part} is there twice.", "give one file for each part")
        found[part] = _read(_DUMPS[part], Path(place).expanduser())
    return found


def _read(dump: _Dump, path: Path) -> Attributes:
    hint = f"give what this prints: {dump.command}"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.", hint) from None
    except ValueError as error:
        raise InputError(str(path), f"not JSON: {error}.", hint) from None
    try:
        rows = data[dump.below] if dump.below else data
        if not isinstance(rows, list):
            raise TypeError(f"{type(rows).__name__} is no list")
        return dump.read(rows)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(str(path), f"is not what the provider's tool prints: {error!r}.", hint) from None
