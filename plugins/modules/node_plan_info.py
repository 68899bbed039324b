#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of node_plan_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_plan_info
short_description: Plan how a host becomes as its site declares it
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Makes the plan of one host from what the site declares (C(gpufleet_converge)) and what
    M(gpufleet.bringup.node_state_info) found there. It touches nothing, neither the host nor the cluster.
  - Refuses, before anything is touched, a declaration with unknown names, a part that somebody else owns, and a set of
    packages that the repositories of the host do not have whole.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
options:
  declaration:
    description: What the site declares of the host, C(gpufleet_converge).
    type: dict
    default: {}
  state:
    description: What M(gpufleet.bringup.node_state_info) found.
    type: dict
    required: true
  step:
    description:
      - V(ask) returns what the host has to be asked; of O(state) only the operating system counts.
      - V(plan) returns the plan.
      - V(simulated) returns the plan and refuses what the package manager would do beyond it.
      - V(verify) returns the plan of what is left and whether the host is as declared.
    type: str
    choices: [ask, plan, simulated, verify]
    required: true
  sku:
    description: SKU of the host; its NVLink services follow from it.
    type: str
    default: ""
  labels:
    description: Labels of the Kubernetes node, by which parts that operators own are recognised.
    type: dict
    default: {}
  driver_owner:
    description: Who installs the driver, C(gpufleet_driver_owner).
    type: str
    choices: [host, operator]
    default: host
  recipe_data:
    description: Private directories with SKUs, C(gpufleet_recipe_data).
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: What has to be known of the host
  gpufleet.bringup.node_plan_info:
    declaration: "{{ gpufleet_converge }}"
    state: "{{ first.state }}"
    sku: "{{ gpufleet_sku }}"
    step: ask
  register: asked
"""

RETURN = r"""
ask:
  description: Options of M(gpufleet.bringup.node_state_info).
  type: dict
  returned: step V(ask)
  sample: {packages: [nvidia-fabricmanager], units: [nvidia-fabricmanager.service]}
plan:
  description: What has to be done; C(changes) says it in words.
  type: dict
  returned: steps V(plan), V(simulated) and V(verify)
  sample: {changes: ["driver: nvidia-fabricmanager 580.105.08-1 -> 580.95.05-1"]}
simulate:
  description: Options of M(gpufleet.bringup.node_state_info) with which the package manager simulates the plan.
  type: dict
  returned: step V(plan)
  sample: {simulate: [nvidia-fabricmanager=580.95.05-1]}
wrong:
  description: What is not as declared.
  type: list
  elements: str
  returned: step V(verify)
reboot:
  description: Why the host has to be rebooted before it is as declared.
  type: list
  elements: str
  returned: steps V(plan), V(simulated) and V(verify)
"""
