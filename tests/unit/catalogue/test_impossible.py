# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Criteria that no hardware has together are refused, with the source of either."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import load_accelerators
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import make_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.lattice import lattice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of

RACK = {"service": "eks", "nvlink_domain": "rack"}


@pytest.mark.parametrize("policy", ["error", "warn"])
@pytest.mark.parametrize("kind", ["l40s", "t4", "h100"])
def test_a_gpu_without_racks_of_nvlink_is_refused_with_one(kind: str, policy: str) -> None:
    with pytest.raises(InputError) as caught:
        answer(request_of({"criteria": {**RACK, "accelerator": kind}, "unsupported": policy}))
    assert f"accelerator={kind} and nvlink_domain=rack exclude each other" in caught.value.reason
    assert f"accelerators/{kind}.yaml" in caught.value.reason
    assert "nvlink_domain=node" in caught.value.hint


@pytest.mark.parametrize("more", [{"accelerator": "gb200"}, {"accelerator": "gb300"}, {}])
def test_where_there_are_such_racks_it_is_answered(more: dict[str, str]) -> None:
    assert answer(request_of({"criteria": {**RACK, **more}})).warnings == ()


def test_less_than_a_rack_is_answered_for_all() -> None:
    for kind in ("gb200", "l40s"):
        assert answer(
            request_of({"criteria": {**RACK, "nvlink_domain": "node", "accelerator": kind}})
        ).result.components


def test_what_is_impossible_is_not_listed(catalogue: Catalogue) -> None:
    listed = lattice(catalogue)
    assert make_criteria({**RACK, "accelerator": "l40s"}) not in listed
    assert make_criteria({**RACK, "accelerator": "gb200"}) in listed
    assert make_criteria({"service": "eks", "nvlink_domain": "node", "accelerator": "l40s"}) in listed


@pytest.mark.parametrize(("stated", "says"), [
    ({"service": "gke", "accelerator": "t4", "os": "cos", "fabric": "tcpxo"}, "fabric=tcpxo"),
    ({"service": "gke", "accelerator": "h100", "os": "ubuntu", "fabric": "tcpx"}, "fabric=tcpx"),
])  # fmt: skip
def test_tcpx_is_for_h100_on_its_image_only(stated: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=f"honours {says}"):
        answer(request_of({"criteria": stated}))


def test_every_rack_scale_host_has_a_gpu_whose_file_says_so(repository: Path) -> None:
    kinds = load_accelerators()
    racks = {sku.accelerator for sku in load_hardware([repository / "recipes/hardware"]).values()
             if sku.nvlink_domain == "rack"}  # fmt: skip
    assert racks
    assert all(kinds[kind].nvlink_rack for kind in racks)
