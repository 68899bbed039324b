# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A room for the tests: written by the rehearsal, looked at by the real observer, judged by the real checks."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_facility_record
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.facility.room import write_facility

TODAY = date(2026, 6, 15)
RACKS = {"rack-a1": ("h100",) * 4, "rack-a2": ("h100", "dgx-h100")}


class Room:
    """One written room and the site that stands in it."""

    def __init__(
        self, directory: Path, racks: dict[str, tuple[str, ...]], hardware: dict[str, Sku], **state: Any
    ) -> None:
        self.directory, self.hardware = directory, hardware
        paths = write_facility(
            site="test", racks=racks, hardware=hardware, directory=directory / "room", today=TODAY, state=state
        )
        hosts = tuple(
            Host(name=f"{rack}-{n}", sku=sku, node_name=f"{rack}-{n}", rack=rack)
            for rack, skus in racks.items()
            for n, sku in enumerate(skus)
        )
        self.site = make_site(hosts, name="test", settings={"facility": {**paths}})

    @property
    def record(self) -> Path:
        """Path of the record."""
        return self.directory / "room" / "record.json"

    def with_settings(self, **settings: Any) -> Room:
        """Give the site more options for gate facility."""
        self.site = replace(self.site, settings={"facility": {**self.site.settings["facility"], **settings}})
        return self

    def observe(self) -> dict[str, Any]:
        """Return what the observer saves."""
        return observe_facility_record.observe(ObserveContext(site=self.site, run_dir=self.directory, today=TODAY))

    def judge(self, today: date = TODAY) -> list[Outcome]:
        """Observe, save, restore and judge with every check of the gate."""
        value = observe_facility_record.restore(self.observe(), self.directory, self.site)
        context = JudgeContext(gate="facility", site=self.site, today=today, hardware=self.hardware)
        return [
            outcome
            for check in all_checks()
            if check.observer is observe_facility_record.OBSERVER
            for outcome in check.judge(value, context)
        ]

    def held(self, today: date = TODAY) -> list[tuple[str, str, str, str]]:
        """Return (check, subject, status, cause) of every outcome that is not passed."""
        return [
            (o.check, o.subjects[0].name, o.status.value, o.cause)
            for o in self.judge(today)
            if o.status is not Status.PASSED
        ]


@pytest.fixture
def make_room(tmp_path: Path) -> Any:
    """Return a function that writes a room: `make_room(signer="stranger")`."""

    def make(
        racks: dict[str, tuple[str, ...]] | None = None, hardware: dict[str, Sku] | None = None, **state: Any
    ) -> Room:
        return Room(tmp_path, racks or RACKS, hardware or HARDWARE, **state)

    return make
