# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every node owes, by the settings of the tests. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..check.node_tests.settings import ContinuousSettings
from ..check.node_tests.spec import NodeTest
from .queue_model import Demand


def demands_of(tests: Iterable[NodeTest], settings: ContinuousSettings) -> tuple[Demand, ...]:
    """Return the demand of each test: its age, and how long it takes at most with the wait for its node and image."""
    return tuple(
        Demand(
            test=test.id,
            max_age_days=test.common.days,
            longest_s=settings.schedule_s + test.common.pull_s + test.common.timeout_s,
        )
        for test in tests
    )
