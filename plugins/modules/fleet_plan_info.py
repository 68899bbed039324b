#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of fleet_plan_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_plan_info
short_description: Show which idle node is tested next, and why
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Looks which nodes of the site are free, reads of the history when each of them passed which test, and shows the
    queue with the batch at its head. Every node is told with its reason, also those that are not due or not free.
  - New nodes go first (never tested, or with other parts since), then those that failed recently, then the rest by the
    time of the last try. Racks and rails take turns. The same state gives the same plan.
  - Tests, their ages and the limits of a batch are settings of the site (C(continuous) and those of each test).
  - Changes nothing. It needs the rights of ClusterRole C(gpufleet-continuous-observe), or with Slurm those of a user.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
options:
  store:
    description: File of the history. One that is not there is not made; every test counts as never done then.
    type: path
  tests:
    description: Tests to plan, of those that the site runs. Empty means all of them.
    type: list
    elements: str
    default: []
  scontrol:
    description: The command C(scontrol) of this controller, where Slurm gives the nodes work.
    type: str
    default: scontrol
"""

EXAMPLES = r"""
- name: Show which nodes would be tested now
  gpufleet.bringup.fleet_plan_info:
    run_dir: .run/latest
    store: "{{ gpufleet_store }}"
"""

RETURN = r"""
tests:
  description: The tests that were planned.
  type: list
  elements: str
  returned: success
  sample: [nccl_loop]
positions:
  description: The free nodes that owe tests, in the order of the queue.
  type: list
  elements: dict
  returned: success
  contains:
    number:
      description: Place in the queue, from 1.
      type: int
      returned: always
      sample: 1
    node:
      description: The host.
      type: str
      returned: always
      sample: gpu07
    rack:
      description: Its rack, empty where none is stated.
      type: str
      returned: always
      sample: r12
    now:
      description: Whether it is in the batch at the head of the queue.
      type: bool
      returned: always
      sample: true
    waits:
      description: Why it is not in the batch, empty if it is.
      type: str
      returned: always
      sample: 2 nodes of rack r12 at once, others go first
    tests:
      description: Its tests in the order in which they are run.
      type: list
      elements: dict
      returned: always
      contains:
        test:
          description: The test.
          type: str
          returned: always
        urgency:
          description: C(new), C(recent) or C(due).
          type: str
          returned: always
        why:
          description: Why it is due.
          type: str
          returned: always
not_due:
  description: By node that is free and owes nothing now, what falls due there next and when.
  type: dict
  returned: success
  sample: {gpu01: nccl_loop not due until 2026-11-29 12:00 UTC}
not_free:
  description: By node that is not free, why.
  type: dict
  returned: success
  sample: {gpu02: pod team/train-0 holds GPUs}
busy:
  description: The nodes of these on which somebody's work is, so that only passive checks may go there.
  type: list
  elements: str
  returned: success
  sample: [gpu02]
notes:
  description: What a person should know of the plan.
  type: list
  elements: str
  returned: success
  sample: ["no rack is stated for 4 nodes: taken for one, 2 at once"]
next_due_s:
  description: When the next free node falls due, seconds since the epoch; 0 if none will.
  type: float
  returned: success
  sample: 1795953600.0
plan:
  description: The same as lines for people.
  type: list
  elements: str
  returned: success
  sample: ["1 node now, 0 wait, 62 not due, 1 not free, 1 of these at work", "1. gpu07: nccl_loop never tested"]
exit_code:
  description: 0, 2 for wrong input, 8 if nobody answers or refuses.
  type: int
  returned: always
  sample: 0
"""
