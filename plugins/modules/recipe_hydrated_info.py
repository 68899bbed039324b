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
  - gpufleet.bringup.kubernetes
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
    apiVersion:
      description: Version of the form of the document.
      type: str
      returned: always
    kind:
      description: Always C(RecipeResult).
      type: str
      returned: always
      sample: RecipeResult
    criteria:
      description: By criterion, the value that it was resolved for, C(any) if none.
      type: dict
      returned: always
    metadata:
      description: How it came about.
      type: dict
      returned: always
      contains:
        appliedOverlays:
          description: The layers, lowest precedence first.
          type: list
          elements: str
          returned: always
        appliedMixins:
          description: The mixins.
          type: list
          elements: str
          returned: if there are any
        profiles:
          description: By name of a profile, the one that applies.
          type: dict
          returned: if there are any
        disabled:
          description: The components that are switched off.
          type: list
          elements: str
          returned: if there are any
    componentRefs:
      description: >-
        Every component that is switched on. Besides what follows each has C(values), by option of the chart the value
        that comes out of its file and all overrides.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the component.
          type: str
          returned: always
        source:
          description: Repository of its chart or of its manifests.
          type: str
          returned: always
        namespace:
          description: Where it is installed.
          type: str
          returned: if stated
        type:
          description: C(Helm) or C(Kustomize).
          type: str
          returned: if stated
        chart:
          description: Its chart.
          type: str
          returned: if stated
        version:
          description: Version of the chart.
          type: str
          returned: if stated
        tag:
          description: Tag of what Kustomize builds.
          type: str
          returned: if stated
        path:
          description: Directory of what Kustomize builds.
          type: str
          returned: if stated
        valuesFile:
          description: File of the catalogue with its values.
          type: str
          returned: if stated
        overrides:
          description: By option of the chart, the value that the layers state.
          type: dict
          returned: if stated
        patches:
          description: Patches for Kustomize.
          type: list
          elements: str
          returned: if stated
        dependencyRefs:
          description: Components that are installed before.
          type: list
          elements: str
          returned: always
        preManifestFiles:
          description: Files that are applied before the chart.
          type: list
          elements: str
          returned: if stated
        manifestFiles:
          description: Files that are applied after it.
          type: list
          elements: str
          returned: if stated
        manifests:
          description: The text of these files.
          type: list
          elements: dict
          returned: if stated
          contains:
            when:
              description: C(before) or C(after) the chart.
              type: str
              returned: always
            file:
              description: Name of the file.
              type: str
              returned: always
            text:
              description: What is in it.
              type: str
              returned: always
        cleanup:
          description: Whether its namespace is cleaned up.
          type: bool
          returned: if stated
        expectedResources:
          description: By field of a reference (C(kind), C(namespace) and C(name)), the objects that have to be there.
          type: list
          elements: dict
          returned: if stated
        healthCheckAsserts:
          description: What upstream's tool asserts of it.
          type: str
          returned: if stated
        healthCheckSkip:
          description: Whether upstream's tool skips that.
          type: bool
          returned: if stated
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
      contains:
        name:
          description: The measurement.
          type: str
          returned: always
        value:
          description: What it must satisfy.
          type: str
          returned: always
        severity:
          description: C(warning) where it does not hold the recipe.
          type: str
          returned: if it is no error
        remediation:
          description: What to do if it is not met.
          type: str
          returned: if stated
        unit:
          description: Its unit.
          type: str
          returned: if stated
        nodes:
          description: Of how many nodes it is asked.
          type: str
          returned: if stated
    validation:
      description: By phase of a validation, what the layers state of it (C(timeout), C(constraints), C(checks)).
      type: dict
      returned: if the layers state any
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
