# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which extended resources the network operator of a recipe offers, through which pods get network adapters. Pure.

A NicClusterPolicy (or NicNodePolicy) has the configuration of two device plugins as text. The shared plugin offers each
resource `rdmaHcaMax` times on every node with an adapter that matches (Mellanox/k8s-rdma-shared-dev-plugin, README.md
and pkg/resources/resources_manager.go). The plugin for virtual functions and whole devices offers one unit for each
device (k8snetworkplumbingwg/sriov-network-device-plugin, README.md). A SriovNetworkNodePolicy creates virtual functions
and such a resource of them (k8snetworkplumbingwg/sriov-network-operator, api/v1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..outcome.errors import InputError
from ..runtime.foreign_yaml import documents
from .manifest import manifests_of

NETWORK_OPERATORS = ("network-operator", "network-operator-ocp-olm")
# Prefixes of resources where a configuration has none: constants of the two plugins, and for virtual functions what the
# chart configures (Mellanox/network-operator, deployment/network-operator/values.yaml) or the operator's default.
_SHARED_PREFIX, _DEVICE_PREFIX = "rdma", "intel.com"
_FUNCTION_PREFIX = {"network-operator": "nvidia.com", "network-operator-ocp-olm": "openshift.io"}
_POLICIES = ("NicClusterPolicy", "NicNodePolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterPromise:
    """A resource that nodes are to offer.

    `count` is how many, None for one unit for each adapter. `source` is where that is configured. With a `problem` the
    configuration cannot be read, so what is promised is not known.
    """

    name: str
    count: int | None
    source: str
    problem: str = ""


def adapter_promises(recipe: Mapping[str, Any] | None) -> tuple[AdapterPromise, ...]:
    """Return what the manifests of a recipe's network operator promise. What cannot be read becomes a `problem`."""
    found: list[AdapterPromise] = []
    for entry in (recipe or {}).get("componentRefs") or ():
        name = str(entry.get("name", ""))
        if name not in NETWORK_OPERATORS:
            continue
        problems: list[InputError] = []
        for manifest in manifests_of(entry, name, problems):
            found += _of_object(manifest.body, f"{manifest.title} ({manifest.file})", name)
        found += [AdapterPromise(name="", count=None, source=e.subject, problem=e.reason) for e in problems]
    return tuple(found)


def _of_object(body: Mapping[str, Any], source: str, component: str) -> Iterable[AdapterPromise]:
    spec = body.get("spec") or {}
    if body.get("kind") in _POLICIES:
        yield from _shared(spec.get("rdmaSharedDevicePlugin") or {}, source)
        yield from _devices(spec.get("sriovDevicePlugin") or {}, source)
    elif body.get("kind") == "SriovNetworkNodePolicy" and spec.get("isRdma"):
        name = f"{_FUNCTION_PREFIX[component]}/{spec.get('resourceName', '')}"
        yield AdapterPromise(name=name, count=None, source=source)


def _shared(plugin: Mapping[str, Any], source: str) -> Iterable[AdapterPromise]:
    for entry, problem in _configured(plugin, "configList", f"{source}, rdmaSharedDevicePlugin.config"):
        many = entry.get("rdmaHcaMax")
        if not problem and (not isinstance(many, int) or isinstance(many, bool)):
            problem = f"rdmaHcaMax is {many!r}, not a number"
        name = f"{entry.get('resourcePrefix') or _SHARED_PREFIX}/{entry.get('resourceName', '')}"
        count = None if problem else many
        yield AdapterPromise(name="" if problem else name, count=count, source=source, problem=problem)


def _devices(plugin: Mapping[str, Any], source: str) -> Iterable[AdapterPromise]:
    for entry, problem in _configured(plugin, "resourceList", f"{source}, sriovDevicePlugin.config"):
        name = f"{entry.get('resourcePrefix') or _DEVICE_PREFIX}/{entry.get('resourceName', '')}"
        yield AdapterPromise(name="" if problem else name, count=None, source=source, problem=problem)


def _configured(plugin: Mapping[str, Any], key: str, where: str) -> Iterable[tuple[Mapping[str, Any], str]]:
    """Yield the entries of a plugin's configuration, each with its problem. There are none without a plugin."""
    text = plugin.get("config")
    if not text:
        return
    try:
        # JSON is YAML too.
        found = documents(str(text))
    except ValueError as error:
        yield {}, f"{where} cannot be read: {str(error)[:200]}"
        return
    entries = found[0].get(key) if found and isinstance(found[0], Mapping) else None
    if not isinstance(entries, list) or not entries:
        yield {}, f"{where} has no {key}"
        return
    for entry in entries:
        named = isinstance(entry, Mapping) and isinstance(entry.get("resourceName"), str) and entry["resourceName"]
        yield (entry, "") if named else ({}, f"{where}: an entry of {key} has no resourceName")
