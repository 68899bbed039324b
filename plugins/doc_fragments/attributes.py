# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every module says of itself."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Looks only.
    support: full
  diff_mode:
    description: Shows nothing as a difference.
    support: none
  action:
    description: Runs as an action on the controller.
    support: full
"""
