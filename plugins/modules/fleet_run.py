#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of fleet_run; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_run
short_description: Test the idle nodes of a site, those first that were never tested or not for long
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Runs one cycle. It takes stock of the nodes, builds the queue anew before every batch, looks at each node once more
    right before its test, and writes every result into the history as it comes.
  - Judges first what every host shows of its GPUs, links and kernel log, also where somebody's work is. It loads
    nothing, and takes no GPU.
  - Only nodes all of whose GPUs are free are tested. The pods of tests have a priority below that of any user and never
    evict anybody. A user's pod takes the place of a test at once; the result is then C(pending), and the node goes back
    into the queue. Nothing of a user's is ever changed.
  - Where Slurm gives the nodes work, tests are its jobs; C(docs/continuous.md) says what it needs and which tests
    these are.
  - Holds the cluster while it runs, as M(gpufleet.bringup.run_hold) does. A cycle that was ended in any way leaves
    nothing that the next one does not remove, and no test runs twice at once.
  - Fails if a result is C(failed) or C(other). C(pending) alone is said and does not fail.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.hold
  - gpufleet.bringup.secrets
attributes:
  check_mode:
    support: full
    description: Shows which nodes would be tested now, and why. Holds, runs and records nothing.
options:
  store:
    description: The history, a file that outlives the run, or the URL of a PostgreSQL database. A file is made if it
      is not there.
    type: str
    required: true
  log_dir:
    description: Where the logs of tests are kept, as C(<test>/<node>/<test>_<node>_<epoch>.log.gz).
    type: path
    required: true
  number:
    description: Which cycle of the run it is.
    type: int
    default: 1
  passive:
    description:
      - Whether what all hosts in scope show of themselves, busy or idle, is judged as well. They have to be read right
        before, by M(gpufleet.bringup.host_probe); a host that was not read, or not since the last cycle, is C(other).
      - The setting C(continuous.passive) of a site switches it off as well.
    type: bool
    default: true
  policy:
    description: What is done about nodes after the cycle, by the names of C(docs/continuous.md). Empty only reports.
    type: dict
    default: {}
  tests:
    description: Tests to run, of those that the settings enable. Empty means all of these.
    type: list
    elements: str
    default: []
  scontrol:
    description: The command C(scontrol) of this controller, where Slurm gives the nodes work. C(sbatch), C(squeue) and
      C(scancel) are taken from the same directory.
    type: str
    default: scontrol
"""

EXAMPLES = r"""
- name: Test idle nodes once
  gpufleet.bringup.fleet_run:
    run_dir: "{{ gpufleet_run }}"
    store: /var/lib/gpufleet/history.sqlite
    log_dir: /var/log/gpufleet/nodes
"""

RETURN = r"""
cycle_id:
  description: Name of the cycle in the history; empty in check mode.
  type: str
  returned: success
  sample: 20261121T101500Z-3fa2-cycle-001
plan:
  description: The queue as lines; in check mode that of now, else empty.
  type: list
  elements: str
  returned: success
  sample: ["1. gpu01: nccl_loop never tested"]
counts:
  description: How many tests of nodes ended in which of CTRF's words.
  type: dict
  returned: success
  contains:
    passed:
      description: Observed and good.
      type: int
      returned: success
      sample: 14
    failed:
      description: Observed and bad.
      type: int
      returned: success
      sample: 1
    skipped:
      description: The test says nothing about such nodes.
      type: int
      returned: success
      sample: 0
    pending:
      description: Given back to a user's workload, or not placed or not ended in its time; still to do.
      type: int
      returned: success
      sample: 1
    other:
      description: Tried, and not known.
      type: int
      returned: success
      sample: 0
failed_nodes:
  description: By node, the tests that failed or said nothing, each with its cause.
  type: dict
  returned: success
  sample: {gpu03: ["nccl_loop failed: slow-adapter"]}
notes:
  description: Why the cycle ended before nothing was due any more, and what could not be removed.
  type: list
  elements: str
  returned: success
  sample: []
actions:
  description: What the policy of the site did about nodes after the cycle.
  type: list
  elements: str
  returned: success
  sample: []
suite:
  description: The CTRF suite of the cycle; empty in check mode.
  type: str
  returned: success
  sample: /srv/.run/20261121T101500Z-3fa2/ctrf/cycle-001.json
report:
  description: The daily report of the site; empty in check mode.
  type: str
  returned: success
  sample: /srv/.run/20261121T101500Z-3fa2/continuous.html
stats:
  description: The facts of the run for C(set_stats), in the form of RV(gpufleet.bringup.run_start#module:stats).
  type: dict
  returned: success
  sample: {gpufleet_passed: true}
exit_code:
  description: 8 if a result is failed or other, else 0.
  type: int
  returned: success
  sample: 0
"""
