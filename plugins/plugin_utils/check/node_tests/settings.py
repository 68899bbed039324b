# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of continuous validation: how much a cycle does at once, and what every test of a node takes."""

from __future__ import annotations

from dataclasses import dataclass

from ..kit.settings import setting

CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousSettings:
    """How a cycle over idle nodes is run."""

    batch: int = setting("Most nodes that are tested at once.", unit="nodes", minimum=1, use="run")
    per_rack: int = setting(
        "Most nodes of one rack that are tested at once; 0: no limit.", unit="nodes", minimum=0, use="run"
    )
    window: str = setting("Time of day (UTC) in which tests begin, such as 22:00-06:00; empty: at any time.", use="run")
    cycle_s: float = setting(
        "Longest time of a cycle; what is not done then is pending, and comes first in the next one.",
        unit="s", above=0, use="run",
    )  # fmt: skip
    schedule_s: float = setting(
        "How long a test may wait for its node before it gives its place in the batch to another.",
        unit="s", above=0, use="run",
    )  # fmt: skip
    tries: int = setting(
        "How often a cycle begins a test of a node that was given back to a user or found no place.",
        minimum=1, use="run",
    )  # fmt: skip
    cleanup_s: float = setting("Longest time to remove what a batch made.", unit="s", above=0, use="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTestSettings:
    """What every test of a node takes."""

    enabled: bool = setting("Whether cycles run it.", use="run")
    days: float = setting("A result that is younger is not made again.", unit="days", above=0, use="run")
    timeout_s: float = setting("Longest time of the test, from when its pod runs.", unit="s", above=0, use="run")
    pull_s: float = setting(
        "How long its pod may take to start once it has its node, which is mostly pulling the image.",
        unit="s", above=0, use="run",
    )  # fmt: skip
