#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the verb plan; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Show what each gate will do, for how long and what it disturbs
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Prints per gate its declared checks, what they do to the cluster, how long they take, and what is not
    declared and why.
  - Nothing is touched.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
"""

EXAMPLES = r"""
- name: Show the plan
  gpufleet.bringup.plan:
    run_dir: "{{ gpufleet_run }}"
"""

RETURN = r"""
plan:
  description: One entry per gate.
  type: list
  elements: dict
  returned: success
"""
