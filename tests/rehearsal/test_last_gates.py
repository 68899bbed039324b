# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whole playbooks over gates 6 to 8 on one cluster that stays, whose hosts are changed by the loads that these make.

Gates 7 and 8 depend on gate 6 and not on each other: one that is not passed does not keep the other from running.
The gate that made a load names the part that it changed, and the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from live_site import LiveSite, live_site
from rehearsal_harness import ROOT, Rehearsed, left_behind
from waiting import await_model

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import read_spec, write_spec

pytestmark = pytest.mark.drawn(1, of="runs that go on behind a gate", whole=True)

CATALOGUE = load_catalogue()
STACK, FABRIC, TRAINING, INFERENCE = SCOPE = (
    "gpu_stack", "fabric_validation", "training_acceptance", "inference_acceptance",
)  # fmt: skip
# What the load of a gate does to a host, once. A host is changed by one load.
BY_TRAINING, BY_SERVING = "nvlink-errors-under-training@gpu01/gpu2", "xid-under-serving@gpu02/gpu5"
BY_NCCL = ("gpu-lost-under-nccl@gpu03/gpu3", "port-lost-under-nccl@gpu04/mlx5_3")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    work = tmp_path_factory.mktemp("last")
    with live_site(work, 4, (BY_TRAINING, BY_SERVING, *BY_NCCL)) as site:
        yield site
    assert not left_behind(work)


@pytest.fixture(scope="module")
def hurt(site: LiveSite) -> Rehearsed:
    """The run that installs the stack, and whose loads of gates 7 and 8 change a host each."""
    return site.run(STACK, TRAINING, INFERENCE)


def _assert_found(run: Rehearsed, *faults: str) -> None:
    """Exactly what these faults are found as, each at its part."""
    wanted = set()
    for fault in faults:
        name, _at, subject = fault.partition("@")
        expect = CATALOGUE[name].expect
        wanted.add((expect.gate, expect.check, expect.cause, subject))
    found = {(finding.gate, finding.check, finding.cause, finding.subjects[-1]) for finding in run.findings()}
    assert found == wanted, run.output[-3000:]


def _by_id(*faults: str) -> pytest.MarkDecorator:
    """Name a test by its faults: the matrix of faults looks for their ids."""
    return pytest.mark.parametrize("faults", [faults], ids=["-".join(fault.partition("@")[0] for fault in faults)])


@_by_id(BY_TRAINING, BY_SERVING)
def test_the_gates_that_made_the_loads_find_what_they_did_and_both_are_named(
    hurt: Rehearsed, faults: tuple[str, ...]
) -> None:
    assert hurt.rc != 0, hurt.output[-3000:]
    assert [hurt.status(gate) for gate in (STACK, TRAINING, INFERENCE)] == ["passed", "failed", "failed"]
    _assert_found(hurt, *faults)
    verdict = hurt.stats["gpufleet_verdict"]
    assert "host-state-after-training" in verdict and "host-state-after-inference" in verdict


@pytest.mark.drawn(1, of="gates after loads")
def test_inference_is_proven_although_training_is_not_and_the_run_still_fails(site: LiveSite, hurt: Rehearsed) -> None:
    """What the loads before it did to the hosts is not blamed on those of this run."""
    assert hurt.status(STACK) == "passed", hurt.output[-3000:]
    model = site.rehearsal / "model.yaml"
    before = read_spec(model)
    healthy = healthy_cluster(before, load_hardware([ROOT / "recipes" / "hardware"]))
    added = choose_faults(("training-not-a-number@gpu02/gpu3",), healthy, CATALOGUE)
    write_spec(replace(before, faults=(*before.faults, *added)), model)
    await_model(model)
    try:
        run = site.run(TRAINING, INFERENCE)
    finally:
        write_spec(before, model)
        await_model(model)
    assert run.rc != 0, run.output[-3000:]
    assert [run.status(gate) for gate in (TRAINING, INFERENCE)] == ["failed", "passed"]
    assert {(check, cause) for _gate, check, _subjects, cause in run.failed()} == {("training-loss", "loss-not-finite")}
    assert run.stats["gpufleet_passed"] is False and run.stats["gpufleet_exit_code"] == 8
    assert run.stats["gpufleet_gates_by_status"] == {
        "passed": [INFERENCE],
        "failed": [TRAINING],
        "pending": ["facility", "fabric", "nodes", "gpu_stack", "telemetry", "fabric_validation"],
    }
    verdict = run.stats["gpufleet_verdict"]
    assert verdict.startswith("REHEARSAL not passed: gate training_acceptance is not passed: training-loss")
    assert "gate training_acceptance is not passed" in run.output.split("PLAY [End of the run")[1]


@pytest.mark.drawn(1, of="gates after loads")
@_by_id(*BY_NCCL)
def test_what_the_load_of_nccl_did_is_found_by_gate_6_and_keeps_both_closed(
    site: LiveSite, hurt: Rehearsed, faults: tuple[str, ...]
) -> None:
    assert hurt.status(STACK) == "passed", hurt.output[-3000:]
    run = site.run(FABRIC, TRAINING, INFERENCE)
    assert run.rc != 0
    assert [run.status(gate) for gate in (FABRIC, TRAINING, INFERENCE)] == ["failed", "pending", "pending"]
    _assert_found(run, *faults)
