# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The identity of a part by what its tools printed: serial number, address, firmware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ..collect.host_evidence import HostEvidence
from ..outcome.errors import InputError
from ..probe import dmidecode, ibstat, mlxlink, nvidia_smi_xml

T = TypeVar("T")
GPU, ADAPTER, NODE = "GPU", "network adapter", "node"
_SYSTEM = 1


def kind_of(part: str) -> str:
    """Return what a part of that name is: `gpu3` or an address is a GPU, empty the node, anything else an adapter."""
    if not part:
        return NODE
    is_gpu = part.removeprefix("gpu").isdecimal() if part.startswith("gpu") else part.count(":") == 2
    return GPU if is_gpu else ADAPTER


def identity(part: str, evidence: HostEvidence) -> dict[str, str]:
    """Return the identity of a part by name of each fact; empty if the tools of the host do not list it."""
    system = _system(evidence)
    if kind_of(part) == NODE:
        return system
    own = _gpu(part, evidence) if kind_of(part) == GPU else _adapter(part, evidence)
    return {**own, **{f"Node {name[0].lower()}{name[1:]}": value for name, value in system.items()}} if own else {}


def listed_gpus(evidence: HostEvidence) -> int:
    """Return how many GPUs the driver of the host lists; 0 if it does not answer."""
    log = _read(evidence, "nvidia_smi_xml", nvidia_smi_xml.parse)
    return len(log.gpus) if log else 0


def _read(evidence: HostEvidence, tool: str, parse: Callable[[str], T]) -> T | None:
    """Return what a tool said; None if it did not run or printed what is not its format."""
    run = evidence.tools.get(tool)
    if run is None or run.rc != 0:
        return None
    try:
        return parse(run.stdout)
    except InputError:
        return None


def _system(evidence: HostEvidence) -> dict[str, str]:
    table = _read(evidence, "dmidecode", dmidecode.parse)
    records = table.of_kind(_SYSTEM) if table else ()
    names = {"Manufacturer": "Manufacturer", "Product Name": "Product", "Serial Number": "Serial number"}
    return {shown: records[0].value(name) for name, shown in names.items() if records and records[0].value(name)}


def _gpu(part: str, evidence: HostEvidence) -> dict[str, str]:
    log = _read(evidence, "nvidia_smi_xml", nvidia_smi_xml.parse)
    if log is None:
        return {}
    number = part.removeprefix("gpu")
    found = [
        gpu for index, gpu in enumerate(log.gpus) if gpu.bus_id == part or (number.isdecimal() and index == int(number))
    ]
    if len(found) != 1:
        return {}
    gpu = found[0]
    facts = {
        "Product": gpu.product, "Serial number": gpu.serial, "UUID": gpu.uuid, "PCI address": gpu.bus_id,
        "VBIOS": gpu.vbios, "Driver": log.driver_version,
    }  # fmt: skip
    return _known(facts)


def _adapter(part: str, evidence: HostEvidence) -> dict[str, str]:
    adapters = _read(evidence, "ibstat", ibstat.parse) or ()
    found = [hca for hca in adapters if hca.name == part]
    if len(found) != 1:
        return {}
    facts: dict[str, str | None] = {
        "Type": found[0].kind,
        "Firmware": found[0].firmware,
        "Node GUID": found[0].node_guid,
    }
    links = [link for link in _read(evidence, "mlxlink", mlxlink.parse) or () if link.device == part]
    if len(links) == 1:
        link = links[0]
        facts |= {"Cable or module": " ".join(filter(None, (link.module_vendor, link.module_part))) or None}
        facts |= {"Cable or module serial number": link.module_serial}
    return _known(facts)


def _known(facts: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}
