#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of rbac; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rbac
short_description: Give somebody just the roles that gates need on a cluster
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Makes one ClusterRole (and, where something is needed in one namespace, a Role) for each gate and level, and binds
    them to a user, a group or a service account. C(docs/rbac/roles.yaml) has the same roles as a file.
  - The API server lets nobody give away what they may not do themselves, so this needs an administrator.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.kubernetes
attributes:
  check_mode:
    support: full
    description: The server computes what would be made, and keeps nothing.
options:
  gates:
    description: Gates whose roles are made; those that ask no API server have none. Empty means all that have.
    type: list
    elements: str
    default: []
  levels:
    description:
      - V(observe) reads. V(test) also makes the objects of tests, and holds what V(observe) holds.
      - V(install) puts the recipe's charts on the cluster, for which it allows everything.
    type: list
    elements: str
    choices: [observe, test, install]
    default: [test]
  subject_kind:
    description: Kind of whom the roles are bound to.
    type: str
    choices: [User, Group, ServiceAccount]
    default: ServiceAccount
  subject_name:
    description: Name of whom the roles are bound to. A service account is made if it is not there.
    type: str
    default: gpufleet
  subject_namespace:
    description: Namespace of a service account.
    type: str
    default: gpufleet-system
  state:
    description: V(absent) removes the bindings and the roles; namespace and service account stay.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Let a pipeline observe and test telemetry, and nothing else
  gpufleet.bringup.rbac:
    gates: [telemetry]
    levels: [test]
    subject_name: acceptance
"""

RETURN = r"""
objects:
  description: The objects that were made or are there, as C(Kind namespace/name).
  type: list
  elements: str
  returned: success
  sample: [ClusterRole gpufleet-telemetry-test]
"""
