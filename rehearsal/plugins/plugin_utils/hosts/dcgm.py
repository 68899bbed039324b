# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the output of dcgmi (DCGM 4) and nvidia-imex-ctl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..model.values import Gpu, Node
from .accelerators import PrintedFacts

# Output of dcgmi (DCGM 4): the diagnostic as JSON, the list of GPUs.

# Exit code of dcgmi when a test failed: DCGM's status -30 as an unsigned byte.
FAILED_RC = 226
# NVIDIA's guide, "DCGM Diagnostics": each test with the lowest level that runs it.
_TESTS = (
    ("Deployment", (("software", 1),)),
    ("Hardware", (("memory", 2), ("diagnostic", 3), ("memtest", 4), ("pulse_test", 4))),
    ("Integration", (("pcie", 2),)),
    ("Stress", (("memory_bandwidth", 3), ("targeted_stress", 3), ("targeted_power", 3))),
)
LEVELS = (1, 2, 3, 4)
_INFO_LINES = 16
_WARNINGS: dict[str, tuple[int, int, str]] = {
    "memtest": (91, 2, "GPU {gpu} failed a pattern of the memory test."),
    "pulse_test": (1, 2, "GPU {gpu} did not take the change of power of the pulse test."),
    "software": (40, 5, "A pending row remapping was detected on GPU {gpu}."),
    "memory": (6, 2, "Detected an uncorrectable memory error on GPU {gpu}."),
    "diagnostic": (50, 2, "GPU {gpu} returned wrong results in the arithmetic of the stress test."),
    "pcie": (28, 1, "Bandwidth of GPU {gpu} in direction GPU to host (32.11) did not exceed the minimum (40.00) GB/s."),
    "memory_bandwidth": (27, 1, "GPU {gpu} achieved 1102.50 GB/s, below the minimum of 2000.00 GB/s."),
    "targeted_stress": (
        22,
        1,
        "Max stress level of GPU {gpu} (9122.0) did not reach the desired stress level 15375.0.",
    ),
    "targeted_power": (23, 1, "Max power of GPU {gpu} (421.3) did not reach the desired power minimum 525.0."),
}


def diagnostics(node: Node, facts: PrintedFacts) -> tuple[dict[int, str], int]:
    """Return the output of `dcgmi diag -r <level> -j` by level, and its exit code at levels that find something."""
    failed = any(status == "Fail" for gpu in node.working_gpus for status in gpu.diag.values())
    return {level: _diagnostic(node, facts, level) for level in LEVELS}, FAILED_RC if failed else 0


def _diagnostic(node: Node, facts: PrintedFacts, level: int) -> str:
    gpus = node.working_gpus
    budget = [_INFO_LINES]
    categories = [
        {"category": category, "tests": tests}
        for category, known in _TESTS
        if (tests := [_test(name, gpus, facts, budget) for name, first in known if first <= level])
    ]
    document = {
        "DCGM Diagnostic": {"test_categories": categories},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": _entities(node)}],
        "metadata": {"version": node.dcgm_version, "Driver Version Detected": node.driver_version},
    }
    return json.dumps(document, indent="\t", separators=(",", " : ")) + "\n"


def _entities(node: Node) -> list[dict[str, Any]]:
    device = node.gpu_pci_id.partition(":")[2]
    return [{"device_id": device, "entity_id": gpu.index, "serial_num": gpu.serial} for gpu in node.working_gpus]


def _test(name: str, gpus: tuple[Gpu, ...], facts: PrintedFacts, budget: list[int]) -> dict[str, Any]:
    results = [_result(name, gpu, facts, budget) for gpu in gpus]
    words = [str(result["status"]) for result in results]
    summary = next((word for word in ("Fail", "Warn", "Skip") if word in words), "Pass")
    return {"name": name, "results": results, "test_summary": {"status": summary}}


def _result(name: str, gpu: Gpu, facts: PrintedFacts, budget: list[int]) -> dict[str, Any]:
    status = gpu.diag.get(name, "Pass")
    result: dict[str, Any] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu.index, "status": status}
    if status in ("Fail", "Warn"):
        error, severity, text = _WARNINGS[name]
        warning = {"error_id": error, "error_category": 1, "error_severity": severity}
        result["warnings"] = [{**warning, "warning": text.format(gpu=gpu.index)}]
    elif name == "diagnostic" and budget[0] > 0:
        # DCGM 4 keeps at most sixteen information lines per run.
        budget[0] -= 1
        text = f"GPU {gpu.index} calculated at approximately {facts.diag_gflops:.2f} gigaflops during this test"
        result["info"] = [text]
    return result


def health(node: Node) -> tuple[str, int]:
    """Return the output of `dcgmi health -c -j` and its exit status.

    Without watches it prints an error in place of a report (NVIDIA/DCGM, dcgmi/Health.cpp).
    """
    if not node.dcgm_health:
        return "Error: Health watches not enabled. Please enable watches. \n", 253
    body: dict[str, Any] = {"Overall Health": {"value": node.dcgm_health}}
    if node.dcgm_health != "Healthy":
        reported = f"{node.dcgm_health} - Detected more than 8 PCIe replays per minute for GPU 0"
        body["GPU"] = {"children": {"0": {"children": {"PCIe": {"value": reported}}, "value": node.dcgm_health}}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]}, indent="\t") + "\n", 0


def discovery(node: Node) -> str:
    """Return the output of `dcgmi discovery -l`."""
    rule = "+--------+----------------------------------------------------------------------+"
    lines = [f"{len(node.listed_gpus)} GPUs found.", rule]
    lines += [f"| GPU ID | {'Device Information':<68} |", rule.replace("-", "=")]
    for gpu in node.listed_gpus:
        for label, text in (
            (f"{gpu.index:<6}", f"Name: {gpu.product}"),
            (" " * 6, f"PCI Bus ID: {gpu.pci_bus_id}"),
            (" " * 6, f"Device UUID: {gpu.uuid}"),
        ):
            lines.append(f"| {label} | {text:<68} |")
        lines.append(rule)
    return "\n".join([*lines, f"{node.nvswitches} NvSwitches found.", ""])


# Output of `nvidia-imex-ctl -N -j -H` on a simulated host, in the format of NVIDIA's IMEX guide, confirmed by public
# test data: every configured node with its state and its connections, and the state of the domain.

SERVICE = "nvidia-imex"
_READY, _AWAY = "READY", "UNAVAILABLE"


def domain(node: Node, nodes: Sequence[Node]) -> str:
    """Return the domain of the host's rack from the host's view; empty if its service does not run."""
    if node.services.get(SERVICE) != "active":
        return ""
    members = [other for other in nodes if other.rack == node.rack and SERVICE in other.services]
    states = [other.setup.imex if other.services[SERVICE] == "active" else _AWAY for other in members]
    entries: dict[str, Any] = {}
    for number, (member, state) in enumerate(zip(members, states, strict=True)):
        mutual = [state == _READY and other == _READY for other in states]
        entries[str(number)] = {
            "status": state,
            "host": f"10.9.0.{number + 1}",
            "hostName": member.name,
            "connections": {
                str(n): {"host": f"10.9.0.{n + 1}", "status": "CONNECTED" if there else "INVALID", "changed": True}
                for n, there in enumerate(mutual)
            },
            "changed": True,
            "version": member.driver_version,
        }
    status = "UP" if set(states) == {_READY} else "DEGRADED" if _READY in states else "DOWN"
    return json.dumps({"nodes": entries, "timestamp": "1/5/2026 00:37:39.905", "status": status}, indent=2) + "\n"
