#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of validation_phase; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_phase
short_description: Look for a phase of a validation, and decide it
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Lets the observers of the phase's checks look, judges what they saw, writes C(ctrf/<phase>.json) and decides from
    that file as it is read back. The checks are those that the recipe's validation section names, else all of it.
  - Phase readiness looks at a snapshot and holds all others. Nothing is installed or changed in it.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.hold
  - gpufleet.bringup.secrets
options:
  phase:
    description: The phase.
    type: str
    required: true
    choices: [readiness, deployment, conformance, performance]
  step:
    description: Only look, only decide, or both. Between looking and deciding, hosts can be read after a load.
    type: str
    default: both
    choices: [both, observe, decide]
  gate:
    description: Look for the checks of this gate only; empty means all gates of the phase.
    type: str
  helm:
    description: The helm program, a name on PATH or a path.
    type: str
    default: helm
  provider:
    description:
      - What the provider's own tools list, as V(PART=FILE), for the constraints of phase readiness; see
        O(gpufleet.bringup.snapshot_info#module:provider).
    type: list
    elements: str
    default: []
  not_passed:
    description: What to do if the phase is not passed. With V(report) the next one can be looked at.
    type: str
    default: fail
    choices: [fail, report]
attributes:
  check_mode:
    support: partial
    description: Looks without making test pods, and decides nothing.
"""

EXAMPLES = r"""
- name: The cluster is as the recipe demands
  gpufleet.bringup.validation_phase:
    run_dir: "{{ gpufleet_run }}"
    phase: readiness
"""

RETURN = r"""
open:
  description: Whether the phase was looked at; one after a phase that holds it is not.
  type: bool
  returned: success
  sample: true
passed:
  description: Whether nothing holds the phase.
  type: bool
  returned: when it was decided
  sample: true
verdict:
  description: The verdict, in the form of RV(gpufleet.bringup.gate#module:verdict).
  type: dict
  returned: when it was decided
  sample: {gate: readiness, status: passed}
stats:
  description: The facts of the run for C(set_stats), in the form of RV(gpufleet.bringup.run_end#module:stats).
  type: dict
  returned: when it was decided
  sample: {gpufleet_passed: true}
"""
