#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the verb preflight; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Check inventory, controller or contact before anything is touched
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Checks one layer and reports every problem of it in one list.
  - The layer V(inventory) reads variables alone and writes the site that all later verbs read.
  - The layer V(recipe) resolves the recipe that the inventory asks for into the run directory.
  - The layer V(controller) looks for Python packages and programs on the controller.
  - The layer V(resume) decides, for a run that starts at O(from_gate), which gates before it earlier passes stand for.
    It compares what those passes depend on with what is there now, and says what is stale and why.
  - The layer V(contact) judges what M(gpufleet.bringup.contact) found on the hosts, and asks the API server for
    its version. Some silent hosts are data for the gates; if none answers, it fails.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
options:
  layer:
    description: Which layer to check.
    type: str
    required: true
    choices: [inventory, recipe, controller, contact, resume]
  group:
    description: Inventory group of the GPU hosts.
    type: str
    default: gpu_nodes
  site_name:
    description: Name of the site.
    type: str
    default: cluster
  profile:
    description: Kind of place; decides which checks can be declared.
    type: str
    default: on_premises
    choices: [on_premises, colocation, cloud]
  gates:
    description: Gates in the scope of this run. Empty means every gate that this release has checks for.
    type: list
    elements: str
    default: []
  from_gate:
    description:
      - Gate at which the run starts. Passes in the history stand for the gates before it, as long as they are about the
        same subjects and what they depend on is unchanged.
      - Empty means the first gate in scope.
    type: str
    default: ""
  store:
    description: File of the history, read by O(layer=resume).
    type: path
  stale:
    description:
      - What becomes of gates before O(from_gate) that earlier passes do not stand for, with O(layer=resume).
      - V(changed) proves them again, before O(from_gate), if all that is wrong is that something changed since they
        passed (a driver, firmware, kernel, part, recipe, cable); a gate that never passed, was not passed since, or
        passed too long ago stops the run before anything is touched.
      - V(prove) proves them again in any case. V(refuse) stops the run in any case.
    type: str
    default: changed
    choices: [changed, prove, refuse]
  max_age_days:
    description: How many days a pass counts, with O(layer=resume).
    type: float
    default: 7
  driver_owner:
    description: Who installs the GPU driver. With V(operator) the driver's checks run in gate gpu_stack.
    type: str
    default: host
    choices: [host, operator]
  orchestrator:
    description: What schedules the workloads.
    type: str
    default: kubernetes
    choices: [kubernetes, slurm]
  minimum_nodes:
    description: Fewest hosts that must stay in scope after quarantine.
    type: int
    default: 0
  criteria:
    description: Criteria of the recipe, such as service, accelerator, os, intent and platform.
    type: dict
    default: {}
  overrides:
    description: Values of components that replace those of the recipe, by component.
    type: dict
    default: {}
  settings:
    description: Options of checks and gates, by check id or gate id.
    type: dict
    default: {}
  waivers:
    description:
      - Decisions that let a check of a subject not hold its gate, each with check, subject, reason, who and
        until.
    type: list
    elements: dict
    default: []
  acceptances:
    description: Decisions that accept marginal results, each with check, subject, reason, who and until.
    type: list
    elements: dict
    default: []
  quarantine:
    description: Hosts set aside, each with node, reason, ticket and who.
    type: list
    elements: dict
    default: []
  recipe_data:
    description: Directories with recipe data of the site; a later one wins, the collection's own comes first.
    type: list
    elements: path
    default: []
  helm:
    description: The helm program, a name on PATH or a path.
    type: str
    default: helm
  rehearsal:
    description: Whether the hardware is simulated.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check inventory and variables
  gpufleet.bringup.preflight:
    run_dir: "{{ __run.run_dir }}"
    layer: inventory
    group: gpu_nodes
    profile: colocation

- name: Take over what passed before
  gpufleet.bringup.preflight:
    run_dir: "{{ __run.run_dir }}"
    layer: resume
    store: "{{ gpufleet_store }}"
"""

RETURN = r"""
hosts:
  description: Hosts in scope, in the order of the inventory.
  type: list
  elements: str
  returned: success with O(layer=inventory)
  sample: [gpu01, gpu02]
gates:
  description: Gates in scope.
  type: list
  elements: str
  returned: success with O(layer=inventory) and O(layer=resume), there without the gates that are taken over
  sample: [facility, nodes, gpu_stack]
before:
  description: Gates in scope before O(from_gate).
  type: list
  elements: str
  returned: success with O(layer=inventory)
  sample: []
taken_over:
  description: Gates that are not run, because earlier passes stand for them.
  type: list
  elements: str
  returned: success with O(layer=resume)
  sample: [facility, fabric]
proven_again:
  description: Gates before O(from_gate) that are run, because what they depend on changed.
  type: list
  elements: str
  returned: success with O(layer=resume)
  sample: [nodes]
"""
