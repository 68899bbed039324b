# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-size-uniform: hosts of a SKU have the same processors and the same amount of main memory.

Parser of `lscpu` in the C locale: number and kind of the processors (util-linux, sys-utils/lscpu.c).

Parser of `free -b` in the C locale: size of the kernel's main memory (procps-ng, src/free.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe.text import plain, unreadable, whole
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions

_TOOL = "lscpu"
_FIELD = re.compile(r"\s*([^:]{1,60}):\s*(.*)")
_SPAN = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class Processors:
    """`online` of `count` logical processors run; what the tool leaves out on an architecture is empty."""

    count: int
    online: int
    model: str
    sockets: str
    threads_per_core: str
    numa_nodes: str

    def text(self) -> str:
        """Return the number and kind in words: `192 x Intel(R) Xeon(R) Platinum 8468`."""
        off = f" ({self.count - self.online} are off)" if self.online < self.count else ""
        parts = (
            f"{self.online} x {self.model or 'processor'}{off}",
            f"{self.sockets} sockets" if self.sockets else "",
            f"{self.threads_per_core} threads a core" if self.threads_per_core else "",
            f"{self.numa_nodes} NUMA nodes" if self.numa_nodes else "",
        )
        return ", ".join(part for part in parts if part)


def parse_lscpu(text: str) -> Processors:
    """Return the processors.

    Raises:
        InputError: no number of processors, or none that are online.
    """
    fields: dict[str, str] = {}
    for line in plain(text).splitlines():
        match = _FIELD.fullmatch(line)
        if match is not None:
            fields.setdefault(match[1].strip(), match[2].strip())
    for name in ("CPU(s)", "On-line CPU(s) list"):
        if not fields.get(name):
            raise unreadable(_TOOL, text[:80], f"a line `{name}: ...`")
    count, online = whole(fields["CPU(s)"], _TOOL, "CPU(s)"), _online(fields["On-line CPU(s) list"])
    if not 0 < online <= count:
        raise unreadable(_TOOL, f"{online} of {count} processors", "some, and no more than there are")
    return Processors(
        count=count,
        online=online,
        model=fields.get("Model name", ""),
        sockets=fields.get("Socket(s)", ""),
        threads_per_core=fields.get("Thread(s) per core", ""),
        numa_nodes=fields.get("NUMA node(s)", ""),
    )


def _online(text: str) -> int:
    """Return how many processors a list such as `0-95,192-287` has."""
    number = 0
    for span in text.split(","):
        match = _SPAN.fullmatch(span.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < _MOST:
            raise unreadable(_TOOL, text[:80], "a list of processors such as 0-95,192-287")
        number += last - first + 1
    return number


_FREE_TOOL = "free -b"
_TOTAL = re.compile(r"Mem:\s+(\d{1,18})\s+\d+\s")


def parse_free(text: str) -> int:
    """Return the main memory in bytes.

    Raises:
        InputError: no memory line, or 0 bytes.
    """
    for line in plain(text).splitlines():
        match = _TOTAL.match(line)
        if match is not None and int(match[1]):
            return int(match[1])
    raise unreadable(_FREE_TOOL, text[:80], "a line `Mem: <total> <used> ...`")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSizeSettings:
    """Settings of check host-size-uniform."""

    # A memory module of a host with 32 is three hundredths; what firmware and kernel keep is less than two thousandths.
    memory_tolerance: float = setting(
        "Part of the main memory by which hosts of a SKU may differ: firmware and kernel keep not as much on all.",
        default=0.01,
        minimum=0,
        below=1,
    )


SPEC = CheckSpec(
    id="host-size-uniform",
    gate="nodes",
    title="Memory and processors alike on all hosts of a SKU",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    settings=HostSizeSettings,
)
_GIB = 1 << 30


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge each host against most hosts of the SKU; sizes of memory are equal within a tolerance."""
    tolerance = context.settings_of(SPEC.id, HostSizeSettings).memory_tolerance
    sizes: dict[str, dict[str, int]] = {}
    for host in context.site.in_scope:
        size = observed.hosts[host.name].read("memory", int) if host.name in observed.hosts else 0
        if not isinstance(size, ProbeFailure) and size:
            sizes.setdefault(host.sku, {})[host.name] = size
    words = {name: word for found in sizes.values() for name, word in _words(found, tolerance).items()}
    versions = PartVersions(
        SPEC,
        {host.name: _parts(observed, host.name, words) for host in context.site.in_scope},
        lambda host, _name: host.answer.subject,
        word="size",
        needs="processors",
    )
    return versions.judge(observed, context)


def _words(sizes: Mapping[str, int], tolerance: float) -> dict[str, str]:
    """Return the memory of each host in GiB, as one text for sizes that are within the tolerance of each other."""
    groups: list[list[tuple[int, str]]] = []
    for size, name in sorted((size, name) for name, size in sizes.items()):
        if not groups or size > groups[-1][0][0] * (1 + tolerance):
            groups.append([])
        groups[-1].append((size, name))
    words: dict[str, str] = {}
    for group in groups:
        word = f"{median_low(size for size, _name in group) / _GIB:.1f} GiB"
        words |= {name: word for _size, name in group}
    return words


def _parts(observed: FleetFacts, name: str, memory: Mapping[str, str]) -> tuple[Part, ...]:
    processors = observed.hosts[name].read("processors", Processors) if name in observed.hosts else None
    if processors is None or isinstance(processors, ProbeFailure):
        return ()
    return (
        Part("processors", ("processors",), processors.text()),
        Part("main memory", ("main memory",), memory.get(name, "")),
    )


CHECK = Check(SPEC, OBSERVER, judge)
