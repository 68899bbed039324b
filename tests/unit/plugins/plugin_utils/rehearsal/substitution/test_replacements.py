# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rehearsal replaces is what its notes say; everything else is rehearsed as the site states it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, PlannedNode
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    Simulation,
    StatedSite,
    Substitution,
    substitution_for,
)

DRAWN = {"record": "/r/record.json", "allowed_signers": "/r/allowed_signers", "identity": "facility@rehearsal.invalid"}
DEFAULTS = {"service": "generic", "intent": "training", "os": "ubuntu", "platform": "volcano"}
OWN_NAMES = ("mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11")


def substituted(
    repository: Path, *, sku: str = "dgx-h100", hcas: tuple[str, ...] = (), count: int = 2, **facts: Any
) -> Substitution:
    hardware = load_hardware([repository / "recipes" / "hardware"])
    nodes = tuple(PlannedNode(name=f"acme{n}", sku=sku, rack="r1", hcas=hcas) for n in range(1, count + 1))
    model = healthy_cluster(ModelSpec(name="acme", seed=1, nodes=nodes), hardware)
    site = StatedSite(default_criteria=DEFAULTS, **facts.pop("site", {}))
    return substitution_for(Simulation(site=site, model=model, facility=DRAWN, **facts))


def note(found: Substitution, subject: str) -> str:
    return next(line for line in found.notes if line.startswith(f"rehearsal: {subject}"))


def test_the_first_note_says_what_is_simulated(repository: Path) -> None:
    found = substituted(repository, hcas=OWN_NAMES, site={"other_hosts": ("sm01",)})
    assert found.notes[0] == (
        f"rehearsal: hosts: 2 simulated, SKU dgx-h100, adapters {', '.join(OWN_NAMES)}, "
        "driver 580.105.08 whatever version the recipe has; "
        "no machine of the inventory is contacted. sm01: simulated by acme1"
    )


def test_stated_criteria_are_left_as_they_are_and_the_difference_is_said(repository: Path) -> None:
    stated = {"service": "rke2", "intent": "training", "os": "ubuntu"}
    found = substituted(repository, site={"criteria": stated})
    assert note(found, "criteria") == (
        "rehearsal: criteria: as the site states them, service=rke2, intent=training, os=ubuntu; "
        "the rehearsal's own are not used: service=generic, platform=volcano"
    )


def test_without_stated_criteria_the_defaults_apply(repository: Path) -> None:
    found = substituted(repository)
    assert note(found, "criteria").endswith("because gpufleet_criteria is empty")


def test_a_stated_and_readable_facility_record_is_judged(repository: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.yaml"
    record.write_text("racks: {}\n")
    stated = {"settings": {"facility": {"record": str(record), "allowed_signers": "signers"}}}
    found = substituted(repository, site=stated)
    assert "facility" not in found.settings
    assert note(found, "facility record") == f"rehearsal: facility record: the site's own, {record}"


@pytest.mark.parametrize(
    ("stated", "fault", "because"),
    [
        ({}, False, "gpufleet_settings.facility.record is not stated"),
        ({"facility": {"record": __file__}}, True, "because a fault of this rehearsal is in it"),
    ],
)
def test_else_a_record_is_drawn_and_the_note_says_why(
    repository: Path, stated: dict[str, Any], fault: bool, because: str
) -> None:
    found = substituted(repository, site={"settings": stated}, facility_fault=fault)
    assert found.settings["facility"] == DRAWN
    assert because in note(found, "facility record")


@pytest.mark.parametrize("fault", [False, True])
def test_for_a_stated_record_whose_file_is_missing_none_is_drawn(repository: Path, fault: bool) -> None:
    """Gate facility passed on the drawn one, and the site's own was not there (a false pass of a rehearsal)."""
    stated = {"facility": {"record": "/nowhere/record.yaml"}}
    found = substituted(repository, site={"settings": stated}, facility_fault=fault)
    assert "facility" not in found.settings
    told = "the site's own, /nowhere/record.yaml, which cannot be read: No such file or directory"
    assert note(found, "facility record").endswith(told)


def test_the_plan_of_the_simulated_fabric_replaces_the_stated_one(repository: Path) -> None:
    stated = {"settings": {"fabric": {"plan": "cabling.yaml", "interval_s": 30}}}
    found = substituted(repository, site=stated, cabling="/r/cabling.yaml")
    assert found.settings["fabric"] == {"plan": "/r/cabling.yaml", "interval_s": 2}
    assert note(found, "cabling plan") == (
        "rehearsal: cabling plan: that of the simulated fabric and not cabling.yaml, with HDR links "
        "(200 Gb/s; the simulator has none of 400 Gb/s)"
    )
    assert note(found, "time limits").endswith(" and not fabric.interval_s 30")


def test_without_a_simulated_fabric_the_stated_plan_stays(repository: Path) -> None:
    found = substituted(repository, site={"settings": {"fabric": {"plan": "cabling.yaml"}}})
    assert "fabric" not in found.settings
    assert not any(line.startswith("rehearsal: cabling plan") for line in found.notes)


def test_a_stated_service_level_is_kept(repository: Path) -> None:
    unknown_to_the_simulator = "nd96amsr-a100-v4"
    stated = {"inference_acceptance": {"slo": {"ttft_ms_p99": 300}}}
    assert "slo" not in substituted(repository, site={"settings": stated}).settings["inference_acceptance"]
    free = substituted(repository, sku=unknown_to_the_simulator).settings["inference_acceptance"]
    kept = substituted(repository, sku=unknown_to_the_simulator, site={"settings": stated})
    assert kept.settings["inference_acceptance"] == {k: v for k, v in free.items() if k != "slo"}


@pytest.mark.parametrize(
    ("count", "stated", "expected"),
    [
        (16, {}, {}),
        (20, {}, {"parallel": 64, "downloads": 5}),
        (68, {}, {"parallel": 68, "downloads": 17}),
        (20, {"downloads": 2}, {"parallel": 64}),
    ],
)
def test_a_large_fleet_serves_in_fewer_turns_unless_the_site_says_how_many(
    repository: Path, count: int, stated: dict[str, int], expected: dict[str, int]
) -> None:
    found = substituted(repository, count=count, site={"settings": {"inference_acceptance": stated}})
    gate = found.settings["inference_acceptance"]
    assert {name: gate[name] for name in ("parallel", "downloads") if name in gate} == expected
    assert ("more hosts than usual" in note(found, "time limits")) is bool(expected)
