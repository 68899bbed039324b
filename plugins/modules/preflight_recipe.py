#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of preflight_recipe; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_recipe
short_description: Resolve the recipe that the inventory asks for
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Resolves the recipe of the site into the run directory, so that a wrong one is found before anything is touched.
  - Builds its Kustomize components and renders its manifest files with template expressions, so that what cannot be
    installed is found, too.
  - Does nothing where no gate in scope installs a recipe.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
options:
  recipe_data:
    description: Directories with recipe data of the site; a later one wins, the collection's own comes first.
    type: list
    elements: path
    default: []
  overrides:
    description: Values of components that replace those of the recipe, by component.
    type: dict
    default: {}
  helm:
    description: The helm program, a name on PATH or a path.
    type: str
    default: helm
  chart_mirror:
    description:
      - Directory or http(s) address that holds V(<component>-<tag>.yaml) of every Kustomize component, beside
        V(<chart>-<version>.tgz) of every chart. When set, nothing else is asked.
      - Without it C(kustomize), else C(kubectl kustomize), builds the component from its Git repository.
    type: str
"""

EXAMPLES = r"""
- name: Resolve the recipe
  gpufleet.bringup.preflight_recipe:
    run_dir: "{{ gpufleet_run }}"
"""

RETURN = r"""
# Nothing beside what every module returns.
"""
