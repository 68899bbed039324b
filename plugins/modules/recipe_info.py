#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of recipe_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_info
short_description: Look up a value of a recipe
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Resolves the recipe and returns the value that O(selector) names.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.recipe
  - gpufleet.bringup.kubernetes
options:
  selector:
    description:
      - Dotted path of a value, such as C(components.gpu-operator.values.driver.version). Keys with dots are quoted,
        list indices are in brackets.
      - Empty means the whole recipe, its components by name with their merged chart values.
    type: str
    default: ""
  driver_owner:
    description:
      - Who installs the GPU driver, C(gpufleet_driver_owner). What a run lays over the recipe for it counts as its last
        layer.
      - Without it the recipe is asked as its layers and O(overrides) make it.
    type: str
    choices: [host, operator]
"""

EXAMPLES = r"""
- name: Look up one value
  gpufleet.bringup.recipe_info:
    criteria: {service: kind, accelerator: a100}
    selector: components.gpu-operator.version
"""

RETURN = r"""
value:
  description: The value; secrets in it are masked by their keys.
  type: raw
  returned: success
  sample: v26.7.0
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
