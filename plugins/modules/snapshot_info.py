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
  dest_format:
    description:
      - With V(upstream) a file is written in the words of the upstream tool (C(aicr)), as far as it has them, for its
        own commands. It has no word for Helm releases, ResourceSlices, classes, workloads, and hosts but one.
      - A ConfigMap has both.
    type: str
    choices: [own, upstream]
    default: own
  dest_api:
    description:
      - The API version of a file in the words of the upstream tool, by the release that will read it.
      - Releases from 0.22 and all from 1.0 on read the default, 0.13 to 0.22 V(aicr.run/v1alpha2), 0.11 and 0.12
        V(aicr.nvidia.com/v1alpha1). This collection reads all three.
    type: str
    choices: [aicr.run/v1, aicr.run/v1alpha2, aicr.nvidia.com/v1alpha1]
    default: aicr.run/v1
  incomplete:
    description:
      - Whether a snapshot is kept though a collector got no answer. Without it the module fails then.
      - Nothing is written where it fails.
      - A snapshot that is read from O(source) is shown as it is.
    type: bool
    default: false
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
    rehearsal:
      description: Whether it is of a rehearsal; none where the program does not record it.
      type: bool
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
      description: How many whole GPUs, of nodes that say so; one that offers MIG devices alone does not.
      type: int
      returned: always
    hosts:
      description: How many hosts were read, over SSH or by pods.
      type: int
      returned: always
    hosts_not_read:
      description: How many could not be asked; a warning names them.
      type: int
      returned: always
    failed:
      description: The collectors that failed; RV(collectors) has the reasons.
      type: list
      elements: str
      returned: always
    workloads:
      description: How many workloads last.
      type: int
      returned: always
    releases:
      description: By release of Helm (C(namespace/name)), the version of its chart.
      type: dict
      returned: always
      sample: {gpu-operator/gpu-operator: v26.7.0}
collectors:
  description: >-
    By collector, what became of it, with C(state) (whole, failed or not-asked), C(reason), C(hint) where it did not
    see everything, and C(not_served), the kinds that the server does not know.
  type: dict
  returned: success
detection:
  description: The criteria that the snapshot says.
  type: dict
  returned: success
  contains:
    criteria:
      description: By criterion, the detected value.
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
criteria:
  description: The criteria for people, a line each, with the evidence; and the pools.
  type: list
  elements: str
  returned: success
  sample: ["service: eks (node gpu01: provider_id is aws:///eu-west-1a/i-0123 (2 node(s) say so))"]
dest:
  description: Where it was written, or would be in check mode; empty for nowhere.
  type: str
  returned: success
closing_lines:
  description: Where it is and how to compare it, which is printed when the playbook ends; nothing without O(dest).
  type: list
  elements: str
  returned: success
exit_code:
  description: 0, 2 for wrong input, 8 if nobody answers.
  type: int
  returned: always
  sample: 0
"""
