# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rehearsal before midnight and one after it stand in the same room."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_facility_record
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.facility.room import KEPT_DAYS, day_of_record
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import RehearsalRequest
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.simulators import draw_facility
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes

ROOT = Path(__file__).resolve().parents[6]
NODES = numbered_nodes(2, "h100")
EVE = date(2026, 12, 31)
DAY = timedelta(days=1)


def drawn(directory: Path, today: date, valid_days: int | None = None) -> str:
    """Return the record of a run of that day, after the gate of that day found what it should."""
    request = RehearsalRequest(directory=directory, cache=directory, collection=ROOT, nodes=NODES)
    healthy = healthy_cluster(ModelSpec(name="rehearsal", seed=1, nodes=NODES), HARDWARE)
    days = healthy.facility.valid_days if valid_days is None else valid_days
    model = replace(healthy, facility=replace(healthy.facility, valid_days=days))
    settings = draw_facility(request, model, healthy, dict(HARDWARE), today)
    assert causes(directory, settings, today) == (set() if valid_days is None else {"expired"})
    return Path(settings["record"]).read_text()


def causes(directory: Path, settings: dict[str, str], today: date) -> set[str]:
    hosts = tuple(Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack) for node in NODES)
    site = make_site(hosts, name="rehearsal", settings={"facility": {**settings}})
    seen = observe_facility_record.observe(ObserveContext(site=site, run_dir=directory, today=today))
    facts = observe_facility_record.restore(seen, directory, site)
    context = JudgeContext(gate="facility", site=site, today=today, hardware=dict(HARDWARE))
    checks = [check for check in all_checks() if check.observer.key == "facility-record"]
    return {o.cause for check in checks for o in check.judge(facts, context) if o.status is not Status.PASSED}


def test_the_record_of_the_next_day_is_the_same(tmp_path: Path) -> None:
    # What gate facility is bound to when a run starts in the middle is the text of the record.
    assert drawn(tmp_path, EVE) == drawn(tmp_path, EVE + DAY)


def test_a_fault_of_its_dates_counts_from_the_day_of_the_run_and_leaves_the_next_record_alone(tmp_path: Path) -> None:
    first = drawn(tmp_path, EVE)
    assert f'"expires": "{EVE}"' in drawn(tmp_path, EVE + DAY, valid_days=-1)
    assert drawn(tmp_path, EVE + DAY) == first


@pytest.mark.parametrize("days", [KEPT_DAYS + 1, -1])
def test_a_record_is_issued_anew_when_it_is_old_or_of_the_future(days: int, tmp_path: Path) -> None:
    first = drawn(tmp_path, EVE)
    assert drawn(tmp_path, EVE + days * DAY) != first


def test_another_rehearsal_directory_is_another_room(tmp_path: Path) -> None:
    assert drawn(tmp_path / "a", EVE) != drawn(tmp_path / "b", EVE + DAY)


def test_a_day_that_cannot_be_read_is_today(tmp_path: Path) -> None:
    (tmp_path / "day").write_text("yesterday\n")
    assert day_of_record(tmp_path / "day", EVE) == EVE
    assert day_of_record(tmp_path / "day", EVE + DAY) == EVE
