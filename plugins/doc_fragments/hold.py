# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of modules that hold the cluster for a run."""

from __future__ import annotations


class ModuleDocFragment:
    """Options when_held and wait_s."""

    DOCUMENTATION = r"""
options:
  when_held:
    description: What to do while another run that is alive holds the cluster.
    type: str
    default: refuse
    choices: [refuse, wait]
  wait_s:
    description: With O(when_held=wait) how long to wait, seconds.
    type: float
    default: 14400
"""
