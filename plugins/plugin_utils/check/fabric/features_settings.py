# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of check fabric-features, in a file without its judge: a run reads them before it loads any check."""

from __future__ import annotations

from dataclasses import dataclass

from ..kit.settings import setting

FABRIC_FEATURES = "fabric-features"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricFeaturesSettings:
    """Settings of check fabric-features, which is declared where one of them is configured."""

    adaptive_routing: bool | None = setting(
        "Whether all switches must route adaptively (true), or none (false); null: not stated.", default=None
    )
    sharp: bool = setting(
        "Whether every switch must have an aggregation node, without an error about SHARP.", default=False
    )
    sharp_job: bool = setting(
        "Whether `sharp_hello` must be able to make a job of SHARP from the host that looks at the fabric.",
        default=False,
    )
