#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of snapshot_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot_info
short_description: Tell what a cluster is made of
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Looks at server, nodes, devices, workloads, policies, classes and Helm releases of a cluster, and at the hosts of a
    run.
  - A collector that could not look is named with reason and fix; nothing is left out silently.
  - Changes nothing on the cluster, unless O(dest) is a ConfigMap, or O(node_pods) asks for pods, which are removed.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.kubernetes
  - gpufleet.bringup.snapshot
options:
  source:
    description:
      - A snapshot to read instead of taking one, as a file, an https address or V(cm://namespace/name).
      - Snapshots of the upstream tool are read as well.
    type: str
    default: ""
  dest:
    description: Where to write it, as a file (mode 0600) or V(cm://namespace/name). In check mode nothing is written.
    type: str
    default: ""
  recipe_data:
    description: Directories of private recipe data, for the criteria that are detected.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: Keep what the cluster is made of
  gpufleet.bringup.snapshot_info:
    run_dir: .run/latest
    dest: snapshot.json
"""

RETURN = r"""
summary:
  description: The snapshot in short.
  type: dict
  returned: success
  contains:
    taken:
      description: When it was taken.
      type: str
      returned: always
      sample: "2026-11-23T01:00:00Z"
    made_by:
      description: Program and version that took it.
      type: str
      returned: always
      sample: gpufleet.bringup 0.1.0
    cluster_uid:
      description: UID of namespace kube-system, empty where the program does not record it.
      type: str
      returned: always
    server_version:
      description: Version of the API server.
      type: str
      returned: always
      sample: v1.34.1
    providers:
      description: Who made the machines, by the provider ids of the nodes.
      type: list
      elements: str
      returned: always
      sample: [aws]
    nodes:
      description: How many nodes.
      type: int
      returned: always
    gpu_nodes:
      description: How many of them have GPUs.
      type: int
      returned: always
    gpus:
      description: How many GPUs.
      type: int
      returned: always
    hosts:
      description: How many hosts of the run were read.
      type: int
      returned: always
    workloads:
      description: How many workloads last.
      type: int
      returned: always
    releases:
      description: The chart version of every Helm release.
      type: dict
      returned: always
      sample: {gpu-operator/gpu-operator: v26.7.0}
collectors:
  description: What became of each collector, with state (whole, failed or not-asked), reason, hint and not_served.
  type: dict
  returned: success
detection:
  description: The criteria that the snapshot says.
  type: dict
  returned: success
  contains:
    criteria:
      description: The criteria.
      type: dict
      returned: always
    findings:
      description: Each criterion with its value, who said so (detected, mixed or unknown) and the evidence.
      type: list
      elements: dict
      returned: always
    pools:
      description: The pools, if the GPU nodes differ.
      type: list
      elements: dict
      returned: always
dest:
  description: Where it was written, or would be in check mode; empty for nowhere.
  type: str
  returned: success
exit_code:
  description: 0, 2 for wrong input, 8 if nobody answers.
  type: int
  returned: always
  sample: 0
"""
