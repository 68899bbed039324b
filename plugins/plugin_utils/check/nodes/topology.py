# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check topology: GPUs reach each other over NVLink as in the SKU, and every GPU has a NIC beside it."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_topo import Topology
from ...site.adapters import carries_gpu_traffic
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .efa_devices import SPEC as EFA_DEVICES
from .efa_devices import lacks_devices
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySettings:
    """Settings of check topology."""

    # In a rack-wide domain the NIC hangs on the CPU module, not on a PCIe switch beside the GPU.
    near_paths: dict[str, tuple[str, ...]] = setting(
        "Words of `nvidia-smi topo -m` that count as near for a GPU and its NIC, by the NVLink domain of the SKU.",
        default={"node": ["PIX", "PXB"], "rack": ["PIX", "PXB", "PHB", "NODE"]},
        keys=("node", "rack"),
    )


SPEC = CheckSpec(
    id="topology",
    gate="nodes",
    title="GPU and NIC topology is the SKU's",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("topology-nvlink", "topology-nic-far"),
    settings=TopologySettings,
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the GPUs that are present; check gpu-census reports a missing one."""
    return per_host(SPEC, observed, context, _judge, needs=("smi", "topo"))


def _judge(host: NodeContext) -> Report | Outcome:
    matrix = value_of(host.facts.topo)
    if not len(host.live_gpus) <= len(matrix.gpus) <= len(host.smi.gpus):
        text = f"`nvidia-smi topo -m` names {len(matrix.gpus)} GPUs, `nvidia-smi -q` {len(host.smi.gpus)}"
        return host.answer.unknown("nvidia-smi-inconsistent", text, "run both on the node again")
    nvlinks, short = _nvlink(host, matrix), _short_of_links(host)
    # Links that are down also change the matrix for their GPU: that is one fault, reported once.
    if nvlinks and short and all(set(finding.subjects) <= short for finding in nvlinks):
        return host.answer.blocked(by="nvlink", because="the matrix differs only where links are inactive")
    findings = nvlinks + _nics(host, matrix)
    if not findings and any(gpu.trouble for gpu in host.smi.gpus):
        return host.answer.blocked(by="gpu-census", because="not every GPU answers")
    if not findings and _waits_for_hcas(host, matrix):
        owner = EFA_DEVICES.id if host.sku.fabric == "efa" else "hca-state"
        return host.answer.blocked(by=owner, because="adapters are missing, so the distance to them is not known")
    nvlink = _nvlink_summary(host)
    return Report(
        summary=f"{count(len(matrix.gpus), 'GPU')}, {nvlink}{_nic_summary(host, matrix)}",
        findings=tuple(findings),
        measured=(Measure("gpus", len(matrix.gpus), "count"), Measure("nics", len(matrix.nics), "count")),
        expected=(Expectation("gpu_path", "==", f"NV{host.sku.nvlink_links}", Basis.HARDWARE),)
        if host.sku.nvlink_links
        else (),
        evidence=host.evidence("topo"),
    )


def _nvlink_summary(host: NodeContext) -> str:
    if not host.sku.nvlink_links:
        return "no NVLink"
    if _bridged(host):
        return f"NVLink within groups of {host.sku.nvlink_domain_gpus}"
    return f"NV{host.sku.nvlink_links} between all"


def _nic_summary(host: NodeContext, matrix: Topology) -> str:
    if not host.sku.compute_hcas:
        return ""
    nics = f"; {len(matrix.nics)} NICs"
    if host.sku.compute_hcas < host.sku.gpus:
        return f"{nics}, fewer than GPUs by the SKU, so their distance is not judged"
    if _hidden(host, matrix):
        return f"{nics}, whose distance this virtual machine hides"
    return f"{nics}, one beside each GPU"


def _bridged(host: NodeContext) -> bool:
    """Whether the GPUs of the host are wired in several groups, as by the bridges of PCIe cards."""
    sku = host.sku
    return sku.nvlink_domain == "node" and not sku.nvswitches and 0 < sku.nvlink_domain_gpus < sku.gpus


def _groups(host: NodeContext, matrix: Topology) -> list[Finding]:
    """Judge bridges: every GPU reaches all others of its group over NVLink, and no GPU outside it."""
    size = host.sku.nvlink_domain_gpus
    linked = {
        gpu: {other for other in matrix.gpus if other == gpu or _fits(matrix.paths[(gpu, other)], "NV")}
        for gpu in matrix.gpus
    }
    odd = [gpu for gpu in matrix.gpus if len(linked[gpu]) != size or any(linked[o] != linked[gpu] for o in linked[gpu])]
    if not odd:
        return []
    reached = ", ".join(f"{gpu} {len(linked[gpu]) - 1}" for gpu in odd)
    return [
        Finding(
            cause="topology-nvlink",
            text=f"GPUs reached over NVLink: {reached}; expected {size - 1} each, in groups of {size}",
            hint="reseat the NVLink bridge over these GPUs; check them with `nvidia-smi nvlink -s`",
            subjects=tuple(host.gpu_at(int(gpu.removeprefix("GPU"))) for gpu in odd),
        )
    ]


def _nvlink(host: NodeContext, matrix: Topology) -> list[Finding]:
    if host.sku.nvlink_links == 0:
        return []
    if _bridged(host):
        return _groups(host, matrix)
    # With switches every pair shares all links of a GPU; GPUs wired point to point share some of them, but never none.
    wanted = f"NV{host.sku.nvlink_links}" if host.sku.nvswitches or host.sku.nvlink_domain == "rack" else "NV"
    odd: dict[str, list[str]] = {}
    for (row, column), word in matrix.paths.items():
        if row < column and column in matrix.gpus and not _fits(word, wanted):
            odd.setdefault(word, []).append(f"{row}-{column}")
    findings: list[Finding] = []
    for word, pairs in odd.items():
        names = {name for pair in pairs for name in pair.split("-")}
        # The GPU that all odd pairs share is the faulty one; without such a GPU, each of them is named.
        shared = [name for name in names if all(name in pair.split("-") for pair in pairs)] if len(pairs) > 1 else []
        blamed = shared if len(shared) == 1 else sorted(names)
        findings.append(
            Finding(
                cause="topology-nvlink",
                text=f"{word} between {', '.join(pairs[:4])}{' ...' if len(pairs) > 4 else ''}, expected {wanted}",
                hint="check NVLinks of these GPUs (`nvidia-smi nvlink -s`) and the fabric manager",
                subjects=tuple(host.gpu_at(int(name.removeprefix("GPU"))) for name in blamed),
            )
        )
    return findings


def _short_of_links(host: NodeContext) -> set[Subject]:
    status = host.facts.nvlink
    if isinstance(status, ProbeFailure):
        return set()
    return {host.gpu_named(entry.index, entry.uuid) for entry in status.gpus if entry.active < host.sku.nvlink_links}


def _fits(word: str, wanted: str) -> bool:
    return word == wanted if wanted != "NV" else word.startswith("NV")


def _nics(host: NodeContext, matrix: Topology) -> list[Finding]:
    if host.sku.compute_hcas < host.sku.gpus or _waits_for_hcas(host, matrix) or _hidden(host, matrix):
        return []
    near = _near(host)
    findings: list[Finding] = []
    for position, gpu in enumerate(matrix.gpus):
        words = [matrix.paths[(gpu, nic)] for nic in matrix.nics]
        if not any(word in near for word in words):
            best = f"nearest is {words[0] if len(set(words)) == 1 else ', '.join(sorted(set(words)))}"
            findings.append(
                Finding(
                    cause="topology-nic-far",
                    text=f"{gpu} has no NIC at {' or '.join(near)} ({best})",
                    hint="compare PCIe slots with the SKU's wiring; in a virtual machine give NCCL a topology file "
                    "and state the words: gpufleet_settings: {topology: {near_paths: {node: [PIX, PXB, NODE]}}}",
                    subjects=(host.gpu_at(position),),
                )
            )
    return findings


def _near(host: NodeContext) -> tuple[str, ...]:
    return host.settings(TopologySettings).near_paths.get(host.sku.nvlink_domain, ())


def _hidden(host: NodeContext, matrix: Topology) -> bool:
    """Whether the distance to NICs is hidden: the PCIe tree of a virtual machine shows no passed-through GPU near a
    NIC."""
    passed_through = all(gpu.virtualisation == "Pass-Through" for gpu in host.live_gpus)
    return passed_through and not any(
        matrix.paths[(gpu, nic)] in _near(host) for gpu in matrix.gpus for nic in matrix.nics
    )


def _waits_for_hcas(host: NodeContext, matrix: Topology) -> bool:
    """Whether adapters for GPU traffic are missing or unknown, so that no distance can be judged.

    Check hca-state or efa-devices reports them.
    """
    if host.sku.fabric == "efa":
        return lacks_devices(host)
    if not carries_gpu_traffic(host.sku):
        return False
    if isinstance(host.facts.hcas, ProbeFailure):
        return len(matrix.nics) < host.sku.compute_hcas
    there = {hca.name for hca in host.facts.hcas}
    names = host.adapters().names
    return len([name for name in names if name.partition(":")[0] in there]) < host.sku.compute_hcas


CHECK = Check(SPEC, OBSERVER, judge)
