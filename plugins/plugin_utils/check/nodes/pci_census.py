# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check pci-census: the GPUs that the SKU has are on the PCI bus. Needs no driver."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.lspci import PciDevice
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="pci-census",
    gate="nodes",
    title="PCI devices are those of the SKU",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("gpu-not-on-pci", "gpu-extra-on-pci", "pci-device-wrong", "pci-device-dead", "accelerator-other-maker"),
)
_RESEAT = "power-cycle the node through its BMC; if the GPU stays away, reseat or replace it"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge count, identity and state of the GPUs as the PCI bus lists them."""
    return per_host(SPEC, observed, context, _judge, needs=("pci",))


def nvidia_gpus(devices: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    """Return the devices that are GPUs and respond."""
    return tuple(device for device in devices if device.is_nvidia_gpu and not device.dead)


def _judge(host: NodeContext) -> Report:
    sku, devices = host.sku, value_of(host.facts.pci)
    alive = nvidia_gpus(devices)
    dead = tuple(device for device in devices if device.is_nvidia_gpu and device.dead)
    wrong = tuple(device for device in alive if sku.gpu_pci_id and device.pci_id and device.pci_id != sku.gpu_pci_id)
    findings = [
        Finding(
            cause="pci-device-dead",
            text=f"{device.address} answers with all ones (rev ff)",
            hint=_RESEAT,
            subjects=(host.gpu(device.address),),
        )
        for device in dead
    ]
    findings += [
        Finding(
            cause="pci-device-wrong",
            text=f"{device.address} is {device.pci_id}, the SKU has {sku.gpu_pci_id}",
            hint="correct gpufleet_sku of the host, or the machine that was delivered",
            subjects=(host.gpu(device.address),),
        )
        for device in wrong
    ]
    findings += _count_findings(host, alive, len(dead))
    return Report(
        summary=f"{count(len(alive), 'GPU')} on the PCI bus, all {sku.gpu_pci_id or 'by NVIDIA'}",
        findings=tuple(findings),
        measured=(Measure("gpus_on_pci", len(alive), "count"),),
        expected=(Expectation("gpus_on_pci", "==", sku.gpus, Basis.HARDWARE, "count"),),
        evidence=host.evidence("pci"),
    )


def _count_findings(host: NodeContext, alive: tuple[PciDevice, ...], dead: int) -> list[Finding]:
    present, expected = len(alive) + dead, host.sku.gpus
    if present > expected:
        text = f"{count(present, 'GPU')} on the PCI bus, the SKU has {expected}"
        return [Finding(cause="gpu-extra-on-pci", text=text, hint="correct gpufleet_sku of the host")]
    if present == expected:
        return []
    if not present and (others := [d for d in value_of(host.facts.pci) if d.other_accelerator]):
        text = (
            f"no GPU by NVIDIA on the PCI bus, and {count(len(others), 'accelerator')} by {others[0].other_accelerator}"
        )
        text += f", such as {others[0].address} ({others[0].pci_id or others[0].name})"
        hint = f"this collection brings up GPUs by NVIDIA: correct gpufleet_sku of {host.name}, or take the host out"
        return [Finding(cause="accelerator-other-maker", text=text, hint=hint)]
    known = {device.address for device in alive}
    common = host.seen.slots.get(host.entry.sku, ())
    # The empty slot is known only where the other hosts' slots include all of this host's.
    gone = [a for a in common if a not in known] if len(common) == expected and known <= set(common) else []
    where = f" (nothing at {', '.join(gone)})" if gone else ""
    text = f"{present} of {count(expected, 'GPU')} on the PCI bus{where}"
    parts = tuple(host.part(SubjectKind.GPU, f"gpu{common.index(address)}") for address in gone)
    return [Finding(cause="gpu-not-on-pci", text=text, hint=_RESEAT, subjects=parts)]


CHECK = Check(SPEC, OBSERVER, judge)
