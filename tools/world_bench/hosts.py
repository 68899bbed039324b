# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate nodes of a world: the tools of its simulated hosts are run, and what they print is kept as a run keeps it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import Moment, load_kind, tools_asked_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import node_requests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.plan import mark_fabric_loaded
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.host_record import (
    host_directory,
    tools_path,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.loaded import mark_loaded
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import Node

from .kept_runs import run_or_keep
from .place import Place

_MOST_BYTES = 10_000_000
_LIMIT_S, _HANG_S, _ASKING_S = 20.0, 1.0, 0.6


def path_of(root: Path, name: str) -> str:
    """Return a PATH on which the programs of the simulated host come first."""
    return f"{tools_path(root, name)}{os.pathsep}{os.environ['PATH']}"


@contextmanager
def tools_of(root: Path, name: str) -> Iterator[None]:
    """Within it, programs are those of the simulated host."""
    before = os.environ["PATH"]
    os.environ["PATH"] = path_of(root, name)
    try:
        yield
    finally:
        os.environ["PATH"] = before


def probe(place: Place) -> None:
    """Ask every host in scope, whose files are prepared, and keep the answers."""
    for host in place.site.in_scope:
        write_evidence(place.run_dir, _asked(place.model.node(host.name), place.directory))


def probe_adapters(place: Place) -> None:
    """Ask every host in scope for its adapters and what is beside its GPUs, as the play before gate fabric does."""
    for host in place.site.in_scope:
        asked = _asked(place.model.node(host.name), place.directory, ("ibstat", "nvidia_smi_topo"))
        write_evidence(place.run_dir, asked)


def probe_state(place: Place, gate: str, moment: Moment) -> None:
    """Ask every host in scope for its state before or after the load of a gate, as the plays around the gate do."""
    names = tuple(tool.name for tool in tools_asked_again())
    for host in place.site.in_scope:
        write_evidence(
            place.run_dir, _asked(place.model.node(host.name), place.directory, names), load_kind(gate, moment)
        )


def load(place: Place, program: str) -> None:
    """Change the hosts that the load of that program changes."""
    for node in place.model.nodes:
        if node.hurt_by == program:
            mark_loaded(host_directory(place.directory, node.name))
    mark_fabric_loaded(place.directory)


def _asked(node: Node, root: Path, tools: tuple[str, ...] | None = None) -> HostEvidence:
    if not node.reachable:
        return unreached(node.name, "No route to host")
    limit_s = _HANG_S if "hang" in node.tools.values() else _LIMIT_S
    requests = node_requests(tools=tools, timeout_s=limit_s, diag_level=3, diag_timeout_s=limit_s)
    runs = run_or_keep(host_directory(root, node.name), path_of(root, node.name), requests, _MOST_BYTES)
    # The hosts of a world are asked at once, and their clocks are that of this machine.
    ahead_s = node.clock.ahead_s
    off_s = (ahead_s - _ASKING_S, ahead_s + _ASKING_S)
    return HostEvidence(
        host=node.name,
        reached=True,
        clock_off_s=off_s,
        tools={name: from_plain(ToolRun, run, name) for name, run in runs.items()},
    )
