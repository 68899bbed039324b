#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of recipe; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe
short_description: Resolve the recipe for a kind of cluster and write it
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Resolves which components, versions, chart values, constraints and checks belong on a kind of cluster, and writes
    that to O(dest), O(hydrated_dest) and O(run_dir), if they are given.
  - Reads the catalogue of this collection with private directories over it, or an unmodified recipe tree of the
    NVIDIA AI Cluster Runtime.
  - No cluster is changed; one is only read where O(snapshot) says so.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.recipe
  - gpufleet.bringup.kubernetes
attributes:
  check_mode:
    support: full
    description: Writes no file and says whether one would change.
  diff_mode:
    support: full
    description: Shows the old and new content of the files.
options:
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
  dest:
    description:
      - File for the resolved recipe, YAML, or JSON if its name ends so. The NVIDIA tool reads it, too.
      - Secrets among its values are in it, so that it can be installed from; such a file is of mode 0600 and is named
        by a warning.
    type: path
  hydrated_dest:
    description: File for the recipe with the merged chart values of every component.
    type: path
  self_contained:
    description:
      - Put all chart values into the recipe's overrides, for a tool that does not have this catalogue.
      - Manifest files are written beside O(dest), into V(<dest less its ending>-data), for the C(--data) of that tool.
    type: bool
    default: false
  api:
    description:
      - The API version of O(dest), by the release of the NVIDIA tool that will read it.
      - Releases from 0.22 and all from 1.0 on read the default, 0.13 to 0.22 V(aicr.run/v1alpha2), 0.11 and 0.12
        V(aicr.nvidia.com/v1alpha1). This collection reads all three.
    type: str
    choices: [aicr.run/v1, aicr.run/v1alpha2, aicr.nvidia.com/v1alpha1]
    default: aicr.run/v1
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
"""

RETURN = r"""
recipe:
  description: The recipe in short.
  type: dict
  returned: success
  contains:
    criteria:
      description: By criterion, the value that it was resolved for.
      type: dict
      returned: always
      sample: {service: kind, accelerator: a100}
    without_effect:
      description: Criteria without each of which the recipe would be the same.
      type: list
      elements: str
      returned: always
      sample: [nvlink_domain]
    overlays:
      description: Names of the layers, lowest precedence first.
      type: list
      elements: str
      returned: always
      sample: [base, kind]
    mixins:
      description: Names of the mixins that the layers name.
      type: list
      elements: str
      returned: always
      sample: []
    components:
      description: By component that is switched on, its version; of one that Kustomize builds, the tag.
      type: dict
      returned: always
      sample: {gpu-operator: v26.7.0}
    needs:
      description: By program that the controller or the chart mirror needs beside Helm, the components that need it.
      type: dict
      returned: always
      sample: {kustomize: [mpi-operator]}
    order:
      description: The components in the order in which they are installed.
      type: list
      elements: str
      returned: always
      sample: [cert-manager, gpu-operator]
    constraints:
      description: By measurement, what the cluster must satisfy.
      type: dict
      returned: always
      sample: {K8s.server.version: ">= 1.32.4"}
detected:
  description: For people, each criterion with what it was read from or that it was stated, and those that nothing says.
  type: list
  elements: str
  returned: success, with O(facts) or O(snapshot)
  sample: ["os: ubuntu (stated)", "not detected: intent, platform"]
detection:
  description: What was read off the facts of a cluster.
  type: dict
  returned: success, with O(facts) or O(snapshot)
  contains:
    criteria:
      description: By criterion, the value that was stated or detected.
      type: dict
      returned: always
    findings:
      description: What is known of each criterion.
      type: list
      elements: dict
      returned: always
      contains:
        dimension:
          description: Name of the criterion.
          type: str
          returned: always
        value:
          description: Its value, empty if it is not known.
          type: str
          returned: always
        source:
          description: "Who said so: C(stated), C(detected), C(mixed) (nodes disagree) or C(unknown)."
          type: str
          returned: always
        detected:
          description: What the cluster says, also where it was stated otherwise.
          type: str
          returned: always
        evidence:
          description: What that was read from.
          type: str
          returned: always
    pools:
      description: The pools, if the GPU nodes differ.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the pool.
          type: str
          returned: always
        criteria:
          description: By criterion, the value of its nodes.
          type: dict
          returned: always
        nodes:
          description: Its nodes.
          type: list
          elements: str
          returned: always
files:
  description: The files that were written, or would be in check mode.
  type: list
  elements: str
  returned: success
  sample: [recipe.yaml]
exit_code:
  description: 0, or 2 for wrong input and 3 for a value that is not there.
  type: int
  returned: always
  sample: 0
"""
