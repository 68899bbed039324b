# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bit errors and cable modules of the ports for GPU traffic."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

CHECK = "link-quality"


def judged(fleet: AnyFleet, **changes: str) -> tuple[Outcome, ...]:
    """Judge a fleet of which one adapter says something else."""
    fleet.hosts["gpu02"].hcas["mlx5_2"] |= changes
    outcomes: tuple[Outcome, ...] = fleet.judge(only=CHECK)
    return outcomes


def test_ports_without_errors_behind_the_correction_pass(fleet: AnyFleet) -> None:
    outcomes = judged(fleet, raw="1E-7")
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    assert "4 ports with a bit error rate of at most 0e+00, 1e-07 raw, modules at most 52 °C" in {
        outcome.summary for outcome in outcomes
    }


@pytest.mark.parametrize(
    ("changes", "status", "cause"),
    [
        ({"ber": "2E-9", "raw": "3E-5"}, Status.FAILED, "link-ber-high"),
        ({"raw": "3E-5"}, Status.OTHER, "link-raw-ber-high"),
        ({"ber": "5E-13"}, Status.OTHER, "link-ber-marginal"),
        ({"ber": "1E-12"}, Status.OTHER, "link-ber-marginal"),
        ({"module": "81 [-5..75]"}, Status.FAILED, "cable-module-hot"),
    ],
)
def test_what_is_wrong_with_one_adapter_is_said_of_it(
    fleet: AnyFleet, changes: dict[str, str], status: Status, cause: str
) -> None:
    outcomes = judged(fleet, **changes)
    assert said(outcomes, status) == {(CHECK, cause, "gpu02/mlx5_2")}
    assert sum(outcome.status is Status.PASSED for outcome in outcomes) == 2


@pytest.mark.parametrize("module", ["N/A", "75 [-5..75]", "81"])
def test_a_module_within_its_limit_or_without_one_passes(fleet: AnyFleet, module: str) -> None:
    assert {outcome.status for outcome in judged(fleet, module=module)} == {Status.PASSED}


def test_a_limit_of_the_site_wins_over_that_of_the_module(fleet: AnyFleet) -> None:
    fleet.settings[CHECK] = {"module_temperature_c": 50}
    assert {outcome.cause for outcome in judged(fleet)} == {"cable-module-hot"}


def test_a_port_that_is_down_is_left_to_the_state_of_the_adapters(fleet: AnyFleet) -> None:
    (held,) = [outcome for outcome in judged(fleet, link="Polling") if outcome.status is not Status.PASSED]
    assert held.blocked_by == "hca-state"


@pytest.mark.parametrize(
    ("changes", "says"), [({"ber": "N/A"}, "no bit error rate of mlx5_2"), ({"raw": "N/A"}, "no bit error rate")]
)
def test_a_port_whose_error_rates_are_not_told_is_open(fleet: AnyFleet, changes: dict[str, str], says: str) -> None:
    (held,) = [outcome for outcome in judged(fleet, **changes) if outcome.status is not Status.PASSED]
    assert (held.status, held.cause) == (Status.OTHER, "link-quality-not-reported") and says in held.summary


@pytest.mark.parametrize("rest", ["", "===== mlx5_3 =====\n-E- Failed to open device\n"])
def test_an_adapter_of_which_nothing_is_printed_is_open(fleet: AnyFleet, rest: str) -> None:
    ports = "".join(
        f"===== mlx5_{n} =====\nState : Active\nEffective Physical BER : 15E-255\nRaw Physical BER : 4E-9\n"
        for n in range(3)
    )
    fleet.hosts["gpu02"].tools["mlxlink"] = ToolRun(argv=("sh",), rc=0, stdout=ports + rest)
    (held,) = [outcome for outcome in judged(fleet) if outcome.status is not Status.PASSED]
    assert held.cause == "link-quality-not-reported" and "mlx5_3" in held.summary


def test_a_host_without_mlxlink_is_held_unless_the_site_does_not_require_it(fleet: AnyFleet) -> None:
    """A shell ends with 127 where the program is not there."""
    fleet.hosts["gpu02"].tools["mlxlink"] = ToolRun(argv=("sh", "-c", "..."), rc=127)
    outcomes = judged(fleet)
    assert said(outcomes, Status.OTHER) == {(CHECK, "mlxlink-missing", "gpu02")}
    assert "mlxlink is not installed" in next(o.summary for o in outcomes if o.cause == "mlxlink-missing")
    fleet.settings[CHECK] = {"required": False}
    assert {outcome.status for outcome in judged(fleet)} == {Status.PASSED}


@pytest.mark.parametrize(("virtual", "kind"), [("microsoft", "MT4129"), ("none", "MT4126")])
def test_virtual_functions_have_no_link_of_their_own(fleet: AnyFleet, virtual: str, kind: str) -> None:
    host = fleet.hosts["gpu02"]
    for values in host.hcas.values():
        values["type"] = kind
    host.tools["virtualisation"] = ToolRun(argv=("systemd-detect-virt",), rc=0, stdout=f"{virtual}\n")
    host.tools["mlxlink"] = ToolRun(argv=("sh",), rc=1, stdout="===== mlx5_0 =====\n-E- Device is not supported\n")
    assert {outcome.status for outcome in judged(fleet)} == {Status.PASSED}
