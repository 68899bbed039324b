#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of recipe_catalogue_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe_catalogue_info
short_description: List what the recipe catalogue supports
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Returns the supported combinations of criteria, the components and the criteria values of the catalogue.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
options:
  criteria:
    description: Returns only what is supported beside these criteria. Empty means everything.
    type: dict
    default: {}
  recipe_data:
    description:
      - Directories of private recipe data, laid over the catalogue of this collection; a later one wins.
      - A directory with a C(overlays/base.yaml) of its own stands alone, with those after it.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: What is supported with EFA
  gpufleet.bringup.recipe_catalogue_info:
    criteria: {fabric: efa}
"""

RETURN = r"""
msg:
  description: The listing for people, line by line.
  type: list
  elements: str
  returned: success
listing:
  description: What the catalogue supports.
  type: dict
  returned: success
  contains:
    supported:
      description: The number of all supported combinations.
      type: int
      returned: always
    matching:
      description: How many of these have O(criteria).
      type: int
      returned: always
    environments:
      description: >-
        For each service, by criterion the values that it is supported with. Two values of one row need not go
        together.
      type: list
      elements: dict
      returned: always
    combinations:
      description: The combinations that a layer is for.
      type: list
      elements: dict
      returned: always
      contains:
        criteria:
          description: By criterion, the value.
          type: dict
          returned: always
        overlays:
          description: The most specific layers that apply.
          type: list
          elements: str
          returned: always
    components:
      description: Every component.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Its name.
          type: str
          returned: always
        chart:
          description: Its chart, empty where it has none.
          type: str
          returned: always
        version:
          description: Version of the chart; of one that Kustomize builds, the tag.
          type: str
          returned: always
        source:
          description: Repository of the chart or of the manifests.
          type: str
          returned: always
    criteria:
      description: By criterion, the values that a supported combination has.
      type: dict
      returned: always
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
