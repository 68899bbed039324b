# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tool runs that the probes request of a host: the tool table with a task's options, as plain data for module_utils."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..outcome.errors import InputError
from ..runtime.host_tools import HostTool, load_host_tools
from ..runtime.strict import nearest_hint

Request = dict[str, Any]
# From this level on the diagnostic loads the GPUs (DCGM: level 1 checks only the software).
LOADING_LEVEL = 2
# At most so many ports, each queried twice.
_FABRIC_TIMES = 16
# Tools that run on a fabric only where the site has settings for their check.
FABRIC_EXTRAS = ("ibdiagnet", "ibdiagnet_features", "ibswinfo", "sharp_hello")
_PORT = re.compile(r"[A-Za-z0-9_.-]+(:[0-9]+)?")


def node_requests(
    *,
    tools: Collection[str] | None = None,
    timeout_s: float | None = None,
    timeouts: Mapping[str, Any] | None = None,
    diag_level: int,
    diag_timeout_s: float | None = None,
) -> list[Request]:
    """Return the tool runs of host_probe on a node (see module_utils/node_tools.run_tools).

    Args:
        tools: names of the tools to run; all if not given.
        timeout_s: time limit of every tool that does not load the GPUs, in place of the table's.
        timeouts: time limits of single tools, which override all others.
        diag_level: level of the diagnostic; 0 leaves out tools that load the GPUs.
        diag_timeout_s: time limit of tools that load the GPUs, in place of the table's.

    Raises:
        InputError: an unknown tool, or a time limit that is no number over 0.
    """
    known = load_host_tools().used_by("host_probe")
    names = [tool.name for tool in known]
    for name in (*(tools or ()), *(timeouts or {})):
        if name not in names:
            raise InputError(f"tool {name!r}", "is no tool of host_probe.", nearest_hint(name, names))
    single = {name: positive(f"timeouts: {name}", value) for name, value in (timeouts or {}).items()}
    for option, value in (("timeout", timeout_s), ("diag_timeout", diag_timeout_s)):
        if value is not None:
            positive(option, value)

    def limit(tool: HostTool) -> float:
        of_diagnostic = tool.loads_gpus or bool(tool.beside)
        return (
            single.get(tool.name)
            or single.get(tool.beside)
            or (diag_timeout_s if of_diagnostic else timeout_s)
            or tool.timeout_s
        )

    return [
        {
            "tool": tool.name,
            "commands": [_at_level(command, diag_level) for command in tool.commands],
            "timeout_s": limit(tool),
            "alone": tool.loads_gpus,
            "after": tool.after,
            "beside": tool.beside,
            "again": tool.again,
        }
        for tool in known
        if (tools is None or tool.name in tools) and (diag_level > 0 or not (tool.loads_gpus or tool.beside))
    ]


def fabric_requests(
    *,
    ports: Collection[str] = (),
    ibdiagnet: bool,
    extras: Collection[str] = (),
    timeout_s: float | None = None,
    ibdiagnet_timeout_s: float | None = None,
) -> list[Request]:
    """Return the tool runs of fabric_probe (see module_utils/fabric_tools.run_fabric_tools).

    Args:
        ports: as `adapter:port`.
        ibdiagnet: whether it runs, too.
        extras: more tools of FABRIC_EXTRAS.
        timeout_s: time limit of every tool, in place of the table's.
        ibdiagnet_timeout_s: time limit of ibdiagnet, in place of the table's.

    Raises:
        InputError: a time limit that is not over 0, a port that is no `adapter:port`, or an unknown extra.
    """
    wanted = {*extras, *(("ibdiagnet",) if ibdiagnet else ())}
    for name in wanted - set(FABRIC_EXTRAS):
        raise InputError("extras", f"{name!r} is none of them.", nearest_hint(name, FABRIC_EXTRAS))
    for port in ports:
        if not _PORT.fullmatch(port):
            raise InputError("ports", f"{port!r} is no adapter:port.", "write it as mlx5_0:1")
    for option, value in (("timeout", timeout_s), ("ibdiagnet_timeout", ibdiagnet_timeout_s)):
        if value is not None:
            positive(option, value)
    return [
        {
            "tool": tool.name,
            "command": list(tool.commands[0]),
            "port_options": list(tool.port_options),
            "timeout_s": (ibdiagnet_timeout_s if tool.name.startswith("ibdiagnet") else timeout_s) or tool.timeout_s,
        }
        for tool in load_host_tools().used_by("fabric_probe")
        if tool.name in wanted or tool.name not in FABRIC_EXTRAS
    ]


def longest_s(requests: Sequence[Request]) -> float:
    """Return the upper bound of the time that all of these tools take on a host, in seconds."""
    limits = [(request, request["timeout_s"] * len(request.get("commands", [0]))) for request in requests]
    quick = sum(limit for request, limit in limits if not request.get("alone") and not request.get("beside"))
    again = sum(limit for request, limit in limits if request.get("again"))
    alone = sum(limit for request, limit in limits if request.get("alone"))
    # Fabric tools query every port, and twice.
    return float(quick + again + alone) * (1 if all("alone" in request for request in requests) else _FABRIC_TIMES)


def pod_tools(diag_level: int = 0) -> tuple[tuple[HostTool, tuple[str, ...]], ...]:
    """Return the tools to run in the operator's pods of one node, each with its command.

    Args:
        diag_level: level of the diagnostic; 0 leaves out tools that load the GPUs.
    """
    tools = (tool for tool in load_host_tools().used_by("host_probe") if tool.asks_driver)
    return tuple(
        (tool, tuple(_at_level(tool.pod_command, diag_level)))
        for tool in tools
        if diag_level > 0 or not tool.loads_gpus
    )


def _at_level(command: Collection[str], level: int) -> list[str]:
    return [word.replace("{level}", str(level)) for word in command]


def positive(option: str, value: Any) -> float:
    """Return the value as a number.

    Raises:
        InputError: it is no number over 0.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        raise InputError(option, f"is {value!r}, expected a number over 0.", "correct it")
    return number
