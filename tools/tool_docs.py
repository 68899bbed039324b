# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/tools.md, the table of the tools that hosts must have."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import (
    FAILURE_KINDS,
    HostTool,
    HostTools,
)

_PARTS = {
    "host_probe": (
        "Every GPU host",
        "Gate nodes runs these on every host of the inventory, in one module execution for each (`host_probe`).",
        "Time limits: `gpufleet_nodes_tool_timeout`, `gpufleet_nodes_tool_timeouts` and `gpufleet_nodes_diag_timeout`.",
    ),
    "fabric_probe": (
        "The host that reads the InfiniBand fabric",
        "Gate fabric runs these on one host (`gpufleet_fabric_host`), through each port of `fabric.ports`",
        "(`fabric_probe`). `gpufleet_fabric_tool_timeout` and `gpufleet_fabric_ibdiagnet_timeout` change the limits.",
    ),
    "node_pod": (
        "Nodes without SSH",
        "A snapshot's pod ([snapshot.md](../snapshot.md)) runs these on a node that has neither SSH nor Python, beside",
        "those of the first table that can be asked there.",
    ),
}


def page(table: HostTools) -> str:
    """Return docs/reference/tools.md."""
    lines = [
        "<!-- Generated from recipes/gates/<gate>/tools.yaml (make reference). -->",
        "# Tools that hosts must have",
        "",
        "To judge hosts the collection runs these commands on them. Each has a time limit, after which its whole",
        "process group is killed. A tool that gives nothing usable is reported once, as *unknown*, by the check that",
        "owns it; the cause is the one of the table and why: `ibstat-missing`. Checks that need the same tool are",
        f"blocked by the owner. Why is one of {_listed(FAILURE_KINDS)}.",
        "",
    ]
    for part, (title, *intro) in _PARTS.items():
        tools = [tool for tool in table.tools if tool.used_by == part]
        lines += [f"## {title}", "", *intro, "", *_table(tools), ""]
    driver = [tool for tool in table.tools if tool.pod is not None]
    lines += [
        "## With the driver in the operator's pods",
        "",
        "Where `gpufleet_driver_owner` is `operator`, gate gpu_stack runs these in the operator's pods instead:",
        "",
        "| tool | pod | command |",
        "| --- | --- | --- |",
        *(f"| {tool.name} | `{tool.pod.app}` | {_command(tool.pod_command)} |" for tool in driver if tool.pod),
        "",
        "## What to install",
        "",
        "| package | for |",
        "| --- | --- |",
        *(f"| {name} | {_listed(_programs(table, name))} |" for name in _packages(table)),
        "",
    ]
    return "\n".join(lines)


def _table(tools: list[HostTool]) -> list[str]:
    rows = [
        "| tool | command | reports | root | seconds | owner | cause |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for tool in tools:
        commands = "<br>else ".join(_command(command) for command in tool.commands)
        root = "yes" if tool.needs_root else ""
        judged = (f"`{tool.owner}`", f"`{tool.cause}-…`") if tool.owner else ("", "")
        cells = (tool.name, commands, tool.reports, root, f"{tool.timeout_s:g}", *judged)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _command(command: Iterable[str]) -> str:
    # A script is shown by its beginning.
    words = [word if len(word) < 40 else "…" for word in command]
    return f"`{' '.join(words)}`"


def _packages(table: HostTools) -> list[str]:
    return sorted({tool.package for tool in table.tools}, key=str.lower)


def _programs(table: HostTools, package: str) -> list[str]:
    return sorted({program for tool in table.tools if tool.package == package for program in tool.programs})


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
