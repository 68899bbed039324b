#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of rehearsal_faults; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_faults
short_description: Break and mend the simulated hardware of a rehearsal that is up
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Sets and lifts faults of a rehearsal. Its operators, pods, exporters and BMCs, and the tools of its hosts, show the
    change when the module ends.
  - Faults in what a rehearsal reads, signs or builds when it starts (cables and subnet managers, the record of the
    room, charts, the nodes of the cluster) are refused by name.
  - Without O(set) and O(lift) it prints every fault that there is, and those of the rehearsal.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: none
    description: It changes a simulation alone.
options:
  directory:
    description: Directory of the rehearsal.
    type: path
    required: true
  set:
    description: Faults to set, by id and subject, or files that describe faults.
    type: list
    elements: str
    default: []
  lift:
    description: Faults to lift, by id, or by id and subject. V(all) lifts all.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Take a GPU away
  gpufleet.rehearsal.rehearsal_faults:
    directory: .run/rehearsal
    set: [gpu-missing@gpu03/gpu5]

- name: Mend everything
  gpufleet.rehearsal.rehearsal_faults:
    directory: .run/rehearsal
    lift: [all]
"""

RETURN = r"""
faults:
  description: Faults that the rehearsal has now, each with its subject.
  type: list
  elements: str
  returned: success
  sample: ["gpu-missing@gpu03/gpu5"]
set:
  description: Those of them that were set.
  type: list
  elements: str
  returned: success
  sample: ["gpu-missing@gpu03/gpu5"]
lifted:
  description: Faults that were lifted.
  type: list
  elements: str
  returned: success
  sample: ["xid-79@gpu01/gpu0"]
closing_lines:
  description: What is printed when the playbook ends, the faults that were set and lifted, or all that there are.
  type: list
  elements: str
  returned: success
"""
