#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of clusters_run; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: clusters_run
short_description: Run a playbook over the clusters of a fleet, ring by ring
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Starts C(ansible-playbook gpufleet.bringup.PLAY) for each cluster of an inventory that
    P(gpufleet.bringup.clusters#inventory) made, as a process of its own with that cluster's inventory, variables,
    kubeconfig (or C(slurm.conf)) and directory of runs. What it prints is a log for each cluster.
  - The verdict of a cluster is that of the record of the run that its process made. One that made none, could not be
    read, was ended, or ended otherwise than its record says is C(other).
  - Clusters of a ring run side by side, so many at a time. The next ring begins while no more clusters of the rings
    before it failed or are C(other) than the budget.
  - Its state is in files. Started again after it was killed, it goes on with the clusters that have no result.
    A cluster that is asked otherwise than before is run again. It holds a lock on its directory, and each process one
    on the directory of the cluster's runs, so that a cluster is never run twice at a time.
  - Ended by SIGTERM or SIGINT it ends its processes, which remove what they made, within two minutes. They end as well
    where it is killed.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Shows the rings, and starts nothing.
options:
  play:
    description: The playbook.
    type: str
    default: site
    choices: [site, validate, drift, continuous, revalidate, waves]
  rings:
    description:
      - Rings in their order, as cluster files state them. Clusters of other rings, and of none, are the ring V(rest),
        which comes last unless it is named here. One that is the ring of no cluster is refused, except V(lab) and
        V(canary).
    type: list
    elements: str
    default: [lab, canary]
  clusters:
    description: Clusters, rings or groups of the inventory that are run. Empty means every cluster.
    type: list
    elements: str
    default: []
  concurrency:
    description: How many clusters of a ring are run at a time.
    type: int
    default: 4
  budget:
    description: How many clusters may have failed or be C(other) for the next ring to begin.
    type: int
    default: 0
  timeout_s:
    description: How long the playbook may take on one cluster, seconds.
    type: float
    default: 86400
  resume:
    description:
      - V(auto) goes on with a run over the fleet that did not come to its end, and begins one otherwise. V(failed) goes
        on with the newest, keeps what passed, and runs again what did not. V(new) begins one in any case.
    type: str
    choices: [auto, failed, new]
    default: auto
  not_passed:
    description:
      - What the task does if a cluster failed, is C(other) or was not begun. V(report) says so in C(exit_code) alone.
    type: str
    choices: [fail, report]
    default: fail
  fleet_dir:
    description: Directory of the runs over the fleet.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Validate all clusters, the lab first
  gpufleet.bringup.clusters_run:
    play: validate
    rings: [lab, canary]
    budget: 1
    fleet_dir: .run/fleet
"""

RETURN = r"""
passed:
  description: Whether every cluster passed.
  type: bool
  returned: success or failure
clusters:
  description: Every cluster that has a result.
  type: list
  elements: dict
  returned: success or failure
  contains:
    cluster:
      description: Its name.
      type: str
    ring:
      description: Its ring.
      type: str
    status:
      description:
        - How it ended, C(passed), C(failed) or C(other). C(skipped) where checks of a validation were left out by name,
          C(pending) where there was nothing to do now.
      type: str
    sentence:
      description: Its verdict.
      type: str
    gates:
      description: How many of its gates or phases opened.
      type: str
      sample: 8 of 8
    uid:
      description: UID of its namespace kube-system, where it was read.
      type: str
    run_dir:
      description: Directory of its run.
      type: str
    log:
      description: What its playbook printed.
      type: str
    started:
      description: When it was started (RFC 3339).
      type: str
    ended:
      description: When it had ended (RFC 3339).
      type: str
    asked:
      description: Digest of what it was asked.
      type: str
not_begun:
  description: Clusters without a result, because the budget was exceeded.
  type: list
  elements: str
  returned: success or failure
fleet_run:
  description: Directory of this run over the fleet. C(fleet.json) in it has the state.
  type: str
  returned: success or failure, not in check mode
stats:
  description: What the next node of a workflow gets.
  type: dict
  returned: success or failure
  contains:
    gpufleet_verdict:
      description: The decision in one sentence.
      type: str
    gpufleet_passed:
      description: Whether every cluster passed.
      type: bool
    gpufleet_exit_code:
      description: 0, or 8 if a cluster failed, is other or was not begun.
      type: int
    gpufleet_report:
      description: The file of the results.
      type: str
exit_code:
  description: 0, 2 for input, 8 if a cluster failed, is other or was not begun, 9 if it was ended.
  type: int
  returned: always
  sample: 0
"""
