# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the InfiniBand tools of one host. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool

_LIDS = re.compile(r"^\s*EndPortLid\.+(\d+)", re.M)
_MOST_MANAGERS = 16
# LID and port in the output of `iblinkinfo -l`. A node with more ports than an adapter is a switch.
_PORT = re.compile(r"^\s*0x[0-9a-f]+\s+\"[^\n]*?\"\s+(\d+)\s+(\d+)\[", re.M)
_MOST_ADAPTER_PORTS = 2
_MOST_SWITCHES = 512
_AT_ONCE = 4
_LINK_TOOLS = ("iblinkinfo", "ibqueryerrors")


def run_fabric_tools(
    requests: list[dict[str, Any]], ports: list[str], *, interval_s: float, max_output_bytes: int, once: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the result of every tool by its name. With several ports the name ends with the port, `@mlx5_0:1`.

    A request has `tool`, `command`, `port_options` and `timeout_s`. Everything is read twice, `interval_s` apart,
    because counters and the subnet manager are judged by their change. `ibdiagnet`, `ibdiagnet_features`, `sharp_hello`
    and `ibswinfo`, which is run for every switch, run only if they are requested. With `once` only links and counters
    are read, once: another call of this kind is the second reading.
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
        for tool in _LINK_TOOLS if once else ("sminfo", *_LINK_TOOLS):
            results[tool + suffix] = run(tool, port)
    if once:
        return results
    if any(not result["missing"] for result in results.values()):
        time.sleep(interval_s)
    for suffix, port in suffixes.items():
        for tool in ("ibqueryerrors", "iblinkinfo", "sminfo"):
            results[f"{tool}_again{suffix}"] = run(tool, port)
        managers = run("saquery", port)
        results["saquery" + suffix] = managers
        for lid in sorted({int(lid) for lid in _LIDS.findall(managers["stdout"])})[:_MOST_MANAGERS]:
            results[f"sminfo_{lid}{suffix}"] = run("sminfo", port, str(lid))
        for tool in ("ibdiagnet", "ibdiagnet_features", "sharp_hello"):
            if tool in by_name:
                results[tool + suffix] = run(tool, port)
        if "ibswinfo" in by_name:
            lids = _switch_lids(results["iblinkinfo_again" + suffix]["stdout"])
            results.update(_of_switches(by_name["ibswinfo"], lids, port, suffix, max_output_bytes))
    return results


def _switch_lids(links: str) -> list[int]:
    ports: dict[int, set[str]] = {}
    for lid, port in _PORT.findall(links):
        ports.setdefault(int(lid), set()).add(port)
    return sorted(lid for lid, numbers in ports.items() if lid and len(numbers) > _MOST_ADAPTER_PORTS)[:_MOST_SWITCHES]


def _of_switches(
    request: dict[str, Any], lids: list[int], port: str, suffix: str, max_output_bytes: int
) -> dict[str, dict[str, Any]]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        asked = pool.map(lambda lid: _of_switch(request, lid, port, max_output_bytes), lids)
        return {f"ibswinfo_{lid}{suffix}": result for lid, result in zip(lids, asked)}


def _of_switch(request: dict[str, Any], lid: int, port: str, max_output_bytes: int) -> dict[str, Any]:
    """Query one switch. The local port is part of its device name (`lid-7,mlx5_0,1`)."""
    name, _colon, digits = port.partition(":")
    device = f"lid-{lid}" + (f",{name},{digits or '1'}" if port else "")
    program, *options = request["command"]
    return run_tool([program, *options, request["port_options"][0], device], request["timeout_s"], max_output_bytes)


def _place(port_options: list[str], port: str) -> list[str]:
    if not port:
        return []
    name, _colon, digits = port.partition(":")
    if len(port_options) == 1:
        return [port_options[0], f"{name}:{digits or '1'}"]
    adapter, number = port_options
    return [adapter, name, number, digits or "1"]
