# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person may accept of a first bring-up whose accelerators nothing is published of (T218)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from gate8 import bad, judged
from llm_fleet import fleet, results
from old_runs import without_unrecorded
from returned import described, misfits
from training_fleet import TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.settings import (
    TrainingSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.proposed import (
    plain_proposed,
    proposed,
    proposed_lines,
    proposed_of,
    settings_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run

ARCHIVE = Path(__file__).resolve().parents[5] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"
HOSTS = ("gpu01", "gpu02", "gpu03", "gpu04")
SKUS = dict.fromkeys(HOSTS, "dgx-h100")
# A model of which no bounds are published.
OTHER = "somebody/else"


def served(exports: Mapping[str, dict[str, Any]], **settings: Any) -> Any:
    servers = {name: {"models": (OTHER,)} for name in HOSTS}
    return judged(results(fleet(4, model=OTHER, **settings), servers=servers, exports=exports))


def test_the_median_is_proposed_with_how_the_hosts_differ_and_passes_where_it_is_stated() -> None:
    exports = {name: {"throughput": 8 * rate} for name, rate in zip(HOSTS, (9000, 8910, 9090, 9000), strict=True)}
    found = proposed_of(served(exports), SKUS)
    assert {entry.setting[-1]: entry.count for entry in found} == {"throughput_per_gpu": 4, "ttft_ms": 4, "tpot_ms": 4}
    rate = next(entry for entry in found if entry.setting[-1] == "throughput_per_gpu")
    assert (rate.middle, rate.value, rate.least, rate.most) == (9000.0, 9000.0, 8910.0, 9090.0)
    assert 0.005 < rate.spread < 0.012
    lines = proposed_lines(found)
    assert lines[0] == (
        "nothing is published of output throughput per GPU on dgx-h100: median 9000 tokens/s of 4, from 8910 to 9090, "
        "deviation 0.8%; proposed: slo.throughput_per_gpu 9000"
    )
    stated = settings_of(found)["inference_acceptance"]
    assert 'gpufleet_settings: {"inference_acceptance": {"slo": {"throughput_per_gpu": 9000.0' in lines[-1]
    assert bad(served(exports, **stated)) == set()
    assert list(misfits(plain_proposed(found), described("baseline_info", "proposed"))) == []


def test_who_is_slower_than_its_peers_lowers_no_proposal() -> None:
    found = proposed_of(served({"gpu02": {"throughput": 8 * 6000.0}}), SKUS)
    rate = next(entry for entry in found if entry.setting[-1] == "throughput_per_gpu")
    assert (rate.count, rate.least) == (3, 9000.0)


def test_of_one_host_it_is_said_that_nothing_tells_how_it_differs() -> None:
    found = proposed_of(served({}), SKUS)
    lines = proposed_lines([replace(found[0], count=1)])
    assert "measured once: nothing says how much it differs" in lines[0]


def test_hosts_of_two_kinds_have_no_settings_in_common() -> None:
    found = proposed_of(served({}), {**SKUS, "gpu04": "hgx-l40s"})
    lines = proposed_lines(found)
    assert len(found) == 6 and lines[-1].startswith("these settings are those of all hosts")


@pytest.mark.parametrize("pace", [{}, {"gpu02": 0.7}])
def test_a_peak_is_proposed_of_which_the_measured_part_is_what_is_expected(
    repository: Path, pace: dict[str, float]
) -> None:
    known = load_hardware([repository / "recipes" / "hardware"])
    ranks = TrainingFleet(hosts=HOSTS, hardware=known, pace=pace)
    measured = ranks.results()
    ranks.hardware = {"dgx-h100": replace(known["dgx-h100"], peak_tflops={})}
    found = proposed_of(ranks.outcomes(measured), SKUS)
    if pace:
        # A slow rank holds all others back: nobody should accept that.
        assert found == ()
        return
    assert [(entry.setting, entry.sku) for entry in found] == [(("peak_tflops",), "dgx-h100")]
    stated = settings_of(found)["training_acceptance"]
    settings = checked_settings(TrainingSettings, "training_acceptance", stated)
    assert ranks.findings(replace(measured, plan=replace(measured.plan, settings=settings))) == []


def test_where_figures_are_published_nothing_is_proposed(tmp_path: Path) -> None:
    assert proposed_of(judged(results(fleet(4))), SKUS) == ()
    unpack(ARCHIVE, tmp_path / "r-1")
    without_unrecorded(tmp_path / "r-1")
    assert proposed(Run(tmp_path / "r-1")) == () and proposed_lines(()) == []
