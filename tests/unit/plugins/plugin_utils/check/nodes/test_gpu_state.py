# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of the GPUs: what is a fault, what is a decision of the site, and what healthy sites show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fleet_faults import AnyFleet, gpu, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status


def _all_gpus(fleet: AnyFleet, **values: str) -> None:
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values |= values


def test_persistence_mode_off_on_all_hosts_is_healthy(fleet: AnyFleet) -> None:
    """A published B200 has it off (NVIDIA/k8s-test-infra)."""
    _all_gpus(fleet, persistence="Disabled")
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


def test_power_limit_that_all_gpus_share_is_a_question_to_the_site(fleet: AnyFleet) -> None:
    _all_gpus(fleet, limit="500.00 W")
    outcomes = fleet.judge(only="gpu-power-limit")
    assert {(o.cause, o.rating) for o in outcomes} == {("power-limit-below-default", Rating.MARGINAL)}
    fleet.settings["gpu-power-limit"] = {"power_limit_w": 500}
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


def test_hot_gpus_without_work_fail_on_every_host_alike(fleet: AnyFleet) -> None:
    _all_gpus(fleet, temp="92", margin="N/A")
    assert {cause for _check, cause, _subject in said(fleet.judge(), Status.FAILED)} == {"gpu-hot"}


def test_gpus_that_work_may_be_warm_and_capped_by_power(fleet: AnyFleet) -> None:
    _all_gpus(fleet, temp="74", margin="13 C", draw="690.00 W", slow="sw_power_cap")
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


@pytest.mark.parametrize(
    ("values", "check", "cause"),
    [
        ({"limit": "N/A"}, "gpu-power-limit", "power-limit-not-reported"),
        ({"persistence": "N/A"}, "gpu-persistence", "persistence-mode-not-reported"),
        ({"vbios": "N/A"}, "vbios-uniform", "vbios-not-reported"),
    ],
)
def test_state_that_is_not_reported_is_not_good(
    fleet: AnyFleet, values: dict[str, str], check: str, cause: str
) -> None:
    gpu(1, **values)(fleet)
    outcomes = fleet.judge()
    assert {(c, w) for c, w, _subject in said(outcomes, Status.OTHER)} == {(check, cause)}
    assert not said(outcomes, Status.FAILED)


def test_a_driver_that_lists_no_reasons_for_lower_clocks_is_not_good(fleet: AnyFleet) -> None:
    for part in fleet.hosts["gpu02"].gpus:
        part.values |= {"slow": "none"}
    assert {(c, w) for c, w, _subject in said(fleet.judge(), Status.OTHER)} == {
        ("gpu-throttle", "gpu-throttle-not-reported")
    }


@pytest.mark.parametrize(
    ("change", "check", "cause", "status"),
    [
        (lambda one: setattr(one, "driver", "570.148.08"), "driver-uniform", "driver-split", Status.FAILED),
        (lambda one: setattr(one, "release", "5.15.0-112-generic"), "kernel-uniform", "kernel-split", Status.OTHER),
        (
            lambda one: [part.values.update(vbios="96.00.61.00.01") for part in one.gpus],
            "vbios-uniform",
            "vbios-split",
            Status.OTHER,
        ),
        (
            lambda one: [values.update(firmware="28.36.1010") for values in one.hcas.values()],
            "hca-firmware-uniform",
            "hca-firmware-split",
            Status.OTHER,
        ),
    ],
)
def test_fleet_of_two_halves_is_one_fact_with_two_lists_of_hosts(
    make_fleet: Callable[[int], AnyFleet],
    change: Callable[[AnyFleet], None],
    check: str,
    cause: str,
    status: Status,
) -> None:
    fleet = make_fleet(8)
    for name in ("gpu05", "gpu06", "gpu07", "gpu08"):
        change(fleet.hosts[name])
    outcomes = [o for o in fleet.judge() if o.status is not Status.PASSED]
    assert [(o.check, o.cause, o.status) for o in outcomes] == [(check, cause, status)]
    assert [subject.name for subject in outcomes[0].subjects] == [f"gpu{n:02d}" for n in range(1, 9)]
    assert "gpu01, gpu02, gpu03, gpu04" in outcomes[0].summary
    assert "gpu05, gpu06, gpu07, gpu08" in outcomes[0].summary


def test_storage_adapters_may_have_other_firmware(fleet: AnyFleet) -> None:
    """Compute and storage adapters of one type are serviced apart from each other."""
    fleet.stated_hcas = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    for one in fleet.hosts.values():
        one.hcas["mlx5_9"] = {"firmware": "28.36.1010"}
    assert {o.status for o in fleet.judge(only="hca-firmware-uniform")} == {Status.PASSED}
    fleet.hosts["gpu02"].hcas["mlx5_9"]["firmware"] = "28.39.1002"
    assert said(fleet.judge(only="hca-firmware-uniform"), Status.OTHER) == {
        ("hca-firmware-uniform", "hca-firmware-mismatch", "gpu02/mlx5_9")
    }


@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
def test_a_place_that_is_behind_on_all_hosts_is_not_alike(fleet: AnyFleet, fabric: str) -> None:
    fleet.sku = replace(fleet.sku, fabric=fabric)
    for one in fleet.hosts.values():
        for values in one.hcas.values():
            values.update(layer="InfiniBand" if fabric == "infiniband" else "Ethernet")
        one.hcas["mlx5_3"]["firmware"] = "28.36.1010"
    assert said(fleet.judge(only="hca-firmware-uniform"), Status.OTHER) == {
        ("hca-firmware-uniform", "hca-firmware-mismatch", f"gpu{n:02d}/mlx5_3") for n in (1, 2, 3)
    }


def test_a_site_states_the_firmware_of_a_type_of_adapters(fleet: AnyFleet) -> None:
    check, wanted = "hca-firmware-uniform", {"MT4129": "28.43.2566"}
    fleet.settings[check] = {"versions": wanted}
    assert {o.cause for o in fleet.judge(only=check)} == {"hca-firmware-mismatch"}
    fleet.settings[check] = {"versions": {"MT4131": "40.45.1200"}}
    assert {o.status for o in fleet.judge(only=check)} == {Status.PASSED}
    fleet.settings[check] = {"versions": {"MT4129": "28.39.1002"}}
    assert {o.status for o in fleet.judge(only=check)} == {Status.PASSED}


@pytest.mark.parametrize(
    ("usual", "odd", "found"), [(150, 104211, True), (150, 900, False), (90000, 104211, False), (0, 5001, True)]
)
def test_a_gpu_with_many_replays_since_its_driver_was_loaded_is_for_a_person(
    fleet: AnyFleet, usual: int, odd: int, found: bool
) -> None:
    for one in fleet.hosts.values():
        for part in one.gpus:
            part.values["replay"] = str(usual)
    fleet.hosts["gpu02"].gpus[1].values["replay"] = str(odd)
    outcomes = said(fleet.judge(only="gpu-pcie-link"), Status.OTHER)
    assert outcomes == ({("gpu-pcie-link", "pcie-replays-many", "gpu02/gpu1")} if found else set())
