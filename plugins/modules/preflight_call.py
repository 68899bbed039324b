#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of preflight_call; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_call
short_description: Check how ansible-playbook was called
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Checks that the Python packages of the collection are installed for the interpreter that runs Ansible.
  - Refuses tags that the playbook does not have, C(--skip-tags), and a C(--limit) that leaves out the controller or a
    host in scope. Each would leave a part out in silence.
  - Refuses every variable that begins with C(gpufleet_) and that nothing reads, with the nearest name, and every
    documented variable whose value has another type. Extra variables and those of all hosts and groups are looked at.
  - A variable that is stated by its name of an earlier release is a warning.
  - Refuses an inventory that does not exist, with the nearest name, and words behind C(-e) that Ansible would drop.
  - All problems are reported in one list. It is the first task of every playbook of the collection.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
options:
  tags:
    description: Tags that mean something in this playbook.
    type: list
    elements: str
    default: []
  limit:
    description: Whether C(--limit) chooses the hosts of this playbook.
    type: bool
    default: false
  one_of:
    description: Variables of which one has to be stated, for without it the playbook has nothing to do.
    type: list
    elements: str
    default: []
  all_of:
    description: Variables without which the playbook can do nothing.
    type: list
    elements: str
    default: []
  declared:
    description:
      - The variable of hosts that declares what they become. Where no host has it, the playbook has nothing to do; what
        is wrong with it is refused before a host is contacted.
    type: str
    default: ""
    choices: ["", gpufleet_converge]
  collections:
    description: Other collections whose modules the playbook calls.
    type: list
    elements: str
    default: []
  choices:
    description: Variables that this playbook alone reads, each with the words that it may be.
    type: dict
    default: {}
  places:
    description: Variables of this playbook that name a file, an address or a ConfigMap to read. A file has to be there.
    type: list
    elements: str
    default: []
  hosts:
    description: Variables of this playbook that name hosts. Each has to be in the group of GPU hosts.
    type: list
    elements: str
    default: []
  tasks:
    description: Variables of this playbook that name a role by its full name, or a file of tasks. It has to be there.
    type: list
    elements: str
    default: []
  followed_by:
    description:
      - The module whose check comes next. Where the call is refused, what that check would refuse is in the same list,
        as far as it is known and does not follow from what is wrong with the call.
    type: str
    default: ""
    choices: ["", preflight_inventory, gpufleet.rehearsal.rehearsal_start]
"""

EXAMPLES = r"""
- name: Check packages, options and variables
  gpufleet.bringup.preflight_call:
    tags: [plan]
  run_once: true
"""

RETURN = r"""
"""
