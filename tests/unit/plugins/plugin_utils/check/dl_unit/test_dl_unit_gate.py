# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test as a part of gate fabric_validation: healthy hosts pass, each fault is found where it is, alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dl_unit_lines import text_of
from seeds import drawing
from unit_fleet import CATALOGUE, CHECKS, UnitFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.model import SavedObservation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_dl_unit import OBSERVER
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault

RATE, NUMERICS = CHECKS
OURS = [name for name, entry in CATALOGUE.items() if entry.expect.check in CHECKS]
Line = dict[str, Any]


def edited(change: Callable[[str, int, Line], None]) -> Callable[[str, int, str], str]:
    """Return an edit that changes lines of a host's run."""

    def edit(host: str, attempt: int, log: str) -> str:
        lines = [json.loads(line) for line in log.splitlines()]
        for line in lines:
            change(host, attempt, line)
        return text_of(lines)

    return edit


def on_nodes(at: str, value: Any, *nodes: str) -> tuple[Fault, ...]:
    """Return a fault of each GPU of these nodes."""
    patch = (Change(at=at, set=value),)
    return tuple(
        Fault(id=f"f{n}", kind="gpu", subject=f"{node}/gpu{n}", patch=patch) for node in nodes for n in range(8)
    )


@pytest.mark.parametrize(("nodes", "sku"), [(1, "dgx-h100"), (4, "dgx-h100"), (24, "dgx-h100"), (3, "dgx-a100")])
def test_healthy_hosts_pass_after_one_run(nodes: int, sku: str) -> None:
    fleet = UnitFleet(nodes=nodes, sku=sku)
    assert fleet.findings() == []
    assert [len(step) for step in fleet.steps] == [nodes]


def test_many_healthy_fleets_blame_no_gpu() -> None:
    for seed in range(20):
        assert UnitFleet(nodes=3, seed=seed).findings() == [], seed


@pytest.mark.parametrize("fault", OURS)
@pytest.mark.parametrize("nodes", [3, 9])
def test_a_fault_is_found_where_it_is_and_nowhere_else(fault: str, nodes: int) -> None:
    entry, draw = CATALOGUE[fault], drawing(fault)
    node = f"gpu{draw.randint(1, nodes):02d}"
    subject = {"gpu": f"{node}/gpu{draw.randrange(8)}", "node": node, "cluster": ""}[entry.kind]
    found = UnitFleet(nodes=nodes, faults=(f"{fault}@{subject}" if subject else fault,)).findings()
    assert [(check, cause, status) for check, cause, status, _who in found] == [
        (entry.expect.check, entry.expect.cause, entry.expect.status)
    ]
    named = found[0][3]
    wanted = {"gpu": {node, subject}, "node": {node}}.get(entry.kind)
    assert wanted is None or set(named) == wanted


def test_what_no_host_can_run_is_told_once_whatever_its_pods_are_called() -> None:
    """The job controller ends the names of pods with letters that it draws."""
    names = [f"gpu0{number}" for number in range(1, 5)]
    ended = {
        name: ("failed", f"dl-unit-{number}-1-0-x{number}k2p on {name} ended with exit code 1")
        for number, name in enumerate(names, 1)
    }
    (found,) = UnitFleet(faults=("unit-test-image-without-pytorch",), ended=ended).findings()
    assert found[:3] == (NUMERICS, "run-failed", "other") and set(found[3]) == set(names)


def test_what_no_host_can_run_blocks_its_rates_once_and_the_hint_says_where_the_log_is() -> None:
    names = tuple(f"gpu{number:02d}" for number in range(1, 5))
    ended = dict.fromkeys(names, ("failed", "exit code 1"))
    told = UnitFleet(nodes=4, ended=ended, edit=lambda _host, _attempt, _log: "no torch\n").outcomes()
    (rates,) = [outcome for outcome in told if outcome.check == RATE]
    assert rates.blocked_by == NUMERICS and tuple(subject.name for subject in rates.subjects) == names
    (numerics,) = [outcome for outcome in told if outcome.check == NUMERICS]
    assert numerics.hint.startswith("read the log of the pod; it is evidence/fabric_validation/dl-unit-1-")
    # One host that could not be measured is told by itself, and what needs no log names none.
    told = UnitFleet(nodes=4, ended={"gpu02": ("image", "no such image")}).outcomes()
    alone = [tuple(subject.name for subject in o.subjects) for o in told if o.check == RATE and o.blocked_by]
    assert alone == [("gpu02",)]
    assert not any("evidence/" in outcome.hint for outcome in told)


def test_a_slow_gpu_is_tested_three_times_and_its_host_alone() -> None:
    fleet = UnitFleet(faults=("gpu-gemm-slow@gpu03/gpu5",))
    assert fleet.findings() == [(RATE, "slow-gemm", "failed", ("gpu03", "gpu03/gpu5"))]
    assert fleet.steps == [["gpu01", "gpu02", "gpu03", "gpu04"], ["gpu03"], ["gpu03"]]


def test_a_gpu_between_good_and_slow_is_for_a_person() -> None:
    fleet = UnitFleet(faults=("gpu-gemm-below-peers@gpu03/gpu5",))
    assert fleet.findings() == [(RATE, "rate-below-peers", "other", ("gpu03", "gpu03/gpu5"))]


def test_one_slow_run_of_three_is_no_finding() -> None:
    def once(host: str, attempt: int, line: Line) -> None:
        if (host, attempt, line.get("slot")) == ("gpu02", 1, 4) and line["event"] == "rate":
            line["value"] /= 2

    fleet = UnitFleet(edit=edited(once))
    assert fleet.findings() == [] and fleet.steps[1:] == [["gpu02"], ["gpu02"]]


def test_most_wrong_gpus_of_a_host_are_named_by_the_other_hosts() -> None:
    """Within the host alone no digest is that of most, and nobody could be named."""
    wrong = on_nodes("gpu.numerics", "gemm-wrong", "gpu02")[:5]
    found = UnitFleet(broken=wrong).findings()
    assert found == [(NUMERICS, "digest-differs", "failed", ("gpu02", *(f"gpu02/gpu{n}" for n in range(5))))]


def test_gpus_that_differ_alike_are_another_variant_and_not_broken() -> None:
    def variant(host: str, _attempt: int, line: Line) -> None:
        if host == "gpu04" and line.get("op") == "attention" and line["event"] == "op":
            line["digest"] = "e" * 64

    found = UnitFleet(edit=edited(variant)).findings()
    assert [entry[:3] for entry in found] == [(NUMERICS, "digests-unlike", "other")]
    assert found[0][3][0] == "gpu04"


def test_halves_that_differ_name_nobody() -> None:
    def half(host: str, _attempt: int, line: Line) -> None:
        if host in ("gpu01", "gpu02") and line.get("op") == "attention" and line["event"] == "op":
            line["digest"] = "e" * 64

    found = UnitFleet(edit=edited(half)).findings()
    assert found == [(NUMERICS, "digests-unlike", "other", ("lab", "gpu01", "gpu02", "gpu03", "gpu04"))]


def test_gpus_with_another_driver_are_a_cohort_of_their_own() -> None:
    def other(host: str, _attempt: int, line: Line) -> None:
        if host == "gpu04" and line["event"] == "gpu":
            line["driver"] = "590.1"
        if host == "gpu04" and line.get("op") == "attention" and line["event"] == "op":
            line["digest"] = "e" * 64

    assert UnitFleet(edit=edited(other)).findings() == []


def test_other_bits_in_a_second_run_are_proof() -> None:
    def second(host: str, attempt: int, line: Line) -> None:
        if (host, attempt, line.get("slot"), line.get("op"), line["event"]) == ("gpu03", 2, 1, "gemm-fp32", "op"):
            line["digest"] = "e" * 64

    found = UnitFleet(faults=("gpu-memory-slow@gpu03/gpu5",), edit=edited(second)).findings()
    assert (NUMERICS, "digest-changes", "failed", ("gpu03", "gpu03/gpu1")) in found


def test_a_gpu_that_the_program_does_not_see_is_missing() -> None:
    fleet = UnitFleet(
        broken=(Fault(id="f", kind="gpu", subject="gpu02/gpu3", patch=(Change(at="gpu.presence", set="lost"),)),)
    )
    assert [entry[:3] for entry in fleet.findings()] == [(NUMERICS, "gpu-missing", "failed")]


def test_a_slow_rack_is_told_once() -> None:
    racks = {f"gpu{n:02d}": {"rack": "r1" if n <= 3 else "r2"} for n in range(1, 13)}
    broken = on_nodes("gpu.gemm", 0.8, "gpu01", "gpu02", "gpu03")
    found = UnitFleet(nodes=12, broken=broken, shared=racks).findings()
    assert found == [(RATE, "slow-group", "failed", ("r1", "gpu01", "gpu02", "gpu03"))]


def test_gpus_that_are_slow_alike_have_one_status_and_one_finding() -> None:
    """The line lay between GPUs that differ by less than a measurement does (T114)."""

    def rates(**parts: float) -> Callable[[str, int, str], str]:
        def fixed(host: str, _attempt: int, line: Line) -> None:
            if line["event"] == "rate":
                line["value"] = 1000.0 * parts.get(host, 1.0)

        return edited(fixed)

    around = {"gpu02": 0.925, "gpu03": 0.934}
    found = UnitFleet(nodes=12, peaks=False, edit=rates(**around, gpu05=0.942)).findings()
    assert {(who[0], status) for _check, _cause, status, who in found} == {
        ("gpu02", "failed"), ("gpu03", "failed"), ("gpu05", "other"),
    }  # fmt: skip
    racks = {f"gpu{n:02d}": {"rack": "r1" if n in (2, 3) else "r2"} for n in range(1, 13)}
    found = UnitFleet(nodes=12, peaks=False, edit=rates(**around), shared=racks).findings()
    assert found == [(RATE, "slow-group", "failed", ("r1", "gpu02", "gpu03"))]


def test_too_many_slow_gpus_hold_the_gate_and_blame_nobody() -> None:
    found = UnitFleet(nodes=3, broken=on_nodes("gpu.gemm", 0.8, "gpu01", "gpu02")).findings()
    assert found == [(RATE, "rates-uneven", "other", ("lab", "gpu01", "gpu02", "gpu03"))]


def test_without_facts_few_gpus_have_nothing_to_be_held_against() -> None:
    found = UnitFleet(nodes=1, peaks=False, stated={"peers_least": 9}).findings()
    assert found == [(RATE, "no-reference", "other", ("gpu01",))]
    assert UnitFleet(nodes=2, peaks=False, stated={"peers_least": 9}).findings() == []


def test_rates_that_were_not_measured_together_say_nothing() -> None:
    def alone(host: str, _attempt: int, line: Line) -> None:
        if host == "gpu02" and line["event"] == "rate":
            line["together"] = False

    assert UnitFleet(edit=edited(alone)).findings() == [(RATE, "not-together", "other", ("gpu02",))]


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        ("slow-start", "ContainerCreating", "launch-slow-start"), ("image", "ErrImagePull", "launch-image"),
        ("lost-node", "NotReady", "launch-lost-node"), ("aborted", "no time is left", "launch-aborted"),
        ("refused", "quota", "launch-refused"), ("failed", "exit code 1", "run-failed"),
    ],
)  # fmt: skip
def test_a_run_that_did_not_end_well_is_known_of_nothing(state: str, reason: str, cause: str) -> None:
    assert UnitFleet(ended={"gpu02": (state, reason)}).findings() == [(NUMERICS, cause, "other", ("gpu02",))]


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_log_that_is_not_whole_is_no_pass(kept: int) -> None:
    def cut(host: str, _attempt: int, log: str) -> str:
        return "".join(log.splitlines(keepends=True)[:kept]) if host == "gpu02" else log

    assert UnitFleet(edit=cut).findings() == [(NUMERICS, "no-output", "other", ("gpu02",))]


@pytest.mark.parametrize(("name", "value"), [("seed", 2), ("size", 256), ("device", "cpu")])
def test_a_log_of_other_arithmetic_is_no_pass(name: str, value: Any) -> None:
    def begin(host: str, _attempt: int, line: Line) -> None:
        if host == "gpu02" and line["event"] == "begin":
            line[name] = value

    assert UnitFleet(edit=edited(begin)).findings() == [(NUMERICS, "no-output", "other", ("gpu02",))]


def test_no_place_for_a_moment_is_tried_once_more() -> None:
    fleet = UnitFleet(ended={"gpu02": ("unschedulable", "0/4 nodes are available")})
    assert fleet.findings() == [(NUMERICS, "launch-unschedulable", "other", ("gpu02",))]
    assert fleet.steps[1:] == [["gpu02"]]


def test_a_host_without_a_place_waits_for_the_check_that_tells_why() -> None:
    told = UnitFleet(closed={"gpu02": "its GPUs are busy"}).outcomes()
    assert [o.blocked_by for o in told if o.subjects[0].name == "gpu02"] == ["nccl-results", "nccl-results"]


def test_what_was_left_behind_is_told() -> None:
    assert [entry[:2] for entry in UnitFleet(leftovers=("namespace x",)).findings()] == [
        (NUMERICS, "cleanup-incomplete")
    ]


def test_a_run_is_judged_again_from_what_was_saved(tmp_path: Path) -> None:
    fleet = UnitFleet(nodes=2)
    results = fleet.results()
    records = []
    for run in results.runs:
        path = f"evidence/{run.record.name}.log"
        fleet.bench.runs = []
        write_atomic(tmp_path / path, fleet.log(run.record.host)[0])
        records.append(to_plain(run.record) | {"log": path})
    saved = to_plain(SavedObservation(plan=results.plan, made=len(records))) | {"records": records}
    assert OBSERVER.restore(saved, tmp_path, fleet.site).whole("gpu02") == results.whole("gpu02")
    with pytest.raises(InputError, match="says that 2 runs were made"):
        OBSERVER.restore(saved | {"records": records[:1]}, tmp_path, fleet.site)
