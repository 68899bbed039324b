# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges counters of NVLinks and of network ports by what a load added to them.

NVLink as DCGM's health watch does (NVIDIA/DCGM, DcgmHealthWatch): one replay, recovery or failed recovery more is an
error, one of the others is a warning. Ports as in gate fabric: a link that went down is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ...outcome.model import Subject
from ...probe.nvidia_smi_nvlink_errors import NvlinkErrors
from ...probe.port_counters import PortCounters
from .finding import Finding

Key = TypeVar("Key")
_NVLINK_FATAL = ("Replay Errors", "Recovery Errors", "Link recovery failed events")
_NVLINK_DOUBT = (
    "CRC Errors", "Malformed packet Errors", "Buffer overrun Errors", "Rx Errors", "Rx remote Errors",
    "Rx General Errors", "Local link integrity Errors", "Tx discards", "Link recovery successful events",
    "Effective Errors", "Symbol Errors",
)  # fmt: skip
_PORT_FATAL = "link_downed"
_DISCARDS = "_discards_phy"
# Linux: drivers/infiniband/hw/efa/efa_verbs.c names them; what they count: AWS, "Monitor an Elastic Fabric Adapter".
_EFA = ("rx_drops", "retrans_timeout_events")


def nvlink_findings(before: NvlinkErrors, after: NvlinkErrors, part: Callable[[int], Subject]) -> list[Finding]:
    """Return what the NVLinks of a host counted during the load; packets, FEC and rates are not errors.

    Args:
        before: first reading.
        after: second reading.
        part: makes the subject of the GPU of that index.
    """
    earlier = {gpu.index: gpu.counters for gpu in before.gpus}
    findings: list[Finding] = []
    for gpu in after.gpus:
        grown = _grown(earlier.get(gpu.index, {}), gpu.counters)
        fatal = {key: added for key, added in grown.items() if key[1] in _NVLINK_FATAL}
        doubt = {key: added for key, added in grown.items() if key[1] in _NVLINK_DOUBT}
        hint = "`nvidia-smi nvlink -e -i <gpu>` and the kernel log (XID 74, 144 to 150); reset the GPU, then reseat it"
        for cause, counters, marginal in (
            ("nvlink-errors-under-load", fatal, False), ("nvlink-noise-under-load", doubt, True),
        ):  # fmt: skip
            if counters:
                named = {f"{name} of link {link}": added for (link, name), added in counters.items()}
                text = f"GPU {gpu.index}: {_listed(named)}"
                finding = Finding(cause=cause, text=text, hint=hint, subjects=(part(gpu.index),), marginal=marginal)
                findings.append(finding)
    return findings


def port_findings(
    before: tuple[PortCounters, ...],
    after: tuple[PortCounters, ...],
    allowed: Mapping[str, int],
    part: Callable[[str], Subject],
) -> list[Finding]:
    """Return what the ports of a host counted during the load.

    Args:
        before: first reading.
        after: second reading.
        allowed: by how much a counter may grow; those that it does not have are not judged.
        part: makes the subject of the adapter of that name.
    """
    earlier = {port.port: port.counters for port in before}
    findings: list[Finding] = []
    for port in after:
        grown = _grown(earlier.get(port.port, {}), port.counters)
        adapter = part(port.port.partition(":")[0])
        if lost := grown.get(_PORT_FATAL, 0):
            text = f"{port.port} lost its link {lost} times ({_PORT_FATAL})"
            hint = "look at cable and module on both ends, then `mlxlink -d <hca> -m -c`"
            findings.append(Finding(cause="port-lost-under-load", text=text, hint=hint, subjects=(adapter,)))
        over = {name: added for name, added in grown.items() if name in allowed and added > allowed[name]}
        if over:
            text = f"{port.port}: {_listed(over)}"
            hint = "look at cable and module on both ends, then `mlxlink -d <hca> -m -c`"
            if all(_DISCARDS in name for name in over):
                hint = (
                    "`rdma link show <hca>/1` names the interface: compare its PFC and ECN (`mlnx_qos -i` and that "
                    "name) with those of the switch port"
                )
            elif all(name in _EFA for name in over):
                hint = (
                    "`rdma -p statistic show` on the node; if it grows again, start the instance anew on other hardware"
                )
            finding = Finding(cause="port-errors-under-load", text=text, hint=hint, subjects=(adapter,), marginal=True)
            findings.append(finding)
    return findings


def unmatched(before: tuple[PortCounters, ...], after: tuple[PortCounters, ...]) -> str:
    """Say which port or counter only one of the readings has; empty if both have the same."""
    names = [{f"{port.port} {name}" for port in ports for name in port.counters} for ports in (before, after)]
    return ", ".join(sorted(names[0] ^ names[1]))[:200]


def unmatched_links(before: NvlinkErrors, after: NvlinkErrors) -> str:
    """Say which NVLink counter only one of the readings has; empty if both have the same."""
    found = [
        {f"GPU {gpu.index} link {link} {name}" for gpu in one.gpus for link, name in gpu.counters}
        for one in (before, after)
    ]
    return ", ".join(sorted(found[0] ^ found[1]))[:200]


def _grown(before: Mapping[Key, int], after: Mapping[Key, int]) -> dict[Key, int]:
    return {key: added for key, value in after.items() if (added := value - before.get(key, value)) > 0}


def _listed(counters: Mapping[str, int]) -> str:
    return ", ".join(f"{name} +{added}" for name, added in list(counters.items())[:6])
