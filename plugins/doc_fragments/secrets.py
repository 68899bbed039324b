# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of modules that need the secrets which a run directory does not have."""

from __future__ import annotations


class ModuleDocFragment:
    """Options settings and set."""

    DOCUMENTATION = r"""
options:
  settings:
    description:
      - The settings that preflight was given. A run directory has no secrets, so those among the settings are taken
        from here; the rest is as preflight saved it.
    type: dict
    default: {}
  set:
    description: Single settings as preflight was given them, for the same reason.
    type: list
    elements: str
    default: []
"""
