#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of burn_in; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burn_in
short_description: Load hosts for hours, test after test, and judge what that left
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Step V(soak) runs the tests of nodes on all hosts at once, round after round, until each host was under load as long
    as the setting C(burn-in-soak.hours) says. Every result is written before the next step begins; the same command
    goes on with a run that was interrupted. A host on which a test failed is left alone from then on.
  - Step V(decide) judges the rounds, and what errors grew between the readings of the hosts before and after, writes
    the results of phase C(burn_in) and fails unless every host in scope passed.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.hold
  - gpufleet.bringup.secrets
attributes:
  check_mode:
    support: full
    description: Says which tests would be run on how many hosts and for how long. Holds, runs and decides nothing.
options:
  step:
    description: What to do.
    type: str
    required: true
    choices: [soak, decide]
  log_dir:
    description: Where logs of tests that did not pass are kept, as C(<test>/<node>/<test>_<node>_<epoch>.log.gz).
    type: path
    required: true
  tests:
    description: Tests of a round, of those that the settings enable. Empty means all of these.
    type: list
    elements: str
    default: []
  nodes:
    description: Hosts to load, of those in scope; the others are set aside in this run. Empty means all.
    type: list
    elements: str
    default: []
  started:
    description: >-
      With O(step=decide) the directory of the run that was started for it, where O(run_dir) is that of an older one in
      which the burn-in goes on. Its report says the same.
    type: path
"""

EXAMPLES = r"""
- name: Load the hosts
  gpufleet.bringup.burn_in:
    run_dir: "{{ gpufleet_run }}"
    step: soak
    log_dir: /var/log/gpufleet/nodes
"""

RETURN = r"""
hours:
  description: By host, how long tests that passed have loaded it, in hours.
  type: dict
  returned: success
  sample: {gpu01: 24.02, gpu02: 3.5}
rounds:
  description: How many rounds were made.
  type: int
  returned: success
note:
  description: Why it ended before the hours were over; empty if it did not.
  type: str
  returned: success
leftovers:
  description: What could not be removed from the cluster; empty if everything was.
  type: list
  elements: str
  returned: success
passed:
  description: Whether every host in scope passed; only with O(step=decide).
  type: bool
  returned: success
verdict:
  description: >-
    The verdict of phase C(burn_in), in the form of RV(gpufleet.bringup.gate#module:verdict); empty with
    O(step=soak).
  type: dict
  returned: success
stats:
  description: The facts of the run for C(set_stats), in the form of RV(gpufleet.bringup.run_start#module:stats).
  type: dict
  returned: with O(step=decide), and in check mode
  sample: {gpufleet_passed: true}
run_id:
  description: Name of the run in which the burn-in is.
  type: str
  returned: with O(step=decide)
  sample: 20261121T101500Z-3fa2
run_dir:
  description: Directory of that run.
  type: str
  returned: with O(step=decide)
  sample: /srv/acceptance/.run/20261121T101500Z-3fa2
exit_code:
  description: 0, 2 for wrong input, 8 if a host did not pass.
  type: int
  returned: always
  sample: 0
"""
