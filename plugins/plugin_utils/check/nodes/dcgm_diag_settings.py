# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of check dcgm-diag, in a file without its judge: a run reads the level before it loads any check."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..kit.settings import setting

DCGM_DIAG = "dcgm-diag"
# Typical seconds of the diagnostic of one host, for plans.
DURATION_S = 900.0
# A diagnostic in a pod costs the controller a waiting thread and connection.
_WAVES, _FEWEST, _MOST = 8, 16, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmDiagSettings:
    """Settings of check dcgm-diag."""

    level: int = setting(
        "Level of `dcgmi diag -r` that every host must have run; 0: role nodes runs none.",
        default=3,
        minimum=0,
        maximum=4,
    )
    disturb: bool = setting(
        "Whether a host whose GPUs a process or a pod uses is diagnosed at level 2 or more all the same.", default=False
    )
    at_once: int = setting(
        "How many hosts are read, and run the diagnostic, at a time. 0: by the fleet. In pods of the GPU operator that "
        "is an eighth of the hosts in scope, at least 16 and at most 512; on the hosts as many as Ansible has forks.",
        default=0,
        unit="hosts",
        minimum=0,
        use="run",
    )
    # The names are those that DCGM 3 and 4 share.
    diag_required: dict[str, tuple[str, ...]] = setting(
        "Tests that must have run, by level; a level or test that is missing in the report leaves the check open.",
        default={
            "1": ["software"],
            "2": ["software", "memory", "pcie"],
            "3": ["software", "memory", "pcie", "diagnostic", "targeted_stress", "targeted_power"],
            "4": ["software", "memory", "pcie", "diagnostic", "targeted_stress", "targeted_power"],
        },
        keys=("1", "2", "3", "4"),
    )

    def at_once_in_pods(self, hosts: int) -> int:
        """Return how many of `hosts` hosts are read at a time where the driver is in the operator's pods."""
        return self.at_once or min(max(math.ceil(hosts / _WAVES), _FEWEST), _MOST)

    def at_once_by_forks(self, forks: int) -> int:
        """Return how many hosts are read at a time by an Ansible with `forks` forks."""
        return min(self.at_once or forks, forks)
