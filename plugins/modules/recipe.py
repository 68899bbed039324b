#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the verb recipe; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe
short_description: Resolve, ask, explain, compare and list recipes
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Resolves the recipe for a kind of cluster, which is the components, versions, chart values, constraints and checks
    that belong on it.
  - Reads the catalogue of this collection with private directories over it, or an unmodified recipe tree of the
    NVIDIA AI Cluster Runtime.
  - No cluster is touched.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Writes no file and says whether one would change.
  diff_mode:
    support: full
    description: Shows the old and new content of the files.
options:
  command:
    description:
      - V(resolve) resolves the recipe and writes it to O(dest), O(hydrated_dest) and O(run_dir), if they are given.
      - V(query) returns the value that O(selector) names.
      - V(explain) tells which layers set that value and what each replaced; without O(selector), the chain of the
        layers.
      - V(diff) compares the recipe with the one of O(other).
      - V(list) returns what the catalogue supports beside O(criteria), its components and its criteria values.
      - V(hydrate) returns the recipe with the merged chart values of every component and writes nothing.
    type: str
    choices: [resolve, query, explain, diff, list, hydrate]
    default: resolve
  criteria:
    description:
      - What kind of cluster it is, such as C(service), C(accelerator), C(intent), C(os), C(platform), C(fabric),
        C(nvlink_domain).
      - At least one must be stated, except for V(list).
    type: dict
    default: {}
  recipe_data:
    description:
      - Directories of private recipe data, laid over the catalogue of this collection; a later one wins.
      - A directory with a C(overlays/base.yaml) of its own stands alone, with those after it.
    type: list
    elements: path
    default: []
  pools:
    description:
      - Several pools of GPU nodes in one cluster. The recipe then has a part for each pool, and O(criteria) holds for
        all of them.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the pool.
        type: str
        required: true
      criteria:
        description: Criteria of this pool.
        type: dict
        default: {}
      node_selector:
        description: Labels of its nodes.
        type: dict
        default: {}
  facts:
    description:
      - Facts of a running cluster. Criteria that are not stated are read off them, each with its evidence.
      - A stated criterion wins; a warning says if the cluster says something else.
    type: dict
    suboptions:
      server_version:
        description: Version of the API server.
        type: str
        default: ""
      nodes:
        description: The nodes.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the node.
            type: str
            required: true
          gpus:
            description: Number of its GPUs.
            type: int
            default: 0
          gpu_product:
            description: Product name of its GPUs, as GPU Feature Discovery labels it.
            type: str
            default: ""
          os_id:
            description: C(ID) of its C(/etc/os-release).
            type: str
            default: ""
          provider_id:
            description: C(spec.providerID).
            type: str
            default: ""
          instance_type:
            description: Instance type of the cloud.
            type: str
            default: ""
          labels:
            description: Its labels.
            type: dict
            default: {}
          resources:
            description: Names of its allocatable resources.
            type: list
            elements: str
            default: []
          link_layers:
            description: Link layers of its network adapters, such as C(InfiniBand).
            type: list
            elements: str
            default: []
  profiles:
    description: Chosen values of the profiles that layers leave to the user, such as who owns the driver.
    type: dict
    default: {}
  overrides:
    description: Chart values by component, over those of every layer. C(enabled=false) leaves a component out.
    type: dict
    default: {}
  set:
    description: The same as C(component:path=value), typed as in YAML.
    type: list
    elements: str
    default: []
  check_overrides:
    description: Refuse overrides that the component is not known to have, or of another type.
    type: bool
    default: true
  unsupported:
    description: >-
      What to do if no layer honours one of the criteria. With V(warn) less specific layers are used and a warning
      says so.
    type: str
    choices: [error, warn]
    default: error
  selector:
    description:
      - Dotted path of a value, such as C(components.gpu-operator.values.driver.version). Keys with dots are quoted,
        list indices are in brackets.
      - Empty means everything.
    type: str
    default: ""
  other:
    description: The other side of V(diff). What is not given is the same as on this side.
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
  dest:
    description: File for the resolved recipe, YAML, or JSON if its name ends so. The NVIDIA tool reads it, too.
    type: path
  hydrated_dest:
    description: File for the recipe with the merged chart values of every component.
    type: path
  self_contained:
    description: Put all chart values into the recipe's overrides, for a tool that does not have this catalogue.
    type: bool
    default: false
  run_dir:
    description: Directory of a run; the hydrated recipe becomes its C(recipe.json).
    type: path
"""

EXAMPLES = r"""
- name: Resolve
  gpufleet.bringup.recipe:
    criteria:
      service: generic
      accelerator: h100
      intent: training
      os: ubuntu
      platform: volcano
    dest: recipe.yaml

- name: Ask for one value
  gpufleet.bringup.recipe:
    command: query
    criteria: {service: kind, accelerator: a100}
    selector: components.gpu-operator.version

- name: Where does it come from
  gpufleet.bringup.recipe:
    command: explain
    criteria: {service: kind, accelerator: a100}
    selector: components.gpu-operator.values.driver.enabled

- name: What differs between training and inference
  gpufleet.bringup.recipe:
    command: diff
    criteria: {service: eks, accelerator: h100, intent: training, os: ubuntu}
    other:
      criteria: {service: eks, accelerator: h100, intent: inference, os: ubuntu}
"""

RETURN = r"""
recipe:
  description: Criteria, applied overlays and mixins, component versions, deployment order and constraints.
  type: dict
  returned: resolve
detection:
  description: For each criterion its value, who said so and the evidence; and the pools if the GPU nodes differ.
  type: dict
  returned: resolve with facts
files:
  description: The files that were written, or would be in check mode.
  type: list
  elements: str
  returned: resolve
value:
  description: The value that was asked for, or the hydrated recipe.
  type: raw
  returned: query, hydrate
explanation:
  description: The value, the chains of layers, and the layers that set it with what each replaced.
  type: dict
  returned: explain
difference:
  description: Components added and removed, versions and values that differ.
  type: dict
  returned: diff
same:
  description: Nothing differs.
  type: bool
  returned: diff
listing:
  description:
    - The number of all supported combinations, the values that each service is supported with (two of one row need not
      go together), the combinations that a layer is for, components and criteria values.
  type: dict
  returned: list
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
