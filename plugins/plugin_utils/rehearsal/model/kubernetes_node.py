# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A simulated host as Kubernetes sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

AdapterUnits = Literal["all", "each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesNode:
    """What Kubernetes is told about a node: None for a count means all GPUs that work. `memory_gib` is what pods may
    ask for; `adapters` the extended resources that bring adapters into pods, None for those of the shared device
    plugin, and `adapter_units` whether one unit of them is all adapters or one. A host that is no `member` is not
    known to Kubernetes, nor stated in the inventory. `unhealthy_gpus` stay in the capacity and are not allocatable;
    `resources` are offered in place of whole GPUs, as with MIG or time-slicing, and `replicas` is what the node's label
    then says. `mig_config` is what was asked of the MIG manager, `mig_state` how far that came; `cut_networks` (eth0,
    net1, dns) lead nowhere; `open_devices`: pods without GPUs see all, `blind_containers`: those with GPUs none."""

    device_plugin_gpus: int | None = None
    dra_devices: int | None = None
    unhealthy_gpus: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    replicas: int = 1
    mig_config: str = ""
    mig_state: str = ""
    open_devices: bool = False
    blind_containers: bool = False
    cut_networks: tuple[str, ...] = ()
    cordoned: bool = False
    operands_ready: bool = True
    failing_operand: str = ""
    memory_gib: int = 2048
    adapters: dict[str, int] | None = None
    adapter_units: AdapterUnits = "all"
    member: bool = True
    taints: tuple[dict[str, str], ...] = ()
