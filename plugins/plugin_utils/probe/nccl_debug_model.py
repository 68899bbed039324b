# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL said about itself in a run (`NCCL_DEBUG=INFO`): network, devices, channels, algorithms, warnings."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A connection from rank to rank; the channels that share it are listed once.

    `via` is the transport (`P2P/IPC`, `SHM/direct`, `NET/IB`), `device` the number of the network device,
    `direct` is whether GPUDirect RDMA is used, `proxy` is the rank whose NIC carries it (PXN).
    """

    source: int
    target: int
    direction: str
    via: str
    device: int | None = None
    direct: bool = False
    proxy: int | None = None

    @property
    def network(self) -> str:
        """`IB`, `Socket`, ... for a connection through the network, empty for others."""
        return self.via.partition("NET/")[2] if self.via.startswith("NET/") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLog:
    """What the ranks on one host said; the name is empty where lines carry no host.

    `networks` are the names after `Using network`; `devices` are RDMA ports (`mlx5_0:1`) that NCCL uses, `layers`
    their link layers; `sockets` the interfaces of plain TCP. `filters` are the values of NCCL_IB_HCA.
    `reasons` are slugs that say why RDMA is not used: `no-device` (of verbs), `no-provider` (of a
    plugin), `plugin-missing`, `verbs-missing`, `memlock`.
    `missing_libraries` are libraries that a network plugin needs and that could not be opened. `collnet` are plugins
    for reductions in the network, `sharp` adapters on which ranks made their job of SHARP, `no_sharp` lines that say
    why there is none.
    """

    host: str
    networks: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    channels: tuple[Channel, ...] = ()
    filters: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    provider_nics: int | None = None
    warnings: tuple[str, ...] = ()
    missing_libraries: tuple[str, ...] = ()
    direct_enabled: bool | None = None
    collnet: tuple[str, ...] = ()
    sharp: tuple[str, ...] = ()
    no_sharp: tuple[str, ...] = ()

    @property
    def network_channels(self) -> tuple[Channel, ...]:
        """The channels that leave the host."""
        return tuple(channel for channel in self.channels if channel.network)

    @property
    def uses_socket(self) -> bool:
        """Whether this host's own ranks chose plain TCP."""
        return "Socket" in self.networks or (not self.networks and bool(self.sockets) and not self.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Algorithm and protocol that NCCL chose for a size."""

    collective: str
    size: int
    algorithm: str
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclDebug:
    """A whole log. `ranks_expected` is `nranks` of the communicators, None where no line says it."""

    hosts: dict[str, HostLog]
    version: str = ""
    cuda_driver: int | None = None
    ranks_ready: tuple[int, ...] = ()
    ranks_expected: int | None = None
    choices: tuple[Choice, ...] = ()
    nvls: bool = False
    nvls_capable: bool = False
    clique_size: int | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def all_ready(self) -> bool:
        """Whether every rank said `Init COMPLETE`."""
        return self.ranks_expected is not None and len(self.ranks_ready) == self.ranks_expected

    def algorithm(self, size: int, collective: str = "AllReduce") -> str:
        """Return the algorithm for that size in lower case, empty where no line names one, or lines name two."""
        named = {c.algorithm for c in self.choices if c.size == size and c.collective in ("", collective)}
        return next(iter(named)) if len(named) == 1 else ""
