# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of the comparison of peers (verdict/peers.py), the same for every gate that compares hosts or GPUs."""

from __future__ import annotations

from typing import Any

from .settings import setting

_LINE = "median x (1 - max(tolerance x sqrt(1 + 2 / members), peer_spreads x deviation / median))"


def peer_tolerance(about: str = "slower", *, default: float) -> Any:
    """Declare the smallest relative distance from the median that makes a member suspect."""
    return setting(
        f"Part of the median of its peers by which a member may be {about}; this is the tolerance of the line {_LINE} "
        "under which a member is suspect. Median and members are those of the faster mode of all peers; a tolerance of "
        "2.5 times the noise of one run or more blames less than one sound member in 10,000.",
        default=default,
        minimum=0,
        below=1,
    )


def peer_spreads(*, default: float) -> Any:
    """Declare how many standard deviations from the median make a member suspect."""
    return setting(
        f"How many standard deviations under the median of its peers a member is suspect: under {_LINE}. The deviation "
        "is that within the faster and the slower mode, so that slow members do not widen it. Of many members it is "
        "more: so many that one of a hundred cohorts without a fault has one there. From 32 members on the half over "
        "the median tells it: slow members widen the other half alone.",
        default=default,
        unit="deviations",
        minimum=0,
    )


def peers_least(*, default: int) -> Any:
    """Declare the smallest cohort whose agreement proves that its members are good."""
    return setting(
        "Fewest members whose agreement shows that they are good where no ceiling is known. Among two members already "
        "the slower one is found.",
        default=default,
        unit="members",
        minimum=2,
    )


def cohort_share(*, default: float) -> Any:
    """Declare which share of a cohort may be suspect before no single member is blamed."""
    return setting(
        "Part of the members that may be suspect before no single one is blamed: more than max(cohort_share x members, "
        "1, or 2 from twice peers_least members on). What they share (rack, leaf, firmware, driver) is blamed first.",
        default=default,
        minimum=0,
        maximum=1,
    )
