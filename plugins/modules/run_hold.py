#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of run_hold; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_hold
short_description: Hold the cluster for a run, and remove what dead runs left there
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Takes the Lease C(gpufleet-system/bringup) of the cluster for a run that installs or tests, and starts a process
    that renews it until the run ends, however it ends. Two runs never install, diagnose or measure at once.
  - A Lease that is renewed while it is watched belongs to a run that is alive. One that is not renewed for its whole
    duration, by the clock of this controller, belongs to a dead run and is taken over.
  - Then removes the namespaces, pods and rules of tests that dead runs left, so that the GPUs that they held count as
    free.
  - Where the scope has no gate that talks to a Kubernetes API, a lock file beside the runs of this controller takes
    the place of the Lease.
  - Does nothing in check mode, and where every gate in scope only looks.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.hold
attributes:
  check_mode:
    support: full
    description: Takes and removes nothing.
"""

EXAMPLES = r"""
- name: Hold the cluster, and wait for the run of a colleague
  gpufleet.bringup.run_hold:
    run_dir: "{{ gpufleet_run }}"
    when_held: wait
"""

RETURN = r"""
holder:
  description: Who holds the cluster now, as its Lease says. Empty where nothing is held.
  type: str
  returned: always
  sample: bastion_20261121T101500Z-3fa2
swept:
  description: Namespaces of dead runs that were removed.
  type: list
  elements: str
  returned: always
  sample: [gpufleet-test-nccl-1a2b3c]
not_removed:
  description: What dead runs left and could not be removed, each with the reason and the command.
  type: list
  elements: str
  returned: always
  sample: []
"""
