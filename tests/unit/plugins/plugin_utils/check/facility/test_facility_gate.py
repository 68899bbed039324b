# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gate facility in both directions: a healthy room passes; each fault fails its check, with cause and subject."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.settings import FacilitySettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    InputError,
    NotFoundError,
    ProblemsError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Basis, Rating, Status

TODAY = date(2026, 6, 15)


def test_a_healthy_room_passes_every_check_for_every_rack(make_room: Any) -> None:
    outcomes = make_room().judge()
    assert {o.status for o in outcomes} == {Status.PASSED}
    per_rack = [o for o in outcomes if o.check == "facility-power"]
    assert [o.subjects[0].name for o in per_rack] == ["rack-a1", "rack-a2"]
    arithmetic = per_rack[0].expected[0].arithmetic
    assert arithmetic == "4 x dgx-h100 at 10.2 kW = 40.8 kW; record grants 51 kW; 10.2 kW left"
    assert per_rack[0].measured[0].value == 40.8
    assert "rack-a1" in per_rack[0].evidence[0].excerpt
    assert "rack-a2" not in per_rack[0].evidence[0].excerpt
    of_the_record = {check.spec.id for check in all_checks() if check.observer.key == "facility-record"}
    assert of_the_record == {o.check for o in outcomes}


@pytest.mark.parametrize(
    ("state", "held"),
    [
        ({"tampered": True}, [("facility-signature", "test", "failed", "signature-bad")]),
        ({"signer": "stranger"}, [("facility-signature", "test", "failed", "signer-unknown")]),
        ({"signer": "nobody"}, [("facility-signature", "test", "failed", "signature-missing")]),
        ({"changed_evidence": ["floor-survey.txt"]}, [("facility-evidence", "test", "failed", "evidence-changed")]),
        ({"missing_evidence": ["floor-survey.txt"]}, [("facility-evidence", "test", "failed", "evidence-missing")]),
        ({"expires_in_days": -1}, [("facility-expiry", "test", "failed", "expired")]),
        ({"expires_in_days": 30}, [("facility-expiry", "test", "other", "expires-soon")]),
        ({"issued_days_ago": -1}, [("facility-expiry", "test", "failed", "issued-in-future")]),
        ({"margins": {"rack-a2": {"power": 0.9}}}, [("facility-power", "rack-a2", "failed", "over-budget")]),
        ({"margins": {"rack-a1": {"cooling": 0.9}}}, [("facility-cooling", "rack-a1", "failed", "over-budget")]),
        ({"margins": {"rack-a2": {"floor_load": 0.9}}}, [("facility-floor-load", "rack-a2", "failed", "over-budget")]),
        ({"dead_pdus": ["rack-a2-pdu-b"]}, [("facility-pdus", "rack-a2", "failed", "pdu-not-energized")]),
        (
            {"absent_racks": ["rack-a1"]},
            [
                (check, "rack-a1", "failed", "rack-not-in-record")
                for check in ("facility-cooling", "facility-floor-load", "facility-pdus", "facility-power")
            ],
        ),
        (
            {"tampered": True, "margins": {"rack-a1": {"floor_load": 0.5}}},
            [
                ("facility-floor-load", "rack-a1", "failed", "over-budget"),
                ("facility-signature", "test", "failed", "signature-bad"),
            ],
        ),
    ],
)
def test_a_fault_is_found_and_nothing_else(make_room: Any, state: dict[str, Any], held: list[Any]) -> None:
    assert make_room(**state).held() == held


def test_causes_are_declared(make_room: Any) -> None:
    declared = {check.spec.id: check.spec.causes for check in all_checks()}
    state = {"signer": "stranger", "expires_in_days": -1, "absent_racks": ["rack-a1"], "dead_pdus": ["rack-a2-pdu-a"]}
    for check, _subject, _status, cause in make_room(**state).held():
        assert cause in declared[check]


def test_the_expiry_is_marginal_and_the_last_day_counts(make_room: Any) -> None:
    room = make_room(expires_in_days=31)
    assert room.held() == []
    soon = next(o for o in room.judge(TODAY + timedelta(days=31)) if o.check == "facility-expiry")
    assert (soon.status, soon.rating, soon.cause) == (Status.OTHER, Rating.MARGINAL, "expires-soon")
    late = next(o for o in room.judge(TODAY + timedelta(days=32)) if o.check == "facility-expiry")
    assert late.cause == "expired"


def test_a_switch_allowance_counts_and_is_shown(make_room: Any) -> None:
    room = make_room().with_settings(
        switch_allowance={"power_kw": 10.2}, rack_allowances={"rack-a2": {"power_kw": 30, "weight_kg": 1}}
    )
    assert room.held() == [("facility-power", "rack-a2", "failed", "over-budget")]
    power = {o.subjects[0].name: o for o in room.judge() if o.check == "facility-power"}
    assert "10.2 kW beside the hosts = 51 kW; record grants 51 kW; 0 kW left" in power["rack-a1"].summary
    assert "24.9 kW over" in power["rack-a2"].summary
    assert power["rack-a2"].expected[0].basis is Basis.RECORD


def test_a_sku_without_the_fact_is_unknown_not_passed(make_room: Any) -> None:
    room = make_room()
    bare = replace(room.hardware["dgx-h100"], weight_kg=None)
    room.hardware = {**room.hardware, "h100": bare, "dgx-h100": bare}
    assert room.held() == [("facility-floor-load", rack, "other", "fact-not-known") for rack in ("rack-a1", "rack-a2")]
    room.hardware = {}
    assert {(status, cause) for _c, _s, status, cause in room.held()} == {("other", "sku-unknown")}


def test_the_facts_of_the_aliases_in_use_are_enough(make_room: Any) -> None:
    room = make_room(racks={"rack-a1": ("h100", "h100")})
    room.hardware = {"h100": room.hardware["h100"]}
    assert room.held() == []


def test_a_rack_system_is_counted_whole(make_room: Any) -> None:
    tray = replace(
        make_room().hardware["h100"],
        name="tray",
        aliases=(),
        power_max_w=None,
        weight_kg=None,
        rack_hosts=18,
        rack_power_max_w=132000,
        rack_weight_kg=1360.0,
    )
    room = make_room(racks={"r1": ("tray",) * 18, "r2": ("tray",) * 19}, hardware={"tray": tray})
    power = [o.summary for o in room.judge() if o.check == "facility-power"]
    assert power[0].startswith("1 x rack of 18 tray at 132 kW (18 hosts) = 132 kW;")
    assert power[1].startswith("2 x rack of 18 tray at 132 kW (19 hosts) = 264 kW;")
    assert room.held() == []


def _tray(make_room: Any) -> Any:
    return replace(
        make_room().hardware["h100"], name="tray", aliases=(), power_max_w=None, weight_kg=None, rack_hosts=18,
        rack_power_max_w=132000, rack_weight_kg=1360.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hosts", "granted", "held"),
    [
        # The room grants what a whole rack takes: nine trays take less.
        (9, 1.0, []),
        # Between the share of nine trays (66 kW) and the whole (132 kW) nobody can say.
        (9, 0.6, [("facility-power", "r1", "other", "partial-rack-unknown")]),
        # Less than the trays' share is too little however the rest is counted.
        (9, 0.4, [("facility-power", "r1", "failed", "over-budget")]),
        (18, 0.9, [("facility-power", "r1", "failed", "over-budget")]),
    ],
)
def test_a_rack_system_that_is_not_full_is_not_budgeted_as_full(
    make_room: Any, hosts: int, granted: float, held: list[Any]
) -> None:
    tray = _tray(make_room)
    room = make_room(racks={"r1": ("tray",) * hosts}, hardware={"tray": tray}, margins={"r1": {"power": granted}})
    assert room.held() == held
    (power,) = [o for o in room.judge() if o.check == "facility-power"]
    if held and held[0][2] == "other":
        assert power.rating is Rating.MARGINAL
        assert "between 66 (the share of its trays) and 132 kW (the whole rack)" in power.summary


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ({"feed_kw": 41.0}, ""),
        ({"feed_kw": 40.0}, "feed-not-redundant"),
        ({"feed_kw": 90.0, "feeds": ["A"]}, "single-feed"),
        ({}, "feeds-not-stated"),
    ],
)
def test_a_rack_runs_on_when_one_feed_is_lost(make_room: Any, state: dict[str, Any], cause: str) -> None:
    """Four hosts of 10.2 kW: 40.8 kW must come over either feed alone."""
    room = make_room(racks={"rack-a1": ("h100",) * 4}, **state)
    assert room.held() == []
    status = "other" if cause == "feeds-not-stated" else "failed"
    wanted = [("facility-pdus", "rack-a1", status, cause)] if cause else []
    assert room.with_settings(redundant_feeds=True).held() == wanted


def test_units_and_reports_that_the_record_does_not_name(make_room: Any) -> None:
    assert make_room(bare_racks=["rack-a1"]).held() == [("facility-pdus", "rack-a1", "failed", "pdu-not-listed")]
    assert make_room(evidence_listed=False).held() == [("facility-evidence", "test", "failed", "evidence-none")]


def test_a_record_with_an_unknown_key_is_not_known_and_names_the_nearest(make_room: Any) -> None:
    room = make_room()
    text = room.record.read_text(encoding="utf-8").replace('"floor_load_kg"', '"floor_laod_kg"')
    room.record.write_text(text, encoding="utf-8")
    outcomes = room.judge()
    assert {o.cause for o in outcomes if o.check != "facility-signature"} == {"record-invalid"}
    assert all(o.status is Status.OTHER for o in outcomes if o.check != "facility-signature")
    assert any("did you mean 'floor_load_kg'" in o.summary for o in outcomes)
    assert [o.cause for o in outcomes if o.check == "facility-signature"] == ["signature-bad"]


def test_a_record_of_another_site_or_another_signer_fails(make_room: Any) -> None:
    room = make_room()
    room.site = replace(room.site, name="elsewhere")
    assert [cause for check, _s, _st, cause in room.held() if check == "facility-signature"] == ["record-of-other-site"]
    # Who signs a record should know first that it is another site's.
    room = make_room(signer="nobody")
    site, room.site = room.site.name, replace(room.site, name="elsewhere")
    (found,) = (outcome for outcome in room.judge() if outcome.check == "facility-signature")
    assert found.cause == "signature-missing" and f"is of site {site!r}, this is 'elsewhere'" in found.summary
    room = make_room().with_settings(identity="somebody@else.example")
    assert [cause for check, _s, _st, cause in room.held() if check == "facility-signature"] == ["signer-unknown"]
    (found,) = (outcome for outcome in room.judge() if outcome.check == "facility-signature")
    # The key is an allowed signer's: what differs is the identity that the inventory asks for.
    assert "facility@rehearsal.invalid" in found.summary and "somebody@else.example" in found.summary
    assert "gpufleet_settings.facility.identity" in found.hint and "allowed_signers" not in found.hint


def test_a_list_of_signers_that_is_missing_hides_nothing_else(make_room: Any) -> None:
    """It was the failure of the observation, so each other fault showed only in the run after it was mended."""
    room = make_room(margins={"rack-a2": {"power": 0.9}})
    absent = str(room.directory / "none")
    over = ("facility-power", "rack-a2", "failed", "over-budget")
    room = room.with_settings(allowed_signers=absent)
    assert room.held() == [over, ("facility-signature", "test", "other", "signature-not-verified")]
    (found,) = (outcome for outcome in room.judge() if outcome.check == "facility-signature")
    assert absent in found.summary and "list who may sign" in found.hint
    room = make_room(signer="nobody", margins={"rack-a2": {"power": 0.9}}).with_settings(allowed_signers=absent)
    assert room.held() == [over, ("facility-signature", "test", "failed", "signature-missing")]
    (found,) = (outcome for outcome in room.judge() if outcome.check == "facility-signature")
    assert "ssh-keygen -Y sign" in found.hint and f"list the key in {absent}" in found.hint


def test_a_signature_for_another_purpose_is_refused(make_room: Any) -> None:
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.signature.ssh_keygen import sign_file

    room = make_room()
    sign_file(room.record, room.record.parent / "signer.key", namespace="git")
    assert [cause for _c, _s, _st, cause in room.held()] == ["signature-bad"]


def test_what_keeps_the_observer_from_looking_is_said(make_room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    room = make_room()
    with pytest.raises(NotFoundError, match="facility_record"):
        room.with_settings(record=str(room.directory / "none.yaml")).observe()
    room = make_room()
    monkeypatch.setenv("PATH", str(room.directory))
    with pytest.raises(NotFoundError, match="install the OpenSSH client"):
        room.observe()


def test_settings_are_strict() -> None:
    with pytest.raises(InputError, match=r"gpufleet_settings\.facility\.record: not set"):
        checked_settings(FacilitySettings, "facility", {}).require_record()
    with pytest.raises(ProblemsError, match="did you mean 'identity'"):
        checked_settings(FacilitySettings, "facility", {"record": "a", "allowed_signers": "b", "identiti": "c"})
    with pytest.raises(ProblemsError, match=r"switch_allowance: is -1, expected 0 or more"):
        checked_settings(FacilitySettings, "facility", {"switch_allowance": {"power_kw": -1}})


def test_evidence_may_not_leave_the_directory(make_room: Any) -> None:
    room = make_room()
    outside = room.directory / "outside.txt"
    outside.write_text("x", encoding="utf-8")
    survey = room.record.parent / "evidence" / "floor-survey.txt"
    survey.unlink()
    survey.symlink_to(outside)
    assert [cause for _c, _s, _st, cause in room.held()] == ["evidence-missing"]
    record = json.loads(room.record.read_text(encoding="utf-8"))
    record["evidence"][0]["path"] = "../outside.txt"
    room.record.write_text(json.dumps(record), encoding="utf-8")
    assert ("facility-evidence", "test", "other", "record-invalid") in room.held()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_the_record_is_found(make_room: Any, data: st.DataObject) -> None:
    room = make_room()
    raw = bytearray(room.record.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
    room.record.write_bytes(bytes(raw))
    try:
        outcomes = room.judge()
    except InputError as error:  # not text any more: the observation fails, and with it every check
        assert "UTF-8" in str(error)
        return
    assert [(o.status, o.cause) for o in outcomes if o.check == "facility-signature"] == [
        (Status.FAILED, "signature-bad")
    ]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_the_evidence_is_found_and_named(make_room: Any, data: st.DataObject) -> None:
    room = make_room()
    name = data.draw(st.sampled_from(["load-bank-test.txt", "floor-survey.txt"]))
    path = room.record.parent / "evidence" / name
    raw = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
    path.write_bytes(bytes(raw))
    held = [o for o in room.judge() if o.status is not Status.PASSED]
    assert [(o.check, o.cause) for o in held] == [("facility-evidence", "evidence-changed")]
    assert name in held[0].summary


def test_the_observation_is_plain_data_without_keys(make_room: Any) -> None:
    room = make_room(tampered=True)
    saved = json.loads(json.dumps(room.observe()))
    assert saved["signature"]["intact"]["rc"] not in (0, None)
    assert saved["record_text"] == room.record.read_text(encoding="utf-8")
    assert "PRIVATE KEY" not in json.dumps(saved)
