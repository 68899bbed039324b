# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cabling plan: read strictly, every problem in one list, or generated from racks and rails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_hardware import HARDWARE
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.adapters import ComputeAdapters
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import (
    CablingPlan,
    End,
    read_plan,
    site_cabling,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile


def site(names: tuple[str, ...] = ("gpu01", "gpu02"), **settings: Any) -> Site:
    hosts = tuple(Host(name=name, sku="h100", node_name=name, rack="rack-a1") for name in names)
    return make_site(hosts, name="test", settings={"fabric": settings})


def document() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "speed": "NDR",
        "switches": {**{f"leaf{k}": 40 for k in range(8)}, "spine1": 64},
        "hosts": {
            f"gpu0{n}": {f"mlx5_{k}": f"leaf{k}:{n}" for k in range(8)} for n in (1, 2)
        },
        "trunks": [f"leaf{k}:33 - spine1:{k + 1}" for k in range(8)],
    }  # fmt: skip


def write(directory: Path, data: Any) -> Path:
    import yaml

    path = directory / "cabling.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def test_a_plan_is_read(tmp_path: Path) -> None:
    data = document() | {"rates": {"leaf3:33": {"width": "2x", "speed": "HDR"}}}
    plan = site_cabling(site(plan=str(write(tmp_path, data))), HARDWARE)
    assert plan is not None and not plan.generated
    assert len(plan.links) == 24
    first = plan.links[0]
    assert (first.name, first.host, first.hca, first.rail) == ("gpu01 mlx5_0:1 - leaf0:1", "gpu01", "mlx5_0", 0)
    assert (first.lanes, first.lane_gbps, first.rate_gbps) == (4, 106.25, 400)
    (slower,) = [link for link in plan.links if link.rate_gbps == 100]
    assert slower.name == "leaf3:33 - spine1:4"
    saved = tmp_path / "saved.json"
    saved.write_text(dumps(plan), encoding="utf-8")
    assert load(CablingPlan, saved) == plan


def test_every_problem_is_in_one_list(tmp_path: Path) -> None:
    data = document()
    data["hosts"]["gpu01"]["mlx5_1"] = "leaf0:1"
    data["hosts"]["gpu01"]["mlx5_2"] = "leaf2:41"
    data["hosts"]["gpu01"]["mlx5_3"] = "leef3:1"
    data["hosts"]["gpu01"]["mlx5_4"] = "leaf4"
    del data["hosts"]["gpu02"]["mlx5_7"]
    data["hosts"]["gpu99"] = {"mlx5_0": "leaf0:9"}
    data["trunks"][0] = "leaf0:33"
    data["speed"] = "NDR400"
    data["rates"] = {"leaf9:1": {"width": "4x", "speed": "NDR"}}
    with pytest.raises(ProblemsError) as caught:
        read_plan(write(tmp_path, data), site(), HARDWARE)
    text = str(caught.value)
    for part in (
        "hosts.gpu01.mlx5_1: leaf0:1 is taken already, by hosts.gpu01.mlx5_0",
        "leaf2:41 does not exist: leaf2 has 40 ports",
        "'leef3' is not among the plan's switches. Fix: did you mean 'leaf3'",
        "is 'leaf4', expected switch:port",
        "hosts.gpu02: has 7 adapters in the plan, its SKU has 8",
        "hosts.gpu99: is not a host of the inventory",
        "trunks: 'leaf0:33': is not two ends",
        "speed is 'NDR400'",
        "rates.leaf9:1: is no end of a planned cable",
    ):
        assert part in text, text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"swiches": {}}, "unknown key"),
        ({"switches": None}, "expected a mapping"),
        ({"schema_version": 2}, "this release reads 1"),
        ({"hosts": {}}, "has 0 adapters in the plan"),
        ({"switches": {"leaf0": 0}}, "expected 1 to 254"),
    ],
)
def test_a_broken_plan_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_plan(write(tmp_path, document() | change), site(), HARDWARE)
    assert said in str(caught.value)


def test_a_plan_smaller_than_the_inventory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemsError, match="problem") as caught:
        read_plan(write(tmp_path, document()), site(("gpu01", "gpu02", "gpu03")), HARDWARE)
    assert "hosts.gpu03: has 0 adapters in the plan, its SKU has 8" in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        site_cabling(site(plan=str(tmp_path / "none.yaml")), HARDWARE)


def test_without_a_file_rails_come_from_the_inventory() -> None:
    plan = site_cabling(site(), HARDWARE)
    assert plan is not None and plan.generated and not plan.switches
    assert [(link.host, link.hca, link.rail, link.far, link.speed) for link in plan.links[:2]] == [
        ("gpu01", "mlx5_0", 0, None, "NDR"),
        ("gpu01", "mlx5_3", 1, None, "NDR"),
    ]
    assert len(plan.links) == 16
    ethernet = make_site((Host(name="a", sku="p5-48xlarge", node_name="a"),), name="test", profile=SiteProfile.CLOUD)
    assert site_cabling(ethernet, HARDWARE) is None


def test_a_host_whose_adapters_nobody_knows_has_no_planned_cable_and_is_told() -> None:
    hardware = {"h100": replace(HARDWARE["h100"], hca_names=())}
    plan = site_cabling(site(), hardware)
    assert plan is not None and (plan.links, plan.unknown) == ((), ("gpu01", "gpu02"))
    names = tuple(f"mlx5_{number}" for number in range(2, 10))
    known = {"gpu01": ComputeAdapters(names=names, wanted=8, basis="topology")}
    plan = site_cabling(site(), hardware, known)
    assert plan is not None and plan.unknown == ("gpu02",)
    assert [(link.host, link.hca) for link in plan.links] == [("gpu01", name) for name in names]


@pytest.mark.parametrize("how", ["inventory", "sku"])
def test_a_generated_plan_calls_adapters_as_they_are_stated(how: str) -> None:
    names = tuple(f"mlx5_{number}" for number in (2, 3, 4, 5, 8, 9, 10, 11))
    sku = replace(HARDWARE["h100"], hca_names=names if how == "sku" else ())
    host = Host(name="gpu01", sku="h100", node_name="gpu01", hcas=names if how == "inventory" else ())
    plan = site_cabling(make_site((host,), name="test"), {"h100": sku})
    assert plan is not None
    assert [(link.hca, link.near, link.rail) for link in plan.links] == [
        (name, End(f"gpu01 {name}", 1), rail) for rail, name in enumerate(names)
    ]
