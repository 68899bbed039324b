# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""XIDs by NVIDIA's catalogue, and what ends one: a reset that the driver logs, or one that the site states."""

from __future__ import annotations

import pytest
from fleet_faults import XID, AnyFleet, kernel, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import load_xids
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

CHANGE = "NVRM: Xid (PCI:0000:21:00): 154, GPU recovery action changed from {} to {}"
ASKED = CHANGE.format("0x0 (None)", "0x1 (GPU Reset Required)")
DONE = CHANGE.format("0x1 (GPU Reset Required)", "0x0 (None)")
DOUBLE_BIT = XID.format(48, "DBE (double bit error)")


def test_xid_before_a_later_reset_is_told_and_not_judged(fleet: AnyFleet) -> None:
    kernel(DOUBLE_BIT, ASKED, DONE)(fleet)
    outcomes = fleet.judge(only="kernel-xid")
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert "XID 48 on 0000:21:00.0 before its reset" in next(
        o.summary for o in outcomes if "gpu02" in o.subjects[0].name
    )


@pytest.mark.parametrize("lines", [(DOUBLE_BIT,), (DOUBLE_BIT, ASKED), (ASKED, DONE, DOUBLE_BIT)])
def test_xid_without_a_later_reset_is_judged(fleet: AnyFleet, lines: tuple[str, ...]) -> None:
    kernel(*lines)(fleet)
    assert said(fleet.judge(only="kernel-xid"), Status.FAILED) == {("kernel-xid", "xid-fatal", "gpu02/gpu1")}


def test_reset_of_one_gpu_does_not_end_the_xid_of_another(fleet: AnyFleet) -> None:
    kernel(DOUBLE_BIT.replace("0000:21", "0000:32"), ASKED, DONE)(fleet)
    assert said(fleet.judge(only="kernel-xid"), Status.FAILED) == {("kernel-xid", "xid-fatal", "gpu02/gpu2")}


def test_site_states_when_gpus_were_reset_that_log_none(fleet: AnyFleet) -> None:
    """The lines of the fleet are of 2026-11-21, 08:00 UTC."""
    kernel(DOUBLE_BIT)(fleet)
    fleet.settings["kernel-xid"] = {"not_before": "2026-11-21T09:00:00+00:00"}
    assert {o.status for o in fleet.judge(only="kernel-xid")} == {Status.PASSED}
    fleet.settings["kernel-xid"] = {"not_before": "2026-11-21T07:00:00+00:00"}
    assert said(fleet.judge(only="kernel-xid"), Status.FAILED)
    fleet.settings["kernel-xid"] = {"not_before": "2099-01-01T00:00:00+00:00"}
    assert {o.cause for o in fleet.judge(only="kernel-xid")} == {"xid-start-in-future"}
    fleet.settings["kernel-xid"] = {"not_before": "yesterday"}
    assert {o.cause for o in fleet.judge(only="kernel-xid")} == {"xid-start-unreadable"}


def test_contained_memory_error_waits_for_a_person_at_acceptance(fleet: AnyFleet) -> None:
    kernel(XID.format(94, "Contained: SM"))(fleet)
    assert said(fleet.judge(only="kernel-xid"), Status.OTHER) == {("kernel-xid", "xid-marginal", "gpu02/gpu1")}


@pytest.mark.parametrize(("text", "number"), [("Contained: SM", 94), ("pid=1, SM exception on GPC 1", 157)])
def test_contained_memory_error_is_a_note_on_a_node_in_service(fleet: AnyFleet, text: str, number: int) -> None:
    """NVIDIA's catalogue asks for RESTART_APP there (domain.md T222); a repair that failed waits for a person still."""
    kernel(XID.format(number, text))(fleet)
    found = {o.status for o in fleet.judge(only="kernel-xid", in_service=True)}
    assert found == ({Status.PASSED} if number == 94 else {Status.PASSED, Status.OTHER})


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 68, 69, 80, 92, 121, 137, 160])
def test_what_the_catalogue_leaves_to_the_application_or_ignores_is_a_note(fleet: AnyFleet, number: int) -> None:
    kernel(XID.format(number, "text"))(fleet)
    assert {o.status for o in fleet.judge(only="kernel-xid")} == {Status.PASSED}


@pytest.mark.parametrize(
    ("number", "meaning"), [(46, "fatal"), (62, "fatal"), (79, "fatal"), (156, "fatal"), (157, "marginal")]
)
def test_meaning_follows_the_immediate_action_of_the_catalogue(number: int, meaning: str) -> None:
    """156, a retirement that is recorded, asks for a reset; 157, one that failed, for support."""
    rule = load_xids().rule(number)
    assert rule is not None and rule.meaning == meaning


def test_same_software_xid_on_several_hosts_points_at_the_driver(fleet: AnyFleet) -> None:
    for one in fleet.hosts.values():
        one.kernel.append(XID.format(119, "Timeout waiting for RPC from GSP!"))
    hints = {o.hint for o in fleet.judge(only="kernel-xid") if o.status is Status.FAILED}
    assert all("3 of 3 hosts (driver 580.105.08) report it: look for a fixed driver release first" in h for h in hints)
