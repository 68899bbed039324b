# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of gates 6 and 7 ran on two H200 and an H100: healthy GPUs pass, the faults that were made are found."""

from __future__ import annotations

from functools import cache

import pytest
from real_gpus import printed, with_one_gpu
from training_fleet import TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.rates import peak_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.reading import problem_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import RATE, GemmRateSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import GpuTest, parse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.majority import majority

# Log of the DL unit test, and the kind of host whose facts hold for its one GPU.
GPUS = {"h200-a-dl-unit.log": "dgx-h200", "h200-b-dl-unit-two-gpus.log": "dgx-h200", "h100-dl-unit.log": "dgx-h100"}


@cache
def hardware() -> dict[str, Sku]:
    """Kinds of hosts, and machines with one GPU of theirs."""
    known = load_hardware([RECIPES / "hardware"])
    alone = [with_one_gpu(known[name]) for name in ("dgx-h100", "dgx-h200")]
    return known | {sku.name: sku for sku in alone}


def first_gpu(name: str) -> GpuTest:
    """The test of a log's first GPU."""
    return parse(printed(name)).tests[0]


def spoiled() -> list[str]:
    """Logs of one GPU in which a bit was flipped: always, the second time, and once in a product that is known."""
    begin = '{"schema_version":1,"event":"begin"'
    return [begin + rest for rest in printed("h200-b-dl-unit-spoiled.log").split(begin)[1:]]


def test_healthy_gpus_have_no_problem_and_all_compute_the_same_bits() -> None:
    tests = {log: first_gpu(log) for log in GPUS}
    assert problem_of(parse(printed("h200-a-dl-unit.log"))) is None
    assert problem_of(parse(printed("h100-dl-unit.log"))) is None
    assert len({test.identity.uuid for test in tests.values()}) == 3
    # Also an H200 and an H100: the same chip with other memory.
    assert len({test.digest for test in tests.values()}) == 1


def test_a_gpu_that_is_not_there_is_missing() -> None:
    problem = problem_of(parse(printed("h200-b-dl-unit-two-gpus.log")))
    assert problem is not None
    assert problem.cause == "gpu-missing"
    assert problem.text.endswith("gpu1: LookupError in start: PyTorch sees 1 devices, 2 were asked for")


def test_flipped_bits_on_a_real_gpu_are_found() -> None:
    always, once, known = map(parse, spoiled())
    causes = [getattr(problem_of(log), "cause", None) for log in (always, once, known)]
    assert causes == [None, "digest-changes", "arithmetic-wrong"]
    # Always wrong alike: only others show it.
    tests = {**{log: first_gpu(log) for log in GPUS}, "always": always.tests[0]}
    found = majority({name: test.digest for name, test in tests.items()})
    assert found is not None
    assert found.minority == ("always",)


@pytest.mark.parametrize("log", GPUS)
def test_rates_of_healthy_gpus_are_over_the_floor(log: str) -> None:
    limits = checked_settings(GemmRateSettings, RATE, {})
    rates = {name: rate.value for name, rate in first_gpu(log).rates.items()}
    sku = hardware()[GPUS[log]]
    parts = {name: value / peak for name, value in rates.items() if (peak := peak_of(sku, name))}
    assert parts.keys() >= limits.floor.keys()
    # A tenth is left: healthy GPUs differ by half of that.
    assert all(parts[name] > floor * 1.1 for name, floor in limits.floor.items()), parts


def test_two_healthy_gpus_differ_by_less_than_peers_may() -> None:
    limits = checked_settings(GemmRateSettings, RATE, {})
    one, two = ({name: rate.value for name, rate in first_gpu(log).rates.items()} for log in list(GPUS)[:2])
    assert all(abs(one[name] - two[name]) / max(one[name], two[name]) < limits.peer_tolerance for name in one)


def training(log: str, kind: str, load_s: float) -> dict[str, tuple[Status, str]]:
    fleet = TrainingFleet(
        hosts=("vm",), hardware=hardware(), sku=f"vm-{kind}", raw=lambda _host, _text: printed(log),
        settings={"load_s": load_s},
    )  # fmt: skip
    return {outcome.check: (outcome.status, outcome.cause) for outcome in fleet.outcomes(fleet.results())}


@pytest.mark.parametrize(
    ("log", "kind", "load_s"), [("h200-b-training.log", "h200", 150), ("h100-training.log", "h100", 60)]
)
def test_a_healthy_gpu_that_is_held_at_its_power_limit_passes_the_training(log: str, kind: str, load_s: float) -> None:
    assert '"sw_power_cap"' in printed(log)
    told = training(log, kind, load_s)
    assert len(told) == 9
    assert {status for status, _cause in told.values()} == {Status.PASSED}, told


def test_a_gpu_that_somebody_else_uses_too_fails_the_training() -> None:
    told = training("h200-b-training-contended.log", "h200", 50)
    assert told["training-step-time"] == (Status.FAILED, "step-time-unstable")
    assert told["training-mfu"] == (Status.OTHER, "blocked-by-training-step-time")
    assert told["training-loss"] == (Status.PASSED, "")
