# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The InfiniBand fabric of the cluster model: cables, switches, what else is connected, subnet managers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LinkWidth = Literal["4x", "2x", "1x"]
LinkSpeed = Literal["HDR", "EDR", "FDR", "QDR"]
SubnetManagers = Literal["both", "no-standby", "none"]
Sharp = Literal["ready", "no-manager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One cable of the compute fabric, as the simulator of it can make it. `errors` were counted before the gate looks,
    `errors_per_s` are added while it looks, `errors_under_load` by the load of NCCL; `downed` is how often the link
    went down so far; `swapped`: its switch end sits where the next adapter's should."""

    up: bool = True
    width: LinkWidth = "4x"
    speed: LinkSpeed = "HDR"
    errors: int = 0
    errors_per_s: int = 0
    errors_under_load: int = 0
    downed: int = 0
    swapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch of the compute fabric; not `alive`: it has no power. `description` is its node description where that
    is not its name."""

    name: str
    alive: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """One cable between two switches; its name is its lower end, `leaf-g1-rail0:33`."""

    name: str
    cable: Cable = Cable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """An adapter on the fabric that is no GPU host's: of a storage host, or a switch's own for aggregation. `name` is
    its node description; it is cabled to a free port of `switch`."""

    name: str
    switch: str
    cable: Cable = Cable()


@dataclass(frozen=True, slots=True, kw_only=True)
class InfiniBand:
    """The switches, the cables between them and the subnet managers; all empty where the hosts have no InfiniBand.

    `adapter_description` is how adapters describe themselves, of `{host}`, `{hca}` and `{number}` (from 1);
    `priorities` are those of the subnet managers; `taper` is how much more the leaves carry down than up. `sharp`:
    whether the aggregation manager makes jobs for those who ask it.
    """

    switches: tuple[Switch, ...] = ()
    uplinks: tuple[Uplink, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    subnet_managers: SubnetManagers = "both"
    adapter_description: str = "{host} {hca}"
    priorities: tuple[int, int] = (15, 1)
    taper: float = 1.0
    sharp: Sharp = "ready"
