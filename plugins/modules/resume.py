#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of resume; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resume
short_description: Decide which gates need not be run again
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Decides, for a run that starts in the middle, which gates before the start passes of earlier runs count for. It
    compares what those passes depend on with what is there now, and says what is stale and why.
  - A gate that is taken over becomes C(skipped) in the run, with the runs that it passed in.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
options:
  fabric_host:
    description: Host that looks at the InfiniBand fabric; see M(gpufleet.bringup.preflight_inventory).
    type: str
    default: ""
  store:
    description: File of the history.
    type: path
  stale:
    description:
      - What becomes of gates before the start that earlier passes do not count for.
      - V(changed) proves them again on the way if all that is wrong is that something changed since they passed (a
        driver, firmware, kernel, part, recipe, cable); a gate that never passed, was not passed since, or passed too
        long ago stops the run before anything is touched.
      - V(prove) proves them again in any case. V(refuse) stops the run in any case.
    type: str
    default: changed
    choices: [changed, prove, refuse]
  max_age_days:
    description: How many days a pass counts.
    type: float
    default: 7
"""

EXAMPLES = r"""
- name: Take over what passed before
  gpufleet.bringup.resume:
    run_dir: "{{ gpufleet_run }}"
    store: "{{ gpufleet_store }}"
"""

RETURN = r"""
gates:
  description: Gates that are run, those before the start first.
  type: list
  elements: str
  returned: success
  sample: [nodes, gpu_stack]
taken_over:
  description: Gates that are not run, because earlier passes count for them.
  type: list
  elements: str
  returned: success
  sample: [facility, fabric]
proven_again:
  description: Gates before the start that are run, because what they depend on changed.
  type: list
  elements: str
  returned: success
  sample: [nodes]
hosts:
  description: The hosts of each play that looks at hosts; some lists may be empty.
  type: dict
  returned: success
  contains:
    contact:
      description: Hosts that are asked whether they answer.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    adapters:
      description: Hosts that are asked which adapters they have, before the first gate that depends on it.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    nodes:
      description: Hosts that gate nodes reads.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    fabric:
      description: The host from which gate fabric is read.
      type: list
      elements: str
      returned: always
      sample: [gpu01]
    nodes_again:
      description: Hosts that are read before a start at a later gate.
      type: list
      elements: str
      returned: always
      sample: []
    fabric_again:
      description: The host from which the fabric is read before a start at a later gate.
      type: list
      elements: str
      returned: always
      sample: []
"""
