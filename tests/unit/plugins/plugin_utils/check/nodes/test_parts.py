# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of the parts of a host, by slot, from what its tools printed; nothing is named that was not seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.identity import parts_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner

from .conftest import Fleet


def parts(fleet: Fleet, name: str = "gpu01") -> dict[str, str]:
    fleet.judge("gpu_stack" if fleet.owner is DriverOwner.OPERATOR else "nodes", "gpu-census")
    host = next(host for host in fleet.site.hosts if host.name == name)
    return parts_of(fleet.run_dir, fleet.site, host, fleet.sku)


@pytest.mark.parametrize("owner", list(DriverOwner))
def test_gpus_and_ports_are_named_by_slot_wherever_the_driver_is(fleet: Fleet, owner: DriverOwner) -> None:
    fleet.owner = owner
    found = parts(fleet)
    assert [found[f"gpu{slot}"] for slot in range(4)] == [gpu.uuid for gpu in fleet.hosts["gpu01"].gpus]
    assert found["serial of gpu2"] == fleet.hosts["gpu01"].gpus[2].serial
    assert found["mlx5_3:1"] == "0x9c0591f8f7000035" and len(found) == 12


def test_a_gpu_that_is_gone_leaves_no_gpu_in_the_slot_of_another(fleet: Fleet) -> None:
    del fleet.hosts["gpu01"].gpus[1]
    assert {slot for slot in parts(fleet) if "gpu" in slot} == set()
    assert parts(fleet)["mlx5_0:1"]


def test_what_is_not_known_of_the_sku_or_was_not_read_names_nothing(fleet: Fleet) -> None:
    fleet.judge()
    host = fleet.site.hosts[0]
    assert not any("gpu" in slot for slot in parts_of(fleet.run_dir, fleet.site, host, None))
    # Of a driver of the operator nothing was read here.
    site = replace(fleet.site, driver_owner=DriverOwner.OPERATOR)
    assert not any("gpu" in slot for slot in parts_of(fleet.run_dir, site, host, fleet.sku))
    assert parts_of(fleet.run_dir, fleet.site, replace(host, name="gpu99"), fleet.sku) == {}
