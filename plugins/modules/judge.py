#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of judge; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge
short_description: Compute the verdicts of a saved run again, without a cluster
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Judges the saved observations again, compares with the results that the run recorded, and decides every gate
    from its files.
  - Writes the reports of the run again, as judged now (C(report.html), C(report.md), C(report.json), C(metrics.prom)
    and C(junit/)). What the run observed and recorded stays as it is.
  - Fails if the run is not passed, or if what it recorded cannot be confirmed.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Judges and compares, and writes nothing.
"""

EXAMPLES = r"""
- name: Judge a run again
  gpufleet.bringup.judge:
    run_dir: .run/latest
"""

RETURN = r"""
verdict:
  description: The verdict of the run in one sentence.
  type: str
  returned: always
gates:
  description: The verdict of each gate as computed now, in the form of RV(gpufleet.bringup.gate#module:verdict).
  type: list
  elements: dict
  returned: always
  contains:
    gate:
      description: Id of the gate.
      type: str
      returned: always
      sample: nodes
    status:
      description: Status of the gate in the words of CTRF.
      type: str
      returned: always
      sample: passed
    message:
      description: Why, in one sentence.
      type: str
      returned: always
      sample: every declared check passed
    blocking:
      description: What holds the gate.
      type: list
      elements: dict
      returned: always
      sample: []
differences:
  description: What was recorded and cannot be confirmed.
  type: list
  elements: str
  returned: always
  sample: []
"""
