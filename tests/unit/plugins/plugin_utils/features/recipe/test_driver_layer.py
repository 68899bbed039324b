# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns the driver and what the recipe does about it are one statement."""

from __future__ import annotations

from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import answer_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.owner_layer import driver_overrides
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import DriverOwner

OPERATOR, DRA = "gpu-operator", "nvidia-dra-driver-gpu"
UBUNTU = {"service": "generic", "accelerator": "h100", "os": "ubuntu", "intent": "training"}
ROCKY = {**UBUNTU, "os": "rocky"}


def _values(owner: DriverOwner, criteria: dict[str, str], **overrides: Any) -> dict[str, dict[str, Any]]:
    site = make_site(criteria=criteria, driver_owner=owner)
    answered = answer_for(site, {"recipe_data": [], "overrides": overrides}, {})
    return {entry.name: component_values(entry, answered.catalogue) for entry in answered.result.components}


@pytest.mark.parametrize("criteria", [UBUNTU, ROCKY])
def test_a_host_with_its_own_driver_gets_no_second_one(criteria: dict[str, str]) -> None:
    values = _values(DriverOwner.HOST, criteria)
    assert values[OPERATOR]["driver"]["enabled"] is False
    assert values[DRA]["nvidiaDriverRoot"] == "/"
    assert values[OPERATOR]["toolkit"]["enabled"] is True


def test_the_operators_driver_is_looked_for_where_the_operator_puts_it() -> None:
    values = _values(DriverOwner.OPERATOR, UBUNTU)
    assert values[OPERATOR]["driver"]["enabled"] is True
    assert values[DRA]["nvidiaDriverRoot"] == "/run/nvidia/driver"


def test_a_platform_without_the_operators_driver_refuses_the_other_owner() -> None:
    with pytest.raises(InputError, match="leaves the driver to the host"):
        _values(DriverOwner.OPERATOR, ROCKY)
    assert _values(DriverOwner.OPERATOR, ROCKY, **{OPERATOR: {"driver": {"enabled": True}}})


@pytest.mark.parametrize("criteria", [UBUNTU, {**UBUNTU, "fabric": "infiniband"}, ROCKY])
def test_modules_beside_the_operators_driver_are_not_asked_for_without_it(criteria: dict[str, str]) -> None:
    operator = _values(DriverOwner.HOST, criteria)[OPERATOR]
    assert operator["gdrcopy"]["enabled"] is False
    assert operator["driver"]["rdma"]["enabled"] is False


def test_the_operators_driver_brings_gdrcopy_and_what_the_site_asks_for() -> None:
    rdma = {"driver": {"rdma": {"enabled": True, "useHostMofed": True}}}
    operator = _values(DriverOwner.OPERATOR, UBUNTU, **{OPERATOR: rdma})[OPERATOR]
    assert operator["gdrcopy"]["enabled"] is True
    assert operator["driver"]["rdma"] == {"enabled": True, "useHostMofed": True}


def test_modules_of_a_recipe_of_others_are_switched_off_too() -> None:
    values = {OPERATOR: {"driver": {"enabled": True, "rdma": {"enabled": True}}, "gdrcopy": {"enabled": True}}}
    off = {"driver": {"enabled": False, "rdma": {"enabled": False}}, "gdrcopy": {"enabled": False}}
    assert driver_overrides(DriverOwner.HOST, values, {}) == {OPERATOR: off}


@pytest.mark.parametrize(
    "overrides",
    [
        {OPERATOR: {"driver": {"enabled": True}}},
        {DRA: {"nvidiaDriverRoot": "/run/nvidia/driver"}},
        {OPERATOR: {"gdrcopy": {"enabled": True}}},
        {OPERATOR: {"driver": {"rdma": {"enabled": True}}}},
    ],
)
def test_overrides_that_say_the_opposite_are_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is host"):
        _values(DriverOwner.HOST, UBUNTU, **overrides)


def test_a_driver_root_of_the_platform_and_a_recipe_without_the_operator_stay_as_they_are() -> None:
    gke = {OPERATOR: {"driver": {"enabled": False}}, DRA: {"nvidiaDriverRoot": "/home/kubernetes/bin/nvidia"}}
    assert driver_overrides(DriverOwner.HOST, gke, {}) == {}
    assert driver_overrides(DriverOwner.HOST, {"volcano": {}}, {}) == {}
