# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of modules that take a snapshot."""

from __future__ import annotations


class ModuleDocFragment:
    """Options run_dir, helm and timeout_s."""

    DOCUMENTATION = r"""
options:
  run_dir:
    description:
      - A run whose gate nodes read the hosts over SSH; what they said (driver, CUDA, MIG, kernel, modules, adapters)
        becomes part of the snapshot.
      - Without it hosts are no part of the snapshot, and it says so.
    type: path
  helm:
    description: The helm program, for the releases. Without one that collector fails, and is named.
    type: str
    default: helm
  timeout_s:
    description: Seconds that a collector may take.
    type: float
    default: 30
"""
