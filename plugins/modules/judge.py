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
  - With settings that differ from those of the run, it judges a second time by them and shows that as a what-if, in a
    directory of its own. The run, its verdict and the result of this module stay as they are.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Judges and compares, and writes nothing; a what-if is left out.
options:
  settings:
    description:
      - Settings by check id or gate id for a what-if; C(docs/reference/settings.md) lists them all.
      - Those that say how a gate looks are named and not applied, because the run has looked already.
    type: dict
    default: {}
  set:
    description: Single settings for a what-if as C(check.option=value), over O(settings).
    type: list
    elements: str
    default: []
  thresholds:
    description:
      - Whether the what-if takes the thresholds that were saved with the run, or those of now, from
        C(recipes/thresholds) and from O(recipe_data).
    type: str
    choices: [saved, current]
    default: saved
  recipe_data:
    description: Private recipe directories; their C(thresholds) count for O(thresholds=current).
    type: list
    elements: path
    default: []
  what_if_dir:
    description: Empty directory for the what-if. By default a new one below C(what-if) beside the run.
    type: path
"""

EXAMPLES = r"""
- name: Judge a run again
  gpufleet.bringup.judge:
    run_dir: .run/latest

- name: Ask what a lower target for MFU would have said
  gpufleet.bringup.judge:
    run_dir: .run/latest
    set: [training_acceptance.mfu=0.3]
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
      description: What holds the gate, in the form of RV(gpufleet.bringup.gate#module:verdict.blocking).
      type: list
      elements: dict
      returned: always
      sample: []
phases:
  description: The verdict of each phase of a validation as computed now, in the form of RV(gates).
  type: list
  elements: dict
  returned: always
  contains:
    gate:
      description: Id of the phase.
      type: str
      returned: always
      sample: readiness
    status:
      description: Status of the phase in the words of CTRF.
      type: str
      returned: always
      sample: passed
    message:
      description: Why, in one sentence.
      type: str
      returned: always
      sample: every declared check passed
differences:
  description: What was recorded and cannot be confirmed.
  type: list
  elements: str
  returned: always
  sample: []
closing_lines:
  description: What differs, the verdict and the report, printed as the last lines of the playbook.
  type: list
  elements: str
  returned: success
  sample: ["verdict  passed for nodes"]
what_if:
  description: The second judgement, by other settings than those of the run.
  type: dict
  returned: if settings differ
  contains:
    verdict:
      description: Its verdict in one sentence, which begins with C(WHAT IF).
      type: str
      returned: always
    gates:
      description: The verdict of each gate, in the form of RV(gpufleet.bringup.gate#module:verdict).
      type: list
      elements: dict
      returned: always
    settings:
      description: The settings that differ, with what they were.
      type: list
      elements: str
      returned: always
    results:
      description: The results that differ from the recorded ones.
      type: list
      elements: str
      returned: always
    run_dir:
      description: Directory with its reports.
      type: str
      returned: always
"""
