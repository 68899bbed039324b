# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU that is hotter without work than those beside it: a heat sink or coolant line of its own (domain.md T223)."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, gpu, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

CHECK = "gpu-temperature"


@pytest.mark.parametrize(("degrees", "held"), [("62", True), ("48", True), ("44", False), ("31", False)])
def test_hotter_than_those_beside_it_waits_for_a_person(fleet: AnyFleet, degrees: str, held: bool) -> None:
    """The others are at 31 C. Under the absolute line of 65 C a GPU at 62 passed."""
    gpu(1, temp=degrees)(fleet)
    found = said(fleet.judge(only=CHECK), Status.OTHER)
    assert found == ({(CHECK, "gpu-hot", "gpu02/gpu1")} if held else set())


def test_a_gpu_that_works_is_not_compared_with_those_that_do_not(fleet: AnyFleet) -> None:
    gpu(1, temp="62", draw="690.00 W")(fleet)
    assert not said(fleet.judge(only=CHECK), Status.OTHER)


def test_a_host_that_is_warm_as_a_whole_has_no_gpu_to_name(fleet: AnyFleet) -> None:
    for number in range(len(fleet.hosts["gpu02"].gpus)):
        gpu(number, temp="55")(fleet)
    assert not said(fleet.judge(only=CHECK), Status.OTHER)
