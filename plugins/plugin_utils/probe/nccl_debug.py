# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of NCCL's own lines (`NCCL_DEBUG=INFO`, subsystems INIT, ENV, NET, GRAPH, TUNING), releases 2.10 to 2.30."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .text import plain, unreadable

# NCCL's own log of a run (`NCCL_DEBUG=INFO`): network, devices, channels, algorithms, warnings.


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A connection between two ranks. Several channels of the same connection are listed once.

    - `via`: transport (`P2P/IPC`, `SHM/direct`, `NET/IB`).
    - `device`: number of the network device.
    - `direct`: whether GPUDirect RDMA is used.
    - `proxy`: rank whose NIC carries the traffic (PXN).
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
    """Log of the ranks on one host. The name is empty where lines have no host.

    - `networks`: names after `Using network`.
    - `devices`: RDMA ports (`mlx5_0:1`) that NCCL uses. `layers` are their link layers.
    - `sockets`: interfaces of plain TCP.
    - `filters`: values of NCCL_IB_HCA.
    - `reasons`: slugs for why RDMA is not used: `no-device` (of verbs), `no-provider` (of a plugin), `plugin-missing`,
      `verbs-missing`, `memlock`.
    - `missing_libraries`: libraries of a network plugin that could not be opened.
    - `collnet`: plugins for in-network reductions.
    - `sharp`: adapters on which ranks created their SHARP job.
    - `no_sharp`: lines with the reason why there is none.
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
        """Channels that leave the host."""
        return tuple(channel for channel in self.channels if channel.network)

    @property
    def uses_socket(self) -> bool:
        """Whether the ranks of this host chose plain TCP."""
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
    """A complete log. `ranks_expected` is `nranks` of the communicators, None if no line has it."""

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
        """Whether every rank logged `Init COMPLETE`."""
        return self.ranks_expected is not None and len(self.ranks_ready) == self.ranks_expected

    def algorithm(self, size: int, collective: str = "AllReduce") -> str:
        """Return the algorithm for that size in lower case; empty if no line names one, or lines name two."""
        named = {c.algorithm for c in self.choices if c.size == size and c.collective in ("", collective)}
        return next(iter(named)) if len(named) == 1 else ""


# Parser of these lines (subsystems INIT, ENV, NET, GRAPH, TUNING), releases 2.10 to 2.30.
#
# The evidence differs by release: `Using network` and `/GDRDMA` in the channel lines are in all of them, `GPU Direct
# RDMA Enabled` only up to 2.29. Lines of several ranks may come in any order. Labels of srun and mpirun are removed.

TOOL = "NCCL_DEBUG=INFO"
# Prefix of a line: a label of srun, Open MPI or MPICH, and from 2.26 on the time of a warning.
_BEFORE = re.compile(r"\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\[?\d+\]?: |\[\d+\] )?\s*(?:\[\d[^\]]{5,40}\] )?")
_LINE = re.compile(
    r"(?:(?P<host>\S+?):\d+:\d+ \[-?\d+\] )?"
    r"(?:\S+ )?NCCL (?P<level>INFO|WARN|ERROR|ABORT) (?P<text>.*)"
)
# In newer releases a warning has its source location before `NCCL WARN`. In older ones a line starts with
# `misc/x.cc:1`.
_WARNING = re.compile(r"(?:(?P<host>[^\s:]+):\d+:\d+ \[-?\d+\] )?.*\bNCCL WARN (?P<text>.*)")
_NETWORK = re.compile(r"Using network (\S.*?)\s*")
_CHANNEL = re.compile(
    r"Channel \d+(?:/\d+)? : (\d+)(?:\[[^\]]*\])? -> (\d+)(?:\[[^\]]*\])?(?: \[(send|receive)\])? via (\S+)(.*)"
)
_NUMBER = re.compile(r"^Channel \d+(?:/\d+)? : ")
_NET_VIA = re.compile(r"NET/(.+?)/(\d+)(?:\((\d+)\))?(/GDRDMA)?(?:\(PCI\))?(?:/Shared)?")
_DEVICE = re.compile(r"([A-Za-z][\w.-]*):(\d+)/(IB|RoCE)\b")
_SOCKET = re.compile(r"\[\d+\]([\w.-]+):\S+?<\d+>")
_ENVIRONMENT = re.compile(r"(NCCL_[A-Z0-9_]+) set (?:by environment )?to (.*?)\.?\s*")
_READY = re.compile(r".*\brank (\d+) nranks (\d+) .*Init COMPLETE\b.*")
_CHOICE = re.compile(r"(?:(\w+): )?(?:opCount \S+ )?(\d+) Bytes -> Algo (\w+) proto (\w+).*")
_CLIQUE = re.compile(r".*\bMNNVL 1 cliqueId \S+ cliqueSize (\d+)\b.*")
_PROVIDER = re.compile(r"NET/OFI Selected provider is ([\w-]+)(?:.*found (\d+) nics)?.*", re.I)
_PLUGIN = re.compile(
    r"NET/OFI Initializing (aws-ofi-nccl \S+)|NET/Plugin ?: Loaded net plugin (.+?)(?: \(v\d+\))?$"
    r"|P2P plugin ([^;]+?);?$"
)
# Mellanox/nccl-rdma-sharp-plugins, src/sharp_plugin.c; NVIDIA/nccl, src/plugin/net, src/init.cc, src/transport.cc.
_COLLNET = re.compile(r"NET/Plugin ?: Loaded collnet plugin (.+?)(?: \(v\d+\))?$")
_SHARP = re.compile(r"SHARP rank \d+/\d+ initialized on (\S+)")
_NO_SHARP = re.compile(
    r"SHARP coll init error|SHARP group create|^SHARP: (?:Group size|Set to disable)|Cannot initialize CollNet"
    r"|CollNet node threshold|mixed local CollNet device counts"
)
_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
_REASONS = (
    ("no-device", re.compile(r"NET/IB : No device found")),
    ("no-provider", re.compile(r"NET/OFI .*fi_getinfo\(\) call failed: No data available")),
    ("verbs-missing", re.compile(r"Failed to open libibverbs")),
    (
        "plugin-missing",
        re.compile(r"NET/Plugin ?: (?:Could not find|Failed to load|dlerror=libnccl-net)|No plugin found \("),
    ),
    ("memlock", re.compile(r"ibv_(?:create_cq|create_qp|reg_mr\w*) failed with error Cannot allocate memory")),
    ("memlock", re.compile(r"Couldn't (?:create CQ|allocate MR)|RLIMIT_MEMLOCK", re.I)),
)
_LIBRARY = re.compile(r"\b(lib(?!nccl-|ibverbs|mlx5|cuda)[\w+-]+\.so[\w.]*): cannot open shared object file")
_MOST_WARNINGS = 20


@dataclass(slots=True)
class _Host:
    networks: dict[str, None] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    sockets: dict[str, None] = field(default_factory=dict)
    channels: dict[Channel, None] = field(default_factory=dict)
    filters: dict[str, None] = field(default_factory=dict)
    reasons: dict[str, None] = field(default_factory=dict)
    plugins: dict[str, None] = field(default_factory=dict)
    providers: dict[str, None] = field(default_factory=dict)
    provider_nics: int | None = None
    warnings: dict[str, None] = field(default_factory=dict)
    libraries: dict[str, None] = field(default_factory=dict)
    direct_enabled: bool | None = None
    collnet: dict[str, None] = field(default_factory=dict)
    sharp: dict[str, None] = field(default_factory=dict)
    no_sharp: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Log:
    hosts: dict[str, _Host] = field(default_factory=dict)
    version: str = ""
    cuda_driver: int | None = None
    ready: set[int] = field(default_factory=set)
    expected: int | None = None
    choices: dict[Choice, None] = field(default_factory=dict)
    nvls: bool = False
    nvls_capable: bool = False
    clique_size: int | None = None
    environment: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> NcclDebug:
    """Return the content of NCCL's log.

    Raises:
        InputError: no line of NCCL.
    """
    log, found, taken = _Log(), 0, set[tuple[str, str, str]]()
    for line in plain(text).splitlines():
        if "NCCL " not in line:
            continue
        line = _BEFORE.sub("", line, count=1)
        match = _LINE.match(line) or _WARNING.match(line)
        if match is None:
            continue
        found += 1
        level = match.groupdict().get("level") or "WARN"
        host, reported = match.group("host") or "", match.group("text").strip()
        # Every rank and every channel logs the same, so a line without new content is not parsed again.
        key = (host, level, _NUMBER.sub("Channel : ", reported))
        if key not in taken:
            taken.add(key)
            _take(log, log.hosts.setdefault(host, _Host()), level, reported)
    if not found:
        raise unreadable(TOOL, text.strip()[:80], "lines with `NCCL INFO`")
    return _result(log)


def _take(log: _Log, host: _Host, level: str, text: str) -> None:
    if level != "INFO" and len(host.warnings) < _MOST_WARNINGS:
        host.warnings[text[:300]] = None
    for slug, pattern in _REASONS:
        if pattern.search(text):
            host.reasons[slug] = None
    if library := _LIBRARY.search(text):
        host.libraries[library.group(1)] = None
    if _NO_SHARP.search(text) and len(host.no_sharp) < _MOST_WARNINGS:
        host.no_sharp[text[:200]] = None
    if channel := _CHANNEL.match(text):
        host.channels[_channel(channel)] = None
    elif "Bytes -> Algo" in text:
        _take_choice(log, text)
    elif not _take_network(host, text):
        _take_general(log, host, text)


def _take_network(host: _Host, text: str) -> bool:
    """Parse a line about network devices, and return whether it was one."""
    if network := _NETWORK.fullmatch(text):
        host.networks[network.group(1)] = None
    elif text.startswith("NET/IB : Using"):
        host.devices.update({f"{name}:{port}": layer for name, port, layer in _DEVICE.findall(text)})
    elif text.startswith("NET/Socket : Using"):
        host.sockets.update(dict.fromkeys(_SOCKET.findall(text)))
    elif provider := _PROVIDER.match(text):
        host.providers[provider.group(1)] = None
        host.provider_nics = int(provider.group(2)) if provider.group(2) else host.provider_nics
    elif plugin := _COLLNET.match(text):
        host.collnet[plugin.group(1)] = None
    elif ready := _SHARP.match(text):
        host.sharp[ready.group(1)] = None
    elif plugin := _PLUGIN.match(text):
        host.plugins[next(name for name in plugin.groups() if name)] = None
    elif "GPU Direct RDMA" in text:
        enabled = "GPU Direct RDMA Enabled" in text
        host.direct_enabled = enabled if host.direct_enabled is None else host.direct_enabled and enabled
    else:
        return False
    return True


def _take_general(log: _Log, host: _Host, text: str) -> None:
    if ready := _READY.match(text):
        log.ready.add(int(ready.group(1)))
        log.expected = max(log.expected or 0, int(ready.group(2)))
    elif environment := _ENVIRONMENT.fullmatch(text):
        name, value = environment.groups()
        log.environment[name] = value
        if name == "NCCL_IB_HCA":
            host.filters[value] = None
    elif clique := _CLIQUE.match(text):
        log.clique_size = int(clique.group(1))
    elif text.startswith("NCCL version "):
        log.version = log.version or text.split()[2]
    elif text.startswith("cudaDriverVersion ") and text.split()[1].isdecimal():
        log.cuda_driver = log.cuda_driver or int(text.split()[1])
    elif "NVLS comm 0x" in text:
        log.nvls = True
    elif "NVLS multicast support is available" in text:
        log.nvls_capable = True


def _take_choice(log: _Log, text: str) -> None:
    match = _CHOICE.search(text)
    if match is None:
        return
    collective, size, algorithm, protocol = match.groups()
    choice = Choice(
        collective=collective or "",
        size=int(size),
        algorithm=_word(algorithm, _ALGORITHMS),
        protocol=_word(protocol, _PROTOCOLS),
    )
    log.choices[choice] = None


def _word(text: str, words: tuple[str, ...]) -> str:
    """Return the name. Releases up to 2.23 print its number."""
    if text.isdecimal():
        return words[int(text)] if int(text) < len(words) else ""
    return text.lower().replace("_", "")


def _channel(match: re.Match[str]) -> Channel:
    source, target, direction, via, rest = match.groups()
    # A plugin's name may have blanks: `via NET/AWS Libfabric/0/GDRDMA`.
    if via == "direct" and rest.startswith(" shared memory"):
        # Wording of releases before 2.12.
        return Channel(source=int(source), target=int(target), direction=direction or "", via="SHM/direct")
    net = _NET_VIA.fullmatch(f"{via}{rest}".strip()) or _NET_VIA.match(via)
    if net is None:
        return Channel(source=int(source), target=int(target), direction=direction or "", via=via.split("(")[0])
    name, device, proxy, direct = net.groups()
    return Channel(
        source=int(source),
        target=int(target),
        direction=direction or "",
        via=f"NET/{name}",
        device=int(device),
        direct=bool(direct),
        proxy=int(proxy) if proxy else None,
    )


def _result(log: _Log) -> NcclDebug:
    hosts = {
        name: HostLog(
            host=name,
            networks=tuple(host.networks),
            devices=tuple(host.devices),
            layers=tuple(dict.fromkeys(host.devices.values())),
            sockets=tuple(host.sockets),
            channels=tuple(host.channels),
            filters=tuple(host.filters),
            reasons=tuple(host.reasons),
            plugins=tuple(host.plugins),
            providers=tuple(host.providers),
            provider_nics=host.provider_nics,
            warnings=tuple(host.warnings),
            missing_libraries=tuple(host.libraries),
            direct_enabled=host.direct_enabled,
            collnet=tuple(host.collnet),
            sharp=tuple(host.sharp),
            no_sharp=tuple(host.no_sharp),
        )
        for name, host in log.hosts.items()
    }
    return NcclDebug(
        hosts=hosts,
        version=log.version,
        cuda_driver=log.cuda_driver,
        ranks_ready=tuple(sorted(log.ready)),
        ranks_expected=log.expected,
        choices=tuple(log.choices),
        nvls=log.nvls,
        nvls_capable=log.nvls_capable,
        clique_size=log.clique_size,
        environment=log.environment,
    )
