# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cabling plan: which adapter port is on which switch port, the required rate of every cable, and switch names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..hardware.sku import Sku
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..probe.text import guid, guid_text
from ..runtime.strict import decode, nearest_hint, read_yaml
from .adapters import ComputeAdapters, carries_gpu_traffic, compute_adapters
from .model import Host, Site

# The cabling plan: which adapter port is on which switch port, and the required rate of every cable.
#
# A site configures it as a file (gpufleet_settings.fabric.plan). Otherwise it is generated from the inventory: adapter
# k for GPU traffic of every host (site/adapters.py) belongs to rail k, on any switch of that rail, at the rate of the
# SKU.

SETTINGS = "fabric"
LANE_GBPS = {
    "SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR": 14.0625, "EDR": 25.78125, "HDR": 53.125, "NDR": 106.25, "XDR": 212.5,
}  # fmt: skip
"""Signalling rate of one lane in Gb/s, as iblinkinfo prints it."""
_DATA_GBPS = {"SDR": 2, "DDR": 4, "QDR": 8, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
_WIDTHS = ("1x", "2x", "4x", "8x", "12x")
_MAX_PORTS = 254
_END = re.compile(r"(.+):(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class End:
    """One end of a cable: the node description (`gpu01 mlx5_0`, a switch's name) and the port."""

    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLink:
    """One cable.

    - `host`, `hca`: the adapter of `near`; empty between switches.
    - `far`: None in a generated plan, which does not know the switches.
    - `rail`: index of the adapter among those of its host, from 0.
    - `near_guid`: GUID of its port as the host reports it; 0 if it was not queried.
    """

    near: End
    far: End | None
    width: str
    speed: str
    host: str = ""
    hca: str = ""
    rail: int = -1
    near_guid: int = 0

    @property
    def name(self) -> str:
        """Both ends, for a message."""
        return f"{self.near} - {self.far if self.far is not None else f'rail {self.rail}'}"

    @property
    def lanes(self) -> int:
        """Required number of lanes."""
        return int(self.width.removesuffix("x"))

    @property
    def lane_gbps(self) -> float:
        """Required signalling rate of each lane in Gb/s."""
        return LANE_GBPS[self.speed]

    @property
    def rate_gbps(self) -> int:
        """Data rate in Gb/s, as ibstat prints it."""
        return _DATA_GBPS[self.speed] * self.lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class CablingPlan:
    """All cables.

    - `generated`: the site has configured no plan, so the switches have no names here.
    - `unknown`: in a generated plan, hosts without planned cables, since their adapters for GPU traffic are not known.
    - `adapters`: by GUID of a port its name on the host (`gpu01/mlx5_0`).
    - `node_names`: by GUID of a port the name of the device in the site's node-name map.
    """

    links: tuple[PlannedLink, ...]
    switches: tuple[str, ...] = ()
    generated: bool = False
    source: str = ""
    unknown: tuple[str, ...] = ()
    adapters: dict[str, str] = field(default_factory=dict)
    node_names: dict[str, str] = field(default_factory=dict)
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    width: str
    speed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanFile:
    speed: str
    switches: dict[str, int]
    hosts: dict[str, dict[str, str]]
    schema_version: int
    width: str = "4x"
    trunks: tuple[str, ...] = ()
    rates: dict[str, _Rate] = field(default_factory=dict)


def site_cabling(
    site: Site, hardware: Mapping[str, Sku], adapters: Mapping[str, ComputeAdapters] | None = None
) -> CablingPlan | None:
    """Return the plan of the site; None without an InfiniBand host and a configured plan.

    Args:
        site: the site.
        hardware: SKU facts by name.
        adapters: by host its adapters for GPU traffic; for other hosts the inventory or SKU decides.

    Raises:
        ProblemsError: everything wrong with the configured plan, as one list.
        InputError: the file cannot be read.
    """
    configured = stated_cabling(site, hardware)
    if configured is not None:
        return configured
    links: list[PlannedLink] = []
    unknown: list[str] = []
    for host in site.hosts:
        sku = hardware.get(host.sku)
        if sku is None or sku.fabric != "infiniband" or not carries_gpu_traffic(sku):
            continue
        known = (adapters or {}).get(host.name) or compute_adapters(host, sku, None)
        links += _generated(host, sku, known.names)
        if not known.names:
            unknown.append(host.name)
    if not links and not unknown:
        return None
    return CablingPlan(links=tuple(links), generated=True, source="racks and rails", unknown=tuple(unknown))


def with_guids(plan: CablingPlan, guids: Mapping[str, Mapping[str, int]]) -> CablingPlan:
    """Return the plan with the GUIDs of the adapters' ports, by host and name of the port (`mlx5_0`, `mlx4_0:2`)."""

    def known(link: PlannedLink) -> PlannedLink:
        ports = guids.get(link.host, {})
        found = ports.get(link.hca) or ports.get(f"{link.hca}:{link.near.port}", 0)
        return replace(link, near_guid=found) if found else link

    adapters = {guid_text(guid): f"{host}/{name}" for host, ports in guids.items() for name, guid in ports.items()}
    return replace(plan, links=tuple(map(known, plan.links)), adapters=adapters)


def stated_cabling(site: Site, hardware: Mapping[str, Sku]) -> CablingPlan | None:
    """Return the plan that the site has configured; None if there is none.

    Raises:
        ProblemsError: everything wrong with it, as one list.
        InputError: the file cannot be read.
    """
    path = site.settings.get(SETTINGS, {}).get("plan")
    return read_plan(Path(str(path)).expanduser(), site, hardware) if path else None


def _generated(host: Host, sku: Sku, names: Sequence[str]) -> Iterator[PlannedLink]:
    speed = next((name for name, lane in _DATA_GBPS.items() if lane * 4 >= sku.hca_rate_gbps), "XDR")
    for rail, name in enumerate(names):
        hca, _colon, number = name.partition(":")
        near = End(f"{host.name} {hca}", int(number or 1))
        yield PlannedLink(near=near, far=None, width="4x", speed=speed, host=host.name, hca=hca, rail=rail)


def read_plan(path: Path, site: Site, hardware: Mapping[str, Sku]) -> CablingPlan:
    """Return the plan of a file.

    Raises:
        ProblemsError: unknown keys, hosts, switches or ports, a port twice, another size than the inventory's.
        InputError: the file cannot be read.
    """
    document = decode(_PlanFile, read_yaml(path), str(path))
    reader = _Reader(str(path), document)
    links = reader.links()
    reader.compare(site, hardware)
    if reader.problems:
        raise ProblemsError(f"cabling plan {path}", tuple(reader.problems))
    switches = tuple(name.strip() for name in document.switches)
    return CablingPlan(links=tuple(links), switches=switches, source=str(path))


class _Reader:
    """Turns the file into links and collects its problems."""

    def __init__(self, source: str, document: _PlanFile) -> None:
        self.problems: list[BringupError] = []
        # Blanks around a switch's description mean nothing.
        named = {name.strip(): ports for name, ports in document.switches.items()}
        self._source, self._document = source, replace(document, switches=named)
        self._taken: dict[End, str] = {}

    def links(self) -> list[PlannedLink]:
        """Return every cable that can be read."""
        document = self._document
        if document.schema_version != 1:
            self._wrong("schema_version", f"is {document.schema_version}, this release reads 1.", "write it anew")
        self._rate("the plan", document.width, document.speed)
        for name, ports in document.switches.items():
            if not 1 <= ports <= _MAX_PORTS:
                self._wrong(f"switches.{name}", f"has {ports} ports, expected 1 to {_MAX_PORTS}.", "correct the number")
        found = [link for host, ports in document.hosts.items() for link in self._host(host, ports)]
        found += [link for text in document.trunks if (link := self._trunk(text)) is not None]
        known = {str(end) for link in found for end in (link.near, link.far)}
        for end in document.rates:
            if end not in known:
                self._wrong(f"rates.{end}", "is no end of a planned cable.", nearest_hint(end, known))
        return found

    def _host(self, host: str, ports: Mapping[str, str]) -> Iterator[PlannedLink]:
        for rail, (hca, text) in enumerate(ports.items()):
            near = End(f"{host} {hca}", 1)
            far = self._switch_port(text, f"hosts.{host}.{hca}")
            if far is not None:
                width, speed = self._rated(near, far)
                yield PlannedLink(near=near, far=far, width=width, speed=speed, host=host, hca=hca, rail=rail)

    def _trunk(self, text: str) -> PlannedLink | None:
        first, separator, second = text.partition(" - ")
        if not separator:
            self._wrong(f"trunks: {text!r}", "is not two ends.", "write `leaf1:33 - spine1:1`")
            return None
        ends = [self._switch_port(part, f"trunks: {text!r}") for part in (first, second)]
        if ends[0] is None or ends[1] is None:
            return None
        width, speed = self._rated(ends[0], ends[1])
        return PlannedLink(near=ends[0], far=ends[1], width=width, speed=speed)

    def _switch_port(self, text: str, where: str) -> End | None:
        match = _END.fullmatch(text.strip())
        if match is None:
            self._wrong(where, f"is {text!r}, expected switch:port.", "write the switch's name, a colon and the port")
            return None
        end = End(match[1].strip(), int(match[2]))
        ports = self._document.switches.get(end.node)
        if ports is None:
            hint = nearest_hint(end.node, self._document.switches)
            self._wrong(where, f"{end.node!r} is not among the plan's switches.", hint)
            return None
        if not 1 <= end.port <= ports:
            self._wrong(where, f"{end} does not exist: {end.node} has {ports} ports.", "correct the port")
            return None
        first = self._taken.setdefault(end, where)
        if first != where:
            self._wrong(where, f"{end} is taken already, by {first}.", "give every port once")
            return None
        return end

    def _rated(self, *ends: End) -> tuple[str, str]:
        for end in ends:
            rate = self._document.rates.get(str(end))
            if rate is not None:
                self._rate(f"rates.{end}", rate.width, rate.speed)
                return rate.width, rate.speed
        return self._document.width, self._document.speed

    def _rate(self, where: str, width: str, speed: str) -> None:
        if width not in _WIDTHS:
            self._wrong(where, f"width is {width!r}.", f"one of {', '.join(_WIDTHS)}")
        if speed not in LANE_GBPS:
            self._wrong(where, f"speed is {speed!r}.", f"one of {', '.join(LANE_GBPS)}")

    def compare(self, site: Site, hardware: Mapping[str, Sku]) -> None:
        """Compare the plan's hosts and their adapters with the inventory's."""
        expected = {host.name: hardware[host.sku].compute_hcas for host in site.hosts if host.sku in hardware}
        for name in self._document.hosts:
            if name not in expected:
                hint = nearest_hint(name, expected)
                self._wrong(f"hosts.{name}", "is not a host of the inventory.", hint)
        for name, count in expected.items():
            planned = len(self._document.hosts.get(name, {}))
            if planned != count:
                reason = f"has {planned} adapters in the plan, its SKU has {count}."
                self._wrong(f"hosts.{name}", reason, "make plan and inventory the same size")

    def _wrong(self, where: str, reason: str, hint: str) -> None:
        self.problems.append(InputError(f"{self._source}: {where}", reason, hint))


# The site's node-name map: names of switches by GUID, in the file that the InfiniBand tools read, too.

_LINE = re.compile(r'(0x[0-9a-fA-F]{1,16})\s+"([^"]*)"\s*(?:#.*)?')
_LARGEST = 4 << 20


def read_node_names(path: Path) -> dict[str, str]:
    """Return the names by GUID (`0x248a070300928186`), without blanks around them.

    Raises:
        InputError: the file cannot be read, or a line is not `0x<guid> "name"`.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(
                f"node-name map {path}", "is larger than 4 MiB.", "give the file of opensm or ibnetdiscover"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"node-name map {path}", f"cannot be read: {error}.", "correct fabric.node_name_map") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            reported = f'line {number} is {stripped[:60]!r}, expected `0x<guid> "name"`.'
            raise InputError(f"node-name map {path}", reported, "correct the line")
        found[guid_text(guid(match[1], str(path)))] = match[2].strip()
    return found
