#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of baseline; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: baseline
short_description: Accept what a run measured as the baseline of its site, or take that back
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Copies the figures of gates 6 to 8 of a run (bus bandwidth, MFU, step time, TTFT, TPOT, throughput) into the
    history, with who accepted them, when and why. Runs that start later are compared with them.
  - Refuses a gate that did not pass, that passed by a waiver, or whose figures lack a condition (driver, NCCL) by which
    later ones are compared. That a gate failed its comparison with the last baseline alone does not matter; a loss that
    is meant is accepted that way.
  - Nothing that was accepted is ever changed. Figures of a rehearsal are compared with rehearsals alone.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Tells what would be accepted or taken back, and refuses as it would, and writes nothing.
options:
  run_dir:
    description: Directory of the run to accept.
    type: path
  gates:
    description: Of which gates. Empty for all gates with figures in the scope of the run.
    type: list
    elements: str
    default: []
  withdraw:
    description: Number of an acceptance to take back instead, as M(gpufleet.bringup.baseline_info) lists them.
    type: int
  who:
    description: Who accepts it, or takes it back.
    type: str
    required: true
  why:
    description: Why, for those who read it in a year.
    type: str
    required: true
  store:
    description: The history of the runs.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Later runs are to be as good as this one
  gpufleet.bringup.baseline:
    run_dir: .run/latest
    who: Ada Lovelace
    why: acceptance of island 1, ticket 4711
    store: .run/history.sqlite

- name: Take back what was accepted by mistake
  gpufleet.bringup.baseline:
    withdraw: 3
    who: Ada Lovelace
    why: measured with half of the fabric idle
    store: .run/history.sqlite
"""

RETURN = r"""
number:
  description: Number of the acceptance, 0 in check mode.
  type: int
  returned: success
  sample: 1
run_id:
  description: The run that was accepted, empty where an acceptance was taken back.
  type: str
  returned: success
gates:
  description: Of which gates figures were accepted.
  type: list
  elements: str
  returned: success
  sample: [fabric_validation, training_acceptance]
figures:
  description: How many figures.
  type: int
  returned: success
  sample: 19
msg:
  description: What was done, for people.
  type: str
  returned: success
exit_code:
  description: 0, 2 for what is no baseline, 3 for what is not there.
  type: int
  returned: always
  sample: 0
"""
