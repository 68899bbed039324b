# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults for the fleet of facts that the tests of gate nodes judge, and what the gate says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

# The fleet of check/nodes/conftest.py; importlib mode gives conftest files no name to import it by.
AnyFleet = Any
Mutate = Callable[[AnyFleet], None]
XID = "NVRM: Xid (PCI:0000:21:00): {}, pid='<unknown>', name=<unknown>, {}"


def said(outcomes: tuple[Outcome, ...], status: Status) -> set[tuple[str, str, str]]:
    """(check, cause, node or part) of every outcome of that status, `blocked-by` left out."""
    return {
        (o.check, o.cause, ",".join(s.name for s in (o.subjects[1:] or o.subjects)))
        for o in outcomes
        if o.status is status and not o.blocked_by
    }


def gpu(index: int, **changes: Any) -> Mutate:
    """Change GPU `index` of gpu02: attributes by name, else values of its XML."""

    def mutate(fleet: AnyFleet) -> None:
        part = fleet.hosts["gpu02"].gpus[index]
        for name, value in changes.items():
            if hasattr(part, name):
                setattr(part, name, value)
            else:
                part.values[name] = value

    return mutate


def host(**changes: Any) -> Mutate:
    """Change attributes of gpu02."""

    def mutate(fleet: AnyFleet) -> None:
        for name, value in changes.items():
            setattr(fleet.hosts["gpu02"], name, value)

    return mutate


def tool(name: str, **run: Any) -> Mutate:
    """Replace what one tool of gpu02 did."""
    return lambda fleet: fleet.hosts["gpu02"].tools.__setitem__(name, ToolRun(argv=(name,), **run))


def hca(name: str, **values: str) -> Mutate:
    """Change one adapter of gpu02."""
    return lambda fleet: fleet.hosts["gpu02"].hcas[name].update(values)


def kernel(*lines: str) -> Mutate:
    """Add lines to the kernel log of gpu02."""
    return lambda fleet: fleet.hosts["gpu02"].kernel.extend(lines)


def same_uuid(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].gpus[0].uuid = fleet.hosts["gpu01"].gpus[3].uuid


def same_serial(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].gpus[0].serial = fleet.hosts["gpu01"].gpus[3].serial


def weak_links(fleet: AnyFleet) -> None:
    """Two links of GPU 1 are down; the matrix then shows NV16 for it, as in reality."""
    fleet.hosts["gpu02"].gpus[1].links = 16
    fleet.hosts["gpu02"].topo_words = {(0, 1): "NV16", (1, 2): "NV16", (1, 3): "NV16"}


def slow_link(fleet: AnyFleet) -> None:
    """One link of GPU 1 runs at half of its rate."""
    fleet.hosts["gpu02"].gpus[1].link_gbps = "13.281"


def no_fabric_manager(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].fabric_manager = "inactive"
    for part in fleet.hosts["gpu02"].gpus:
        part.values |= {"state": "In Progress", "status": "N/A"}


def lost(index: int) -> Mutate:
    """A GPU that the driver cannot talk to, and the diagnostic that fails on it."""

    def mutate(fleet: AnyFleet) -> None:
        part = fleet.hosts["gpu02"].gpus[index]
        part.memory, part.values["remap"], part.values["unc"] = "GPU is lost", "GPU is lost", "GPU is lost"
        fleet.hosts["gpu02"].diag[("memory", index)] = ("Fail", {"warnings": [{"warning": "GPU is lost"}]})
        fleet.hosts["gpu02"].tools["nvidia_smi_topo"] = ToolRun(argv=("nvidia-smi",), rc=15, stderr="GPU is lost")

    return mutate


def diag(test: str, index: int, status: str, **more: Any) -> Mutate:
    """Change one result of the diagnostic."""
    return lambda fleet: fleet.hosts["gpu02"].diag.__setitem__((test, index), (status, more))
