#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of facility_record; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: facility_record
short_description: Draft the facility record of a room from the inventory
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Computes from the SKU facts what the hosts of every rack draw, shed and weigh.
  - Writes a record draft with these needs as comments.
  - The room's owner writes what the room grants, completes the draft and signs it with C(ssh-keygen -Y sign).
  - A draft that is not completed is refused by gate facility.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Computes the draft and writes nothing.
  diff_mode:
    support: full
    description: Shows the draft.
options:
  path:
    description: Where the record is. Evidence lies beside it or below. By default C(facility.record) of O(settings).
    type: path
  settings:
    description: Settings of the site, as in the variable C(gpufleet_settings). Those of the inventory count beneath.
    type: dict
    default: {}
  state:
    description: V(drafted) writes a draft; V(found) only answers where the record is, to sign it.
    type: str
    choices: [drafted, found]
    default: drafted
  site_name:
    description: Name of the site, as in the variable C(gpufleet_site_name).
    type: str
    required: true
  signed_by:
    description: Who will sign, a principal of the allowed signers. Needed for a draft.
    type: str
  valid_days:
    description: Days for which the record holds.
    type: int
    default: 365
  group:
    description: Group of the GPU hosts.
    type: str
    default: gpu_nodes
  budgets:
    description: Budgets already named by the owner, rack to C(power_kw), C(cooling_kw) and C(floor_load_kg).
    type: dict
    default: {}
  pdus:
    description: Names of the power distribution units by rack; they are written as not energized.
    type: dict
    default: {}
  evidence:
    description: Files that back the record.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path relative to the record's directory.
        type: str
        required: true
      what:
        description: What the file shows.
        type: str
        required: true
  recipe_data:
    description: Private recipe directories with more hardware facts, later ones win.
    type: list
    elements: path
    default: []
  force:
    description: Replace a record that is already there.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Draft the record
  gpufleet.bringup.facility_record:
    path: "{{ inventory_dir }}/facility/record.yaml"
    site_name: example
    signed_by: facility@example.org
    pdus:
      rack-a1: [pdu-a1-left, pdu-a1-right]
    evidence:
      - path: evidence/load-bank-test.txt
        what: load bank test of the feeds
"""

RETURN = r"""
closing_lines:
  description: Where the draft is and what to do with it, printed as the last lines of the playbook.
  type: list
  elements: str
  returned: when it was drafted
  sample: ["record   facility/record.yaml"]
path:
  description: The draft, or the record.
  type: str
  returned: success
sign_command:
  description: The command that signs it.
  type: str
  returned: success
  sample: ssh-keygen -Y sign -f KEY -n gpufleet-facility facility/record.yaml
"""
