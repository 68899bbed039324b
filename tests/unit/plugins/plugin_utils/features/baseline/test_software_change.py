# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Before and after a roll: what all lost is told of the software, what one lost more of it, and what chance does of
nobody."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from figure_rows import DRIVERS, HOSTS, SITE, accepted, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import (
    SoftwareChange,
    software_changes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import match
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.before_after import Effect
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.figures import Place, figures_of

GATE, INTRA, ALL = "fabric_validation", "intra-node-busbw", "all-nodes-busbw"
TOLERANCE = {INTRA: 0.05, ALL: 0.05}
ROLLED = dict.fromkeys(HOSTS, "590.10")
BEFORE = accepted(fleet()).figures


def changes(outcomes: tuple[Outcome, ...], drivers: Mapping[str, str] | None = None) -> dict[str, SoftwareChange]:
    place = Place(site=SITE, drivers=ROLLED if drivers is None else drivers)
    found = match(figures_of(GATE, outcomes, place), BEFORE)
    return {entry.figure: entry for entry in software_changes(found.different, TOLERANCE)}


def test_what_all_hosts_lost_with_a_driver_is_a_regression_of_it() -> None:
    found = changes(fleet(dict.fromkeys(HOSTS, 0.92)))[INTRA]
    assert found.found.effect is Effect.LOSS and found.found.suspects == ()
    assert "driver 580.95.05 -> 590.10: a regression of the software and no fault of a host" in found.line
    assert found.found.probability < 0.001


@pytest.mark.parametrize(("factor", "effect"), [(1.0, Effect.UNCHANGED), (0.98, Effect.UNCHANGED), (1.1, Effect.GAIN)])
def test_what_did_not_get_worse_is_no_regression(factor: float, effect: Effect) -> None:
    found = changes(fleet(dict.fromkeys(HOSTS, factor)))[INTRA]
    assert found.found.effect is effect and "regression" not in found.line


def test_one_host_that_lost_is_named_and_the_software_is_not() -> None:
    found = changes(fleet({"gpu05": 0.8}))[INTRA]
    assert found.found.effect is Effect.UNCHANGED and "more than the others lost gpu05" in found.line


def test_a_host_that_lost_more_is_named_beside_the_regression() -> None:
    found = changes(fleet(dict.fromkeys(HOSTS, 0.92) | {"gpu05": 0.7}))[INTRA]
    assert found.found.effect is Effect.LOSS and found.found.suspects == ("gpu05",)


def test_one_figure_of_all_hosts_is_too_few_to_tell() -> None:
    assert changes(fleet(whole=0.8))[ALL].found.effect is Effect.UNKNOWN


def test_a_part_of_the_fleet_is_compared_by_itself() -> None:
    part = DRIVERS | dict.fromkeys(HOSTS[:12], "590.10")
    found = changes(fleet(dict.fromkeys(HOSTS[:12], 0.9)), part)[INTRA]
    assert (found.found.effect, found.found.pairs) == (Effect.LOSS, 12)


@pytest.mark.parametrize("changed", [{"size": 1 << 30}, {"ranks": 4}])
def test_what_was_measured_otherwise_is_no_matter_of_software(changed: dict[str, int]) -> None:
    assert INTRA not in changes(fleet(dict.fromkeys(HOSTS, 0.9), **changed))


def test_nothing_is_told_where_the_software_is_the_same_or_not_known() -> None:
    assert changes(fleet(), DRIVERS) == {} and changes(fleet(), {}) == {}
