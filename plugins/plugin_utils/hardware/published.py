# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bandwidths that somebody published of healthy hosts: of one SKU, or of all with such GPUs and adapters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBusbw:
    """An all_reduce bus bandwidth that somebody published of healthy hosts, GB/s at a size of `size_bytes`.

    `domains` counts NVLink domains (hosts, or racks where a domain is a rack), `algorithm` is the kind that was used,
    empty where the source does not tell; `source` says who published it. `kind` says what the figure is:

    - plateau: at one size, of hosts that are well; figures are compared with it.
    - untuned: the same with a choice of NCCL's that is known to be slow; what reaches it is not bad, and not good.
    - gate: what somebody accepts; at or above it a figure is not bad.
    - average: over all sizes, which says nothing of what links carry; it is kept to be known and compared with nothing.

    `phase` is `loop` for one host whose GPUs reach each other through its own adapters.
    """

    domains: int
    gbps: float
    source: str
    # Of runs that were saved before figures said so.
    size_bytes: int = 0
    kind: Literal["plateau", "untuned", "gate", "average"] = "plateau"
    algorithm: Literal["", "ring", "hierarchical"] = ""
    phase: Literal["all", "loop"] = "all"

    @property
    def problem(self) -> str:
        """What is wrong with it, empty if nothing is."""
        if self.domains < 1 or self.gbps <= 0 or self.size_bytes < 0 or not self.source.strip():
            return f"published_busbw has {self}, expected domains and gbps above 0 and a source."
        return ""


def unstated(data: Any) -> str:
    """Return which figure of a file of facts does not say its size or what it is; empty if all do.

    Args:
        data: the content of the file, as it was read.
    """
    entries = data.get("published_busbw") if isinstance(data, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        for row in entry.get("figures", [entry]) if isinstance(entry, Mapping) else ():
            missing = [name for name in ("size_bytes", "kind") if not isinstance(row, Mapping) or not row.get(name)]
            if missing:
                return f"published_busbw has {row}, which lacks {' and '.join(missing)}."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOfKind:
    """Figures of every SKU of a kind of GPU whose NVLink domains have `domain_gpus` GPUs and whose adapters have
    `net_gbps_per_gpu` Gb/s for each of them: they belong to the system and not to who sells it."""

    domain_gpus: int
    net_gbps_per_gpu: float
    figures: tuple[PublishedBusbw, ...]
