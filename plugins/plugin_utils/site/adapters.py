# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the adapters of a host for GPU traffic, for the cabling plan, check hca-state and NCCL's filter.

A host has more adapters than those: for storage, management, NVSwitches. The site configures which ones carry GPU
traffic (gpufleet_hcas). Otherwise it follows from the host itself: what is beside a GPU by `nvidia-smi topo -m`, the
link layer, the rate, the model. Names in a SKU decide what these leave open. Names are never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..hardware.sku import Sku
from ..outcome.wording import natural
from ..probe.ibstat import Hca, IbPort
from ..probe.nvidia_smi_topo import Topology
from .model import Host

VARIABLE = "gpufleet_hcas"
LINK_LAYERS: Mapping[str, str] = {"infiniband": "InfiniBand", "roce": "Ethernet"}
"""By fabric of the SKU, the link layer of its adapters in `ibstat`. Other fabrics have no adapters there."""
# A GPU and an adapter below the same PCIe switch, or below switches of the same root port.
_BESIDE = ("PIX", "PXB")

Basis = Literal["stated", "topology", "link-layer", "sku", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One port of an adapter.

    - `name`: `mlx5_3`, or `mlx4_0:2` for an adapter with several ports.
    - `beside`: GPUs next to it, by index in the driver's list.
    """

    name: str
    hca: Hca
    port: IbPort
    beside: tuple[int, ...] = ()
    nearest: tuple[int, ...] = ()

    @property
    def up(self) -> bool:
        """Whether the port has a signal. Without one `ibstat` prints a meaningless rate."""
        return self.port.physical_state == "LinkUp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAdapters:
    """The adapter ports of a host for GPU traffic.

    - `names`: in the order of the rails, as many as are known.
    - `wanted`: number in the SKU.
    - `basis`: what the names follow from.
    - `open_between`: candidates, where more ports fit than there should be.
    - `bare_gpus`: GPUs without an adapter beside them on a host whose other GPUs have one.
    - `contradicts`: names by the host's own evidence, where the site configured others.
    """

    names: tuple[str, ...]
    wanted: int
    basis: Basis
    open_between: tuple[str, ...] = ()
    bare_gpus: tuple[int, ...] = ()
    contradicts: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether there is a name for every adapter that the SKU has."""
        return len(self.names) == self.wanted

    @property
    def basis_text(self) -> str:
        """What the names follow from, for a message."""
        return {
            "stated": f"stated by {VARIABLE}",
            "topology": "those beside the GPUs by `nvidia-smi topo -m`",
            "link-layer": "by link layer and rate in `ibstat`",
            "sku": "as the SKU names them",
            "none": "not known",
        }[self.basis]


def stated_by(host: Host, sku: Sku) -> str:
    """Return the setting that has the names of the host's adapters."""
    return VARIABLE if host.hcas else f"hca_names of SKU {sku.name}"


def carries_gpu_traffic(sku: Sku) -> bool:
    """Tell whether hosts of the SKU have adapters that `ibstat` lists and NCCL_IB_HCA selects."""
    return sku.compute_hcas > 0 and sku.fabric in LINK_LAYERS


def port_names(hcas: Iterable[Hca]) -> dict[str, IbPort]:
    """Return every port by its name: the adapter's, with `:number` where it has several ports."""
    return {_name(hca, port): port for hca in hcas for port in hca.ports}


def nccl_port(name: str) -> str:
    """Return the name with its port number, as NCCL_IB_HCA needs it."""
    return name if ":" in name else f"{name}:1"


def compute_adapters(
    host: Host,
    sku: Sku,
    hcas: Sequence[Hca] | None,
    topology: Topology | None = None,
    configured: Sequence[str] = (),
) -> ComputeAdapters:
    """Return the adapters of a host for GPU traffic.

    Args:
        host: its entry in the inventory.
        sku: its hardware facts.
        hcas: output of `ibstat`; None where it was not read.
        topology: output of `nvidia-smi topo -m`; None where it was not read.
        configured: names from a setting, which override those of the inventory.
    """
    wanted = sku.compute_hcas if carries_gpu_traffic(sku) else 0
    found = _from_evidence(sku, hcas, topology) if hcas is not None and wanted else None
    names = tuple(configured) or host.hcas
    if names:
        sure = found is not None and found.basis == "topology" and found.complete
        other = found.names if sure and found is not None and set(found.names) != set(names) else ()
        return ComputeAdapters(names=names, wanted=wanted, basis="stated", contradicts=other)
    if found is None:
        basis: Basis = "sku" if sku.hca_names and wanted else "none"
        return ComputeAdapters(names=sku.hca_names if wanted else (), wanted=wanted, basis=basis)
    return found


def _from_evidence(sku: Sku, hcas: Sequence[Hca], topology: Topology | None) -> ComputeAdapters:
    every = [_adapter(hca, port, topology) for hca in hcas for port in hca.ports]
    layer = LINK_LAYERS[sku.fabric]
    fitting = [entry for entry in every if entry.port.link_layer == layer]
    bare = _bare(every, topology)
    exact = _exact(([entry for entry in fitting if entry.nearest], [entry for entry in fitting if entry.beside]), sku)
    if exact is not None:
        return _known(exact, sku, bare)
    if set(sku.hca_names) <= {entry.name for entry in fitting} and sku.hca_names:
        return ComputeAdapters(names=sku.hca_names, wanted=sku.compute_hcas, basis="sku", bare_gpus=bare)
    beside = _main_kinds([entry for entry in fitting if entry.beside], sku)
    mostly = 2 * len(beside) >= sku.compute_hcas
    exact = _exact((fitting,), sku)
    # Where most GPUs have an adapter beside them, a distant one replaces a missing one only if the SKU has its name.
    if exact is not None and not (mostly and sku.hca_names and {entry.name for entry in exact} - set(sku.hca_names)):
        return _known(exact, sku, bare)
    if len(fitting) > sku.compute_hcas and not (mostly and len(beside) < sku.compute_hcas):
        return ComputeAdapters(
            names=(), wanted=sku.compute_hcas, basis="none", open_between=_ordered(fitting), bare_gpus=bare
        )
    there = beside if mostly else fitting
    return _known([*there, *_other_layer(every, there, sku)], sku, bare)


def _name(hca: Hca, port: IbPort) -> str:
    return hca.name if len(hca.ports) == 1 else f"{hca.name}:{port.number}"


def _adapter(hca: Hca, port: IbPort, topology: Topology | None) -> Adapter:
    beside, nearest = [], []
    for place, gpu in enumerate(topology.gpus if topology else ()):
        paths = {nic: word for (row, nic), word in topology.paths.items() if row == gpu} if topology else {}
        word = paths.get(hca.name, "")
        if word in _BESIDE:
            beside.append(place)
            words = [paths[nic] for nic in topology.nics if nic in paths] if topology else []
            if not any(other in _BESIDE[: _BESIDE.index(word)] for other in words):
                nearest.append(place)
    return Adapter(name=_name(hca, port), hca=hca, port=port, beside=tuple(beside), nearest=tuple(nearest))


def _bare(every: Sequence[Adapter], topology: Topology | None) -> tuple[int, ...]:
    """Return the GPUs without an adapter beside them, if at least half of the GPUs have one."""
    count = len(topology.gpus) if topology else 0
    covered = {place for entry in every for place in entry.beside}
    return tuple(place for place in range(count) if place not in covered) if 2 * len(covered) >= count else ()


def _exact(pools: Sequence[Sequence[Adapter]], sku: Sku) -> list[Adapter] | None:
    """Return the ports if one of the criteria gives exactly as many as the SKU has."""
    for pool in pools:
        alike = _main_kinds(pool, sku)
        for entries in (alike, _rated(alike, sku)):
            if len(entries) == sku.compute_hcas:
                return entries
    return None


def _main_kinds(pool: Sequence[Adapter], sku: Sku) -> list[Adapter]:
    """Return the ports of the models that the host has in number.

    A model counts if at least half as many ports have it as are needed: a single odd one is not a rail's adapter.
    """
    counts = Counter(entry.hca.kind for entry in pool)
    return [entry for entry in pool if 2 * counts[entry.hca.kind] >= min(sku.compute_hcas, len(pool))]


def _rated(pool: Sequence[Adapter], sku: Sku) -> list[Adapter]:
    """Return the ports at the rate of the SKU. Ports without a signal count if their model has that rate elsewhere."""
    models = {entry.hca.kind for entry in pool if entry.up and entry.port.rate_gbps == sku.hca_rate_gbps}
    return [
        entry for entry in pool if (entry.port.rate_gbps == sku.hca_rate_gbps if entry.up else entry.hca.kind in models)
    ]


def _other_layer(every: Sequence[Adapter], there: Sequence[Adapter], sku: Sku) -> list[Adapter]:
    """Return ports in the position of missing ones that have the wrong link layer."""
    missing = sku.compute_hcas - len(there)
    layer, kinds = LINK_LAYERS[sku.fabric], {entry.hca.kind for entry in there}
    others = [entry for entry in every if entry.port.link_layer != layer]
    others = [entry for entry in others if entry.hca.kind in kinds or not kinds]
    covered = {place for entry in there for place in entry.beside}
    beside = [entry for entry in others if set(entry.beside) - covered]
    fitting = [pool for pool in (beside, others) if len(pool) == missing]
    return fitting[0] if fitting else []


def _known(entries: Sequence[Adapter], sku: Sku, bare: tuple[int, ...]) -> ComputeAdapters:
    layer = LINK_LAYERS[sku.fabric]
    near = all(entry.beside and entry.port.link_layer == layer for entry in entries)
    basis: Basis = "topology" if near and entries else "link-layer"
    return ComputeAdapters(names=_ordered(entries), wanted=sku.compute_hcas, basis=basis, bare_gpus=bare)


def _ordered(entries: Iterable[Adapter]) -> tuple[str, ...]:
    """Return the names in the order of the GPUs beside them, then by number."""
    ordered = sorted(entries, key=lambda entry: (entry.nearest or entry.beside or (1 << 16,), natural(entry.name)))
    return tuple(entry.name for entry in ordered)
