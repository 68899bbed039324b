# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests printed on real machines is judged as its description says: the whole capture as the log of a run,
and its largest figure against the ceiling of the machines that it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Record
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.parse_run import parse_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nccl_tests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict import ceiling
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.published_reference import reference_for

MakeFleet = Callable[..., Fleet]
# Capture, ranks, and why it is no figure by itself; empty: it is one. What was pasted without its list of ranks is
# incomplete before it is asked whether its values were checked.
WHOLE = [
    ("allreduce-1gpu-mock-out-of-bounds-FAILED.txt", 1, "wrong-results"),
    ("allreduce-1gpu-mock-pass-iters-col.txt", 1, "not-judged"),
    ("allreduce-1node-8gpu-old-format-novalidation.log", 8, "not-validated"),
    ("allreduce-2node-h100-oci-roce.txt", 16, ""),
    ("allreduce-2node-nd96-ipoib-SLOW.txt", 16, "output-incomplete"),
    ("allreduce-2node-nd96-sriov-ib-wrong-NA.txt", 16, "output-incomplete"),
    ("allreduce-2node-p4de-efa-srun-labelled.txt", 16, "output-incomplete"),
    ("allreduce-2node-p5-efa-mpi-tagged-elided.txt", 16, "output-incomplete"),
    ("allreduce-2node-roce-old-format-error-col.txt", 2, "output-incomplete"),
    ("allreduce-gb200-20racks-1440gpu.txt", 1440, "output-incomplete"),
    ("allreduce-gb200-nvl72-1rack.txt", 72, "output-incomplete"),
    ("alltoall-1node-8gpu-old-format.log", 8, "not-validated"),
]
# Capture, SKU, hosts by NVLink domain, and what its figure is worth there.
FIGURES = [
    ("allreduce-1node-8gpu-old-format-novalidation.log", "dgx-a100", (1,), Rating.GOOD),
    ("allreduce-2node-h100-oci-roce.txt", "bm-gpu-h100-8", (1, 1), Rating.GOOD),
    ("allreduce-2node-nd96-ipoib-SLOW.txt", "nd96asr-v4", (1, 1), Rating.BAD),
    ("allreduce-2node-nd96-sriov-ib-wrong-NA.txt", "nd96asr-v4", (1, 1), Rating.GOOD),
    ("allreduce-2node-p4de-efa-srun-labelled.txt", "p4de-24xlarge", (1, 1), Rating.GOOD),
    ("allreduce-2node-p5-efa-mpi-tagged-elided.txt", "p5-48xlarge", (1, 1), Rating.GOOD),
    ("allreduce-gb200-20racks-1440gpu.txt", "gb200-nvl72", (18,) * 20, Rating.GOOD),
    ("allreduce-gb200-nvl72-1rack.txt", "gb200-nvl72", (18,), Rating.GOOD),
]


@pytest.mark.parametrize(("name", "ranks", "cause"), WHOLE, ids=[entry[0] for entry in WHOLE])
def test_a_capture_as_the_log_of_a_run(shared: Path, fleet: MakeFleet, name: str, ranks: int, cause: str) -> None:
    log = (shared / "captures/nccl-tests" / name).read_text()
    given = fleet(2)
    settings = given.plan().settings
    rows = nccl_tests.parse(log).rows
    factor = rows[-1].size // rows[-2].size if len(rows) > 1 else 2
    run = replace(settings.run, smallest=8, largest=rows[-1].size, factor=factor)
    hosts, smallest = ("a", "b"), next(row.size for row in rows if row.size)
    record = Record(
        name="pair-1", phase="pair", hosts=hosts, attempt=1, exit_code=0, state="succeeded", ranks=ranks,
        smallest=smallest, hostnames={host: host for host in hosts},
    )  # fmt: skip
    problem = parse_run(record, log, replace(settings, run=run)).problem
    assert (problem.cause if problem else "") == cause, problem


def test_every_capture_is_judged(shared: Path) -> None:
    assert {path.name for path in (shared / "captures/nccl-tests").iterdir()} == {entry[0] for entry in WHOLE}


@pytest.mark.parametrize(("name", "sku", "members", "rating"), FIGURES, ids=[entry[0] for entry in FIGURES])
def test_the_figure_of_a_capture(shared: Path, name: str, sku: str, members: tuple[int, ...], rating: Rating) -> None:
    facts = load_hardware([RECIPES / "hardware"])[sku]
    shipped = yaml.safe_load((RECIPES / "thresholds/fabric_validation.yaml").read_text())
    efficiency = shipped["fabric_validation"]["networks"][facts.fabric].get("efficiency", {})
    top = nccl_tests.parse((shared / "captures/nccl-tests" / name).read_text()).largest
    assert top.out_of_place is not None
    topology = ceiling.topology_of(facts, members, efficiency=efficiency)
    against = reference_for(topology, "")
    assert ceiling.judge(top.out_of_place.busbw_gbps, against, None).rating is rating, against
