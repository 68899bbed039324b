#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of preflight_inventory; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_inventory
short_description: Check inventory and variables before anything is touched
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Checks the inventory with all variables and settings of the site, and reports everything that is wrong in one list.
  - Writes the checked site into the run directory, where all later modules read it. No host is contacted.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.site
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
"""

EXAMPLES = r"""
- name: Check inventory and variables
  gpufleet.bringup.preflight_inventory:
    run_dir: "{{ __run.run_dir }}"
    group: gpu_nodes
    profile: colocation
    set: [dcgm-diag.level=2]
"""

RETURN = r"""
gates:
  description: Gates in scope.
  type: list
  elements: str
  returned: success
  sample: [facility, nodes, gpu_stack]
before:
  description: Gates in scope before O(from_gate).
  type: list
  elements: str
  returned: success
  sample: []
hosts:
  description: The hosts of each play that looks at hosts; some lists may be empty.
  type: dict
  returned: success
  contains:
    contact:
      description: Hosts that are asked whether they answer.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    adapters:
      description: Hosts that are asked which adapters they have, before the first gate that depends on it.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    loaded:
      description: Hosts that are read before and after every gate that loads them.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    fabric_loaded:
      description: The host from which the fabric is read before and after the load of gate fabric_validation.
      type: list
      elements: str
      returned: always
      sample: [gpu01]
    nodes:
      description: Hosts that gate nodes reads.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    fabric:
      description: The host from which gate fabric is read.
      type: list
      elements: str
      returned: always
      sample: [gpu01]
    nodes_again:
      description: Hosts that are read before a start at a later gate.
      type: list
      elements: str
      returned: always
      sample: []
    fabric_again:
      description: The host from which the fabric is read before a start at a later gate.
      type: list
      elements: str
      returned: always
      sample: []
tools:
  description: With which options the settings want the tools of hosts and fabric to be run.
  type: dict
  returned: success
  contains:
    diag_level:
      description: Level of C(dcgmi diag), 0 where the operator owns the driver.
      type: int
      returned: always
      sample: 3
    disturb:
      description: Whether hosts whose GPUs somebody uses are diagnosed all the same.
      type: bool
      returned: always
      sample: false
    fabric_ports:
      description: Ports through which the fabric is looked at, as C(adapter:port).
      type: list
      elements: str
      returned: always
      sample: []
    fabric_interval_s:
      description: Seconds between the two readings of the fabric.
      type: float
      returned: always
      sample: 10.0
    fabric_extras:
      description: What else is asked of the fabric.
      type: list
    ibdiagnet:
      description: Whether C(ibdiagnet) is run.
      type: bool
      returned: always
      sample: false
"""
