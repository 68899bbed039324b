# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The log of NCCL with NCCL_DEBUG=INFO, line by line as release 2.27 prints it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator

from ..model.values import Gpu
from .performance import Performance
from .physics import LIBFABRIC, PLUGINS, SOCKET, Host

# Without NCCL_DEBUG_SUBSYS only these are printed.
_DEFAULT = frozenset({"INIT", "BOOTSTRAP", "ENV"})
_SHOWN_ENVIRONMENT = ("NCCL_SOCKET_IFNAME", "NCCL_ALGO", "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
Line = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank: its number, its host and its GPU. `local` is its number on the host."""

    number: int
    host: Host
    local: int
    gpu: Gpu
    pid: int

    @property
    def prefix(self) -> str:
        """Prefix of every line of the rank."""
        return f"{self.host.place.hostname}:{self.pid}:{self.pid} [{self.local}] NCCL INFO "

    def warning(self, place: str, text: str) -> list[str]:
        """Return a warning: an empty line, then the place in NCCL's source and the text."""
        return ["", f"{self.host.place.hostname}:{self.pid}:{self.pid + 60} [{self.local}] {place} NCCL WARN {text}"]


def ranks_of(hosts: Sequence[Host]) -> list[Rank]:
    """Return the ranks, host by host."""
    found: list[Rank] = []
    for host in hosts:
        gpus = host.node.gpus or ()
        for local in range(host.place.gpus):
            gpu = gpus[local % len(gpus)]
            found.append(Rank(number=len(found), host=host, local=local, gpu=gpu, pid=42 + local))
    return found


class NcclLog:
    """Lines that NCCL logs in one run, filtered by the level and the subsystems in the environment."""

    def __init__(
        self, ranks: Sequence[Rank], env: Mapping[str, str], data: Performance, nvls: bool, seed: str,
        domains: Sequence[Sequence[Host]] = (), sharp: str = "",
    ) -> None:  # fmt: skip
        self._ranks, self._env, self._data, self._nvls = ranks, env, data, nvls
        # Result of the SHARP jobs that the plugin requests, empty if it requests none.
        self._sharp = sharp
        self._draw = random.Random(f"speech/{seed}")
        self._level = env.get("NCCL_DEBUG", "").upper()
        self._wanted = _subsystems(env.get("NCCL_DEBUG_SUBSYS", ""))
        self._nodes = list(dict.fromkeys(rank.host.place.hostname for rank in ranks))
        self._per_node = ranks[0].host.place.gpus
        # By host name the number of its NVLink domain. The hosts of one domain are one node to NCCL.
        self._domain = {host.place.hostname: n for n, domain in enumerate(domains) for host in domain}
        self._domain = self._domain or {name: n for n, name in enumerate(self._nodes)}
        self._clique = Counter(self._domain.values())
        self._channels = 16 if nvls or len(self._nodes) > 1 else 24
        self._communicator = f"0x{self._draw.getrandbits(62):016x}"

    @property
    def loud(self) -> bool:
        """Whether the level prints INFO lines."""
        return self._level in ("INFO", "TRACE")

    def version(self) -> list[str]:
        """Return the version line of rank 0."""
        text = f"NCCL version {self._data.versions.nccl}+cuda{self._data.versions.cuda}"
        if self.loud:
            return [self._ranks[0].prefix + text]
        return [text] if self._level in ("VERSION", "WARN") else []

    def init(self) -> list[str]:
        """Return the interleaved lines of all ranks during the setup of the communicator."""
        return self._mixed(self._init_of(rank) for rank in self._ranks) if self.loud else []

    def connect(self, algorithms: Iterable[str]) -> list[str]:
        """Return the lines of all ranks when the channels are connected, at their first use."""
        if not self.loud:
            return []
        trees = any(name != "RING" for name in algorithms)
        refused = [line for rank in self._ranks for line in self._without_sharp(rank)]
        return refused + self._mixed(self._connect_of(rank, trees) for rank in self._ranks)

    def choice(self, collective: str, size: int, algorithm: str, protocol: str) -> list[str]:
        """Return the lines of rank 0 about the algorithm of an operation."""
        top = 0 if size < 1 << 15 else min(self._channels, size >> 15) - 1
        text = f"{collective}: {size} Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{0..{top}}}"
        return [self._ranks[0].prefix + text] if self.loud and "TUNING" in self._wanted else []

    def _mixed(self, lines_of_ranks: Iterable[Iterable[Line]]) -> list[str]:
        queues = [
            [rank.prefix + text for subsystem, text in lines if self._enabled(subsystem)]
            for rank, lines in zip(self._ranks, lines_of_ranks, strict=True)
        ]
        merged: list[str] = []
        heads = [0] * len(queues)
        waiting = [n for n, queue in enumerate(queues) if queue]
        while waiting:
            number = self._draw.choice(waiting)
            take = self._draw.randint(1, 4)
            merged += queues[number][heads[number] : heads[number] + take]
            heads[number] += take
            if heads[number] >= len(queues[number]):
                waiting.remove(number)
        return merged

    def _enabled(self, subsystems: str) -> bool:
        return any(name in self._wanted for name in subsystems.split("|"))

    def _init_of(self, rank: Rank) -> Iterator[Line]:
        host, total = rank.host, len(self._ranks)
        bus = rank.gpu.pci.removeprefix("0000:").replace(":", "").split(".")[0].lstrip("0") + "0"
        about = (
            f"ncclCommInitRankConfig comm 0x{0x5581EF000000 + rank.number * 0x7AB850:012x} rank {rank.number} "
            f"nranks {total} cudaDev {rank.local} nvmlDev {rank.local} busId {bus} commId {self._communicator}"
        )
        yield "BOOTSTRAP", f"Bootstrap: Using eth0:{host.address}<0>"
        yield "INIT", f"cudaDriverVersion {_cuda_number(host.node.cuda_version)}"
        yield from self._network_of(rank)
        for name in _SHOWN_ENVIRONMENT:
            if name in self._env:
                yield "ENV", f"{name} set by environment to {self._env[name]}."
        yield "INIT", f"{about} - Init START"
        yield from self._graph_of(rank)
        yield "INIT", "threadThresholds 8/8/64 | 128/8/64 | 512 | 512"
        channels = self._channels
        yield (
            "INIT",
            (
                f"{channels} coll channels, {channels} collnet channels, {channels if self._nvls else 0} nvls "
                f"channels, {channels} p2p channels, 2 p2p channels per peer"
            ),
        )
        yield "INIT|TUNING", "TUNER/Plugin: Could not find: libnccl-tuner.so. "
        yield "INIT", f"{about} - Init COMPLETE"

    def _network_of(self, rank: Rank) -> Iterator[Line]:
        host = rank.host
        yield "INIT|NET", "NET/Plugin: Could not find: libnccl-net.so. "
        if host.network == LIBFABRIC:
            yield "INIT|NET", "NET/OFI Initializing aws-ofi-nccl 1.16.3"
            yield (
                "INIT|NET",
                f"NET/OFI Selected provider is efa, fabric is efa-direct (found {len(host.adapters)} nics)",
            )
        elif host.network in PLUGINS.values():
            yield "INIT|NET", f"NET/Plugin: Loaded net plugin {host.network} (v7)"
        elif not host.libraries:
            yield "INIT|NET", "Failed to open libibverbs.so[.1]"
        else:
            yield from self._verbs_of(host)
        if host.network == SOCKET:
            yield "INIT|NET", f"NET/Socket : Using [0]eth0:{host.address}<0>"
        yield "INIT|NET", f"Initialized NET plugin {host.network}"
        yield "INIT|NET", f"Assigned NET plugin {host.network} to comm"
        yield "INIT|NET", f"Using network {host.network}"

    def _verbs_of(self, host: Host) -> Iterator[Line]:
        if self._env.get("NCCL_IB_HCA"):
            yield "NET|ENV", f"NCCL_IB_HCA set to {self._env['NCCL_IB_HCA']}"
        if not host.adapters:
            yield "INIT|NET", "NET/IB : No device found."
            return
        if self._sharp:
            yield "INIT|NET", "NET/Plugin: Loaded collnet plugin SHARP (v9)"
        layer = {"InfiniBand": "IB/SHARP" if self._sharp else "IB"}
        names = " ".join(
            f"[{n}]{hca.name}:1/{layer.get(hca.link_layer, 'RoCE')}" for n, hca in enumerate(host.adapters)
        )
        yield "INIT|NET", f"NET/IB : Using {names} [RO]; OOB eth0:{host.address}<0>"
        for number, hca in enumerate(host.adapters):
            if not host.direct:
                yield "INIT|NET", f"NET/IB : GPU Direct RDMA Disabled for HCA {number} '{hca.name}'"

    def _graph_of(self, rank: Rank) -> Iterator[Line]:
        host, total = rank.host, len(self._ranks)
        domain = self._domain[host.place.hostname]
        size = self._clique[domain] * self._per_node
        place = sum(r.number < rank.number and self._domain[r.host.place.hostname] == domain for r in self._ranks)
        joined = int(self._clique[domain] > 1)
        if joined:
            about = f"cliqueId 7ffe cliqueSize {size} cliqueRank {place} nvlDomainSize {size}"
            yield "INIT", f"MNNVL 1 {about}"
        local = f"localRanks {size} localRank {place}"
        yield "INIT", f"comm rank {rank.number} nRanks {total} nNodes {len(self._clique)} {local} MNNVL {joined}"
        if self._nvls:
            yield "INIT", f"NVLS multicast support is available on dev {rank.local} (NVLS_NCHANNELS {self._channels})"
        if host.adapters and host.direct and len(self._nodes) > 1:
            number = rank.local % len(host.adapters)
            yield (
                "NET|GRAPH",
                f"GPU Direct RDMA Enabled for GPU {rank.local} / HCA {number} (distance 4 <= 5), read 0 mode Default",
            )
        if rank.number == 0:
            for channel in range(self._channels):
                order = " ".join(str(number) for number in self._ring(channel))
                yield "INIT|GRAPH", f"Channel {channel:02d}/{self._channels:02d} : {order}"
        up = rank.number - 1 if rank.local else max(-1, rank.number - self._per_node)
        down = rank.number + 1 if rank.local + 1 < self._per_node else -1
        trees = " ".join(f"[{channel}] {down}/-1/-1->{rank.number}->{up}" for channel in range(self._channels))
        yield "INIT|GRAPH", f"Trees {trees}"

    def _ring(self, channel: int) -> list[int]:
        """Return the ranks of a channel's ring in order. It enters a node at a GPU and leaves it at the one before."""
        size, start = self._per_node, channel % self._per_node
        return [node * size + (start + step) % size for node in range(len(self._nodes)) for step in range(size)]

    def _connect_of(self, rank: Rank, trees: bool) -> Iterator[Line]:
        for channel in range(self._channels):
            ring = self._ring(channel)
            place = ring.index(rank.number)
            before, after = ring[place - 1], ring[(place + 1) % len(ring)]
            if before == rank.number:
                continue
            yield from self._edge(rank, channel, before, rank.number, "receive")
            yield from self._edge(rank, channel, rank.number, after, "send")
        gdr = int(rank.host.direct and bool(rank.host.adapters))
        yield "INIT", f"Connected all rings, use ring PXN 0 GDR {gdr}"
        if self._sharp == "ready" and rank.local < len(rank.host.adapters):
            # Mellanox/nccl-rdma-sharp-plugins, src/sharp_plugin.c: one rank of each host for each adapter.
            place, adapter = self._nodes.index(rank.host.place.hostname), rank.host.adapters[rank.local].name
            yield "INIT", f"SHARP rank {place}/{len(self._nodes)} initialized on {adapter}:1"
            yield "INIT", f"rank {rank.number} Connected CollNet"
        if trees:
            yield "INIT", "Connected all trees"
        if self._nvls and trees:
            heads = f"headRank {rank.local} nHeads {self._per_node} nvlsRanks {self._per_node}"
            yield (
                "INIT|NVLS",
                f"NVLS comm 0x{0x5598478A0000 + rank.number:012x} {heads} buffSize 1048576 nvlsPerRankSize 201326592",
            )
            if len(self._nodes) > 1:
                yield "INIT", "Connected NVLS tree"

    def _without_sharp(self, rank: Rank) -> list[str]:
        """Return the messages of a plugin without a job, and of NCCL, which continues.

        Sources: src/sharp_plugin.c of the plugin, src/transport.cc of NCCL.
        """
        if self._sharp != "no-manager" or rank.local >= len(rank.host.adapters):
            return []
        lines = rank.warning("sharp_plugin.c:440", "NET/IB : SHARP coll init error: Cannot create SHARP job(-11)")
        if rank.local == 0:
            text = "Cannot initialize CollNet, using point-to-point network instead"
            lines += rank.warning("transport.cc:464", text)
        return lines

    def _edge(self, rank: Rank, channel: int, source: int, target: int, direction: str) -> Iterator[Line]:
        size = self._per_node
        ends = f"{source}[{source % size}] -> {target}[{target % size}]"
        away = source // size != target // size
        one, other = (self._domain[self._nodes[number // size]] for number in (source, target))
        if away and one == other and not self._through_network():
            if direction == "send":
                yield "INIT|P2P", f"Channel {channel:02d}/0 : {ends} via P2P/MNNVL"
            return
        if not away and not self._through_network():
            if direction == "send":
                yield "INIT|P2P", f"Channel {channel:02d}/0 : {ends} via P2P/CUMEM"
            return
        host = rank.host
        number = rank.local % len(host.adapters) if host.adapters else 0
        suffix = "/GDRDMA" if host.adapters and host.direct else ""
        # NCCL prints `IB` for verbs and the name of the plugin otherwise.
        name = host.network
        yield "INIT|NET", f"Channel {channel:02d}/0 : {ends} [{direction}] via NET/{name}/{number}{suffix}"

    def _through_network(self) -> bool:
        return self._env.get("NCCL_P2P_DISABLE") == "1" and self._env.get("NCCL_SHM_DISABLE") == "1"


def uses_nvls(accelerator: Accelerator, per_node: int, env: Mapping[str, str], data: Performance) -> bool:
    """Tell whether NCCL uses NVLS, the reduction in the NVLink switches."""
    if env.get("NCCL_NVLS_ENABLE") == "0" or env.get("NCCL_P2P_DISABLE") == "1":
        return False
    forced = env.get("NCCL_ALGO", "").upper()
    allowed = not forced or "NVLS" in forced
    return allowed and accelerator.nvls and per_node >= data.nvls.gpus


def _subsystems(text: str) -> frozenset[str]:
    words = {word.strip().upper() for word in text.removeprefix("^").split(",") if word.strip()}
    if not words:
        return _DEFAULT
    every = {"INIT", "BOOTSTRAP", "ENV", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ALLOC", "PROXY", "NVLS"}
    if text.startswith("^"):
        return frozenset(every - words)
    return frozenset(every if "ALL" in words else words)


def _cuda_number(version: str) -> int:
    major, _mark, minor = version.partition(".")
    return int(major) * 1000 + int(minor or 0) * 10
