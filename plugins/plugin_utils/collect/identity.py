# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hardware and software of a host, from its saved evidence: every result about the host depends on these facts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..hardware.sku import Sku
from ..outcome.errors import InputError
from ..probe.nvidia_smi_xml import SmiLog
from ..probe.text import guid_text
from ..runtime.host_tools import load_host_tools
from ..site.adapters import nccl_port, port_names
from ..site.model import DriverOwner, Host, Site
from .host_evidence import DRIVERS, HOSTS, HostEvidence, evidence_file, read_evidence
from .tool_reading import ProbeFailure, read_tool, read_tools


def host_facts_of(run_dir: Path, site: Site) -> dict[str, dict[str, str]]:
    """Return the facts of every host in scope that left readable evidence in the run directory."""
    kinds = (HOSTS, DRIVERS) if site.driver_owner is DriverOwner.OPERATOR else (HOSTS,)
    found = {host.name: _facts(run_dir, host, kinds) for host in site.in_scope}
    return {name: facts for name, facts in found.items() if facts}


def parts_of(run_dir: Path, site: Site, host: Host, sku: Sku | None) -> dict[str, str]:
    """Return by slot the identity of each part of a host.

    `gpu0` has the UUID of the first GPU by PCI address, which is the driver's order, `serial of gpu0` its serial
    number, `mlx5_0:1` the GUID of that port. The text is empty for an identity that was not observed.

    An incomplete list of GPUs gives none of them: those behind the gap would take the slots of others and look swapped.

    Args:
        run_dir: the run.
        site: how its hosts are read.
        host: the host.
        sku: its hardware facts. None where the SKU is not known; then its GPUs are left out.
    """
    smi, hcas = read_tools(
        host.name, run_dir, site.driver_owner, [load_host_tools().of_fact(f) for f in ("smi", "hcas")]
    )
    found: dict[str, str] = {}
    if isinstance(smi, SmiLog) and sku is not None and smi.count_agrees and len(smi.gpus) == sku.gpus:
        for slot, gpu in enumerate(sorted(smi.gpus, key=lambda gpu: gpu.bus_id)):
            found |= {f"gpu{slot}": "" if gpu.trouble else gpu.uuid, f"serial of gpu{slot}": gpu.serial or ""}
    if not isinstance(hcas, ProbeFailure):
        ports = port_names(hcas).items()
        found |= {nccl_port(name): guid_text(port.guid) if port.guid else "" for name, port in ports}
    return found


def _facts(run_dir: Path, host: Host, kinds: Iterable[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for kind in kinds:
        path = run_dir / evidence_file(host.name, kind)
        if path.is_file():
            facts |= _collected(path)
    configured = {"stated adapters": ", ".join(host.hcas)} if host.hcas else {}
    return {"SKU": host.sku} | configured | facts if facts else {}


def _collected(path: Path) -> dict[str, str]:
    try:
        evidence = read_evidence(path)
    except InputError:
        # Gate nodes reports what is wrong with the file. Here the host counts as not observed.
        return {}
    facts: dict[str, str] = {}
    smi = _parsed(evidence, "nvidia_smi_xml")
    if smi is not None:
        facts["driver"] = smi.driver_version
        facts["GPU firmware"] = _listed(gpu.vbios for gpu in smi.gpus)
        facts["GPUs"] = _listed(gpu.uuid for gpu in smi.gpus)
    adapters = _parsed(evidence, "ibstat")
    if adapters is not None:
        facts["adapter firmware"] = _listed(adapter.firmware for adapter in adapters)
        facts["adapters"] = _listed(adapter.node_guid for adapter in adapters)
    for name, tool in (("kernel", "uname"), ("OFED", "ofed_info")):
        word = _parsed(evidence, tool)
        facts |= {name: word} if word else {}
    return facts


def _parsed(evidence: HostEvidence, name: str) -> Any:
    value = read_tool(load_host_tools().named(name), evidence.tools.get(name))
    return None if isinstance(value, ProbeFailure) else value


def _listed(words: Iterable[str | None]) -> str:
    return ", ".join(sorted({word for word in words if word}))
