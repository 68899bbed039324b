# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The values that gpufleet_driver_owner lays over a recipe, as a layer of query and explain, and the values they
replace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...outcome.errors import InputError
from ...recipe.explain import Stage, has
from ...recipe.hydrate import component_values, file_values, value_files
from ...recipe.overrides import component_name, with_overrides
from ...recipe.paths import leaves, lookup, shown
from ...recipe.request import Answer
from ...recipe.yaml_text import Path as ValuePath
from ...site.model import DriverOwner

# The owner of the GPU driver decides what the recipe does about it: gpufleet_driver_owner and the recipe must agree. On
# a host with its own driver, an operator that installs a second one fails, and so does a DRA driver that looks for the
# driver where the operator would have put it: the DRA driver's init container waits for ever for nvidia-smi below
# `nvidiaDriverRoot` (kubernetes-sigs/dra-driver-nvidia-gpu, hack/kubelet-plugin-prestart.sh). The modules gdrdrv and
# nvidia_peermem are loaded by containers of the operator's driver DaemonSet (NVIDIA/gpu-operator,
# assets/state-driver/0500_daemonset.yaml): without it, requesting them has no effect.

OPERATOR, DRA_DRIVER = "gpu-operator", "nvidia-dra-driver-gpu"
OPERATORS_ROOT, HOSTS_ROOT = "/run/nvidia/driver", "/"


def driver_overrides(
    owner: DriverOwner, values: Mapping[str, Mapping[str, Any]], configured: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the overrides with which the recipe leaves the driver to its owner; empty where it already does.

    Args:
        owner: who installs the driver.
        values: component of the recipe to its merged values, including the site's overrides.
        configured: the site's own overrides, which take precedence.

    Raises:
        InputError: the recipe's layers, or the site's overrides, contradict the owner.
    """
    operator = values.get(OPERATOR)
    if operator is None:
        # Another operand of the platform installs the driver; chart values do not show what it does.
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
        own = configured.get(OPERATOR) or {}
        if isinstance(own, Mapping) and (own.get("driver") or {}).get("enabled"):
            reason = "is host, and the overrides of gpu-operator switch its driver on."
            raise InputError("gpufleet_driver_owner", reason, "take that override away, or set it to operator")
        overrides[OPERATOR] = {"driver": {"enabled": False}}
    if (operator.get("gdrcopy") or {}).get("enabled"):
        _refuse(configured, ("gdrcopy",), "gdrdrv")
        overrides[OPERATOR] = {**overrides.get(OPERATOR, {}), "gdrcopy": {"enabled": False}}
    if ((operator.get("driver") or {}).get("rdma") or {}).get("enabled"):
        _refuse(configured, ("driver", "rdma"), "nvidia_peermem")
        below = overrides.get(OPERATOR, {})
        overrides[OPERATOR] = {**below, "driver": {**below.get("driver", {}), "rdma": {"enabled": False}}}
    dra = values.get(DRA_DRIVER)
    if dra is not None and dra.get("nvidiaDriverRoot") == OPERATORS_ROOT:
        own = configured.get(DRA_DRIVER) or {}
        if isinstance(own, Mapping) and own.get("nvidiaDriverRoot"):
            reason = f"is host, and nvidiaDriverRoot of {DRA_DRIVER} is {OPERATORS_ROOT}, the operator's place."
            raise InputError("gpufleet_driver_owner", reason, "take that override away, or name the host's own root")
        overrides[DRA_DRIVER] = {"nvidiaDriverRoot": HOSTS_ROOT}
    return overrides


def _refuse(configured: Mapping[str, Any], path: tuple[str, ...], module: str) -> None:
    """Refuse a module that the site's own overrides request and that only the operator's driver would load."""
    found: Any = configured.get(OPERATOR)
    for step in (*path, "enabled"):
        found = found.get(step) if isinstance(found, Mapping) else None
    if found:
        at = ".".join((*path, "enabled"))
        reason = f"is host, and {at} of {OPERATOR} would load {module} beside the operator's driver only."
        raise InputError("gpufleet_driver_owner", reason, f"take that override away, and load {module} on the hosts")


VARIABLE = "gpufleet_driver_owner"
_DRIVER = ("components", OPERATOR, "values", "driver")


def with_owner(answered: Answer, configured: Mapping[str, Any], owner: str | None) -> tuple[Answer, tuple[Stage, ...]]:
    """Return the recipe of a run with this driver owner, and what was laid over it; without an owner unchanged.

    Args:
        answered: the recipe, including the user's overrides.
        configured: the user's overrides by component.
        owner: `host` or `operator`.

    Raises:
        InputError: the recipe's layers, or the overrides, contradict the owner.
    """
    if not owner:
        return answered, ()
    catalogue = answered.catalogue
    values = {entry.name: component_values(entry, catalogue) for entry in answered.result.components}
    own = {component_name(key, list(values), catalogue): value for key, value in configured.items()}
    overrides = driver_overrides(DriverOwner(owner), values, own)
    if not overrides:
        return answered, ()
    result = with_overrides(answered.result, catalogue, overrides, check=False)
    return replace(answered, result=result), (Stage(f"{VARIABLE}: {owner}", "the inventory", result),)


def idle_value(owner: str | None, path: ValuePath) -> str:
    """Return as a sentence why a value of a recipe has no effect with this driver owner; empty where it has one.

    Args:
        owner: `host` or `operator`; None: unknown.
        path: of the value in a query, such as ("components", "gpu-operator", "values", "driver", "version").
    """
    if owner != DriverOwner.HOST.value or len(path) < 5 or path[:4] != _DRIVER or path[4] == "enabled":
        return ""
    why = f"{VARIABLE} is host, so that {OPERATOR} installs no driver"
    return f"{shown(path)} has no effect: {why}, and each host has its own"


def idle_overrides(owner: DriverOwner, configured: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a warning for each driver value in the site's overrides that has no effect."""
    driver = (configured.get(OPERATOR) or {}).get("driver") or {}
    keys = sorted(driver) if isinstance(driver, Mapping) else []
    return tuple(
        f"gpufleet_overrides: {reported}" for key in keys if (reported := idle_value(owner.value, (*_DRIVER, key)))
    )


def replaced_layers(
    answered: Answer, recipe_data: Sequence[Path], owner: DriverOwner, overrides: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return a warning for each value of the site's own recipe data that the driver owner replaces.

    Args:
        answered: the recipe before the overrides.
        recipe_data: directories of the site; values of our own catalogue are replaced without a warning.
        owner: who installs the driver.
        overrides: the result of driver_overrides, by component.
    """
    if not recipe_data:
        return ()
    reported = _idle_layers(answered, recipe_data, owner, overrides)
    for path, value in leaves(dict(overrides)) if overrides else ():
        configured = _last_stated(answered, recipe_data, str(path[0]), path[1:])
        if configured is not None and configured.value != value:
            selector = shown(("components", path[0], "values", *path[1:]))
            reported.append(
                f"{selector} is {json.dumps(value)}, because {VARIABLE} is {owner.value}; {configured.layer} "
                f"({configured.file}) sets {json.dumps(configured.value, default=str)}, which has no "
                f"effect. Take it out "
                f"there, or set {VARIABLE} to what is meant."
            )
    return tuple(reported)


def _idle_layers(
    answered: Answer, recipe_data: Sequence[Path], owner: DriverOwner, overrides: Mapping[str, Any]
) -> list[str]:
    """Return a warning for each driver value in the site's own recipe data that has no effect."""
    entry = next((found for found in answered.result.components if found.name == OPERATOR), None)
    driver = component_values(entry, answered.catalogue).get("driver") if entry is not None else None
    replaced = (overrides.get(OPERATOR) or {}).get("driver") or {}
    messages = []
    for key in sorted(driver) if isinstance(driver, Mapping) else ():
        reported = idle_value(owner.value, (*_DRIVER, key)) if key not in replaced else ""
        configured = _last_stated(answered, recipe_data, OPERATOR, ("driver", key)) if reported else None
        if configured is not None:
            messages.append(f"{reported}; {configured.layer} ({configured.file}) sets it")
    return messages


class _Stated(NamedTuple):
    layer: str
    file: str
    value: Any


def _last_stated(answered: Answer, recipe_data: Sequence[Path], component: str, path: ValuePath) -> _Stated | None:
    """Return the last layer or mixin of these directories that sets a chart value, even where it changed nothing."""
    result, catalogue = answered.result, answered.catalogue
    roots = [directory.expanduser().resolve() for directory in recipe_data]
    sources = [(f"layer {name}", catalogue.layers[name]) for name in result.layers]
    fragments = [(name, layer.file, layer.fragment) for name, layer in sources]
    fragments += [
        (f"mixin {name}", catalogue.mixins[name].file, catalogue.mixins[name].fragment) for name in result.mixins
    ]
    last: _Stated | None = None
    for name, file, fragment in fragments:
        for entry in fragment.components:
            if entry.name != component:
                continue
            places = [
                (str(catalogue.files[below]), file_values(below, catalogue)) for below in value_files(entry, catalogue)
            ]
            for place, values in [*places, (file, entry.overrides)]:
                own = any(Path(place).expanduser().resolve().is_relative_to(root) for root in roots)
                if own and has(values, path):
                    last = _Stated(name, place, lookup(values, path))
    return last
