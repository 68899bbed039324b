# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-state-after-burn-in: hours of load left no error on the host."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.loads import LoadBrackets
from ...outcome.gates import BURN_IN
from ...outcome.model import Outcome
from ..kit.load_growth import PORT_COUNTERS, LoadGrowthSettings, growth_spec, judge_growth
from ..kit.settings import with_default
from ..spec import Check, JudgeContext
from .observe_host_state import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnInGrowthSettings(LoadGrowthSettings):
    """Settings of check host-state-after-burn-in."""

    # As after the other loads, for each of some hours: healthy GPUs do count a few.
    pcie_replays: int = with_default(LoadGrowthSettings, "pcie_replays", 500)
    # New hardware under load counts none of these; a day is long enough for a bad cable to show.
    port_counters: dict[str, int] = with_default(LoadGrowthSettings, "port_counters", PORT_COUNTERS)


SPEC = growth_spec(
    "host-state-after-burn-in", BURN_IN, "Hours of load left no error on the host", settings=BurnInGrowthSettings
)


def judge(observed: LoadBrackets, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge what grew between the readings before the first round and after the last one."""
    return judge_growth(SPEC, observed, context)


CHECK = Check(SPEC, OBSERVER, judge)
