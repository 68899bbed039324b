#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of drift_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_info
short_description: Tell what changed since a snapshot
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Compares two snapshots, or a snapshot or a recipe with the cluster as it is now, and tells every fact that differs
    once, the most important first, with its nodes and both values.
  - What moves by itself is ignored, and told how often; what could not be compared is told with the reason.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.snapshot
options:
  before:
    description:
      - The snapshot to compare with, as a file, an https address or V(cm://namespace/name).
      - Either this or O(recipe).
    type: str
    default: ""
  recipe:
    description:
      - A resolved recipe to compare with instead, as module M(gpufleet.bringup.recipe) writes it. Told are components
        that are not installed or in another version, and constraints that do not hold.
    type: path
  after:
    description: The later snapshot. Without it one is taken now.
    type: str
    default: ""
  fail_on:
    description:
      - From which importance on RV(drifted) is true. With V(never) it never is.
      - A comparison that is not complete, because a collector failed, counts as drift.
    type: str
    default: medium
    choices: [critical, high, medium, low, never]
  ignore:
    description:
      - What is known at this site to move by itself, beside what recipes/drift.yaml has. How often each rule applied is
        told in RV(ignored).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Which facts, as a regular expression of the whole path as drift prints it, such as V(workload).
        type: str
        required: true
      subject:
        description: Whose, as a regular expression of the whole name of the node, workload, release or host.
        type: str
        default: .*
      reason:
        description: Why, for the report.
        type: str
        default: ""
"""

EXAMPLES = r"""
- name: Has anything changed since the acceptance
  gpufleet.bringup.drift_info:
    before: accepted.json
  register: drift
  failed_when: drift.drifted | default(true)
"""

RETURN = r"""
msg:
  description: Everything for people, line by line.
  type: list
  elements: str
  returned: success
  sample: ["high: node.kernel: 6.8.0-1028-aws -> 6.8.0-1030-aws (gpu01, gpu02)"]
changes:
  description: All changes, the most important first.
  type: list
  elements: dict
  returned: success
  contains:
    importance:
      description: One of critical, high, medium and low.
      type: str
      returned: always
      sample: high
    path:
      description: Which fact.
      type: str
      returned: always
      sample: node.kernel
    before:
      description: Its value before, empty if it was not there.
      type: str
      returned: always
    after:
      description: Its value after, empty if it is not there.
      type: str
      returned: always
    subjects:
      description: The nodes, hosts, workloads or objects that it changed of.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
ignored:
  description: What moves by itself and differed, with how many values.
  type: list
  elements: str
  returned: success
not_compared:
  description: What was not compared, with the reason and the fix.
  type: list
  elements: str
  returned: success
one_sided:
  description: Parts of a snapshot, such as V(hosts), that only one of the two was asked for. They were not compared.
  type: list
  elements: str
  returned: success
  sample: [hosts]
complete:
  description: Whether both sides could look at everything that was asked.
  type: bool
  returned: success
drifted:
  description: Whether a change reaches O(fail_on), or the comparison is not complete.
  type: bool
  returned: success
rehearsal:
  description: >-
    Whether the cluster, as the second snapshot or the look of now says, is a rehearsal; none where that is not
    recorded.
  type: bool
  returned: success
exit_code:
  description: 0, 2 for wrong input, 8 if nobody answers.
  type: int
  returned: always
  sample: 0
"""
