# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""By which limits the nodes of a site are classified, from its settings: those of gates where both judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..check.node_tests.settings import ContinuousSettings
from ..check.node_tests.spec import NodeTest
from ..fleet.class_rules import ClassLimits

# A result falls due after its days, and a queue takes its time: the queue itself becomes urgent at twice the days.
_STALE = 2.0


def class_limits(tests: Sequence[NodeTest], settings: ContinuousSettings, passive: Mapping[str, float]) -> ClassLimits:
    """Return the limits of classification.

    Args:
        tests: those of the cycle.
        settings: of continuous validation.
        passive: how old the results of passive checks may be, by test; they are made by every cycle.
    """
    peers = {test.id: test.peers for test in tests if test.peers is not None}
    stale = {test.id: _STALE * test.common.days for test in tests}
    return ClassLimits(
        stale_by_test=stale | dict(passive),
        peers_by_test=peers,
        event_h=settings.event_h,
        congestion_h=settings.congestion_h,
    )
