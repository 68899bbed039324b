#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of run_start; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_start
short_description: Start a run with a report of eight pending gates
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Makes a directory for the run below O(base), and writes the report with all eight gates pending, or the phases of
    a validation. C(latest) there points to it once preflight let the run through.
  - Run this first. Whatever stops the run later, the report never says more than what was observed.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: partial
    description:
      - The run directory is written in check mode too, and says so everywhere. Nothing else is written.
options:
  base:
    description: Directory that holds the runs.
    type: path
    required: true
  mode:
    description:
      - Mode of the run directory. Its files can be read by whom it lets in, so V(0750) makes files of 0640.
      - It holds names, addresses and serial numbers of the hosts; secrets are redacted.
    type: str
    choices: ['0700', '0750', '0755']
    default: '0700'
  site_name:
    description: Name of the site, for the report.
    type: str
    default: cluster
  store:
    description: File of the history in which the gates are recorded. A report then says how to start again at a gate.
    type: path
  phases:
    description: Phases of a run that validates; readiness always comes first. Such a run has no gate in its scope.
    type: list
    elements: str
    default: []
  ctrf_dest:
    description: File to which one CTRF report of the whole run is written, beside C(ctrf/all.json) of its directory.
    type: path
  verb:
    description:
      - What a run without gates does, such as V(roll). Its report has a table and a verdict of its own.
      - The module that does the work writes them.
    type: str
    default: ''
  group:
    description:
      - Inventory group of the GPU hosts. Where their connection simulates them, every page and file of the run says so.
    type: str
    default: gpu_nodes
"""

EXAMPLES = r"""
- name: Start the run
  gpufleet.bringup.run_start:
    base: .run
    site_name: island-1
  register: __run
"""

RETURN = r"""
run_dir:
  description: Directory of the run.
  type: str
  returned: success
  sample: /srv/acceptance/.run/20261121T101500Z-3fa2
run_id:
  description: Name of the run.
  type: str
  returned: success
  sample: 20261121T101500Z-3fa2
stats:
  description: The facts of the run for C(set_stats), which AWX passes on to the next node of a workflow.
  type: dict
  returned: success
  contains:
    gpufleet_run_id:
      description: Name of the run.
      type: str
      returned: always
      sample: 20261121T101500Z-3fa2
    gpufleet_verdict:
      description: The verdict of the run in one sentence.
      type: str
      returned: always
      sample: accepted 64 of 64 nodes
    gpufleet_passed:
      description: Whether every gate in scope is passed.
      type: bool
      returned: always
      sample: true
    gpufleet_exit_code:
      description: 0 if every gate in scope is passed, else 8.
      type: int
      returned: always
      sample: 0
    gpufleet_was_rehearsal:
      description: Whether the hardware is simulated.
      type: bool
      returned: always
      sample: false
    gpufleet_gates_by_status:
      description: By status, the gates; none of a run that validates, and none of a run without gates.
      type: dict
      returned: always
      sample: {passed: [facility, fabric], pending: [nodes]}
    gpufleet_report:
      description: Path of the report.
      type: str
      returned: always
      sample: /srv/acceptance/.run/20261121T101500Z-3fa2/report.html
    gpufleet_brought_up:
      description: Directory of the run, which jobs behind it in a workflow keep.
      type: str
      returned: where the run is a bring-up
      sample: /srv/acceptance/.run/20261121T101500Z-3fa2
"""
