# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Feeds of racks by their PDUs: simulated ones over TLS, read by the real observer, judged by the real check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bmc_fleet import HARDWARE, TODAY
from bmcs import LOGIN, running_bmcs
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_pdus, pdu_feeds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.observe_pdus import SeenPdus
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import RackUnit

Judge = Callable[..., list[Outcome]]
HOSTS = tuple(Host(name=f"gpu0{n}", sku="dgx-h100", node_name=f"gpu0{n}", rack="rack-a1") for n in (1, 2))
OTHER = Host(name="gpu03", sku="dgx-h100", node_name="gpu03", rack="rack-a2")


@contextmanager
def rack(tmp_path: Path, capacity_kw: float = 25.0, feeds: str = "AB", **units: RackUnit) -> Iterator[Judge]:
    """Serve PDUs of rack-a1, which hang on the feeds in turn."""
    with running_bmcs(tmp_path / "certificates", units) as running:
        pdus = {
            name: {"address": url, "rack": "rack-a1", "feed": feeds[n % len(feeds)], "capacity_kw": capacity_kw}
            for n, (name, url) in enumerate(running.urls.items())
        }
        access = {"user": LOGIN.user, "password": LOGIN.password, "ca_cert": running.ca_cert, "timeout_s": 20}

        def judge(change: dict[str, Any] | None = None, **settings: Any) -> list[Outcome]:
            stated = {name: {**entry, **(change or {})} for name, entry in pdus.items()}
            own = {"bmc-reached": access, "pdu-feeds": {"pdus": stated, **settings}}
            site = make_site((*HOSTS, OTHER), settings=own, capabilities=("bmc", "pdu_address"))
            around = ObserveContext(site=site, run_dir=tmp_path, today=TODAY, hardware=HARDWARE)
            saved = json.loads(json.dumps(to_plain(observe_pdus.observe(around))))
            seen = from_plain(SeenPdus, saved, "observation pdus")
            context = JudgeContext(gate="facility", site=site, today=TODAY, hardware=HARDWARE)
            declared = {check.id: check.subjects for check in declare("facility", site).checks}
            assert declared["pdu-feeds"] == (() if change and "rack" in change else ("rack-a1",))
            return list(pdu_feeds.judge(seen, context))

        yield judge


def told(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(o.subjects[0].name, o.status.value, o.cause) for o in outcomes]


GOOD = RackUnit()


def test_two_live_feeds_that_can_do_without_each_other_pass(tmp_path: Path) -> None:
    with rack(tmp_path, a=GOOD, b=GOOD) as judge:
        (found,) = judge(redundant=True)
        assert told([found]) == [("rack-a1", "passed", "")]
        assert "25 kW are left for 8 kW drawn now, installed are 2 x dgx-h100 at 10.2 kW = 20.4 kW" in found.summary
    assert LOGIN.password not in (tmp_path / "evidence/facility/pdu-a.json").read_text()


@pytest.mark.parametrize(
    ("unit", "status", "cause"),
    [
        (replace(GOOD, breaker="Tripped"), "failed", "feed-dead"), (replace(GOOD, volts=0), "failed", "feed-dead"),
        (replace(GOOD, volts=198), "failed", "feed-voltage"), (replace(GOOD, volts=400.0), "passed", ""),
        (replace(GOOD, watts=26_000), "failed", "pdu-overloaded"),
        (replace(GOOD, health="Critical"), "failed", "pdu-not-healthy"),
        (replace(GOOD, answers="busy"), "other", "pdu-busy"),
        (replace(GOOD, certificate="expired"), "other", "pdu-certificate"),
        (replace(GOOD, answers="login-refused"), "other", "pdu-login-refused"),
    ],
)  # fmt: skip
def test_a_pdu_that_is_not_good_is_told_about_its_rack(tmp_path: Path, unit: RackUnit, status: str, cause: str) -> None:
    with rack(tmp_path, a=GOOD, b=unit) as judge:
        assert told(judge()) == [("rack-a1", status, cause)]


def test_a_pdu_whose_answer_does_not_fit_the_schema_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_args: Any) -> None:
        raise InputError("Redfish /redfish/v1/PowerEquipment/RackPDUs/1", "has no Outlets and no Branches")

    with rack(tmp_path, a=GOOD, b=GOOD) as judge:
        monkeypatch.setattr(observe_pdus, "read_pdus", read)
        assert told(judge()) == [("rack-a1", "other", "pdu-not-read")]


def test_the_loss_of_a_feed_is_judged_by_what_is_installed_and_by_what_is_drawn(tmp_path: Path) -> None:
    with rack(tmp_path, capacity_kw=20, a=GOOD, b=GOOD) as judge:
        (found,) = judge(redundant=True)
        assert found.cause == "feed-not-redundant" and "20.4 kW" in found.summary
        assert told(judge()) == [("rack-a1", "passed", "")]
    busy = replace(GOOD, watts=14_000)
    with rack(tmp_path, a=busy, b=busy) as judge:
        assert told(judge(redundant=True)) == [("rack-a1", "failed", "feed-not-redundant")]


def test_what_redundancy_needs_and_is_not_stated_is_not_known(tmp_path: Path) -> None:
    with rack(tmp_path, feeds="A", a=GOOD, b=GOOD) as judge:
        assert told(judge(redundant=True)) == [("rack-a1", "failed", "single-feed")]
        assert told(judge({"feed": ""}, redundant=True)) == [("rack-a1", "other", "fact-not-known")]
        assert told(judge({"capacity_kw": 0}, redundant=True)) == [("rack-a1", "other", "fact-not-known")]
        assert told(judge({"address": "http://10.0.0.1"})) == [("rack-a1", "other", "pdu-address-wrong")]
        with pytest.raises(InputError, match="no host stands there"):
            judge({"rack": "rack-z"})
