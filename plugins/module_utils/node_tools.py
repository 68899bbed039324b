# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which tools a node is asked, in what order. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.module_utils.tool_run import run_tool

# Cheap ones that cannot disturb each other run side by side, each with its alternatives: the first one that is there
# and ends with 0 counts.
QUICK: dict[str, list[list[str]]] = {
    "lspci": [["lspci", "-Dnn"]],
    "ibstat": [["ibstat"]],
    "kernel_log": [
        ["journalctl", "-k", "-b", "-o", "short-iso", "--no-pager"],
        ["dmesg", "--time-format", "iso"],
    ],
    "chronyc": [["chronyc", "tracking"]],
    "uname": [["uname", "-r"]],
    "os_release": [["cat", "/etc/os-release"]],
    "fabric_manager": [["systemctl", "is-active", "nvidia-fabricmanager"]],
    "ofed_info": [["ofed_info", "-s"]],
    "nvidia_smi_xml": [["nvidia-smi", "-q", "-x"]],
    "nvidia_smi_topo": [["nvidia-smi", "topo", "-m"]],
    "nvidia_smi_nvlink": [["nvidia-smi", "nvlink", "-s"]],
}
DIAG = "dcgmi_diag"
TOOLS = (*QUICK, DIAG)
_WORKERS = 4
# A journal that the user may not read, or that is not kept, is no kernel log.
_NO_JOURNAL = "-- No entries --"


def run_tools(
    tools: list[str],
    *,
    timeout_s: float,
    timeouts: dict[str, float],
    diag_level: int,
    diag_timeout_s: float,
    max_output_bytes: int,
) -> dict[str, dict[str, Any]]:
    """Return what every tool did, by tool.

    The diagnostic loads the GPUs, so it runs last and alone; it is left out at level 0, and where the driver did not
    answer, for it would only hang, too.
    """

    def quick(name: str) -> dict[str, Any]:
        return _first_good(QUICK[name], timeouts.get(name, timeout_s), max_output_bytes)

    names = [name for name in QUICK if name in tools]
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        results = dict(zip(names, pool.map(quick, names)))
    driver = results.get("nvidia_smi_xml", {"rc": 0})
    if DIAG in tools and diag_level > 0 and not driver.get("timed_out") and not driver.get("missing"):
        argv = ["dcgmi", "diag", "-r", str(diag_level), "-j"]
        results[DIAG] = run_tool(argv, timeouts.get(DIAG, diag_timeout_s), max_output_bytes)
    return results


def _first_good(alternatives: list[list[str]], timeout_s: float, max_output_bytes: int) -> dict[str, Any]:
    first: dict[str, Any] = {}
    for argv in alternatives:
        result = run_tool(argv, timeout_s, max_output_bytes)
        said = result["stdout"].strip()
        if result["rc"] == 0 and said and not said.startswith(_NO_JOURNAL):
            return result
        first = first or result
    return first
