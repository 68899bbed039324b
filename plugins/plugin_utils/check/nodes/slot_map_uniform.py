# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check slot-map-uniform: GPUs, their module numbers and adapters are in the same places on all hosts of a SKU.

The names of adapters define the rails, so an adapter in another's place sends the traffic of its GPU through the leaf
of another rail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe.nvidia_smi_topo import Topology
from ...probe.nvidia_smi_xml import SmiLog
from ...verdict.majority import more_than_any_other
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .hca_state import SPEC as HCA_STATE
from .hca_state import HcaStateSettings
from .node_context import NodeContext
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions

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


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge places against the map of most hosts.

    Hosts that lack parts, or have other names for them, have no places that could be compared.
    """
    hosts = {host.name: NodeContext(SPEC, context, observed, host) for host in context.site.in_scope}
    whole = {name: host for name, host in hosts.items() if _is_whole(host)}
    usual, order = _usual(whole, _modules), _usual(whole, _buses)
    places = {name: _places(host, order.get(host.entry.sku, ()), whole=name in whole) for name, host in hosts.items()}
    versions = PartVersions(
        SPEC,
        {name: _parts(host, usual.get(host.entry.sku, ()), places[name]) for name, host in hosts.items()},
        lambda host, place: host.gpu(_buses(host)[places[host.name].index(int(place.partition(":")[0]))]),
        word="place",
        needs="smi",
        waits=lambda host: None if places[host.name] else _waits(host),
    )
    return versions.judge(observed, context)


def _was_read(host: NodeContext) -> bool:
    known = host.name in host.seen.hosts and host.entry.sku in host.context.hardware
    return known and isinstance(host.facts.smi, SmiLog)


def _is_whole(host: NodeContext) -> bool:
    """Whether the host was read, and the driver can talk to every GPU of its SKU."""
    return _was_read(host) and len(host.live_gpus) == len(host.smi.gpus) == host.sku.gpus


def _places(host: NodeContext, order: tuple[str, ...], *, whole: bool) -> tuple[int, ...]:
    """Return the place of every GPU that the driver can talk to, from 0; empty where it is not known.

    Without one GPU the others are numbered differently. Their places are known only if their bus addresses are among
    those of most hosts.
    """
    if not _was_read(host):
        return ()
    buses = _buses(host)
    if whole:
        return tuple(range(len(buses)))
    listed = len(buses) == len(host.smi.gpus)
    return tuple(order.index(bus) for bus in buses) if listed and {*buses} <= {*order} else ()


def _waits(host: NodeContext) -> Outcome:
    return host.answer.blocked(by="gpu-census", because="not every GPU answers")


def _modules(host: NodeContext) -> tuple[str, ...]:
    return tuple(sorted(gpu.module_id or "" for gpu in host.live_gpus))


def _buses(host: NodeContext) -> tuple[str, ...]:
    return tuple(gpu.bus_id for gpu in host.live_gpus)


def _usual(
    hosts: Mapping[str, NodeContext], of: Callable[[NodeContext], tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return, by SKU, the most frequent value among its hosts; a SKU without a single most frequent one is left out."""
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for host in hosts.values():
        found.setdefault(host.entry.sku, Counter())[of(host)] += 1
    return {sku: usual for sku, counts in found.items() if (usual := more_than_any_other(counts)) is not None}


def _parts(host: NodeContext, usual: tuple[str, ...], places: tuple[int, ...]) -> tuple[Part, ...]:
    if not places:
        return ()
    gpus, parts = host.live_gpus, []
    # A virtual machine may have any of a machine's GPUs.
    if all(gpu.module_id for gpu in gpus) and (_modules(host) == usual or _bare_metal(host)):
        parts += [
            Part(f"{n}:module", ("module", str(n)), f"module {gpu.module_id} at GPU {n}")
            for n, gpu in zip(places, gpus, strict=True)
        ]
    matrix = host.facts.topo
    if isinstance(matrix, ProbeFailure) or len(matrix.gpus) != len(gpus):
        return tuple(parts)
    parts += [
        Part(f"{n}:NUMA", ("NUMA", str(n)), f"NUMA node {matrix.numa[gpu]} at GPU {n}")
        for n, gpu in zip(places, matrix.gpus, strict=True)
        if matrix.numa.get(gpu)
    ]
    parts += [
        Part(f"{n}:processors", ("processors", str(n)), f"processors {matrix.cpu_affinity[gpu]} at GPU {n}")
        for n, gpu in zip(places, matrix.gpus, strict=True)
        if matrix.cpu_affinity.get(gpu)
    ]
    return (*parts, *_adapters(host, matrix, places))


def _bare_metal(host: NodeContext) -> bool:
    reported = host.facts.read("virtual", str)
    return reported == _BARE_METAL


def _adapters(host: NodeContext, matrix: Topology, places: tuple[int, ...]) -> list[Part]:
    """Return which adapters for GPU traffic are beside every GPU.

    They are named by rail where the site configures their names, else by their own name; hosts with other names are no
    peers.
    """
    found = host.adapters(host.context.settings_of(HCA_STATE.id, HcaStateSettings, host.entry.sku).hcas)
    names = list(dict.fromkeys(name.partition(":")[0] for name in found.names))
    if not names or not found.complete or not set(names) <= set(matrix.nics):
        return []
    configured = found.basis == "stated"
    words = {name: f"adapter {rail}" if configured else name for rail, name in enumerate(names)}
    peers = ("stated",) if configured else tuple(sorted(names))
    parts = []
    for place, gpu in zip(places, matrix.gpus, strict=True):
        beside = [words[name] for name in names if matrix.paths.get((gpu, name)) in _BESIDE]
        if not beside and host.sku.compute_hcas >= host.sku.gpus:
            # Check topology reports a GPU without an adapter.
            continue
        version = f"{', '.join(sorted(beside)) or 'no adapter'} beside GPU {place}"
        parts.append(Part(f"{place}:adapter", ("adapter", str(place), *peers), version))
    return parts


CHECK = Check(SPEC, OBSERVER, judge)
