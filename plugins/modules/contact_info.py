#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the module contact_info; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: contact_info
short_description: Look whether a host answers, with the rights that the probes need
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Runs C(id -u) on the host through its connection and its become method.
  - A host that does not answer is data and not a failed task. Gate nodes then reports it as C(other).
extends_documentation_fragment:
  - gpufleet.bringup.attributes
"""

EXAMPLES = r"""
- name: Look whether the hosts answer
  gpufleet.bringup.contact_info:
  become: true
  register: gpufleet_contact
"""

RETURN = r"""
reached:
  description: Whether the host answered.
  type: bool
  returned: always
privileged:
  description: Whether it answered as root.
  type: bool
  returned: always
reason:
  description: What was found instead, empty if all is well.
  type: str
  returned: success
  sample: "Failed to connect to the host via ssh: No route to host"
"""
