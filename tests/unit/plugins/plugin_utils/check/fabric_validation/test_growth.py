# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What to run next, and what the runs say, takes work in proportion to the fleet, healthy or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from counted_work import lines_per_pair
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_nccl import next_runs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

SOCKET = "NET/Socket : Using [0]eth0:10.0.0.1<0>\nUsing network Socket"


def _every(step: int, names: tuple[str, ...], value: Any) -> dict[str, Any]:
    return dict.fromkeys(names[::step], value)


FAULTS: dict[str, Callable[[tuple[str, ...]], dict[str, Any]]] = {
    "healthy": lambda _names: {},
    "every eighth host has a slow adapter": lambda names: {"nics": {(name, 3): 0.5 for name in names[::8]}},
    "every eighth host is slow by itself": lambda names: {"nvlink": _every(8, names, 0.5)},
    "every eighth host uses TCP": lambda names: {"says": _every(8, names, SOCKET)},
    "all pairs are slow": lambda names: {"nics": {(name, rail): 0.5 for name in names for rail in range(8)}},
}


@pytest.mark.quickly(1)
@pytest.mark.drawn(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_judge_looks_at_all_runs_for_each_host(fault: str, hardware: dict[str, Sku]) -> None:
    @cache
    def made(size: int) -> tuple[Fleet, Results]:
        names = tuple(f"gpu{number:04}" for number in range(size))
        fleet = Fleet(hosts=names, hardware=hardware, noise=0.0, settings={"smallest": 1 << 31}, **FAULTS[fault](names))
        return fleet, fleet.results()

    def judged(size: int) -> Callable[[], object]:
        fleet, results = made(size)
        return lambda: fleet.outcomes(replace(results))

    def planned(size: int) -> Callable[[], object]:
        _fleet, results = made(size)
        return lambda: next_runs(replace(results), hardware)

    assert lines_per_pair(judged, 16) < 0.5
    assert lines_per_pair(planned, 16) < 0.5
