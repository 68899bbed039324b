# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run is about: hosts, scope, settings and decisions of people."""

from __future__ import annotations


class ModuleDocFragment:
    """The options that preflight checks and the plan is made from."""

    DOCUMENTATION = r"""
options:
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
      - Gate at which the run starts. Passes in the history count for the gates before it, as long as they are about the
        same subjects and what they depend on is unchanged.
      - Empty means the first gate in scope.
    type: str
    default: ""
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
  fabric_host:
    description:
      - Host that looks at the InfiniBand fabric. Empty means the first that answers of group C(fabric_managers), or of
        the GPU hosts where there is no such group.
    type: str
    default: ""
  criteria:
    description: Criteria of the recipe, such as service, accelerator, os, intent and platform.
    type: dict
    default: {}
  default_criteria:
    description: Criteria of the recipe where O(criteria) states none.
    type: dict
    default: {}
  settings:
    description:
      - Settings by check id or gate id; C(docs/reference/settings.md) lists them all.
      - Those of an extra variable C(gpufleet_settings) are laid over the inventory's, option by option.
    type: dict
    default: {}
  set:
    description: Single settings as C(check.option=value), over O(settings).
    type: list
    elements: str
    default: []
  forced_settings:
    description: Settings that win over O(settings) and O(set).
    type: dict
    default: {}
  waivers:
    description: Decisions that let a check of a subject not hold its gate.
    type: list
    elements: dict
    default: []
    suboptions:
      check:
        description: Id of the check.
        type: str
        required: true
      subject:
        description: Name of the host, rack, component or site, as reports show it; may be a glob.
        type: str
        required: true
      reason:
        description: Why.
        type: str
        required: true
      who:
        description: Who decided it.
        type: str
        required: true
      until:
        description: Last day on which it counts, as C(YYYY-MM-DD).
        type: str
        required: true
  acceptances:
    description: Decisions that accept a marginal result.
    type: list
    elements: dict
    default: []
    suboptions:
      check:
        description: Id of the check.
        type: str
        required: true
      subject:
        description: Name of the host, rack, component or site, as reports show it; may be a glob.
        type: str
        required: true
      reason:
        description: Why.
        type: str
        required: true
      who:
        description: Who decided it.
        type: str
        required: true
      until:
        description: Last day on which it counts, as C(YYYY-MM-DD).
        type: str
        required: true
  quarantine:
    description: Hosts set aside.
    type: list
    elements: dict
    default: []
    suboptions:
      node:
        description: Name of the host in the inventory.
        type: str
        required: true
      reason:
        description: Why.
        type: str
        required: true
      ticket:
        description: Where the repair is followed.
        type: str
        required: true
      who:
        description: Who decided it.
        type: str
        required: true
  pools:
    description:
      - Pools of GPU nodes that differ. The site has one recipe, with what each needs; O(criteria) holds for those that
        do not state their own. Every host must fit one by its SKU, and every pool must have a host.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the pool.
        type: str
        required: true
      criteria:
        description: Criteria that are the pool's own, such as accelerator, fabric and nvlink_domain.
        type: dict
        default: {}
      node_selector:
        description:
          - Labels of its nodes.
          - Those that all pools share select the nodes of charts that run beside GPUs, for a chart takes one selector.
        type: dict
        default: {}
  recipe_data:
    description: Directories with recipe data of the site; a later one wins, the collection's own comes first.
    type: list
    elements: path
    default: []
  check_dirs:
    description:
      - Directories with checks of the site's own, one directory a gate below them (docs/site-checks.md).
      - Their files are run on the controller.
    type: list
    elements: path
    default: []
  notes:
    description: What people should know of this run, one line each. Its output and its report show them.
    type: list
    elements: str
    default: []
"""
