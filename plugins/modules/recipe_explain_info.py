#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of recipe_explain_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_explain_info
short_description: Explain which layers set a value of a recipe
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Names the layers that set the value of O(selector), and what each replaced.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.recipe
  - gpufleet.bringup.kubernetes
options:
  selector:
    description:
      - Dotted path of a value, such as C(components.gpu-operator.values.driver.version). Keys with dots are quoted,
        list indices are in brackets.
      - Empty means the chain of the layers.
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
- name: Ask where a value comes from
  gpufleet.bringup.recipe_explain_info:
    criteria: {service: kind, accelerator: a100}
    selector: components.gpu-operator.values.driver.enabled

- name: Ask the same of a site whose hosts have the driver, as a run installs it
  gpufleet.bringup.recipe_explain_info:
    criteria: {service: generic, accelerator: h100, os: ubuntu, intent: training}
    selector: components.gpu-operator.values.driver.enabled
    driver_owner: host
"""

RETURN = r"""
msg:
  description: The explanation as lines for a person.
  type: list
  elements: str
  returned: success
explanation:
  description: The same as data.
  type: dict
  returned: success
  contains:
    path:
      description: The value that was asked for.
      type: str
      returned: always
      sample: components.gpu-operator.version
    value:
      description: What it is.
      type: raw
      returned: always
      sample: v26.7.0
    chains:
      description: The layers from the root to each that matches.
      type: list
      elements: list
      returned: always
    mixins:
      description: The mixins that the layers name.
      type: list
      elements: str
      returned: always
    origins:
      description: The layers that set it, the last of which decided.
      type: list
      elements: dict
      returned: always
      contains:
        layer:
          description: Name of the layer.
          type: str
          returned: always
        file:
          description: Its file, empty for what is built in.
          type: str
          returned: always
        value:
          description: What it set.
          type: raw
          returned: always
        replaced:
          description: What was there before, none in the first.
          type: raw
          returned: always
        first:
          description: Whether nothing was there before.
          type: bool
          returned: always
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
