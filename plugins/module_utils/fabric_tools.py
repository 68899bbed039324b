# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a host is asked about the InfiniBand fabric that it is on. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import re
import time
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool

# Without limits of its own the tool hides small counts; /dev/null has none. Nothing is ever cleared: other people
# read the same counters.
_ERRORS = ["ibqueryerrors", "--skip-sl", "--threshold-file", "/dev/null"]
_LIDS = re.compile(r"^\s*EndPortLid\.+(\d+)", re.M)
_MOST_MANAGERS = 16
_DIAGNOSIS = ["ibdiagnet", "--pc", "-P", "all=1", "--get_cable_info"]


def run_fabric_tools(
    ports: list[str],
    *,
    interval_s: float,
    ibdiagnet: bool,
    timeout_s: float,
    ibdiagnet_timeout_s: float,
    max_output_bytes: int,
) -> dict[str, dict[str, Any]]:
    """Return what every tool did, by tool; for a port of its own the name ends with `@mlx5_0:1`.

    Everything is read twice with time between: counters and the subnet manager are judged by how they go on.
    """

    def run(argv: list[str], place: list[str], limit_s: float) -> dict[str, Any]:
        return run_tool([argv[0], *place, *argv[1:]], limit_s, max_output_bytes)

    results: dict[str, dict[str, Any]] = {}
    places = {f"@{port}": _place(port) for port in ports} or {"": []}
    for suffix, place in places.items():
        for name, argv in (("sminfo", ["sminfo"]), ("iblinkinfo", ["iblinkinfo", "-l"]), ("ibqueryerrors", _ERRORS)):
            results[name + suffix] = run(argv, place, timeout_s)
    if any(not result["missing"] for result in results.values()):
        time.sleep(interval_s)
    for suffix, place in places.items():
        again = "_again" + suffix
        results["ibqueryerrors" + again] = run(_ERRORS, place, timeout_s)
        results["iblinkinfo" + again] = run(["iblinkinfo", "-l"], place, timeout_s)
        results["sminfo" + again] = run(["sminfo"], place, timeout_s)
        managers = run(["saquery", "-s"], place, timeout_s)
        results["saquery" + suffix] = managers
        for lid in sorted({int(lid) for lid in _LIDS.findall(managers["stdout"])})[:_MOST_MANAGERS]:
            results[f"sminfo_{lid}{suffix}"] = run(["sminfo", str(lid)], place, timeout_s)
        if ibdiagnet:
            results["ibdiagnet" + suffix] = run(_DIAGNOSIS, _diagnosed(place), ibdiagnet_timeout_s)
    return results


def _place(port: str) -> list[str]:
    name, _colon, number = port.partition(":")
    return ["-C", name, "-P", number or "1"]


def _diagnosed(place: list[str]) -> list[str]:
    # ibdiagnet names its adapter and port in its own way.
    return ["-i", place[1], "-p", place[3]] if place else []
