# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging the BMCs of a fleet: no host is looked up among all others, and none is compared with each other one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from bmc_fleet import CHECKS, HARDWARE, TODAY, fleet
from counted_work import lines_per_pair
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_bmcs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.observe_bmcs import SeenBmc, SeenBmcs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import Check, JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import bmc_of


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeenBmc]:
    """What one healthy BMC said."""
    path = tmp_path_factory.mktemp("bmc")
    with fleet(path, a=bmc_of(HARDWARE["dgx-h100"], 0)) as one:
        context = ObserveContext(site=one.site, run_dir=path, today=TODAY, hardware=HARDWARE)
        yield observe_bmcs.observe(context).bmcs[0]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.spec.id)
def test_no_host_is_looked_for_among_all_others(read: SeenBmc, check: Check) -> None:
    def prepared(count: int) -> Callable[[], object]:
        names = [f"gpu{number:03}" for number in range(count)]
        # Every other host has a version of its own.
        firmware = {
            n: (replace(read.facts.firmware[0], version=str(n)) if read.facts and n % 2 else None) for n in range(count)
        }
        seen = SeenBmcs(
            bmcs=tuple(_with_firmware(replace(read, host=name), firmware[n]) for n, name in enumerate(names))
        )
        hosts = tuple(Host(name=name, sku="dgx-h100", node_name=name, bmc="https://bmc.example") for name in names)
        site = make_site(hosts, name="large", capabilities=("bmc", "bmc_address"))
        around = JudgeContext(gate="facility", site=site, today=TODAY, hardware=HARDWARE)
        return lambda: check.judge(seen, around)

    assert lines_per_pair(prepared, 8) < 0.2


def _with_firmware(bmc: SeenBmc, first: object) -> SeenBmc:
    facts = bmc.facts
    assert facts is not None
    firmware = (first, *facts.firmware[1:]) if first else facts.firmware
    return replace(bmc, facts=replace(facts, firmware=firmware))
