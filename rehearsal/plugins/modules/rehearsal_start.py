#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of rehearsal_start; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_start
short_description: Start a cluster with simulated hardware and real software on this machine
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK on loopback, with the simulated
    hosts, their tools, a mirror of stand-in charts and a facility record.
  - Programs are taken from E(KUBEBUILDER_ASSETS) or E(PATH) where the version fits, else built once with Go and kept
    with checksums. Go is installed with pip if the machine has none.
  - A supervisor owns every process. It ends them all when the C(ansible-playbook) that started it ends in any way.
  - What a run that was killed left behind is removed first.
  - Its inventory, C(inventory.yml) of the directory, has its hosts and all variables with which other playbooks work on
    it. What a vault keeps is left out. It is removed when the rehearsal stops.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: none
    description: A rehearsal is where check mode can be tried; start it with C(check_mode=false).
options:
  directory:
    description: Directory of the rehearsal. One rehearsal at a time can be up in a directory.
    type: path
    required: true
  group:
    description:
      - Inventory group whose hosts are simulated, with the SKU, rack and names of compute adapters of their
        variables C(gpufleet_sku), C(gpufleet_rack) and C(gpufleet_hcas). If it has no hosts there are O(nodes) hosts
        called gpu01, gpu02 and so on, four to a rack.
    type: str
    default: gpu_nodes
  nodes:
    description: Number of hosts when O(group) has none.
    type: int
    default: 16
  sku:
    description: SKU of hosts that name none.
    type: str
    default: h100
  site_name:
    description: Name of the site, as the facility record has it.
    type: str
    default: rehearsal
  faults:
    description: Faults to start with, by id, or files that describe faults.
    type: list
    elements: str
    default: []
  world:
    description:
      - Id of a healthy site of C(rehearsal/recipes/worlds/). Its hosts, what it states and what its tools print take
        the place of O(nodes) and O(sku). V(list) prints all and starts nothing.
    type: str
    default: ""
  keep:
    description: Whether the rehearsal stays up when C(ansible-playbook) ends.
    type: bool
    default: false
  cache:
    description:
      - Directory that built programs are kept in. Empty means C(gpufleet/toolchain) in the user's cache directory.
    type: str
    default: ""
  recipe_data:
    description: Directories with recipe data of the site; their charts and hardware are in the rehearsal, too.
    type: list
    elements: path
    default: []
  criteria:
    description: Criteria that the site states. They are rehearsed as they are.
    type: dict
    default: {}
  default_criteria:
    description: Criteria of the recipe where O(criteria) is empty.
    type: dict
    default: {}
  settings:
    description: Options of checks and gates that the site states, by check id or gate id.
    type: dict
    default: {}
  set:
    description: Single settings over O(settings), as C(check.option=value).
    type: list
    elements: str
    default: []
  play:
    description:
      - What is to be rehearsed, V(site) or the name of another verb. V(list) prints all and starts nothing. An unknown
        one is refused before anything starts.
    type: str
    default: site
  gates:
    description: Gates of the bring-up; unknown ones are refused before anything starts.
    type: list
    elements: str
    default: []
  from_gate:
    description: Gate that the bring-up is to start at; an unknown one is refused before anything starts.
    type: str
    default: ""
  full:
    description:
      - Whether the programs that need no GPU to run (training on the CPU, the load of inference) run for real in the
        place of computed output. They are installed by C(make setup-full) in a checkout of the collection.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Start four hosts
  gpufleet.rehearsal.rehearsal_start:
    directory: "{{ lookup('ansible.builtin.env', 'PWD') }}/.run/rehearsal"
    nodes: 4
  check_mode: false
  register: __rehearsal
"""

RETURN = r"""
closing_lines:
  description: The list that was asked for in place of a rehearsal, printed as the last lines of the playbook.
  type: list
  elements: str
  returned: when a list was asked for
  sample: [continuous  Cycles over idle nodes]
listed:
  description: Whether a list (faults, worlds, verbs) was asked for and nothing started. Its lines are then the rest.
  type: bool
  returned: success
kubeconfig:
  description: Administrator's kubeconfig.
  type: str
  returned: success
chart_mirror:
  description: Directory with the stand-in charts, for C(gpufleet_chart_mirror).
  type: str
  returned: success
directory:
  description: Directory of the rehearsal, absolute.
  type: str
  returned: success
hosts:
  description: The simulated hosts.
  type: list
  elements: dict
  returned: success
  contains:
    name:
      description: Name of the host.
      type: str
      returned: always
      sample: gpu01
    sku:
      description: Its SKU.
      type: str
      returned: always
      sample: h100
    rack:
      description: Its rack.
      type: str
      returned: always
      sample: r01
    hcas:
      description: Names of its compute adapters, empty for those of its SKU.
      type: list
      elements: str
      returned: always
      sample: [mlx5_0, mlx5_3]
    bmc:
      description: URL of its simulated BMC, empty for a host of an inventory that names none.
      type: str
      returned: always
      sample: https://127.0.0.1:24410
again:
  description: The command that goes on with the rehearsal where it stays up, empty where it does not.
  type: str
  returned: when a rehearsal was started
  sample: ansible-playbook gpufleet.bringup.site -i .run/rehearsal/inventory.yml
kept_lines:
  description: How to go on with the rehearsal and how to stop it, one line each; empty if it is not kept.
  type: list
  elements: str
  returned: success
  sample: ["the rehearsal stays up: export KUBECONFIG=/site/.run/rehearsal/cluster/admin.kubeconfig"]
programs:
  description: By program, its path.
  type: dict
  returned: success
settings:
  description: By check id or gate id, settings that are not the site's own, for C(gpufleet_forced_settings).
  type: dict
  returned: success
  sample: {fabric: {interval_s: 2}}
notes:
  description: What is not the site's own, one line each, for C(gpufleet_notes).
  type: list
  elements: str
  returned: success
  sample: ["rehearsal: hosts: 4 simulated, SKU dgx-h100"]
default_criteria:
  description: By criterion, its value in the recipe where the site states none, those of the world included.
  type: dict
  returned: success
  sample: {service: generic, intent: training}
stated:
  description: By variable of the site, the value that the world states; empty without one.
  type: dict
  returned: success
  sample: {gpufleet_profile: cloud}
version:
  description: Version of Kubernetes.
  type: str
  returned: success
  sample: v1.36.3
"""
