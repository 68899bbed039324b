#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of recipe_hydrated_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_hydrated_info
short_description: Return a recipe with the merged chart values of every component
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Returns the resolved recipe as an installer reads it, and writes nothing. M(gpufleet.bringup.recipe) writes the same
    to O(gpufleet.bringup.recipe#module:hydrated_dest).
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.recipe
"""

EXAMPLES = r"""
- name: Read the recipe with all values
  gpufleet.bringup.recipe_hydrated_info:
    criteria: {service: kind, accelerator: a100}
  register: __hydrated
"""

RETURN = r"""
recipe:
  description: The recipe as a document of kind C(RecipeResult).
  type: dict
  returned: success
  contains:
    criteria:
      description: The criteria that it was resolved for.
      type: dict
      returned: always
    metadata:
      description: The layers and mixins that were applied, and the components that are switched off.
      type: dict
      returned: always
    componentRefs:
      description: Every component with its C(values) and the text of its C(manifests).
      type: list
      elements: dict
      returned: always
    deploymentOrder:
      description: The components in the order in which they are installed.
      type: list
      elements: str
      returned: always
    constraints:
      description: What the cluster must satisfy.
      type: list
      elements: dict
      returned: always
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
