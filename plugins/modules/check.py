#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of check; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check
short_description: Observe what a gate's declared checks judge
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Lets every observer that a declared check of the gate needs look once, and saves what it saw in the run directory.
  - It does not judge. An observer that fails is saved as such, and every check that needs it becomes C(other).
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.gate
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.secrets
options:
  store:
    description:
      - File of the history (SQLite), made if it is not there. Before anything is looked at, it notes that the gate
        began. A gate that is not recorded afterwards counts as not passed when a later run starts in the middle.
      - A history that cannot be written ends the task before anything is looked at.
    type: path
  part_of:
    description:
      - Directory of the run that O(run_dir) is a part of, as the proof of a wave is. That run holds the cluster.
    type: path
  roll:
    description:
      - Name of the roll whose nodes are tested. Nodes that this roll cordoned are open to the pods of tests, nodes that
        anybody else cordoned are not.
    type: str
    default: ""
  scontrol:
    description:
      - The command C(scontrol) of this controller, where Slurm gives the nodes work. Its other commands lie beside it.
    type: str
    default: scontrol
attributes:
  check_mode:
    support: partial
    description: Observers that would make test pods or jobs do not look in check mode. Every gate is gone through.
"""

EXAMPLES = r"""
- name: Observe
  gpufleet.bringup.check:
    run_dir: "{{ gpufleet_run }}"
    gate: nodes
"""

RETURN = r"""
observations:
  description: Keys of the observations made.
  type: list
  elements: str
  returned: success
  sample: [hosts]
not_observed:
  description: By key of an observation that failed, the reason.
  type: dict
  returned: success
  sample: {}
"""
