# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts to plan for: an Ubuntu and an EL host whose repositories have two versions of everything."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.declaration import (
    Declaration,
    read_declaration,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.plan import HostPlan, question
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.state import (
    HostState,
    Offer,
    PackageState,
    System,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

UBUNTU: Mapping[str, str] = MappingProxyType(
    {"family": "debian", "distribution": "Ubuntu", "release": "24.04", "kernel": "6.8.0-60-generic"}
)
ROCKY = {"family": "redhat", "distribution": "Rocky Linux", "release": "9", "kernel": "5.14.0-570.el9.x86_64"}
VERSIONS = ("580.105.08", "580.95.05", "570.172.08")
DRIVER = {"driver": {"version": "580.95.05"}}
FM = {**DRIVER, "nvlink": {"services": "fabric-manager"}}
REPOSITORY = "https://mirror.example/cuda ubuntu2404/"


def declared(**parts: Any) -> Declaration:
    """A declaration as a site writes it."""
    return read_declaration(parts, "gpufleet_converge of gpu01")


def offers(system: System, versions: tuple[str, ...] = VERSIONS, origin: str = REPOSITORY) -> tuple[Offer, ...]:
    """What a repository has of one package, versions written as the packagers of that family do."""
    written = "{}-1ubuntu1" if system.family == "debian" else "3:{}-1.el9"
    return tuple(Offer(version=written.format(version), origin=origin) for version in versions)


def host(facts: Mapping[str, str] = UBUNTU, **shown: Any) -> HostState:
    """A host that shows nothing but its operating system, and what is stated."""
    entry = "ro crashkernel=1G" if facts["family"] == "redhat" else ""
    usual = {"architecture": "x86_64", "boot": "boot-1", "kernel_headers": True, "boot_arguments": entry}
    return HostState(**{**usual, **facts, **shown})


def stocked(
    wanted: Declaration,
    facts: Mapping[str, str] = UBUNTU,
    sku: Sku | None = None,
    installed: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
    **shown: Any,
) -> HostState:
    """A host whose repositories have every package that the declaration needs, except those in `without`."""
    bare = host(facts)
    own = tuple(part.version for part in (wanted.dcgm, wanted.container_toolkit) if part)
    packages = {
        name: PackageState(
            installed=(installed or {}).get(name, ""),
            available=() if name in without else offers(bare.system, (*VERSIONS, *own)),
        )
        for name in question(wanted, bare, sku).packages
    }
    return host(facts, packages=packages, **shown)


def as_left(wanted: Declaration, plan: HostPlan, facts: Mapping[str, str] = UBUNTU, **shown: Any) -> HostState:
    """The host after everything of the plan was done and it was rebooted where that is needed."""
    version = "580.95.05"
    installed = {p.name: p.version or "1.0-1" for one in plan.transactions for p in one.packages}
    state = stocked(wanted, facts, installed=installed)
    packages = {
        name: PackageState(installed=p.installed, available=p.available, held=name in {h.name for h in plan.hold})
        for name, p in state.packages.items()
    }
    left = {
        "packages": packages,
        "digests": {file.path: file.digest for file in plan.files},
        "units": {unit.name: "active" for unit in plan.units},
        "ledger": plan.ledger_after,
        "loaded_driver": version,
        "library_driver": version,
        "sysctl": {key: "\t".join(value.split()) for key, value in wanted.sysctl.items()},
        "dkms": (f"nvidia/{version}, {facts['kernel']}, x86_64: installed",),
        "fabric_states": ("Completed",) * 8,
        "command_line": "ro " + " ".join(wanted.kernel_arguments),
        "boot": "boot-2",
    }
    return host(facts, **{**left, **shown})
