# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node of a cluster, as a snapshot has it: what looks at nodes alone needs no more of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..outcome.model import Scalar

Attributes = dict[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `taints` are `key=value:effect`, quantities as the server writes them; `devices` are those of its
    ResourceSlices by `driver/pool/device`."""

    provider_id: str = ""
    ready: str = ""
    unschedulable: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    kubelet: str = ""
    container_runtime: str = ""
    kernel: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""
    devices: dict[str, Attributes] = field(default_factory=dict)

    @property
    def provider(self) -> str:
        """Who made the machine, by the scheme of its provider id: `aws`, `gce`, `azure`, `oci`, `kind`."""
        scheme, found, _rest = self.provider_id.partition("://")
        return scheme if found else "oci" if self.provider_id.startswith("ocid1.") else ""
