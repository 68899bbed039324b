# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check slot-map-uniform: parts sit in the same places on all hosts of a SKU: GPUs, their module numbers, adapters.

Adapters are rails by their names, so one in another's place sends the traffic of its GPU through another rail's leaf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe.nvidia_smi_model import Gpu, SmiLog
from ...probe.nvidia_smi_topo import Topology
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .hca_state import SPEC as HCA_STATE
from .hca_state import HcaStateSettings
from .node_context import NodeContext
from .observe_hosts import OBSERVER
from .part_versions import Part, PartVersions

SPEC = CheckSpec(
    id="slot-map-uniform",
    gate="nodes",
    title="Parts sit in the same places on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
)
_BESIDE = ("PIX", "PXB")
_BARE_METAL = "none"


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """The map of most hosts; hosts that lack parts, or call them otherwise, have no places that could be compared."""
    hosts = {host.name: NodeContext(SPEC, context, seen, host) for host in context.site.in_scope}
    whole = {name: host for name, host in hosts.items() if _is_whole(host)}
    usual = _usual_modules(whole)
    versions = PartVersions(
        SPEC,
        {name: _parts(host, usual.get(host.entry.sku, ())) if name in whole else () for name, host in hosts.items()},
        lambda host, place: host.gpu_at(int(place.partition(":")[0])),
        word="place",
        needs="smi",
        waits=lambda host: None if host.name in whole else _waits(host),
    )
    return versions.judge(seen, context)


def _is_whole(host: NodeContext) -> bool:
    """Whether the host was read, and every GPU of its SKU answers: without one the others are counted otherwise."""
    if host.name not in host.seen.hosts or host.entry.sku not in host.context.hardware:
        return False
    return isinstance(host.facts.smi, SmiLog) and len(host.live_gpus) == len(host.smi.gpus) == host.sku.gpus


def _waits(host: NodeContext) -> Outcome:
    return host.answer.blocked(by="gpu-census", because="not every GPU answers")


def _modules(gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    return tuple(sorted(gpu.module_id or "" for gpu in gpus))


def _usual_modules(hosts: Mapping[str, NodeContext]) -> dict[str, tuple[str, ...]]:
    """Return by SKU the module numbers that most hosts have."""
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for host in hosts.values():
        found.setdefault(host.entry.sku, Counter())[_modules(host.live_gpus)] += 1
    return {sku: counts.most_common(1)[0][0] for sku, counts in found.items()}


def _parts(host: NodeContext, usual: tuple[str, ...]) -> tuple[Part, ...]:
    gpus, parts = host.live_gpus, []
    # A virtual machine may have any of a machine's GPUs.
    if all(gpu.module_id for gpu in gpus) and (_modules(gpus) == usual or _bare_metal(host)):
        parts += [
            Part(f"{n}:module", ("module", str(n)), f"module {gpu.module_id} at GPU {n}") for n, gpu in enumerate(gpus)
        ]
    matrix = host.facts.topo
    if isinstance(matrix, ProbeFailure) or len(matrix.gpus) != len(gpus):
        return tuple(parts)
    parts += [
        Part(f"{n}:NUMA", ("NUMA", str(n)), f"NUMA node {matrix.numa[gpu]} at GPU {n}")
        for n, gpu in enumerate(matrix.gpus)
        if matrix.numa.get(gpu)
    ]
    return (*parts, *_adapters(host, matrix))


def _bare_metal(host: NodeContext) -> bool:
    said = host.facts.read("virtual", str)
    return said == _BARE_METAL


def _adapters(host: NodeContext, matrix: Topology) -> list[Part]:
    """Return which adapters for GPU traffic are beside every GPU: by their rail where the site states their names, else
    by name; hosts that have other names are no peers."""
    found = host.adapters(host.context.settings_of(HCA_STATE.id, HcaStateSettings, host.entry.sku).hcas)
    names = list(dict.fromkeys(name.partition(":")[0] for name in found.names))
    if not names or not found.complete or not set(names) <= set(matrix.nics):
        return []
    stated = found.basis == "stated"
    words = {name: f"adapter {rail}" if stated else name for rail, name in enumerate(names)}
    peers = ("stated",) if stated else tuple(sorted(names))
    parts = []
    for place, gpu in enumerate(matrix.gpus):
        beside = [words[name] for name in names if matrix.paths.get((gpu, name)) in _BESIDE]
        if not beside and host.sku.compute_hcas >= host.sku.gpus:
            # Check topology says that a GPU has none.
            continue
        version = f"{', '.join(sorted(beside)) or 'no adapter'} beside GPU {place}"
        parts.append(Part(f"{place}:adapter", ("adapter", str(place), *peers), version))
    return parts


CHECK = Check(SPEC, OBSERVER, judge)
