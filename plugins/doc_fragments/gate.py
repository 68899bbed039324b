# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The gate that a module works on."""

from __future__ import annotations


class ModuleDocFragment:
    """The option of modules that work on one gate."""

    DOCUMENTATION = r"""
options:
  gate:
    description: Id of the gate.
    type: str
    required: true
    choices:
      - facility
      - fabric
      - nodes
      - gpu_stack
      - telemetry
      - fabric_validation
      - training_acceptance
      - inference_acceptance
"""
