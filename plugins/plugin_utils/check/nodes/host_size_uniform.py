# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-size-uniform: hosts of a SKU have the same processors and the same amount of main memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, SubjectKind
from ...probe.lscpu import Processors
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_hosts import OBSERVER
from .uniform import Part, PartVersions


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


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge each host against most hosts of the SKU; sizes of memory are equal within a tolerance."""
    tolerance = context.settings_of(SPEC.id, HostSizeSettings).memory_tolerance
    sizes: dict[str, dict[str, int]] = {}
    for host in context.site.in_scope:
        size = seen.hosts[host.name].read("memory", int) if host.name in seen.hosts else 0
        if not isinstance(size, ProbeFailure) and size:
            sizes.setdefault(host.sku, {})[host.name] = size
    words = {name: word for found in sizes.values() for name, word in _words(found, tolerance).items()}
    versions = PartVersions(
        SPEC,
        {host.name: _parts(seen, host.name, words) for host in context.site.in_scope},
        lambda host, _name: host.answer.subject,
        word="size",
        needs="processors",
    )
    return versions.judge(seen, context)


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


def _parts(seen: FleetFacts, name: str, memory: Mapping[str, str]) -> tuple[Part, ...]:
    processors = seen.hosts[name].read("processors", Processors) if name in seen.hosts else None
    if processors is None or isinstance(processors, ProbeFailure):
        return ()
    return (
        Part("processors", ("processors",), processors.text()),
        Part("main memory", ("main memory",), memory.get(name, "")),
    )


CHECK = Check(SPEC, OBSERVER, judge)
