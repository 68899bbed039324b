# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks through BMCs: simulated ones over TLS, read by the real observer, judged by the real checks, both ways."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from bmc_fleet import CHECKS, HARDWARE, fleet
from bmcs import LOGIN
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.bmc_access import BmcAccess
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import is_secret_key
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import (
    Bmc,
    BmcFan,
    Event,
    Supply,
    bmc_of,
)

DGX, TRAY = HARDWARE["dgx-h100"], HARDWARE["gb300-nvl72"]
GOOD = Supply()


def dgx(schema: str = "subsystem", **changes: Any) -> Bmc:
    return replace(bmc_of(DGX, 0), schema=schema, **changes)


def with_supply(supply: Supply, schema: str = "subsystem") -> Bmc:
    bmc = dgx(schema)
    return replace(bmc, supplies=(*bmc.supplies[:-1], supply))


def tray() -> Bmc:
    return bmc_of(TRAY, 0)


def test_healthy_hosts_of_every_schema_pass_every_check(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx(), b=dgx("classic"), c=dgx(), d=tray(), e=tray()) as hosts:
        outcomes = hosts.judge()
        assert [o for o in outcomes if o.status is not Status.PASSED] == []
        assert {(o.check, o.subjects[0].name) for o in outcomes} == {
            (check.spec.id, name) for check in CHECKS for name in "abcde"
        }
        assert "LogServices" in (tmp_path / "evidence/facility/bmc-a.json").read_text()


def test_the_password_is_in_no_file_and_no_outcome(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx(), b=dgx(answers="login-refused")) as hosts:
        told = str(hosts.judge())
    written = "".join(path.read_text() for path in (tmp_path / "evidence").rglob("*.json"))
    assert LOGIN.password not in told + written and LOGIN.user in told


@pytest.mark.parametrize("schema", ["subsystem", "classic"])
@pytest.mark.parametrize(
    ("supply", "status", "cause"),
    [
        (Supply(state="UnavailableOffline", health="Critical"), "failed", "supply-not-working"),
        (Supply(health="Critical"), "failed", "supply-not-working"),
        (Supply(health="Warning"), "other", "supply-warning"),
        (Supply(state="Absent"), "other", "supply-missing"),
        (Supply(health="Critical", line_input="LossOfInput", input_v=0), "failed", "supply-without-input"),
        (Supply(health=""), "other", "supply-health-unknown"),
        (Supply(input_v=0), "other", "supply-health-unknown"),
    ],
)  # fmt: skip
def test_a_supply_that_is_not_good_is_told(
    tmp_path: Path, schema: str, supply: Supply, status: str, cause: str
) -> None:
    with fleet(tmp_path, a=dgx(schema), b=with_supply(supply, schema)) as hosts:
        assert hosts.held() == [("power-supplies", "b", status, cause)]


def test_a_stated_number_of_supplies_is_held(tmp_path: Path) -> None:
    """Bays that are empty by design are no fault once the site says how many supplies there are."""
    with fleet(tmp_path, a=with_supply(Supply(state="Absent")), b=dgx()) as hosts:
        assert hosts.held(power_supplies={"supplies": 5}) == []
        assert hosts.held(power_supplies={"supplies": 6}) == [("power-supplies", "a", "failed", "supply-missing")]


def test_a_server_without_any_supply_does_not_pass_and_a_tray_does(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx(supplies=()), b=dgx(), c=tray(), d=tray()) as hosts:
        held = hosts.held()
        assert ("power-supplies", "a", "other", "no-supplies") in held
        assert {host for _check, host, _status, _cause in held} == {"a"}


def test_redundancy_is_computed_from_what_works(tmp_path: Path) -> None:
    """Six supplies of which four carry the host: one may fail, and half of them may not."""
    bmc = dgx()
    dead = Supply(state="UnavailableOffline", health="Critical")
    with fleet(tmp_path, a=bmc, b=replace(bmc, supplies=(GOOD,) * 4 + (dead,) * 2)) as hosts:
        assert hosts.held(feed_redundancy={"mode": "n"}) == [("power-supplies", "b", "failed", "supply-not-working")]
        assert ("feed-redundancy", "b", "failed", "supply-loss-not-survived") in hosts.held()
        lost = [entry[1:] for entry in hosts.held(feed_redundancy={"mode": "2n"}) if entry[0] == "feed-redundancy"]
        assert lost == [("a", "failed", "feed-loss-not-survived"), ("b", "failed", "feed-loss-not-survived")]


def test_each_feed_alone_has_to_carry_the_host(tmp_path: Path) -> None:
    strong = dgx(supply_w=5200)
    even = {"A": ["*PSU0*", "*PSU1*", "*PSU2*"], "B": ["*PSU3*", "*PSU4*", "*PSU5*"]}
    uneven = {"A": ["*PSU[0-4]*"], "B": ["*PSU5*"]}
    with fleet(tmp_path, a=strong, b=strong) as hosts:
        assert hosts.held(feed_redundancy={"mode": "2n"}) == []
        assert hosts.held(feed_redundancy={"mode": "2n", "feeds": even}) == []
        found = hosts.judge(feed_redundancy={"mode": "2n", "feeds": uneven})
        worst = next(o for o in found if o.check == "feed-redundancy")
        assert worst.cause == "feed-loss-not-survived" and "without feed A" in worst.summary
        partly = hosts.held(feed_redundancy={"mode": "2n", "feeds": {"A": even["A"], "B": ["*PSU3*", "*PSU4*"]}})
        assert partly[0] == ("feed-redundancy", "a", "other", "supply-on-no-feed")


@pytest.mark.parametrize(("health", "status"), [("Critical", "failed"), ("Warning", "other")])
def test_a_group_that_says_that_it_is_redundant_no_more_is_believed(tmp_path: Path, health: str, status: str) -> None:
    with fleet(tmp_path, a=dgx(redundancy_health=health), b=dgx()) as hosts:
        assert hosts.held() == [("feed-redundancy", "a", status, "redundancy-lost")]


@pytest.mark.parametrize("schema", ["subsystem", "classic"])
@pytest.mark.parametrize(
    ("inlet_c", "status", "cause"),
    [(39.0, "failed", "inlet-too-hot"), (33.0, "other", "inlet-warm"), (0.0, "other", "inlet-not-believed")],
)
def test_air_that_is_too_warm_is_told(tmp_path: Path, schema: str, inlet_c: float, status: str, cause: str) -> None:
    with fleet(tmp_path, a=dgx(schema, inlet_c=inlet_c), b=dgx()) as hosts:
        assert hosts.held(inlet_temperature={"max_c": 35, "warning_c": 32}) == [
            ("inlet-temperature", "a", status, cause)
        ]


def test_a_board_inlet_of_a_tray_is_no_inlet_of_the_room_unless_it_is_named(tmp_path: Path) -> None:
    with fleet(tmp_path, a=tray(), b=tray()) as hosts:
        assert hosts.held() == []
        named = hosts.held(inlet_temperature={"sensors": ["PDB 0 Inlet*"], "max_c": 30, "warning_c": 29})
        assert [entry[2:] for entry in named] == [("failed", "inlet-too-hot")] * 2


@pytest.mark.parametrize("schema", ["subsystem", "classic", "tray"])
@pytest.mark.parametrize(
    ("fan", "status", "cause"),
    [
        (BmcFan(rpm=0), "failed", "fan-stopped"), (BmcFan(health="Critical"), "failed", "fan-failed"),
        (BmcFan(health="Warning"), "other", "fan-warning"), (BmcFan(state=""), "other", "fan-health-unknown"),
    ],
)  # fmt: skip
def test_a_fan_that_is_not_good_is_told(tmp_path: Path, schema: str, fan: BmcFan, status: str, cause: str) -> None:
    healthy = tray() if schema == "tray" else dgx(schema)
    with fleet(tmp_path, a=replace(healthy, fans=(BmcFan(), fan)), b=healthy) as hosts:
        assert hosts.held() == [("bmc-fans", "a", status, cause)]


def test_one_machine_has_nothing_to_compare_its_firmware_with(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx()) as hosts:
        assert hosts.held() == []
        stated = hosts.held(bmc_firmware_uniform={"versions": {"HostBIOS_0": "9"}})
        assert stated == [("bmc-firmware-uniform", "a", "failed", "firmware-not-as-stated")]


def test_the_odd_one_out_in_firmware_is_named_with_both_versions(tmp_path: Path) -> None:
    odd = dgx(firmware={**dgx().firmware, "HGX_FW_BMC_0": "HGX-22.08-1"})
    with fleet(tmp_path, a=dgx(), b=odd, c=dgx()) as hosts:
        (found,) = [o for o in hosts.judge() if o.status is not Status.PASSED]
        assert (found.check, found.cause, found.subjects[0].name) == ("bmc-firmware-uniform", "firmware-differs", "b")
        assert "HGX-22.08-1" in found.summary and "HGX-22.10-1-rc80 on 2" in found.summary
        assert hosts.held(bmc_firmware_uniform={"ignored": ["HGX_FW_*"]}) == []


def test_a_split_fleet_waits_for_a_person_and_a_stated_version_decides(tmp_path: Path) -> None:
    odd = dgx(firmware={**dgx().firmware, "HostBIOS_0": "1.04.00"})
    with fleet(tmp_path, a=dgx(), b=odd) as hosts:
        assert [entry[2:] for entry in hosts.held()] == [("other", "firmware-split")] * 2
        held = hosts.held(bmc_firmware_uniform={"versions": {"HostBIOS_0": "1.05.03"}})
        assert held == [("bmc-firmware-uniform", "b", "failed", "firmware-not-as-stated")]


def test_hosts_of_two_skus_are_not_compared(tmp_path: Path) -> None:
    other = replace(tray(), firmware={"HostBMC_0": "9"})
    with fleet(tmp_path, a=dgx(), b=dgx(), c=other, d=other) as hosts:
        assert hosts.held() == []


def test_critical_events_of_late_are_told_until_somebody_takes_note_of_them(tmp_path: Path) -> None:
    """The log is read over several pages, and old, acknowledged and lesser events hold nobody."""
    chatter = tuple(Event(severity="OK", message=f"sensor {n} asserted") for n in range(120))
    bad = Event(severity="Critical", message="PCIe fatal error slot 4", message_id="Platform.1.0.PcieFatal")
    old = Event(severity="Critical", message="an old one", days_ago=400)
    events = (*chatter, Event(severity="Warning", message="fan speed low"), old, bad)
    with fleet(tmp_path, a=dgx(events=events), b=dgx()) as hosts:
        (found,) = [o for o in hosts.judge() if o.status is not Status.PASSED]
        assert (found.check, found.cause) == ("system-event-log", "critical-event")
        assert "PCIe fatal error slot 4" in found.summary and "an old one" not in found.summary
        for pattern in ("PCIe fatal*", "Platform.1.0.*", f"a/{len(events)}"):
            assert hosts.held(system_event_log={"acknowledged": [pattern]}) == []
        assert hosts.held(system_event_log={"acknowledged": ["b/*"]}) != []
        assert "an old one" in str(hosts.judge(system_event_log={"days": 500}))


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"certificate": "expired"}, "bmc-certificate"), ({"certificate": "stranger"}, "bmc-certificate"),
        ({"answers": "busy"}, "bmc-busy"), ({"answers": "login-refused"}, "bmc-login-refused"),
        ({"answers": "nobody"}, "bmc-not-answering"),
    ],
)  # fmt: skip
def test_a_bmc_that_is_not_read_is_told_once_and_passes_nothing(
    tmp_path: Path, changes: dict[str, Any], cause: str
) -> None:
    with fleet(tmp_path, a=dgx(**changes), b=dgx(), c=dgx()) as hosts:
        held = hosts.held()
        reached = ("bmc-reached", "a", "other", cause)
        assert reached in held and {entry[3] for entry in held if entry != reached} == {"blocked-by-bmc-reached"}
        assert {entry[0] for entry in held} == {check.spec.id for check in CHECKS}
        assert {entry[1] for entry in held} == {"a"}


def test_an_account_that_is_not_stated_is_told_and_nothing_is_sent(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx(), b=dgx()) as hosts:
        first = hosts.told("bmc-reached", bmc_reached={"user": "reader"})[0]
        assert first.cause == "bmc-account-missing" and "ansible-vault" in first.hint
        own = {**hosts.site.settings["bmc-reached"], "password": "", "accounts": {
            "a": {"user": LOGIN.user, "password": LOGIN.password}}}  # fmt: skip
        held = hosts.held(bmc_reached=own)
        assert {entry[1] for entry in held if entry[0] == "bmc-reached"} == {"b"}


def test_hosts_without_an_address_are_not_asked_and_the_report_says_so(tmp_path: Path) -> None:
    with fleet(tmp_path, without=("b",), a=dgx(), b=dgx(), c=dgx()) as hosts:
        assert hosts.held() == []
        declaration = declare("facility", hosts.site)
        subjects = {check.id: check.subjects for check in declaration.checks}
        assert subjects["power-supplies"] == ("a", "c")
        told = [entry.reason for entry in declaration.not_declared if entry.id == "power-supplies"]
        assert told == ["needs the address of the BMC: b without gpufleet_bmc"]


def test_a_site_without_addresses_declares_none_of_these_checks() -> None:
    site = make_site((Host(name="a", sku="dgx-h100", node_name="a"),), capabilities=("bmc",))
    assert {check.spec.id for check in CHECKS} & {check.id for check in declare("facility", site).checks} == set()


def test_supplies_that_do_not_carry_the_host_even_all_together_are_told(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx(supply_w=1000), b=dgx()) as hosts:
        assert hosts.held(feed_redundancy={"mode": "n"}) == [("feed-redundancy", "a", "failed", "supplies-too-weak")]


def test_a_sensor_above_the_limit_that_the_bmc_has_for_it_is_told(tmp_path: Path) -> None:
    with fleet(tmp_path, a=dgx("classic", inlet_c=44.0), b=dgx()) as hosts:
        held = hosts.held(inlet_temperature={"max_c": 60, "warning_c": 60})
        assert held == [("inlet-temperature", "a", "failed", "sensor-above-its-limit")]


def test_only_passwords_are_taken_for_secrets_of_a_run() -> None:
    """What is masked in the files of a run has to be stated for every play, so nothing else may look like a secret."""
    names = {field.name for field in fields(BmcAccess)}
    assert {name for name in names if is_secret_key(name)} == {"password"}
