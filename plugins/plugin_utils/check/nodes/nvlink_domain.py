# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NVLink domains that span a rack: every GPU has joined one, and a rack has one."""

from __future__ import annotations

from collections import Counter

from ...collect.host_facts import FleetFacts
from ...probe.nvidia_smi_model import Gpu, SmiLog
from ..kit.finding import Finding
from ..spec import JudgeContext
from .node_context import NodeContext

# By rack, the domain of most of its GPUs.
Domains = dict[str, str]
_HINT = "`nvidia-smi -q | grep -A8 Fabric`; check nvidia-imex and the rack's NVLink switches"


def rack_domains(seen: FleetFacts, context: JudgeContext) -> Domains:
    """Return by rack the cluster and clique that most of its GPUs are in."""
    counts: dict[str, Counter[str]] = {}
    for host in context.site.in_scope:
        facts, sku = seen.hosts.get(host.name), context.hardware.get(host.sku)
        if facts is None or sku is None or sku.nvlink_domain != "rack" or not isinstance(facts.smi, SmiLog):
            continue
        joined = [_domain(gpu) for gpu in facts.smi.gpus if _joined(gpu)]
        if host.rack and joined:
            counts.setdefault(host.rack, Counter()).update(joined)
    return {rack: max(found, key=lambda name: (found[name], name)) for rack, found in counts.items()}


def domain_findings(host: NodeContext, domains: Domains) -> tuple[Finding, ...]:
    """Return the GPUs of a rack-wide SKU that are in no domain or in another than the rest of their rack."""
    if host.sku.nvlink_domain != "rack":
        return ()
    findings: list[Finding] = []
    usual = domains.get(host.entry.rack, "")
    for gpu in host.live_gpus:
        parts = (host.gpu(gpu.bus_id),)
        if not _joined(gpu):
            text = f"{gpu.bus_id}: clique {gpu.fabric.clique_id or 'N/A'} of cluster {gpu.fabric.cluster_uuid or 'N/A'}"
            findings.append(Finding(cause="nvlink-domain-not-joined", text=text, hint=_HINT, subjects=parts))
        elif usual and _domain(gpu) != usual:
            text = f"{gpu.bus_id} is in {_domain(gpu)}, most of {host.entry.rack} in {usual}"
            findings.append(Finding(cause="nvlink-domain-split", text=text, hint=_HINT, subjects=parts))
    return tuple(findings)


def _domain(gpu: Gpu) -> str:
    return f"{gpu.fabric.cluster_uuid}.{gpu.fabric.clique_id}"


def _joined(gpu: Gpu) -> bool:
    cluster = (gpu.fabric.cluster_uuid or "").strip("0-")
    return bool(cluster) and gpu.fabric.clique_id not in (None, "0")
