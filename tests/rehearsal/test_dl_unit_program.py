# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test itself, four processes of the CPU as four GPUs: its real lines go the way of a test of a node."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dl_unit_node import HOST, dl_unit, read, simulated
from rehearsal_harness import ROOT
from simulated_training import hardware

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.dl_unit import DlUnit
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import parse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult

pytestmark = pytest.mark.drawn(1, of="programs over PyTorch", whole=True)

PROGRAM = ROOT / "recipes" / "workloads" / "dl_unit"
SPOILED = ROOT / "tests" / "support" / "spoiled_dl_unit.py"
GPUS = 4
SMALL = ("--device=cpu", "--size=64", "--rate-size=64", "--rate-bytes=1048576", "--rate-s=0.05", "--copy-bytes=65536")
# A slot that no GPU has.
NOWHERE = "none:exact-fp32:1"
FOUR = replace(HOST, sku="four")
LIMIT_S = 400


@pytest.fixture(scope="module")
def python() -> Path:
    """Python with PyTorch, installed if it is not."""
    subprocess.run([ROOT / "tools" / "setup_full", "training"], check=True)
    return (ROOT / ".cache" / "full-training").resolve() / "bin" / "python"


@pytest.fixture(autouse=True)
def four_gpus() -> None:
    """The test of a node with as many GPUs as there are processes."""
    test: DlUnit = dl_unit()
    sku = replace(hardware()["dgx-h100"], name="four", gpus=GPUS)
    test.context = replace(test.context, hardware={**hardware(), "four": sku})


def run(python: Path, spoiled: str = "", *more: str) -> tuple[str, NodeResult]:
    """Run the program, with one bit flipped where it is told, and return its log and what the test makes of it."""
    words = [str(SPOILED), str(PROGRAM)] if spoiled else [str(PROGRAM / "dl_unit.py")]
    env = {
        **os.environ, "OMP_NUM_THREADS": "1", "SPOILED": spoiled, "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(python.parents[1] / "pycache"),
    }  # fmt: skip
    done = subprocess.run(
        [python, *words, f"--gpus={GPUS}", *SMALL, *more],
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr[-2000:]
    return done.stdout, read(done.stdout, state="failed" if done.returncode else "succeeded", host=FOUR)


def test_healthy_gpus_pass(python: Path) -> None:
    log, found = run(python)
    assert (found.status, found.cause) == (Status.PASSED, ""), found.summary
    assert list(found.parts.values()) == [f"CPU-{n}" for n in range(GPUS)]
    assert len(set(found.digests.values())) == 1
    for test in parse(log).tests:
        # The CPU is its own reference, so that tolerances are not loose by chance.
        assert all(0 < reference.error < reference.tolerance for reference in test.references.values())
        assert all(rate.together for rate in test.rates.values())
    # What a rehearsal prints is what the program does.
    assert _shape(simulated()[0], GPUS) == _shape(log, GPUS)


@pytest.mark.drawn(1, of="runs of the DL unit test")
def test_another_seed_gives_other_bits_and_passes(python: Path) -> None:
    # With nothing spoiled; in a process that has loaded before it forks what four would load.
    first, second = (run(python, NOWHERE, f"--seed={seed}")[1] for seed in (1, 2))
    assert first.status is second.status is Status.PASSED
    assert not set(first.digests.values()) & set(second.digests.values())


@pytest.mark.drawn(1, of="runs of the DL unit test")
@pytest.mark.parametrize(
    ("spoiled", "cause", "words"),
    [
        ("2:gemm-bf16:123", "digest-differs", "gpu2 gave other bits of gemm-bf16 than 3 of 4 GPUs"),
        ("1:attention:2", "digest-changes", "gpu1 gave other bits of attention when it was repeated"),
        # Only the last time, when it is hot.
        ("3:convolution:3", "digest-changes", "gpu3 gave other bits of convolution when it was repeated"),
        ("0:exact-fp32:123", "arithmetic-wrong", "gpu0 got 1 rows of exact-fp32 wrong"),
        ("0:gemm-fp8:123", "digest-differs", "gpu0 gave other bits of gemm-fp8 than 3 of 4 GPUs"),
    ],
)
def test_one_wrong_bit_of_one_gpu_is_found_and_the_gpu_named(
    python: Path, spoiled: str, cause: str, words: str
) -> None:
    found = run(python, spoiled)[1]
    assert (found.status, found.cause) == (Status.FAILED, cause)
    assert words in found.summary


def test_a_gpu_that_dies_takes_no_other_with_it(python: Path) -> None:
    log, found = run(python, "", "--limit-s=0")
    assert (found.status, found.cause) == (Status.OTHER, "gpu-hung")
    assert all(test.failure is not None and test.failure.kind == "Stuck" for test in parse(log).tests)


def _shape(log: str, gpus: int) -> list[Any]:
    """Return the lines in the order of the GPUs: their fields, the types of these, and what they are about."""
    found = [json.loads(line) for line in log.splitlines() if line.startswith('{"schema_version"')]
    ordered = sorted(found, key=lambda line: {"begin": -1, "done": gpus}.get(line["event"], line.get("slot", 0)))
    return [
        (
            {name: type(value).__name__ for name, value in line.items() if name != "error"},
            {name: line[name] for name in ("event", "op", "run", "name", "unit", "tolerance", "lines") if name in line},
        )
        for line in ordered
        if line.get("slot", 0) < gpus and line["event"] not in ("gpu", "begin", "done")
    ] + [sorted(line) for line in ordered if line["event"] in ("gpu", "begin", "done") and line.get("slot", 0) == 0]
