#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of preflight_controller; the action plugin of the same name does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_controller
short_description: Check what the controller needs for the gates in scope
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Looks for the Python packages and programs that the gates in scope need, and reports everything that is missing in
    one list.
extends_documentation_fragment:
  - gpufleet.bringup.attributes
  - gpufleet.bringup.run
attributes:
  check_mode:
    support: full
    description: Looks only; it writes nothing outside the run directory.
options:
  helm:
    description: The helm program, a name on PATH or a path.
    type: str
    default: helm
"""

EXAMPLES = r"""
- name: Check the controller
  gpufleet.bringup.preflight_controller:
    run_dir: "{{ gpufleet_run }}"
"""

RETURN = r"""
# Nothing beside what every module returns.
"""
