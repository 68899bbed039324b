# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A clock that is set back while something runs, by NTP or by hand, gives no negative duration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import seconds_since


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    later = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert seconds_since(later) == 0.0


def test_a_duration_is_counted_in_seconds() -> None:
    earlier = (datetime.now(UTC) - timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert 29.0 <= seconds_since(earlier) <= 40.0
