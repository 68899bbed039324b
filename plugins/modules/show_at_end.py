#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of show_at_end; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: show_at_end
short_description: Print an answer as the last lines of a playbook
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Prints lines, or a value as YAML, below the recap, where they can be read and copied as they stand.
    M(ansible.builtin.debug) prints JSON with escapes in the middle of the output.
  - A later answer of the same playbook takes the place of an earlier one.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
attributes:
  check_mode:
    support: full
    description: Prints the same.
options:
  lines:
    description: Lines that are printed.
    type: list
    elements: str
    default: []
  value:
    description: A text, printed as it is, or a number, list or dictionary, printed as YAML. It follows O(lines).
    type: raw
"""

EXAMPLES = r"""
- name: Look up one value of the recipe
  gpufleet.bringup.recipe_info:
    criteria: {service: eks, accelerator: h100, intent: training}
    selector: components.gpu-operator.version
  register: looked_up

- name: Show it
  gpufleet.bringup.show_at_end:
    value: "{{ looked_up.value }}"
"""

RETURN = r"""
closing_lines:
  description: What is printed when the playbook ends.
  type: list
  elements: str
  returned: success
  sample: ["v26.7.0"]
exit_code:
  description: 0, 2 for a value that cannot be printed.
  type: int
  returned: always
  sample: 0
"""
