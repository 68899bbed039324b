#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of run_end; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_end
short_description: End a run, and fail unless every gate in scope is decided and passed
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Looks at the verdicts of a run after its last gate, and fails if a gate that was decided is not passed. That is one
    that M(gpufleet.bringup.gate) decided with O(gpufleet.bringup.gate#module:not_passed=report), so that gates that do
    not depend on it could follow.
  - Fails as well if a gate in scope was not decided, because tags left its play out.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
"""

EXAMPLES = r"""
- name: End the run
  gpufleet.bringup.run_end:
    run_dir: "{{ gpufleet_run }}"
"""

RETURN = r"""
stats:
  description: The facts of the run for C(set_stats), which AWX passes on to the next node of a workflow.
  type: dict
  returned: always
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
      description: By status, the gates; none of a run that validates.
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
not_passed:
  description: Gates that were decided and are not passed.
  type: list
  elements: str
  returned: always
  sample: [training_acceptance]
undecided:
  description: Gates in scope that nobody decided.
  type: list
  elements: str
  returned: always
  sample: []
exit_code:
  description: 0, or 8 if a gate in scope is not passed or not decided.
  type: int
  returned: always
  sample: 0
"""
