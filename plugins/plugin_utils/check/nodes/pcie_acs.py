# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check pcie-acs: no PCIe switch redirects traffic between GPUs and adapters through the processor (ACS).

NVIDIA's guide to NCCL (Troubleshooting, PCI Access Control Services): on bare metal ACS of PCIe switches has to be off,
virtual machines need it. Root ports count where GPUs reach each other or their adapters through them: on Grace, whose
root ports then refuse DMA between peers (NVIDIA/nodewright-packages#111: 361 in place of 426 GB/s on GB300), and where
GPUs without NVLink are attached directly to the processor (NVIDIA/nccl#2079: a collective that never ends on AMD).
Linux sets ACS there with any IOMMU, so a person decides. Elsewhere traffic through a root port is at the processor
already.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.lspci import PciDevice
from ...probe.lspci_bridges import PciBridge
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="pcie-acs",
    gate="nodes",
    title="PCIe switches let GPUs and adapters talk to each other",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("acs-enabled",),
)
_NETWORK = ("0200", "0207")
_MELLANOX = "15b3:"
_NVIDIA = "10de:"
_BRIDGE = "0604"
_REDIRECT = {"ReqRedir", "CmpltRedir"}
_TRANSLATED = "DirectTrans"
_BARE_METAL = "none"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge switches between GPUs and adapters: redirection fails; other bits of ACS there are for a person to
    decide."""
    return per_host(SPEC, observed, context, _judge, needs=("pci",))


def _judge(host: NodeContext) -> Report | Outcome:
    virtual, devices = host.facts.read("virtual", str), value_of(host.facts.pci)
    if isinstance(virtual, str) and virtual != _BARE_METAL:
        text = f"a virtual machine ({virtual}): its hypervisor needs ACS and sets it"
        return Report(summary=text, evidence=host.evidence("virtual"))
    bridges = _bridges(host, devices)
    if isinstance(bridges, Outcome):
        return bridges
    unseen = _unseen(host, devices)
    gpus = tuple(device.address for device in devices if device.is_nvidia_gpu and not device.dead)
    concerned = _between(bridges, gpus, devices)
    active = [bridge for bridge in concerned if bridge.acs]
    roots = _crossed_roots(host, bridges, gpus, devices)
    at_roots = [root for root in roots if _redirects(root)]
    findings = (*_findings(host, active, gpus), *_root_findings(at_roots)) if _uses_pcie(host) else ()
    # A virtual machine would have passed: an enabled bit can be judged only where it is known that this host is none.
    if findings and isinstance(virtual, ProbeFailure):
        return host.tool_failure("virtual", virtual)
    if unseen is not None and not findings:
        return unseen
    elsewhere = sum(1 for bridge in bridges if bridge.acs and bridge not in active and bridge not in at_roots)
    note = f"; ACS is on at {count(elsewhere, 'other bridge')}" if elsewhere else ""
    if active and not findings:
        note += f"; ACS is on at {count(len(active), 'switch port')}, and GPUs use NVLink alone"
    return Report(
        summary=f"{_looked_at(concerned, roots)} between GPUs and adapters redirect nothing{note}",
        findings=findings,
        measured=(Measure("acs_switch_ports", len(active), "count"),),
        expected=(Expectation("acs_switch_ports", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("bridges", "\n".join(_line(bridge) for bridge in (*active, *at_roots))),
    )


def _uses_pcie(host: NodeContext) -> bool:
    """Whether GPUs reach each other or their own adapter over PCIe."""
    return host.sku.nvlink_links == 0 or host.sku.compute_hcas > 0


def _unseen(host: NodeContext, devices: Sequence[PciDevice]) -> Outcome | None:
    """Return why not all paths are known: a GPU or an adapter that is missing on the bus may be behind a switch."""
    gpus = sum(device.is_nvidia_gpu and not device.dead for device in devices)
    if gpus < host.sku.gpus:
        because = f"{count(gpus, 'GPU')} of {host.sku.gpus} on the PCI bus"
        return host.answer.blocked(by="pci-census", because=because)
    hcas = host.facts.hcas
    # For other vendors ibstat does not show which device on the bus an adapter is.
    adapters = sum(device.class_id in _NETWORK and device.pci_id.startswith(_MELLANOX) for device in devices)
    named = 0 if isinstance(hcas, ProbeFailure) else sum(hca.kind.startswith("MT") for hca in hcas)
    if adapters < named:
        text = f"`lspci -Dnn` lists {count(adapters, 'adapter')} by Mellanox, `ibstat` {named}"
        hint = "run both on the node, compare, and run the gate again"
        return host.answer.unknown("acs-unclear", text, hint, evidence=host.evidence("pci"))
    return None


def _bridges(host: NodeContext, devices: Sequence[PciDevice]) -> tuple[PciBridge, ...] | Outcome:
    """Return the bridges with their ACS; an outcome where they are not those that the bus lists."""
    shown = {device.address for device in devices if device.class_id == _BRIDGE}
    bridges = host.facts.bridges
    if isinstance(bridges, ProbeFailure):
        if bridges.kind == "empty" and not shown:
            return ()
        return host.tool_failure("bridges", bridges)
    reported = {bridge.address for bridge in bridges}
    gpus = [device.address for device in devices if device.is_nvidia_gpu and not device.dead]
    hidden = [gpu for gpu in gpus if not any(bridge.leads_to(gpu) for bridge in bridges)]
    nameless = [bridge.address for bridge in bridges if bridge.port == "other" and _has_a_kind(bridge, bridges, gpus)]
    text = ""
    if reported != shown:
        text = f"`lspci -Dnn` and `lspci -vvv` list different bridges: {', '.join(sorted(reported ^ shown))[:200]}"
    elif hidden:
        text = f"no bridge leads to {', '.join(hidden)}"
    elif nameless:
        text = f"above a GPU or within a switch, neither a root port nor a port of a switch: {', '.join(nameless)}"
    if text:
        hint = "run `lspci -Dnnvvv -d ::0604` on the node, compare, and run the gate again"
        return host.answer.unknown("acs-unclear", text, hint, evidence=host.evidence("bridges"))
    return bridges


def _has_a_kind(bridge: PciBridge, bridges: Sequence[PciBridge], gpus: Sequence[str]) -> bool:
    """Whether a bridge must be a port of PCI Express: above a GPU, beside or above the ports of a switch."""
    domain, bus, _device = bridge.address.split(":")
    within = {tuple(port.address.split(":")[:2]) for port in bridges if port.port == "downstream"}
    below = (domain, f"{bridge.first_bus:02x}")
    return any(map(bridge.leads_to, gpus)) or (domain, bus) in within or below in within


def _between(bridges: Sequence[PciBridge], gpus: Sequence[str], devices: Sequence[PciDevice]) -> tuple[PciBridge, ...]:
    """Return the switch ports above a GPU, or above a network adapter that has a switch in common with a GPU."""
    adapters = [device.address for device in devices if device.class_id in _NETWORK]
    roots = [bridge for bridge in bridges if bridge.port == "root" and any(map(bridge.leads_to, gpus))]
    beside = [adapter for adapter in adapters if any(root.leads_to(adapter) for root in roots)]
    return tuple(
        bridge
        for bridge in bridges
        if bridge.port in ("upstream", "downstream") and any(map(bridge.leads_to, (*gpus, *beside)))
    )


def _crossed_roots(
    host: NodeContext, bridges: Sequence[PciBridge], gpus: Sequence[str], devices: Sequence[PciDevice]
) -> tuple[PciBridge, ...]:
    """Return the root ports through which GPUs reach each other or their adapters."""
    by_grace = {device.address for device in devices if device.pci_id.startswith(_NVIDIA)}
    adapters = [device.address for device in devices if device.class_id in _NETWORK and device.pci_id[:5] == _MELLANOX]
    roots = [bridge for bridge in bridges if bridge.port == "root"]
    grace = [r for r in roots if r.address in by_grace and any(map(r.leads_to, (*gpus, *adapters)))]
    switches = [bridge for bridge in bridges if bridge.port in ("upstream", "downstream")]
    bare = [gpu for gpu in gpus if not any(switch.leads_to(gpu) for switch in switches)]
    alone = [root for root in roots if host.sku.nvlink_links == 0 and any(map(root.leads_to, bare))]
    # A single GPU at a port crosses it only to reach its adapter, if the SKU has one.
    if len(gpus) < 2 and not host.sku.compute_hcas:
        alone = []
    return tuple(root for root in roots if root in grace or root in alone)


def _redirects(bridge: PciBridge) -> bool:
    # With DirectTrans set, requests that the IOMMU has translated already are not redirected.
    return bool(_REDIRECT & set(bridge.acs)) and _TRANSLATED not in bridge.acs


def _root_findings(ports: Sequence[PciBridge]) -> tuple[Finding, ...]:
    if not ports:
        return ()
    text = (
        f"ACS is on at {count(len(ports), 'root port')} through which GPUs reach each other or adapters: "
        f"{', '.join(port.address for port in ports)}"
    )
    hint = (
        "switch it off at boot (kernel argument pci=config_acs=, or the IOMMU in the firmware), or accept it with the "
        "bandwidth that gate fabric_validation measures"
    )
    return (Finding(cause="acs-on-root-ports", text=text, hint=hint, marginal=True),)


def _looked_at(switch_ports: Sequence[PciBridge], roots: Sequence[PciBridge]) -> str:
    ports = count(len(switch_ports), "PCIe switch port")
    return f"{ports} and {count(len(roots), 'root port')}" if roots else ports


def _findings(host: NodeContext, active: Sequence[PciBridge], gpus: Sequence[str]) -> tuple[Finding, ...]:
    redirecting = [bridge for bridge in active if _redirects(bridge)]
    others = [bridge for bridge in active if bridge not in redirecting]
    found: list[Finding] = []
    for cause, ports, marginal in (("acs-enabled", redirecting, False), ("acs-partly-enabled", others, True)):
        if not ports:
            continue
        more = f", and {len(ports) - 1} more" if len(ports) > 1 else ""
        hint = (
            f"switch it off at every boot (`setpci -s {ports[0].address} ECAP_ACS+0x6.w=0000` for each port), or IO "
            "virtualisation (VT-d, AMD-Vi) in the firmware; waive it where the host runs virtual machines"
        )
        below = [gpu for gpu in gpus if any(port.leads_to(gpu) for port in ports)]
        # A setting of the whole host is not about single GPUs.
        parts = tuple(host.gpu(gpu) for gpu in below) if len(below) < len(gpus) else ()
        text = (
            f"ACS is on at {count(len(ports), 'PCIe switch port')} between GPUs and adapters: {_line(ports[0])}{more}"
        )
        found.append(Finding(cause=cause, text=text, hint=hint, subjects=parts, marginal=marginal))
    return tuple(found)


def _line(bridge: PciBridge) -> str:
    return f"{bridge.address} {' '.join(f'{word}+' for word in bridge.acs)}"


CHECK = Check(SPEC, OBSERVER, judge)
