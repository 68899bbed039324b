# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options that modules of a roll share."""

from __future__ import annotations


class ModuleDocFragment:
    """Who rolls what over which nodes, how fast, and how they are drained."""

    DOCUMENTATION = r"""
options:
  roll:
    description:
      - Name of the roll, such as V(driver-580). Under the same name an interrupted roll goes on. It is the owner mark
        of our cordons, so small letters, digits, dots and dashes.
    type: str
    required: true
  directory:
    description: Directory of the journals. It has to outlive the run; one journal a roll.
    type: path
    required: true
  orchestrator:
    description:
      - Who gives the nodes work and is asked to take it away, V(kubernetes) or V(slurm). V(none) for nodes that have
        not joined a cluster; nothing is cordoned then.
    type: str
    choices: [kubernetes, slurm, none]
    default: kubernetes
  by:
    description: Whether a wave is a V(rack), or a V(share) of the nodes, taken from all racks in turn.
    type: str
    choices: [rack, share]
    default: share
  size:
    description: Most nodes in a wave, a number or a share of the nodes of the roll.
    type: str
    default: 25%
  per_rack:
    description: Most nodes of one rack in a wave; V(0) is no limit. Nodes without a rack count as one rack.
    type: int
    default: 0
  keep:
    description: Nodes of the site that stay in service, a number or a share of all. No wave begins that would break it.
    type: str
    default: 50%
  budget:
    description: How many nodes of the roll may end held, a number or a share; one more, and no further wave begins.
    type: str
    default: 5%
  canaries:
    description: How many nodes go first, one of each SKU before a second of any. One that does not come back stops it.
    type: int
    default: 1
  canary_nodes:
    description: Which nodes go first instead.
    type: list
    elements: str
    default: []
  soak_h:
    description:
      - How many hours the canaries, and the nodes of each of the two waves behind them, work before the next wave
        begins. Meanwhile the roll is stopped; the same call goes on with it afterwards.
    type: float
    default: 0
  drain_timeout_s:
    description: How long the nodes of a wave may take together to get free of work, seconds.
    type: float
    default: 900
  grace_s:
    description: How long a pod may take to end, seconds; V(-1) is as long as the pod itself says.
    type: int
    default: -1
  delete_unmanaged:
    description: Whether pods may go that no controller makes again.
    type: bool
    default: false
  delete_empty_dirs:
    description: Whether pods may go that lose what they wrote into an emptyDir volume.
    type: bool
    default: false
  others:
    description:
      - What to do where another program is at work on a node (kured, NVSentinel, Karpenter, an autoscaler, node auto
        repair, an upgrade controller), or kured has a pod there and is not paused. V(refuse) spares the node and names
        who it is; V(wait) waits first, as long as O(drain_timeout_s) says; V(allow) lets kured run. A node on which
        somebody is at work is never taken.
    type: str
    choices: [refuse, wait, allow]
    default: refuse
  reboot:
    description:
      - Whether nodes are rebooted V(never), when the change needs it (V(needed)), or V(always). A rehearsal reboots
        none, because its hosts are this machine.
    type: str
    choices: [never, needed, always]
    default: never
  change:
    description:
      - What is done to the nodes. V(operator) lets the upgrade controller of the GPU operator upgrade the driver
        and V(none) nothing; anything else is done by the play.
    type: str
    default: ""
  upgrade_timeout_s:
    description: With O(change=operator) how long the operator may take for the nodes of a wave, seconds.
    type: float
    default: 3600
  scontrol:
    description: With O(orchestrator=slurm) the command C(scontrol) of the controller.
    type: str
    default: scontrol
"""
