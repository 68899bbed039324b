# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of check dcgm-diag, apart from its judge: a run reads the level before any check is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from ..kit.settings import setting

DCGM_DIAG = "dcgm-diag"


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmDiagSettings:
    """Settings of check dcgm-diag."""

    level: int = setting(
        "Level of `dcgmi diag -r` that every host must have run; 0: role nodes runs none.",
        minimum=0,
        maximum=4,
    )
    disturb: bool = setting(
        "Whether a host whose GPUs a process or a pod uses is diagnosed at level 2 or more all the same."
    )
    diag_required: dict[str, tuple[str, ...]] = setting(
        "Tests that must have run, by level; a level or test that is missing in the report leaves the check open.",
        keys=("1", "2", "3", "4"),
    )
