#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of wave_step; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wave_step
short_description: Take the nodes of a wave one step further
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Each step is kept in the journal of the roll before the next one begins, so a controller may die at any moment and
    the same step may be asked for again.
  - C(labels) only reads the labels of the nodes, by which a change knows who owns their parts.
  - C(drain) decides whether the wave may begin, cordons its nodes with our mark and frees them of work. Pods are
    evicted, never deleted; what is in the way is named, and its node given back untouched.
  - C(upgrade) lets the GPU operator upgrade the driver of these nodes, which stay cordoned, and waits for it. It
    answers as C(results) what C(changed) takes.
  - C(changed) keeps what became of the change and names the nodes to reboot; C(rebooted) which of them came up anew.
  - C(verify) makes a run of gate nodes for the wave. C(verify_driver), where the driver is the operator's, makes one
    of the checks that need the driver, as gate gpu_stack has them, and C(verify_fabric) one of gate fabric_validation.
    Both read the verdict before them first, and hold what did not pass. C(verified) reads the last verdict, gives back
    what passed and holds the rest. Only what we took out of service is given back.
  - C(verify_rest) holds the nodes that failed between hosts, and makes one more such run for those that could not be
    judged because of them.
  - In C(verify_fabric) and C(verify_rest) a node that is the only one of its SKU is measured with a free node in
    service, which is waited for as long as O(drain_timeout_s) says.
  - C(abort) ends the roll. What was not changed is given back, what may have been changed is held.
  - C(end) fails unless every node of the roll came back.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.waves
attributes:
  check_mode:
    support: full
    description: Step C(drain) asks the server what is in the way, and evicts nothing; the others do nothing.
  diff_mode:
    support: full
    description: Shows where the nodes stand before and after.
options:
  step:
    description: The step.
    type: str
    required: true
    choices:
      [labels, drain, upgrade, changed, rebooted, verify, verify_driver, verify_fabric, verify_rest, verified, abort,
       end]
  nodes:
    description: With C(labels), C(drain) and C(upgrade) the nodes of the wave.
    type: list
    elements: str
    default: []
  results:
    description:
      - With C(changed) and C(rebooted) by node C(problem), C(reboot), C(boot_id) and C(kernel). A node that is under
        way and not among them did not answer. With C(changed) C(kernel) is the one that the next start has to bring,
        empty where any may; with C(rebooted) the one that runs, and C(problem) says what is still not as declared.
    type: dict
    default: {}
  problems:
    description:
      - With C(drain) by node why its change would be refused, empty where nothing is in the way. Such a node stays in
        service, and is spared.
    type: dict
    default: {}
  proof:
    description:
      - With C(verify_driver), C(verify_fabric), C(verify_rest) and C(verified) the run directory that the step before
        answered with.
    type: path
    default: ""
  when_held:
    description: What to do while another run that is alive holds the cluster.
    type: str
    default: refuse
    choices: [refuse, wait]
  wait_s:
    description: With O(when_held=wait) how long to wait, seconds.
    type: float
    default: 14400
"""

EXAMPLES = r"""
- name: Give back what an interrupted roll has not changed, and hold the rest
  gpufleet.bringup.wave_step:
    run_dir: "{{ gpufleet_run }}"
    roll: driver-580
    directory: /var/lib/gpufleet/waves
    step: abort
"""

RETURN = r"""
nodes:
  description: The nodes that the next step is about, such as those to change, to reboot or to look at.
  type: list
  elements: str
  returned: success
  sample: [gpu02, gpu03]
boot_ids:
  description: By node, the boot id of the system that is to go down; with C(changed).
  type: dict
  returned: success
  sample: {gpu02: 0c2f6a9e-7c3b-4f0e-9d0a-5a6f2f1b8f11}
results:
  description: By node, C(problem), empty where the newest driver runs; with C(upgrade).
  type: dict
  returned: success
  sample: {gpu02: {problem: ""}}
labels:
  description: By node, the labels that it has in Kubernetes; with C(labels) and C(drain).
  type: dict
  returned: success
  sample: {gpu02: {nvidia.com/gpu.present: "true"}}
neighbours:
  description: With C(verify_fabric) the nodes in service that are measured with those of the wave.
  type: list
  elements: str
  returned: success
  sample: [gpu01]
proof:
  description: With C(verify), C(verify_driver) and C(verify_fabric) the directory of the run that proves the wave.
  type: str
  returned: success
  sample: /srv/gpufleet/.run/20261123T080000Z-1a2b/waves/001
states:
  description: How many nodes are where, then every node that did not simply come back, with its reason.
  type: list
  elements: str
  returned: success
  sample: ["3 returned, 1 held", "gpu03: held: not verified: gpu-ecc: GPU 2: 1 uncorrectable error"]
events:
  description: How many steps the journal has.
  type: int
  returned: outside of check mode
  sample: 21
stopped:
  description: Why no further wave begins; empty where one does.
  type: str
  returned: success
  sample: ""
stats:
  description: The facts of the run for C(set_stats), in the form of RV(gpufleet.bringup.run_start#module:stats).
  type: dict
  returned: with step C(end)
  sample: {gpufleet_passed: true}
passed:
  description: Whether every node came back.
  type: bool
  returned: with step C(end)
  sample: true
"""
