# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long GPUs were under load in a burn-in: by their power and not by the time of pods (findings T232)."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import Any

import pytest
from dl_unit_lines import lines_of, text_of
from dl_unit_node import HOST, dl_unit, read, simulated

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.burn_in.app import _loaded_s
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import parse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

GPUS = 8


def with_load(*loaded: float | None, seconds: float = 1800.0) -> str:
    """Return the log of a healthy host whose GPUs were at work."""
    lines: list[dict[str, Any]] = []
    for line in lines_of(GPUS):
        if line["event"] == "end" and line["slot"] < len(loaded):
            watts = 680.0 if loaded[line["slot"]] is not None else None
            facts = {"seconds": seconds, "loaded_s": loaded[line["slot"]], "limit_w": watts, "mean_w": watts}
            lines.append({"event": "load", "slot": line["slot"], **facts})
            line = {**line, "lines": line["lines"] + 1}
        lines.append(line)
    return text_of(lines)


@pytest.mark.parametrize(
    ("loaded", "counts"),
    [
        ((1790.0,) * 8, 1790.0),
        # The GPU with the least decides; one that is braked was not under load.
        ((1790.0,) * 7 + (12.0,), 12.0),
        # Nobody knows how hard it worked.
        ((1790.0,) * 7 + (None,), 0.0),
        ((1790.0,) * 7, 0.0),
        ((), 0.0),
    ],
)
def test_the_gpu_with_the_least_load_counts(loaded: tuple[float | None, ...], counts: float) -> None:
    found = read(with_load(*loaded))
    assert found.status is Status.PASSED and _loaded_s(found) == counts


@pytest.mark.parametrize("loaded", [-1.0, 1801.0])
def test_a_load_that_cannot_be_is_no_log(loaded: float) -> None:
    with pytest.raises(InputError, match="under load"):
        parse(with_load(loaded))


def test_the_job_of_a_burn_in_keeps_gpus_at_work_and_has_the_time_for_it() -> None:
    test = dl_unit()
    try:
        plain = test.job("a", HOST)
        test.keep_at_work(1800.0, 0.8)
        loading = test.job("a", HOST)
    finally:
        test.keep_at_work(0.0, 1.0)
    assert not any("--load" in word for word in plain.command)
    assert {"--load-s=1800.0", "--load-share=0.8"} <= set(loading.command)
    assert loading.timeout_s == plain.timeout_s + 1800
    assert replace(loading, command=plain.command, timeout_s=plain.timeout_s) == plain


class _Meter:
    """A GPU that may draw 700 W and draws what a test says, one reading after the other."""

    def __init__(self, *watts: float | None) -> None:
        self._watts = iter(watts)

    def watts(self) -> float | None:
        return next(self._watts)

    def limit_w(self) -> float | None:
        return 700.0


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The part of the program that loads, without PyTorch: products take a tenth of a second of a clock of its own."""
    now = [0.0]

    def product(*_factors: object) -> None:
        now[0] += 0.1

    matrix = SimpleNamespace(to=lambda _device: None)
    of_operations = {"Operation": object, "drawn": lambda *_asked: (matrix, matrix), "product": product}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(device=object, cuda=None))
    monkeypatch.setitem(sys.modules, "operations", SimpleNamespace(**of_operations))
    spec = spec_from_file_location("full_load", RECIPES / "workloads" / "dl_unit" / "full_load.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    return module


@pytest.mark.parametrize(
    ("watts", "loaded_s", "mean_w"),
    [
        ((690.0,) * 9, 4.0, 690.0),
        # Braked by heat for half of the time: 400 of 700 W is no load.
        ((690.0, 690.0, 400.0, 400.0) * 3, 2.0, 545.0),
        # One reading that failed, and nobody knows.
        ((690.0, None, 690.0, 690.0, 690.0), None, None),
    ],
)
def test_seconds_count_by_the_power_that_the_driver_reads(
    program: Any, watts: tuple[float | None, ...], loaded_s: float | None, mean_w: float | None
) -> None:
    found = program.full_load(None, SimpleNamespace(type="cpu"), 64, 4.0, 0.8, _Meter(*watts))
    assert found["seconds"] == pytest.approx(4.0) and found["loaded_s"] == (loaded_s and pytest.approx(loaded_s))
    assert found["mean_w"] == (mean_w and pytest.approx(mean_w))


def test_a_machine_without_a_driver_has_no_meter(program: Any) -> None:
    meter = program.PowerMeter("GPU-none")
    assert meter.watts() is None and meter.limit_w() is None


def test_what_a_rehearsal_prints_of_a_load_is_read() -> None:
    test = dl_unit()
    try:
        test.keep_at_work(600.0, 0.8)
        log, _end = simulated()
    finally:
        test.keep_at_work(0.0, 1.0)
    assert [entry.load and entry.load.loaded_s for entry in parse(log).tests] == [600.0] * GPUS
