#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of preflight_contact; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_contact
short_description: Check that hosts and API server answer
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Judges what M(gpufleet.bringup.contact_info) found on the hosts, which C(gpufleet_contact) of each host holds, and
    asks the API server for its version and for what this user may do.
  - Some silent hosts are data for the gates; if none answers as root, it fails.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
  - gpufleet.bringup.kubernetes
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
options:
  fabric_host:
    description: Host that looks at the InfiniBand fabric; see M(gpufleet.bringup.preflight_inventory).
    type: str
    default: ""
  phases:
    description:
      - Phases of a validation, which installs nothing; their rights are asked for in the place of those of the gates.
      - Without any, the rights of the gates in scope.
    type: list
    elements: str
    choices: [readiness, deployment, conformance, performance]
    default: []
  recipe_data:
    description: Directories of the site's own recipe data, whose validator images need rights of their own.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: Check the contact to hosts and API server
  gpufleet.bringup.preflight_contact:
    run_dir: "{{ gpufleet_run }}"
"""

RETURN = r"""
hosts:
  description: The hosts of each play that looks at hosts; some lists may be empty.
  type: dict
  returned: success
  contains:
    contact:
      description: Hosts that are asked whether they answer.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    adapters:
      description: Hosts that are asked which adapters they have, before the first gate that depends on it.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    loaded:
      description: Hosts that are read before and after every gate that loads them.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    nodes:
      description: Hosts that gate nodes reads.
      type: list
      elements: str
      returned: always
      sample: [gpu01, gpu02]
    fabric:
      description: The host from which gate fabric is read.
      type: list
      elements: str
      returned: always
      sample: [gpu01]
    nodes_again:
      description: Hosts that are read before a start at a later gate.
      type: list
      elements: str
      returned: always
      sample: []
    fabric_again:
      description: The host from which the fabric is read before a start at a later gate.
      type: list
      elements: str
      returned: always
      sample: []
"""
