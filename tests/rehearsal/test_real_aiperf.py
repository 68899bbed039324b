# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate inference_acceptance with the real AIPerf: a healthy server passes, and what is broken is found."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from gate_bench import CATALOGUE, kept_rehearsal
from inference_bench import INFERENCE, InferenceBench, inference_findings
from rehearsal_harness import ROOT

pytestmark = pytest.mark.long("PyTorch and AIPerf are installed for it")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InferenceBench]:
    subprocess.run([ROOT / "tools" / "setup_full"], check=True)
    stated = {"rehearsal_nodes": 2, "rehearsal_full": True, "gates": ["gpu_stack", INFERENCE]}
    with kept_rehearsal(tmp_path_factory.mktemp("aiperf"), **stated) as kept:
        yield InferenceBench(kept, full=True)


def test_the_real_aiperf_on_a_healthy_server(real: InferenceBench) -> None:
    real.kept.passed(INFERENCE)
    export = json.loads((real.kept.first.run_dir / "evidence" / INFERENCE / "load-1-1.json").read_text())
    # Not computed: the real one writes about a hundred metrics.
    assert len(export) > 60
    assert export["request_count"]["avg"] == 32


@pytest.mark.drawn(1, of="servers under the real AIPerf")
@pytest.mark.parametrize("fault", ["first-token-slow", "requests-fail", "answers-short"])
def test_the_real_aiperf_finds(real: InferenceBench, fault: str) -> None:
    expected = CATALOGUE[fault].expect
    assert inference_findings(real.judged(f"{fault}@gpu02")) == [
        (expected.check, expected.cause, expected.status, "gpu02")
    ]


@pytest.mark.drawn(1, of="servers under the real AIPerf")
@pytest.mark.parametrize("settings", [{}, {"warmup_per_concurrency": 0.0}], ids=["warm-up", "no warm-up"])
def test_cold_first_requests_are_over_before_the_real_aiperf_measures(
    real: InferenceBench, settings: dict[str, float]
) -> None:
    """Every engine has answered before the load, so that not even a load without warm-up meets a cold one."""
    assert inference_findings(real.patched({"cold_ms": 2500.0}, "gpu01", **settings)) == []
