# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import require_moment, require_run

FILE, RUN = Path("observations/nodes/hosts.json"), "20261122T133329Z-f9c9"


@pytest.mark.parametrize("started", ["2026-11-22T13:33:46.241Z", "2026-11-22T13:27:00Z", "2027-01-01T00:00:00.000Z"])
def test_what_was_made_during_the_run_is_taken(started: str) -> None:
    """Ten minutes are left to a clock that was put back meanwhile."""
    require_moment(FILE, started, RUN)


@pytest.mark.parametrize("run_id", ["", "rehearsal", "2026"])
def test_a_run_that_is_named_otherwise_does_not_say_when_it_began(run_id: str) -> None:
    require_moment(FILE, "2019-01-01T00:00:00.000Z", run_id)


def test_what_was_made_before_the_run_is_refused() -> None:
    with pytest.raises(InputError, match="before this run began"):
        require_moment(FILE, "2026-11-22T13:20:00.000Z", RUN)


@pytest.mark.parametrize("started", ["", "2026-11-22T", "2026-11-22", "2026-11-22T13:33:46", "yesterday"])
def test_what_does_not_say_when_it_was_made_is_refused(started: str) -> None:
    with pytest.raises(InputError, match="does not say when"):
        require_moment(FILE, started, RUN)


def test_what_does_not_say_of_which_run_it_is_is_refused_where_that_is_always_written() -> None:
    require_run(FILE, "", RUN, configured=False)
    require_run(FILE, RUN, RUN, configured=True)
    for written_by, stated in (("", True), ("20260101T000000Z-0000", False)):
        with pytest.raises(InputError, match="this is run"):
            require_run(FILE, written_by, RUN, configured=stated)
