# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with simulated BMCs, read by the real observer and judged by the real checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bmcs import LOGIN, running_bmcs
from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_bmcs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.observe_bmcs import SeenBmcs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import Bmc

TODAY = datetime.now(UTC).date()
CHECKS = [check for check in all_checks() if check.observer is observe_bmcs.OBSERVER]
Held = list[tuple[str, str, str, str]]


class Fleet:
    """Hosts with BMCs that answer."""

    def __init__(self, directory: Path, bmcs: Mapping[str, Bmc], urls: Mapping[str, str], ca_cert: str) -> None:
        self.directory, self.opened = directory, {}
        access = {"user": LOGIN.user, "password": LOGIN.password, "ca_cert": ca_cert, "timeout_s": 20, "limit_s": 60}
        skus = {name: "gb300-nvl72" if bmc.schema == "tray" else "dgx-h100" for name, bmc in bmcs.items()}
        hosts = tuple(
            Host(name=name, sku=skus[name], node_name=name, rack="rack-a1", bmc=urls.get(name, "")) for name in bmcs
        )
        words = ("bmc", "bmc_address")
        self.site: Site = make_site(hosts, name="test", settings={"bmc-reached": access}, capabilities=words)

    def judge(self, **settings: dict[str, Any]) -> list[Outcome]:
        """Observe, save, restore and judge with every check."""
        stated = {**self.site.settings, **{name.replace("_", "-"): value for name, value in settings.items()}}
        site = replace(self.site, settings=stated)
        context = ObserveContext(site=site, run_dir=self.directory, today=TODAY, hardware=HARDWARE)
        saved = json.loads(json.dumps(to_plain(observe_bmcs.observe(context))))
        seen = from_plain(SeenBmcs, saved, "observation bmcs")
        around = JudgeContext(gate="facility", site=site, today=TODAY, hardware=HARDWARE)
        return [outcome for check in CHECKS for outcome in check.judge(seen, around)]

    def held(self, **settings: dict[str, Any]) -> Held:
        """Return (check, host, status, cause) of every outcome that is not passed."""
        return [
            (o.check, o.subjects[0].name, o.status.value, o.cause)
            for o in self.judge(**settings)
            if o.status is not Status.PASSED
        ]

    def told(self, check: str, **settings: dict[str, Any]) -> list[Outcome]:
        """Return the outcomes of one check."""
        return [outcome for outcome in self.judge(**settings) if outcome.check == check]


@contextmanager
def fleet(tmp_path: Path, without: tuple[str, ...] = (), **bmcs: Bmc) -> Iterator[Fleet]:
    with running_bmcs(tmp_path / "certificates", bmcs) as running:
        urls = {name: url for name, url in running.urls.items() if name not in without}
        yield Fleet(tmp_path, bmcs, urls, running.ca_cert)
        assert [name for name, one in running.controllers.items() if one.open_sessions] == []
