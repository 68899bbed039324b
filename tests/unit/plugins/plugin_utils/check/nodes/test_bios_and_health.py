# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BIOS of machines of one product, and what DCGM's watches say."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

BIOS, HEALTH = "bios-uniform", "dcgm-health"
NO_WATCHES = "Error: Health watches not enabled. Please enable watches. \n"


def table(version: str, product: str = "PowerEdge XE9680") -> str:
    return (
        "# dmidecode 3.3\nSMBIOS 3.3.0 present.\n\nHandle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n"
        f"\tVersion: {version}\n\nHandle 0x0100, DMI type 1, 27 bytes\nSystem Information\n"
        f"\tManufacturer: Dell Inc.\n\tProduct Name: {product}\n"
    )


def report(health: str, more: str = "") -> str:
    return f'{{"body": {{"Overall Health": {{"value": "{health}"}}{more}}}, "header": ["Health Monitor Report"]}}'


def judged(fleet: AnyFleet, check: str, tool: str, stdout: str, **run: object) -> tuple[Outcome, ...]:
    """Judge a fleet of which one host's tool says something else."""
    fields = {"rc": 0, "stdout": stdout} | run
    fleet.hosts["gpu02"].tools[tool] = ToolRun(argv=(tool,), **fields)  # type: ignore[arg-type]  # any of its fields
    outcomes: tuple[Outcome, ...] = fleet.judge(only=check)
    return outcomes


def test_machines_with_one_bios_pass_and_another_waits_for_a_person(fleet: AnyFleet) -> None:
    assert {outcome.status for outcome in judged(fleet, BIOS, "dmidecode", table("2.1.3"))} == {Status.PASSED}
    assert said(judged(fleet, BIOS, "dmidecode", table("1.9.0")), Status.OTHER) == {(BIOS, "bios-mismatch", "gpu02")}


def test_a_machine_of_another_product_has_a_bios_of_its_own(fleet: AnyFleet) -> None:
    outcomes = judged(fleet, BIOS, "dmidecode", table("1.9.0", "PowerEdge XE9640"))
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}


def test_the_bios_that_the_site_states_counts(fleet: AnyFleet) -> None:
    fleet.settings[BIOS] = {"version": "2.2.0"}
    outcomes = judged(fleet, BIOS, "dmidecode", table("2.2.0"))
    assert {outcome.subjects[0].name for outcome in outcomes if outcome.status is Status.OTHER} == {"gpu01", "gpu03"}


def test_a_bios_that_does_not_say_its_version_is_open(fleet: AnyFleet) -> None:
    outcomes = judged(fleet, BIOS, "dmidecode", table("Not Specified"))
    assert said(outcomes, Status.OTHER) == {(BIOS, "bios-not-reported", "gpu02")}


@pytest.mark.parametrize(
    ("health", "status", "cause"),
    [("Failure", Status.FAILED, "dcgm-health-failure"), ("Warning", Status.OTHER, "dcgm-health-warning")],
)
def test_what_dcgms_watches_say_of_a_host_is_told_with_their_words(
    fleet: AnyFleet, health: str, status: Status, cause: str
) -> None:
    more = (
        f', "GPU": {{"children": {{"0": {{"value": "{health}", "children": {{"PCIe": {{"value": "8 replays"}}}}}}}}}}'
    )
    outcomes = judged(fleet, HEALTH, "dcgmi_health", report(health, more))
    assert said(outcomes, status) == {(HEALTH, cause, "gpu02")}
    assert "GPU / 0 / PCIe: 8 replays" in next(o.summary for o in outcomes if o.cause == cause)


def test_a_host_whose_health_nobody_watches_passes_unless_the_site_wants_watches(fleet: AnyFleet) -> None:
    outcomes = judged(fleet, HEALTH, "dcgmi_health", NO_WATCHES, rc=253)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    assert any("nobody has DCGM watch" in outcome.summary for outcome in outcomes)
    fleet.settings[HEALTH] = {"watches_required": True}
    outcomes = judged(fleet, HEALTH, "dcgmi_health", NO_WATCHES, rc=253)
    assert said(outcomes, Status.OTHER) == {(HEALTH, "dcgm-health-not-watched", "gpu02")}


@pytest.mark.parametrize(("stdout", "rc"), [(report("Fine"), 0), ("Error: unable to connect\n", 1)])
def test_a_report_that_nobody_knows_is_open(fleet: AnyFleet, stdout: str, rc: int) -> None:
    outcomes = judged(fleet, HEALTH, "dcgmi_health", stdout, rc=rc)
    assert {outcome.cause for outcome in outcomes if outcome.status is Status.OTHER} <= {
        "dcgmi-health-garbage",
        "dcgmi-health-failed",
    }
    assert sum(outcome.status is Status.OTHER for outcome in outcomes) == 1


def test_dcgmi_that_is_missing_is_said_once(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ToolRun(argv=("dcgmi",), missing=True)
    (held,) = [o for o in judged(fleet, HEALTH, "dcgmi_health", "", missing=True) if o.status is not Status.PASSED]
    assert held.blocked_by == "dcgm-diag"


def test_dcgmi_that_is_missing_is_told_where_a_diagnostic_is_asked_and_was_put_off(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ToolRun(argv=("dcgmi",), withheld="in-use", stderr="in use by python3")
    outcomes = judged(fleet, HEALTH, "dcgmi_health", "", missing=True)
    assert said(outcomes, Status.OTHER) == {(HEALTH, "dcgmi-health-missing", "gpu02")}


def test_a_host_without_dcgm_of_which_no_diagnostic_is_asked_passes(fleet: AnyFleet) -> None:
    fleet.settings["dcgm-diag"] = {"level": 0}
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ToolRun(argv=("dcgmi",), withheld="held", stderr="another run")
    assert {o.status for o in judged(fleet, HEALTH, "dcgmi_health", "", missing=True)} == {Status.PASSED}
