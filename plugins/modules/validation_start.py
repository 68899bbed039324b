#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of validation_start; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_start
short_description: State what a validation of a cluster is asked
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Writes into the run directory which phases are looked at, which checks are left out by name, and where snapshot and
    recipe are from. Names of phases, checks and constraints that nobody knows are errors, with the nearest name.
  - A run that validates decides no gate.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
options:
  phases:
    description: The phases; readiness always comes first. Empty, or V(all), means all.
    type: list
    elements: str
    default: []
  recipe:
    description: A resolved recipe, as a file, an https address or V(cm://namespace/name). Without it the run's own.
    type: str
  snapshot:
    description:
      - A snapshot, as a file, an https address or V(cm://namespace/name), ours or that of C(aicr). Without it one is
        taken.
      - One of another cluster, or older than O(max_age_s), is C(other).
    type: str
  max_age_s:
    description: How old a supplied snapshot may be, in seconds.
    type: float
    default: 86400
  no_cluster:
    description: Look at nothing but the supplied snapshot. Checks that need the cluster are told as skipped.
    type: bool
    default: false
  fail_fast:
    description: Leave the phases after one that is not passed out. Without it all are gone through but for readiness.
    type: bool
    default: false
  skip_checks:
    description: Names of checks that are left out, ours or upstream's. They are told, and their phase is not passed.
    type: list
    elements: str
    default: []
  recipe_data:
    description:
      - Directories with recipe data of the site. Entries with an image in their C(validators/catalog.yaml) are
        validators that run as pods, see docs/validate.md.
    type: list
    elements: path
    default: []
  node_selector:
    description: Labels of the nodes that pods which such a validator makes itself are for.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
"""

EXAMPLES = r"""
- name: Validate what was brought up
  gpufleet.bringup.validation_start:
    run_dir: "{{ gpufleet_run }}"
    phases: [deployment, conformance]
"""

RETURN = r"""
phases:
  description: The phases in their order.
  type: list
  elements: str
  returned: success
  sample: [readiness, deployment]
"""
