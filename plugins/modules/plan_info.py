#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of plan_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_info
short_description: Show what each gate will do, for how long and what it disturbs
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Makes the same checks of inventory, variables and recipe as M(gpufleet.bringup.preflight_inventory), and shows for
    each gate its declared checks, what they do to the cluster, how long they take, and what is not declared and why.
  - Nothing is touched, neither a run directory nor a report nor a host.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.site
options:
  overrides:
    description: Values of components that replace those of the recipe, by component.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the plan
  gpufleet.bringup.plan_info:
    group: gpu_nodes
    gates: [facility, nodes]
"""

RETURN = r"""
plan:
  description: One entry for each of the eight gates, in order.
  type: list
  elements: dict
  returned: success
  contains:
    number:
      description: Number of the gate.
      type: int
      returned: always
      sample: 3
    gate:
      description: Its id.
      type: str
      returned: always
      sample: nodes
    in_scope:
      description: Whether this run is about it.
      type: bool
      returned: always
      sample: true
    before_start:
      description: Whether it comes before O(from_gate), so that it is not run if earlier passes count.
      type: bool
      returned: always
      sample: false
    checks:
      description: Declared checks.
      type: list
      elements: dict
      returned: always
      contains:
        id:
          description: Id of the check.
          type: str
          returned: always
        title:
          description: What it demands.
          type: str
          returned: always
        disturbs:
          description: What it does to hosts or cluster.
          type: str
          returned: always
    not_declared:
      description: Checks that are not asked at this site.
      type: list
      elements: dict
      returned: always
      contains:
        id:
          description: Id of the check.
          type: str
          returned: always
        reason:
          description: Why it is not asked.
          type: str
          returned: always
    duration_s:
      description: Typical seconds of its observations.
      type: float
      returned: for a gate in scope
      sample: 960.0
    disturbs:
      description: What its checks do to the cluster.
      type: list
      elements: str
      returned: for a gate in scope
      sample: [nothing, test pods]
plan_lines:
  description: The plan as text. It is printed when the playbook ends.
  type: list
  elements: str
  returned: success
"""
