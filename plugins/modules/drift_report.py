#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of drift_report; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_report
short_description: Write one report of what changed of a cluster and of what it reaches
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Joins what M(gpufleet.bringup.drift_info) and M(gpufleet.bringup.baseline_info) found, and writes a page and metrics
    for Prometheus' textfile collector. The alerts are in C(recipes/monitoring/drift-rules.yaml).
  - Says whether anybody has to look at it. Figures of which not one could be compared count as such.
  - Where only one of the two snapshots has hosts (or another part), the verdict says that they were not compared, and
    C(gpufleet_passed) is false; RV(matters) is as without them.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Tells everything and writes nothing.
options:
  snapshot:
    description: The result of M(gpufleet.bringup.drift_info), whole.
    type: dict
    required: true
  figures:
    description: The result of M(gpufleet.bringup.baseline_info) of a run, whole. Empty if no run was compared.
    type: dict
    default: {}
  hosts_run:
    description: Directory of the run from which the later snapshot has its hosts. Empty if it has none of a run.
    type: str
    default: ""
  site_name:
    description: Name of the site, for the report and the label of its metrics.
    type: str
    default: cluster
  rehearsal:
    description: Whether the cluster is a rehearsal. Nobody is called for one.
    type: bool
    default: false
  dest:
    description: Directory for C(drift.md) and C(drift.prom).
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Has anything changed since the acceptance
  gpufleet.bringup.drift_info:
    before: accepted.json
  register: snapshot

- name: Does it still reach what was accepted
  gpufleet.bringup.baseline_info:
    run_dir: .run/latest
    store: .run/history.sqlite
  register: figures

- name: Tell both
  gpufleet.bringup.drift_report:
    snapshot: "{{ snapshot }}"
    figures: "{{ figures }}"
    site_name: island-1
    dest: /var/lib/node_exporter/textfile
  register: drift
  failed_when: drift.matters | default(true)
"""

RETURN = r"""
msg:
  description: The report for people, line by line; first why somebody has to look at it.
  type: list
  elements: str
  returned: success
  sample: ["figures: intra-node-busbw is worse than accepted"]
matters:
  description: Whether anybody has to look at it.
  type: bool
  returned: success
reasons:
  description: Why, a sentence each.
  type: list
  elements: str
  returned: success
stats:
  description: The verdict for C(set_stats), in the form of RV(gpufleet.bringup.run_start#module:stats).
  type: dict
  returned: success
  sample: {gpufleet_passed: true, gpufleet_verdict: "drift of island-1: nothing that matters changed"}
closing_lines:
  description: The verdict and the path of the page, which are printed when the playbook ends.
  type: list
  elements: str
  returned: success
files:
  description: Where it was written; in check mode, where it would be.
  type: dict
  returned: success
  contains:
    markdown:
      description: The page.
      type: str
      returned: always
    metrics:
      description: The metrics.
      type: str
      returned: always
exit_code:
  description: 0, 2 for what is no result of those modules.
  type: int
  returned: always
  sample: 0
"""
