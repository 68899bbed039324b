# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check roce-setup: every RoCE port has a routable RoCE v2 address, the full MTU, and PFC on the right priorities.

A wrong GID ends in completion error 12 of NCCL (public reports name NCCL_IB_GID_INDEX=3 as the cure); an MTU that falls
back to 1024 bytes halves what a port carries.

Parser of `mlnx_qos -i <device>`: which priorities are lossless (PFC), what is trusted, how bandwidth is shared.

Parser of `show_gids` (MLNX_OFED, DOCA-OFED): the addresses of every RDMA port and the version of RoCE of each.

Parser of the GIDs of RDMA ports: as `show_gids` prints them, or as `grep -H` prints the kernel's files.

The files: the Linux kernel's Documentation/ABI/stable/sysfs-class-infiniband (gids, gid_attrs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count, first_of
from ...probe.blocks import blocks
from ...probe.ibv_devinfo import VerbsPort
from ...probe.rdma_link import RdmaLink
from ...probe.text import plain, unreadable
from ...site.adapters import carries_gpu_traffic
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .hca_state import SPEC as HCA_STATE
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .roce_ports import NAMED_PORTS, adapter_names, most_ports, odd_ports, ports_of, usual_of_ports

_TOOL = "mlnx_qos"
_PRIORITIES = 8
_TRUST = re.compile(r"Priority trust state: (\w{1,20})")
_DCBX = re.compile(r"DCBX mode: (.{1,40})")
_DSCP = re.compile(r"prio:(\d) dscp:([\d,]{1,400})")
_ENABLED = re.compile(r"enabled((?:\s+[01]){8})")
_CLASS = re.compile(r"tc: (\d) ratelimit: ([^,]{1,40}), tsa: (\w{1,20})(?:, bw: (\d{1,3})%)?")
_PRIORITY = re.compile(r"priority:\s+(\d)")


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One traffic class; `bandwidth_percent` is None where none is guaranteed (strict, vendor)."""

    number: int
    rate_limit: str
    algorithm: str
    bandwidth_percent: int | None
    priorities: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PortQos:
    """One network device; `pfc` are the priorities whose traffic is paused and not dropped, `dscp` the priority that
    each code point is given."""

    device: str
    trust: str
    dcbx: str
    pfc: tuple[int, ...]
    dscp: dict[int, int] = field(default_factory=dict)
    classes: tuple[TrafficClass, ...] = ()


def parse_mlnx_qos(text: str) -> tuple[PortQos, ...]:
    """Return the devices in the tool's order; `device` is empty where no line names it.

    Raises:
        InputError: a device without trust state or PFC configuration, a traffic class or a code point twice.
    """
    return tuple(_device(name, [line.strip() for line in lines]) for name, lines in blocks(text, _TOOL).items())


def _device(name: str, lines: list[str]) -> PortQos:
    trust = [match.group(1) for line in lines if (match := _TRUST.fullmatch(line))]
    enabled = [match.group(1).split() for line in lines if (match := _ENABLED.fullmatch(line))]
    dcbx = [match.group(1) for line in lines if (match := _DCBX.fullmatch(line))]
    if len(trust) != 1 or len(enabled) != 1:
        reported = f"{name or 'a device'} with {len(trust)} trust states and {len(enabled)} rows `enabled`"
        raise unreadable(_TOOL, reported, "one of each")
    return PortQos(
        device=name,
        trust=trust[0],
        dcbx=dcbx[0] if dcbx else "",
        pfc=tuple(number for number, word in enumerate(enabled[0]) if word == "1"),
        dscp=_dscp(lines),
        classes=_classes(lines),
    )


def _dscp(lines: list[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for line in lines:
        if match := _DSCP.fullmatch(line):
            for point in (int(part) for part in match.group(2).split(",") if part):
                if point in found:
                    raise unreadable(_TOOL, f"code point {point} twice", "every code point once")
                found[point] = int(match.group(1))
    return found


def _classes(lines: list[str]) -> tuple[TrafficClass, ...]:
    found: list[tuple[re.Match[str], list[int]]] = []
    for line in lines:
        if match := _CLASS.fullmatch(line):
            found.append((match, []))
        elif line.startswith("tc:"):
            raise unreadable(_TOOL, line, "`tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%`")
        elif found and (priority := _PRIORITY.fullmatch(line)):
            found[-1][1].append(int(priority.group(1)))
    numbers = [match.group(1) for match, _priorities in found]
    if len(set(numbers)) < len(numbers):
        raise unreadable(_TOOL, "a traffic class twice", "every traffic class once")
    return tuple(
        TrafficClass(int(m.group(1)), m.group(2), m.group(3), int(m.group(4)) if m.group(4) else None, tuple(listed))
        for m, listed in found
    )


_SHOW_GIDS_TOOL = "show_gids"
_TITLE = re.compile(r"DEV\s+PORT\s+INDEX\s+GID\s+IPv4\s+VER\s+DEV")
_RULE = re.compile(r"[-\s]+")
_ROW = re.compile(
    r"(\S{1,40})\s+(\d{1,3})\s+(\d{1,4})\s+([0-9a-f]{4}(?::[0-9a-f]{4}){7})(?:\s+(\d{1,3}(?:\.\d{1,3}){3}))?"
    r"\s+(v1|v2)(?:\s+(\S{1,40}))?"
)
_COUNT = re.compile(r"n_gids_found=(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Gid:
    """One address; `ipv4` and `netdev` are empty where the row has none. `version` v2 is RoCE v2."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str
    version: Literal["v1", "v2"]
    netdev: str


def parse_show_gids(text: str) -> tuple[Gid, ...]:
    """Return the addresses in the tool's order.

    Raises:
        InputError: no title, a row of another kind, an index twice, or another number of rows than the tool counts.
    """
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    if not lines or not _TITLE.fullmatch(lines[0]):
        raise unreadable(_SHOW_GIDS_TOOL, lines[0] if lines else "", "the title `DEV PORT INDEX GID IPv4 VER DEV`")
    count = _COUNT.fullmatch(lines[-1])
    if count is None:
        raise unreadable(_SHOW_GIDS_TOOL, lines[-1], "n_gids_found= in the last line")
    found = tuple(_row(line) for line in lines[1:-1] if not _RULE.fullmatch(line))
    if len(found) != int(count.group(1)):
        raise unreadable(_SHOW_GIDS_TOOL, f"{len(found)} rows", f"the {count.group(1)} that it counts")
    if len({(gid.device, gid.port, gid.index) for gid in found}) < len(found):
        raise unreadable(_SHOW_GIDS_TOOL, "an index twice", "every index of a port once")
    return found


def _row(line: str) -> Gid:
    match = _ROW.fullmatch(line)
    if match is None:
        raise unreadable(_SHOW_GIDS_TOOL, line, "device, port, index, GID, IPv4 if it has one, version, network device")
    device, port, index, gid, ipv4, version, netdev = match.groups()
    return Gid(device, int(port), int(index), gid, ipv4 or "", "v1" if version == "v1" else "v2", netdev or "")


_GID_TABLE_TOOL = "grep of /sys/class/infiniband/*/ports/*/gids"
_PLACE = "/sys/class/infiniband/"
_LINE = re.compile(
    r"/sys/class/infiniband/([\w.-]{1,40})/ports/(\d{1,3})/(gids|gid_attrs/types|gid_attrs/ndevs)/(\d{1,4}):(.{1,60})"
)
_ADDRESS = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_VERSIONS = {"IB/RoCE v1": "v1", "RoCE v2": "v2"}


def parse_gid_table(text: str) -> tuple[Gid, ...]:
    """Return the GIDs in the order of ports and indices.

    Raises:
        InputError: neither form, a file twice, or a GID without its type.
    """
    if not text.lstrip().startswith(_PLACE):
        return parse_show_gids(text)
    files: dict[tuple[str, int, int], dict[str, str]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            if not line.strip():
                continue
            raise unreadable(_GID_TABLE_TOOL, line, f"`{_PLACE}mlx5_0/ports/1/gid_attrs/types/3:RoCE v2`")
        device, port, kind, index, value = match.groups()
        entry = files.setdefault((device, int(port), int(index)), {})
        if kind in entry:
            raise unreadable(_GID_TABLE_TOOL, f"{kind} {index} of {device} twice", "every file once")
        entry[kind] = value.strip()
    return tuple(_gid(*key, entry) for key, entry in sorted(files.items()))


def _gid(device: str, port: int, index: int, entry: dict[str, str]) -> Gid:
    address, kind = entry.get("gids", ""), _VERSIONS.get(entry.get("gid_attrs/types", ""))
    if kind is None or not _ADDRESS.fullmatch(address):
        raise unreadable(
            _GID_TABLE_TOOL, f"GID {index} of {device}: {address!r}, {entry.get('gid_attrs/types')!r}", "both"
        )
    ipv4 = ""
    if address.startswith(_MAPPED):
        high, low = (int(part, 16) for part in address.removeprefix(_MAPPED).split(":"))
        ipv4 = f"{high >> 8}.{high & 255}.{low >> 8}.{low & 255}"
    return Gid(device, port, index, address, ipv4, "v1" if kind == "v1" else "v2", entry.get("gid_attrs/ndevs", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceSetupSettings:
    """Settings of check roce-setup."""

    gid_index: int | None = setting(
        "Index at which every port has its RoCE v2 address; null: NCCL_IB_GID_INDEX in env of fabric_validation, where "
        "that is stated; else any index.",
        default=None,
        minimum=0,
    )
    # What a jumbo frame of 9000 bytes carries of RDMA (InfiniBand's largest MTU).
    mtu_bytes: int = setting(
        "Bytes of data that a packet must be able to carry (active_mtu).", default=4096, unit="bytes", above=0
    )
    pfc_priorities: tuple[int, ...] | None = setting(
        "Priorities that are paused and not dropped (PFC), on every port, such as [3]; null: not stated, a host that "
        "differs from most is for a person.",
        default=None,
    )
    trust: str = setting("What the priority is taken from: dscp or pcp; empty: not stated.", default="")


SPEC = CheckSpec(
    id="roce-setup",
    gate="nodes",
    title="RoCE ports have their address, MTU and lossless priority",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "roce"),),
    causes=("roce-gid-missing", "roce-pfc-wrong", "roce-trust-wrong"),
    settings=RoceSetupSettings,
)
_LINK_LOCAL = "fe80:"
_BARE_METAL = "none"
# RFC 2474: 64 code points; by default each priority has eight of them.
_BY_CODE_POINT, _POINTS, _NO_LIMIT = "dscp", 8, "unlimited"
_INDEX = "NCCL_IB_GID_INDEX"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge addresses and MTU by port, and PFC against the site's setting, else against most ports of the SKU."""
    usual = usual_of_ports(SPEC, observed, context, _paused_ports, _reported)
    return per_host(SPEC, observed, context, lambda host: _judge(host, usual.get(host.entry.sku, "")))


def _paused_ports(host: NodeContext) -> dict[str, PortQos]:
    """Return what mlnx_qos reports about the ports for GPU traffic, by adapter; empty where it is not known."""
    return ports_of(host, "qos", PortQos)


def _reported(port: PortQos) -> str:
    listed = ", ".join(map(str, port.pfc)) or "none"
    return ", ".join([f"PFC on {listed}", f"trust {port.trust}", *_shares(port)])


def _shares(port: PortQos) -> list[str]:
    """Return the texts of what else decides in which queue packets wait.

    This is what configures the port (DCBX), code points with a priority other than the default, and classes with a
    share or a limit.
    """
    reported = [f"DCBX {port.dcbx}"] if port.dcbx else []
    if port.trust == _BY_CODE_POINT:
        moved = [f"{point} to {priority}" for point, priority in port.dscp.items() if priority != point // _POINTS]
        reported += [f"dscp {', '.join(moved)}"] if moved else []
    for entry in port.classes:
        share = f" {entry.bandwidth_percent} %" if entry.bandwidth_percent is not None else ""
        limit = f" at most {entry.rate_limit}" if entry.rate_limit != _NO_LIMIT else ""
        reported += [f"class {entry.number}{share}{limit}"] if share or limit else []
    return reported


def _judge(host: NodeContext, usual: str) -> Report | Outcome:
    if host.sku.fabric != "roce" or not carries_gpu_traffic(host.sku):
        text = f"{host.sku.name} has no RoCE adapter for GPU traffic"
        return Report(summary=text, evidence=host.evidence("rdma_links"))
    if isinstance(host.facts.hcas, ProbeFailure):
        return host.tool_failure("hcas", host.facts.hcas)
    names = adapter_names(host)
    up = {hca.name for hca in host.facts.hcas if any(port.state == "Active" for port in hca.ports)}
    if not names or not set(names) <= up:
        because = "an adapter for GPU traffic is not known, not there or down"
        return host.answer.blocked(by=HCA_STATE.id, because=because)
    for fact in ("gids", "verbs_ports", "rdma_links"):
        failure = host.facts.values[fact]
        if isinstance(failure, ProbeFailure):
            return host.tool_failure(fact, failure)
    return _ports(host, names, usual)


def _ports(host: NodeContext, names: Sequence[str], usual: str) -> Report | Outcome:
    settings = host.settings(RoceSetupSettings)
    findings, index = _addresses(host, names)
    verbs: dict[str, VerbsPort] = {port.device: port for port in host.facts.values["verbs_ports"]}
    untold = [name for name in names if name not in verbs]
    if untold and not findings:
        text = f"ibv_devinfo lists no {', '.join(untold)}"
        proof = host.evidence("verbs_ports")
        return host.answer.unknown("roce-port-not-listed", text, "`ibv_devinfo` on the node", evidence=proof)
    small = [verbs[name] for name in names if name in verbs and verbs[name].mtu < settings.mtu_bytes]
    for port in small:
        text = f"{port.device}: packets carry {port.mtu} bytes, expected {settings.mtu_bytes}"
        hint = "raise the MTU of the network device (9000) and of the switch port; `ibv_devinfo` then says 4096"
        subjects = (host.part(SubjectKind.HCA, port.device),)
        findings.append(Finding(cause="roce-mtu-low", text=text, hint=hint, subjects=subjects, marginal=True))
    paused = _lossless(host, names, usual)
    if isinstance(paused, Outcome):
        if not findings:
            return paused
    else:
        findings += paused
    least = min((verbs[name].mtu for name in names if name in verbs), default=0)
    reported = "; ".join(sorted({_reported(port) for port in _paused_ports(host).values()}))
    reported = reported or ("PFC is the provider's" if _virtual(host) else "mlnx_qos said nothing of PFC")
    return Report(
        summary=f"{count(len(names), 'port')} with a RoCE v2 address{index}, MTU {least} or more; {reported}",
        findings=tuple(findings),
        measured=(Measure("active_mtu_min", least, "bytes"),),
        expected=(Expectation("active_mtu_min", ">=", settings.mtu_bytes, Basis.RULE, "bytes"),),
        evidence=(*host.evidence("gids"), *host.evidence("verbs_ports")),
    )


def _index(host: NodeContext) -> int | None:
    configured = host.settings(RoceSetupSettings).gid_index
    if configured is not None:
        return configured
    env = host.context.stated("fabric_validation", "env")
    word = str(env.get(_INDEX, "")) if isinstance(env, Mapping) else ""
    return int(word) if word.isascii() and word.isdigit() else None


def _addresses(host: NodeContext, names: Sequence[str]) -> tuple[list[Finding], str]:
    """Return the ports without the address that RDMA over routers needs, and the text of the required index."""
    gids: tuple[Gid, ...] = host.facts.values["gids"]
    index, findings = _index(host), []
    where = "" if index is None else f" at index {index}"
    for name in names:
        mine = [gid for gid in gids if gid.device == name and gid.version == "v2"]
        routable = [gid for gid in mine if not gid.gid.startswith(_LINK_LOCAL)]
        subjects = (host.part(SubjectKind.HCA, name),)
        if any(index in (None, gid.index) for gid in routable):
            continue
        there = f"; it is at {', '.join(str(gid.index) for gid in routable)}" if routable else ""
        # Hosts of one subnet reach each other by link-local addresses.
        marginal = not routable and index is None and bool(mine)
        only = ", only a link-local one" if marginal else ""
        text = f"{name} has no routable RoCE v2 address{where}{there}{only}"
        hint = f"give its network device an address (`ip addr`); then `show_gids {name}`, and {_INDEX} as it says"
        cause = "roce-gid-link-local" if marginal else "roce-gid-missing"
        findings.append(Finding(cause=cause, text=text, hint=hint, subjects=subjects, marginal=marginal))
    return findings, where


def _virtual(host: NodeContext) -> bool:
    virtual = host.facts.read("virtual", str)
    return isinstance(virtual, str) and virtual != _BARE_METAL


def _lossless(host: NodeContext, names: Sequence[str], usual: str) -> list[Finding] | Outcome:
    """Return the findings about PFC of the ports; an outcome where PFC is configured but not known."""
    settings, ports = host.settings(RoceSetupSettings), host.facts.read("qos", tuple)
    configured = settings.pfc_priorities is not None or bool(settings.trust)
    if isinstance(ports, ProbeFailure):
        # A virtual function does not show it, and not every driver package has the tool.
        optional = ports.kind == "missing" or _virtual(host)
        return host.tool_failure("qos", ports) if configured or not optional else []
    links: tuple[RdmaLink, ...] = host.facts.values["rdma_links"]
    devices = {link.netdev: link.device for link in links if link.device in names}
    mine = _paused_ports(host)
    untold = [name for name in names if name not in mine]
    if untold and configured:
        text = f"mlnx_qos says nothing of {', '.join(untold)}"
        return host.answer.unknown(
            "roce-pfc-not-reported",
            text,
            " and ".join(f"`mlnx_qos -i {netdev}`" for netdev, device in devices.items() if device in untold)
            or "`rdma link` on the node must name the interface of each adapter, and `mlnx_qos -i` answer for it",
            evidence=host.evidence("qos"),
        )
    findings: list[Finding] = []
    for name, port in mine.items():
        subjects, device = (host.part(SubjectKind.HCA, name),), port.device
        if settings.pfc_priorities is not None and set(port.pfc) != set(settings.pfc_priorities):
            text = f"{name} ({device}): {_reported(port)}, expected PFC on {_words(settings.pfc_priorities)} alone"
            bits = ",".join("1" if number in settings.pfc_priorities else "0" for number in range(8))
            hint = f"`mlnx_qos -i {device} --pfc {bits}`, and the same on the switch port; make it last over boots"
            findings.append(Finding(cause="roce-pfc-wrong", text=text, hint=hint, subjects=subjects))
        if settings.trust and port.trust != settings.trust:
            text = f"{name} ({device}): trust {port.trust}, expected {settings.trust}"
            hint = f"`mlnx_qos -i {device} --trust {settings.trust}`; make it last over boots"
            findings.append(Finding(cause="roce-trust-wrong", text=text, hint=hint, subjects=subjects))
    odd = {name: port for name, port in mine.items() if not configured and _reported(port) != usual}
    if odd:
        findings.append(_odd_ports(host, odd, usual, whole=len(odd) == len(mine)))
    return findings


def _odd_ports(host: NodeContext, odd: Mapping[str, PortQos], usual: str, *, whole: bool) -> Finding:
    """Return the finding about ports with another PFC than most; `whole`: all ports of the host have."""
    shown = first_of([f"`mlnx_qos -i {port.device}`" for port in odd.values()], NAMED_PORTS, " and ")
    return Finding(
        cause="roce-pfc-differs",
        text=f"{odd_ports(odd, _reported)}; {most_ports(usual)}",
        hint=f"state pfc_priorities and trust of roce-setup, and bring the ports to them ({shown})",
        subjects=() if whole else tuple(host.part(SubjectKind.HCA, name) for name in odd),
        marginal=True,
    )


def _words(priorities: Sequence[int]) -> str:
    return ", ".join(map(str, priorities)) or "no priority"


CHECK = Check(SPEC, OBSERVER, judge)
