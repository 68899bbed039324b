# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks the tools of one host about its InfiniBand fabric. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import re
import time
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool

_LIDS = re.compile(r"^\s*EndPortLid\.+(\d+)", re.M)
_MOST_MANAGERS = 16


def run_fabric_tools(
    requests: list[dict[str, Any]], ports: list[str], *, interval_s: float, max_output_bytes: int
) -> dict[str, dict[str, Any]]:
    """Return what every tool did, by its name; for a port of its own the name ends with `@mlx5_0:1`.

    A request has `tool`, `command`, `port_options` and `timeout_s`. Everything is read twice with time between:
    counters and the subnet manager are judged by how they go on. `ibdiagnet` runs only if it is requested.
    """
    by_name = {request["tool"]: request for request in requests}

    def run(tool: str, port: str, *arguments: str) -> dict[str, Any]:
        request = by_name[tool]
        program, *options = request["command"]
        place = _place(request["port_options"], port)
        return run_tool([program, *place, *options, *arguments], request["timeout_s"], max_output_bytes)

    results: dict[str, dict[str, Any]] = {}
    suffixes = {f"@{port}": port for port in ports} or {"": ""}
    for suffix, port in suffixes.items():
        for tool in ("sminfo", "iblinkinfo", "ibqueryerrors"):
            results[tool + suffix] = run(tool, port)
    if any(not result["missing"] for result in results.values()):
        time.sleep(interval_s)
    for suffix, port in suffixes.items():
        for tool in ("ibqueryerrors", "iblinkinfo", "sminfo"):
            results[f"{tool}_again{suffix}"] = run(tool, port)
        managers = run("saquery", port)
        results["saquery" + suffix] = managers
        for lid in sorted({int(lid) for lid in _LIDS.findall(managers["stdout"])})[:_MOST_MANAGERS]:
            results[f"sminfo_{lid}{suffix}"] = run("sminfo", port, str(lid))
        if "ibdiagnet" in by_name:
            results["ibdiagnet" + suffix] = run("ibdiagnet", port)
    return results


def _place(port_options: list[str], port: str) -> list[str]:
    if not port:
        return []
    adapter, number = port_options
    name, _colon, digits = port.partition(":")
    return [adapter, name, number, digits or "1"]
