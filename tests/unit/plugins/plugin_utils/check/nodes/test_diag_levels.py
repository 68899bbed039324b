# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levels 1 to 4 of DCGM's diagnostic, as the site wants them of a SKU: what each runs, and what is not enough."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts import dcgm
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.accelerators import printed_facts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA

RECIPES = Path(__file__).resolve().parents[6] / "recipes"
NODE = build_model(
    ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(1, "h100")), load_hardware([RECIPES / "hardware"])
).nodes[0]
LEVELS = (1, 2, 3, 4)


def ran(level: int, **changes: object) -> ToolRun:
    """What DCGM 4 says at a level of a host whose first GPU has these changes."""
    first, *others = NODE.gpus
    node = replace(NODE, gpus=(replace(first, **changes), *others))  # type: ignore[arg-type]
    reports, rc = dcgm.diagnostics(node, printed_facts(node.accelerator, DATA))
    failed = '"status" : "Fail"' in reports[level]
    return ToolRun(argv=("dcgmi", "diag", "-r", str(level), "-j"), rc=rc if failed else 0, stdout=reports[level])


def test_each_level_runs_what_the_one_below_it_does_and_more() -> None:
    names = []
    for level in LEVELS:
        root = json.loads(ran(level).stdout)["DCGM Diagnostic"]
        names.append({test["name"] for category in root["test_categories"] for test in category["tests"]})
    assert names[0] == {"software"}
    assert all(below < above for below, above in itertools.pairwise(names))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("wanted", LEVELS)
def test_a_host_passes_at_the_level_that_the_site_wants_and_above(fleet: AnyFleet, wanted: int, level: int) -> None:
    fleet.settings["dcgm-diag"] = {"level": wanted}
    for host in fleet.hosts.values():
        host.tools["dcgmi_diag"] = ran(level)
    outcomes = fleet.judge(only="dcgm-diag")
    short = {("dcgm-diag", "dcgm-diag-level", name) for name in fleet.hosts}
    assert said(outcomes, Status.OTHER) == (short if level < wanted else set())
    assert not said(outcomes, Status.FAILED)


@pytest.mark.parametrize(("level", "found"), [(2, False), (3, False), (4, True)])
def test_what_only_the_highest_level_tests_is_found_there_alone(fleet: AnyFleet, level: int, found: bool) -> None:
    fleet.settings["dcgm-diag"] = {"level": level}
    for host in fleet.hosts.values():
        host.tools["dcgmi_diag"] = ran(level)
    fleet.hosts["gpu02"].tools["dcgmi_diag"] = ran(level, diag={"memtest": "Fail"})
    failed = said(fleet.judge(only="dcgm-diag"), Status.FAILED)
    assert {(check, cause) for check, cause, _subject in failed} == (
        {("dcgm-diag", "dcgm-diag-failed")} if found else set()
    )


@pytest.mark.parametrize("says", ["", "No devices were found\n"])
def test_a_host_of_which_no_gpu_is_listed_waits_for_gpu_census(fleet: AnyFleet, says: str) -> None:
    """Both said it of the same GPUs: gpu-missing, and dcgm-diag-incomplete."""
    for gpu in fleet.hosts["gpu02"].gpus:
        gpu.listed = False
    if says:
        fleet.hosts["gpu02"].tools["nvidia_smi_xml"] = ToolRun(argv=("nvidia-smi",), rc=6, stdout=says)
    assert {o.check for o in fleet.judge(only="gpu-census") if o.status is Status.FAILED} == {"gpu-census"}
    (diag,) = [o for o in fleet.judge(only="dcgm-diag") if o.status is not Status.PASSED]
    assert (diag.blocked_by, diag.subjects[0].name) == ("gpu-census", "gpu02")
