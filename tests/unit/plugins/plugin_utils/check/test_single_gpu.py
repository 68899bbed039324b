# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine with one H200 and no peer: what it printed (shared captures, h200-single) is read and judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_gpus import with_one_gpu
from training_fleet import TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.rates import peak_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.reading import problem_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import RATE, GemmRateSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import dl_unit, nvidia_smi_topo, nvidia_smi_xml
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import GpuTest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

SKU = with_one_gpu(load_hardware([RECIPES / "hardware"])["dgx-h200"])


@pytest.fixture
def place(shared: Path) -> Path:
    return shared / "captures" / "h200-single"


def _test(place: Path, name: str) -> GpuTest:
    log = dl_unit.parse((place / name).read_text(encoding="utf-8"))
    assert problem_of(log) is None
    (test,) = log.tests
    return test


def test_the_driver_reports_one_healthy_gpu(place: Path) -> None:
    log = nvidia_smi_xml.parse((place / "nvidia-smi-q.xml").read_text(encoding="utf-8"))
    (gpu,) = log.gpus
    assert (log.driver_version, log.attached_gpus, gpu.trouble) == ("580.159.04", 1, "")
    assert (gpu.product, gpu.memory_total_mib, gpu.bus_id) == ("NVIDIA H200", 143771, "0000:00:06.0")
    assert (gpu.ecc_current, gpu.mig_current, gpu.persistence) == ("Enabled", "Disabled", "Enabled")
    assert (gpu.power_limit_w, gpu.power_limit_default_w) == (700.0, 700.0)
    assert gpu.ecc_volatile.uncorrectable == gpu.ecc_aggregate.uncorrectable == 0
    topo = nvidia_smi_topo.parse((place / "nvidia-smi-topo-m.txt").read_text(encoding="utf-8"))
    assert (topo.gpus, topo.nics, topo.cpu_affinity["GPU0"]) == (("GPU0",), (), "0-15")


def test_rates_of_a_gpu_that_another_process_uses_are_under_the_floor(place: Path) -> None:
    """Same bits, half the rates: nothing but the floor shows it where there is no peer."""
    limits = checked_settings(GemmRateSettings, RATE, {})
    alone, contended = _test(place, "dl-unit.log"), _test(place, "dl-unit-contended.log")
    assert alone.digest == contended.digest
    for test, expected in ((alone, (658.8, 50.8, 1192.6)), (contended, (338.4, 25.6, 579.4))):
        found = [round(test.rates[name].value, 1) for name in ("gemm-bf16", "gemm-fp32", "gemm-fp8")]
        assert tuple(found) == expected
    parts = [
        {name: test.rates[name].value / float(peak_of(SKU, name) or 0) for name in limits.floor}
        for test in (alone, contended)
    ]
    assert all(parts[0][name] > floor for name, floor in limits.floor.items())
    assert any(parts[1][name] < floor for name, floor in limits.floor.items())


def test_the_training_of_one_gpu_at_its_power_limit_passes(place: Path) -> None:
    text = (place / "training.log").read_text(encoding="utf-8")
    fleet = TrainingFleet(
        hosts=("vm",), hardware={SKU.name: SKU}, sku=SKU.name, raw=lambda _host, _text: text, settings={"load_s": 10},
    )  # fmt: skip
    outcomes = {outcome.check: outcome for outcome in fleet.outcomes(fleet.results())}
    measured = {measure.name: measure.value for measure in outcomes["training-mfu"].measured}
    assert (measured["MFU"], measured["parameters"], round(measured["tokens per second and GPU"], -3)) == (
        50.8, 1686249472, 47000,
    )  # fmt: skip
    assert outcomes["training-mfu"].status is Status.PASSED
