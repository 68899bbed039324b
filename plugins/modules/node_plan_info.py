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
  contains:
    packages:
      description: Packages to look for.
      type: list
      elements: str
      returned: always
    paths:
      description: Files whose digest counts.
      type: list
      elements: str
      returned: always
    marks:
      description: Patterns of files that other owners leave.
      type: list
      elements: str
      returned: always
    sysctl:
      description: Settings of the kernel to read.
      type: list
      elements: str
      returned: always
    units:
      description: Units of systemd to look at.
      type: list
      elements: str
      returned: always
    mig_config:
      description: The declared MIG configuration.
      type: str
      returned: always
plan:
  description: What has to be done, in steps that tasks take.
  type: dict
  returned: steps V(plan), V(simulated) and V(verify)
  contains:
    parts:
      description: The parts that the site declares.
      type: list
      elements: str
      returned: always
    unfinished:
      description: Packages to finish before any others move.
      type: list
      elements: str
      returned: always
    transactions:
      description: Packages that move at once.
      type: list
      elements: dict
      returned: always
      contains:
        title:
          description: What for.
          type: str
          returned: always
        packages:
          description: The packages.
          type: list
          elements: dict
          returned: always
          contains: &packages
            name:
              description: Name of the package.
              type: str
              returned: always
            version:
              description: Its version, empty for what the repository has.
              type: str
              returned: always
        before:
          description: Package that is installed on its own first.
          type: str
          returned: always
        stream:
          description: Module stream of dnf that must be enabled.
          type: str
          returned: always
        may_remove:
          description: What the package manager may take away for it.
          type: list
          elements: str
          returned: always
        companions:
          description: Packages that come in these versions, where they come as dependencies.
          type: list
          elements: dict
          returned: always
          contains: *packages
        specs:
          description: The packages as the package manager writes them.
          type: list
          elements: str
          returned: always
    hold:
      description: All packages that are held.
      type: list
      elements: dict
      returned: always
      contains: *packages
    hold_now:
      description: Those that are not held yet.
      type: list
      elements: str
      returned: always
    unhold:
      description: Those that are no longer held.
      type: list
      elements: str
      returned: always
    locks:
      description: Lines of dnf's version lock.
      type: list
      elements: str
      returned: always
    preferences:
      description: Preferences of apt, or lines of the version lock of dnf, under which packages move.
      type: str
      returned: always
    files:
      description: All files that belong to the declaration.
      type: list
      elements: dict
      returned: always
      contains: &files
        path:
          description: Where it is.
          type: str
          returned: always
        content:
          description: What is in it.
          type: str
          returned: always
        effect:
          description: What makes it take effect, or empty.
          type: str
          returned: always
        needs_boot:
          description: What of it takes effect by a reboot only, or empty.
          type: str
          returned: always
        mode:
          description: Its mode.
          type: str
          returned: always
    write_files:
      description: Those that are not as they should be.
      type: list
      elements: dict
      returned: always
      contains: *files
    remove_files:
      description: Files of ours that nothing declares any more.
      type: list
      elements: str
      returned: always
    effects:
      description: What changed files need to take effect.
      type: list
      elements: str
      returned: always
    units:
      description: Units of systemd that have to run.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the unit.
          type: str
          returned: always
        ours:
          description: Whether a file of ours brings it.
          type: bool
          returned: always
    settings:
      description: Settings of sysctl that are not in force.
      type: list
      elements: str
      returned: always
    restart:
      description: Units that run an older version of what moves.
      type: list
      elements: str
      returned: always
    remove_units:
      description: Units of ours that nothing declares any more.
      type: list
      elements: str
      returned: always
    add_arguments:
      description: Arguments that the kernel gets.
      type: list
      elements: str
      returned: always
    remove_arguments:
      description: Arguments that it no longer gets.
      type: list
      elements: str
      returned: always
    rebuild_modules:
      description: Whether DKMS builds the modules of the driver anew.
      type: bool
      returned: always
    build_modules:
      description: Version of an installed driver that DKMS lacks for the running kernel.
      type: str
      returned: always
    needs_headers:
      description: Version of a driver that is to be built on a host without the headers of its kernel.
      type: str
      returned: always
    reload:
      description: How the modules of the driver are loaded anew.
      type: dict
      returned: always
      contains:
        wanted:
          description: Whether they are.
          type: bool
          returned: always
        unload:
          description: The order in which they go.
          type: list
          elements: str
          returned: always
        stop:
          description: Units that run and are stopped before, in this order.
          type: list
          elements: str
          returned: always
        once:
          description: Units that have to run again afterwards.
          type: list
          elements: str
          returned: always
        holders:
          description: What keeps the modules.
          type: list
          elements: str
          returned: always
    reboot:
      description: Why the host has to be rebooted afterwards.
      type: list
      elements: str
      returned: always
    may_reboot:
      description: Whether the site allows that.
      type: bool
      returned: always
    changes:
      description: What is done, in words; empty where the host is as declared.
      type: list
      elements: str
      returned: always
    ledger_during:
      description: What C(/etc/gpufleet/converged.json) says meanwhile.
      type: dict
      returned: always
      contains: &ledger
        schema_version:
          description: Version of its form.
          type: int
          returned: always
        files:
          description: Files of ours.
          type: list
          elements: str
          returned: always
        holds:
          description: Packages that we hold.
          type: list
          elements: str
          returned: always
        kernel_arguments:
          description: Arguments of the kernel that we added.
          type: list
          elements: str
          returned: always
        units:
          description: Units of ours.
          type: list
          elements: str
          returned: always
        until_boot:
          description: By what only a reboot brings into force, the boot during which it was changed.
          type: dict
          returned: always
        pending:
          description: Effects of files that are still to do.
          type: list
          elements: str
          returned: always
    ledger_after:
      description: What it says in the end.
      type: dict
      returned: always
      contains: *ledger
simulate:
  description: Options of M(gpufleet.bringup.node_state_info) with which the package manager simulates the plan.
  type: dict
  returned: step V(plan)
  contains:
    simulate:
      description: Packages, each with its version as the package manager writes it.
      type: list
      elements: str
      returned: always
    preferences:
      description: Preferences of apt, or lines of the version lock of dnf, under which it simulates.
      type: str
      returned: always
    stream:
      description: Module stream of dnf.
      type: str
      returned: always
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
