#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of recipe_diff_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_diff_info
short_description: Compare two recipes
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Resolves two recipes and returns what differs from the other one to this one.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.recipe
  - gpufleet.bringup.kubernetes
options:
  other:
    description: The other recipe, the one before. What is not given is the same as in this one.
    type: dict
    suboptions:
      criteria:
        description: Criteria of the other recipe.
        type: dict
      recipe_data:
        description: Recipe data of the other recipe, such as an older copy of the catalogue.
        type: list
        elements: path
      overrides:
        description: Overrides of the other recipe.
        type: dict
"""

EXAMPLES = r"""
- name: What differs between training and inference
  gpufleet.bringup.recipe_diff_info:
    criteria: {service: eks, accelerator: h100, intent: training, os: ubuntu}
    other:
      criteria: {service: eks, accelerator: h100, intent: inference, os: ubuntu}
"""

RETURN = r"""
msg:
  description: The difference for people, line by line.
  type: list
  elements: str
  returned: success
difference:
  description: What differs from the other recipe to this one.
  type: dict
  returned: success
  contains:
    components_added:
      description: Components of this recipe alone.
      type: list
      elements: str
      returned: always
    components_removed:
      description: Components of the other recipe alone.
      type: list
      elements: str
      returned: always
    versions:
      description: Versions that differ.
      type: list
      elements: dict
      returned: always
      contains: &values
        path:
          description: Which value.
          type: str
          returned: always
        kind:
          description: C(added), C(removed) or C(changed).
          type: str
          returned: always
        left:
          description: Its value in the other recipe, none if it was added.
          type: raw
          returned: always
        right:
          description: Its value in this recipe, none if it was removed.
          type: raw
          returned: always
    changes:
      description: All values that differ.
      type: list
      elements: dict
      returned: always
      contains: *values
same:
  description: Nothing differs.
  type: bool
  returned: success
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
