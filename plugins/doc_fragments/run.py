# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The option that modules of a run share."""

from __future__ import annotations


class ModuleDocFragment:
    """Option run_dir."""

    DOCUMENTATION = r"""
options:
  run_dir:
    description: Directory of the run, as M(gpufleet.bringup.run_start) returned it.
    type: path
    required: true
"""
