# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that a load changes while it runs: the gate that made the load names the part and the cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from rehearsal_harness import ROOT, rehearse

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue

CATALOGUE = load_catalogue(ROOT / "recipes" / "rehearsal")


@pytest.mark.parametrize(
    ("faults", "gates"),
    [
        (("gpu-lost-under-nccl@gpu01/gpu3", "port-lost-under-nccl@gpu02/mlx5_3"), ["gpu_stack", "fabric_validation"]),
        (
            ("nvlink-errors-under-training@gpu01/gpu2", "xid-under-serving@gpu02/gpu5"),
            ["gpu_stack", "training_acceptance", "inference_acceptance"],
        ),
    ],
    ids=["gpu-lost-under-nccl port-lost-under-nccl", "nvlink-errors-under-training xid-under-serving"],
)
def test_the_gate_that_made_the_load_finds_what_it_did(
    tmp_path: Path, faults: tuple[str, ...], gates: list[str]
) -> None:
    run = rehearse(tmp_path, rehearsal_nodes=2, rehearsal_faults=list(faults), gates=gates)
    found = {(finding.check, finding.cause, finding.subjects[-1]) for finding in run.findings()}
    wanted = set()
    for fault in faults:
        name, _at, subject = fault.partition("@")
        expect = CATALOGUE[name].expect
        wanted.add((expect.check, expect.cause, subject))
    assert found == wanted, run.output[-3000:]
