#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of baseline_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: baseline_info
short_description: Tell what is accepted for a site, and how a run compares with it or with another run
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Without O(run_dir) lists every acceptance of a site, those that were taken back too.
  - With O(run_dir) compares the figures of that run with what is accepted now, or with those of the run O(before).
  - Where nothing is published of what the run measured, tells the median of the hosts, how they differ, and the
    setting by which a person accepts it.
  - Tells each kind of figure, and each figure that was not compared with the reason. Decides nothing.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
options:
  store:
    description: The history of the runs. Not needed with O(before).
    type: path
  site_name:
    description: Which site. With O(run_dir) it is that of the run.
    type: str
    default: cluster
  rehearsal:
    description: Whether to list what was accepted of rehearsals. With O(run_dir) the run says it.
    type: bool
    default: false
  run_dir:
    description: Directory of a run to compare.
    type: path
  before:
    description: Directory of an earlier run to compare O(run_dir) with, accepted or not.
    type: path
"""

EXAMPLES = r"""
- name: What was accepted, by whom and why
  gpufleet.bringup.baseline_info:
    site_name: island-1
    store: .run/history.sqlite

- name: What the new driver did
  gpufleet.bringup.baseline_info:
    run_dir: .run/20261123T101500Z-3fa2
    before: .run/20261121T101500Z-91bc
"""

RETURN = r"""
msg:
  description: Everything for people, line by line.
  type: list
  elements: str
  returned: success
  sample: ["mfu: as good; 1 compared, worst island-1 -0.4% (42.1 -> 41.9 %)"]
accepted:
  description: Every acceptance, the oldest first; empty with O(before).
  type: list
  elements: dict
  returned: success
  contains:
    number:
      description: Its number.
      type: int
      returned: always
    run_id:
      description: The run that was accepted.
      type: str
      returned: always
    gates:
      description: Of which gates.
      type: str
      returned: always
      sample: fabric_validation, training_acceptance
    who:
      description: Who accepted it.
      type: str
      returned: always
    accepted:
      description: When, in UTC.
      type: str
      returned: always
    why:
      description: Why.
      type: str
      returned: always
    figures:
      description: How many figures.
      type: int
      returned: always
    withdrawn:
      description: When it was taken back, empty if it holds.
      type: str
      returned: always
compared:
  description: Every figure that could be compared.
  type: list
  elements: dict
  returned: success
  contains:
    figure:
      description: Which kind of figure (C(recipes/figures.yaml)).
      type: str
      returned: always
      sample: intra-node-busbw
    subject:
      description: Whose it is.
      type: str
      returned: always
      sample: gpu07
    before:
      description: The accepted value.
      type: float
      returned: always
    now:
      description: The value of the run.
      type: float
      returned: always
    unit:
      description: Their unit.
      type: str
      returned: always
      sample: GB/s
    change:
      description: By which part it got better; below zero it is worse, whichever way the figure counts.
      type: float
      returned: always
      sample: -0.021
worse:
  description: The kinds of figures of which anything was lost, by the limits of the run.
  type: list
  elements: str
  returned: success
  sample: [intra-node-busbw]
software:
  description:
    - What other software did to kinds of figures, the same subjects before and after it. They are not compared with
      limits, and nobody is named for what all lost.
  type: list
  elements: dict
  returned: success
  contains:
    figure:
      description: Which kind of figure.
      type: str
      returned: always
      sample: intra-node-busbw
    software:
      description: What changed.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Which software.
          type: str
          returned: always
        before:
          description: Its version before.
          type: str
          returned: always
        now:
          description: Its version now.
          type: str
          returned: always
    effect:
      description:
        - C(loss) is a regression of the software. With C(part) too many lost to be single faults, and others did not.
        - C(gain), C(unchanged), or C(unknown) for too few, and for what chance may do.
      type: str
      returned: always
      sample: loss
    change:
      description: The change of the median; below zero it is worse.
      type: float
      returned: always
      sample: -0.081
    chance:
      description: How likely chance alone does as much (signed rank test).
      type: float
      returned: always
      sample: 0.00003
    subjects:
      description: How many subjects were measured before and after.
      type: int
      returned: always
      sample: 16
    lost_more:
      description: Who lost more than the others did.
      type: list
      elements: str
      returned: always
      sample: [gpu05]
proposed:
  description: By which settings a person would accept figures of the run that nothing is published of.
  type: list
  elements: dict
  returned: success
  contains:
    gate:
      description: The gate that measured it, whose setting it is.
      type: str
      returned: always
      sample: inference_acceptance
    setting:
      description: The setting.
      type: str
      returned: always
      sample: slo.throughput_per_gpu
    value:
      description: Its value, of a latency a fifth more than the median.
      type: float
      returned: always
      sample: 4120
    sku:
      description: The SKU of the hosts.
      type: str
      returned: always
      sample: hgx-l40s
    unit:
      description: The unit of all values.
      type: str
      returned: always
      sample: tokens/s
    median:
      description: What was measured, the median.
      type: float
      returned: always
    least:
      description: The least of it.
      type: float
      returned: always
    most:
      description: The most of it.
      type: float
      returned: always
    deviation:
      description: The standard deviation of it, as a part of the median.
      type: float
      returned: always
      sample: 0.006
    measured:
      description: How many values these are.
      type: int
      returned: always
      sample: 8
rehearsal:
  description: Whether what was compared or listed is of a rehearsal.
  type: bool
  returned: success
exit_code:
  description: 0, 2 for wrong input, 3 for what is not there.
  type: int
  returned: always
  sample: 0
"""
