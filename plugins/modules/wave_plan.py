#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of wave_plan; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wave_plan
short_description: Plan a roll over the nodes in waves, or take up one that was interrupted
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Says which node of the site is changed in which wave and why there, and which nodes are left out and why. Canaries
    go first. The same site gives the same plan.
  - Left out are nodes that are quarantined, that do not answer, that are not in the cluster or not Ready, and that
    somebody else cordoned or drained.
  - Keeps the plan in the journal of the roll. Where there is one already, its plan counts and the roll goes on;
    O(budget) and O(keep) may be other than when it began.
  - Refuses a site whose driver belongs to the GPU operator, because gate nodes does not see that driver.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.waves
attributes:
  check_mode:
    support: full
    description: Plans, and keeps the plan in the run directory alone.
  diff_mode:
    support: full
    description: Shows the plan of a new roll.
options:
  nodes:
    description: Hosts to change. Empty means all of the inventory's group.
    type: list
    elements: str
    default: []
  again:
    description: Nodes of an interrupted roll that were held or spared, and are begun anew.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Plan a roll in which no rack loses more than two nodes at once
  gpufleet.bringup.wave_plan:
    run_dir: "{{ gpufleet_run }}"
    roll: driver-580
    directory: /var/lib/gpufleet/waves
    size: 10%
    per_rack: 2
"""

RETURN = r"""
new:
  description: Whether the roll was planned now, and not taken up.
  type: bool
  returned: success
  sample: true
plan:
  description: The plan as lines; each node with its wave and why it is there, then who is left out.
  type: list
  elements: str
  returned: success
  sample: ["wave 0: gpu01: canary 1 of 1, first by name of SKU h100"]
states:
  description: How many nodes are where, then every node that did not simply come back, with its reason.
  type: list
  elements: str
  returned: success
  sample: ["4 pending"]
hosts:
  description: The nodes that are left, wave after wave; none where the roll has stopped.
  type: list
  elements: str
  returned: success
  sample: [gpu01, gpu02, gpu03]
sizes:
  description: How many of V(hosts) each wave has.
  type: list
  elements: int
  returned: success
  sample: [1, 2]
left_out:
  description: By node, why it is in no wave.
  type: dict
  returned: success
  sample: {gpu09: "quarantined: bad fan (OPS-7)"}
stopped:
  description: Why the roll does not go on; empty where it does.
  type: str
  returned: success
  sample: ""
journal:
  description: The journal.
  type: str
  returned: success
  sample: /var/lib/gpufleet/waves/driver-580.jsonl
"""
