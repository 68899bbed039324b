#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of rehearsal_stop; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_stop
short_description: Stop a rehearsal and remove what is left of it
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Ends every process of the rehearsal in a directory, whether its supervisor lives or not, and removes its mounts,
    keys and database, its inventory, and what its simulators wrote.
  - Logs stay until the next start.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
options:
  directory:
    description: Directory of the rehearsal.
    type: path
    required: true
  keep:
    description: Leave it up, and print how to go on with it where no callback does.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Stop the rehearsal
  gpufleet.rehearsal.rehearsal_stop:
    directory: .run/rehearsal
"""

RETURN = r"""
removed:
  description: What was found and removed.
  type: list
  elements: str
  returned: success
closing_lines:
  description: What was done, as it is printed at the end; nothing where the playbook started this rehearsal itself.
  type: list
  elements: str
  returned: where it is stopped
"""
