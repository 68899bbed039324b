# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One to three nodes: compared with what there is, and what only did not change is not healthy (domain.md T205)."""

from __future__ import annotations

import random

import pytest
from service_rows import node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import RATE, GemmRateSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Classified, classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    ClassLimits,
    Reference,
    References,
    Word,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.service import class_references
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import AcceptedFigure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.figures import Figure as AcceptedValue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.peers import compare

DAY_S, NOW_S = 86400.0, 100 * 86400.0
GEMM, LOOP = "gemm-bf16", "busbw"


def gemm(node: str, days_ago: float, *part_of_700: float) -> NodeResult:
    """A result of eight GPUs, those that are not given at 700 TFLOP/s and a bit."""
    values = [700 + gpu for gpu in range(8)]
    for gpu, part in enumerate(part_of_700):
        values[gpu] = round(values[gpu] * part)
    parts = {f"gpu{gpu}": f"{node}-{gpu}" for gpu in range(8)}
    figures = tuple(Figure(name=GEMM, number=n, unit="TFLOP/s", part=parts[f"gpu{g}"]) for g, n in enumerate(values))
    started_s = NOW_S - days_ago * DAY_S
    return node_result(
        f"c{days_ago}", node, "dl_unit", figures=figures, parts=parts, digests={}, started_s=started_s, cohort="h100"
    )


def judged(results: list[NodeResult], test: str = "dl_unit", references: References | None = None) -> Classified:
    nodes = sorted({entry.node for entry in results})
    return classify("c", nodes, (test,), results, NOW_S, figure_rules(), references=references)


def words(found: Classified) -> list[str]:
    return [entry.word for entry in found.classes]


def accepted(speed: float, nodes: int) -> References:
    held = Reference(speed=speed, marginal=0.95, bad=0.9, source="accepted by ann", shown=f"{speed:g} TFLOP/s")
    return {(f"n{node}", "dl_unit", GEMM): held for node in range(nodes)}


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_node_that_was_slow_from_the_first_day_is_a_suspect_and_never_healthy(nodes: int) -> None:
    slow = (0.6,) * 8
    results = [gemm(f"n{node}", 9 - day, *(slow if node == 0 else ())) for node in range(nodes) for day in range(9)]
    for some in (results, [entry for entry in results if entry.started_s < NOW_S - 6 * DAY_S]):
        found = judged(some)
        assert words(found)[0] == "suspect" and set(words(found)[1:]) == {"unknown"}
    assert f"{nodes} nodes do not tell which" in found.classes[0].reasons[0]


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_one_gpu_that_is_slower_than_those_beside_it_is_bad(nodes: int) -> None:
    results = [gemm(f"n{node}", 9 - day, *((0.85,) if node == 0 else ())) for node in range(nodes) for day in range(9)]
    assert words(judged(results)) == ["bad"] + ["unknown"] * (nodes - 1)
    assert words(judged([gemm(f"n{node}", 1) for node in range(nodes)])) == ["unknown"] * nodes


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_what_was_accepted_tells_healthy_from_slow(nodes: int) -> None:
    well = [gemm(f"n{node}", 9 - day) for node in range(nodes) for day in range(9)]
    assert words(judged(well, references=accepted(700, nodes))) == ["healthy"] * nodes
    assert set(words(judged(well))) == {"unknown"}
    all_slow = [gemm(f"n{node}", 9 - day, *(0.6,) * 8) for node in range(nodes) for day in range(9)]
    found = judged(all_slow, references=accepted(700, nodes))
    assert set(words(found)) <= {"bad", "suspect"} and "accepted by ann" in found.classes[0].reasons[0]
    between = [gemm("n0", 9 - day, *(0.93,) * 8) for day in range(9)]
    found = judged(between, references=accepted(700, 1))
    assert words(found) == ["suspect"] and found.repeats == ()


@pytest.mark.parametrize(
    ("gbps", "rating", "word"),
    [(48.0, Rating.GOOD, "healthy"), (40.0, Rating.MARGINAL, "suspect"), (30.0, Rating.BAD, "bad")],
)
def test_one_node_alone_is_held_against_the_ceiling_of_its_adapters(gbps: float, rating: Rating, word: str) -> None:
    status = {Rating.GOOD: Status.PASSED, Rating.MARGINAL: Status.OTHER, Rating.BAD: Status.FAILED}[rating]
    results = [
        node_result(
            f"c{day}", "n0", "nccl_loop", status, rating=rating, cause="" if rating is Rating.GOOD else "slow",
            figures=(Figure(name=LOOP, number=gbps, unit="GB/s"),), parts={}, digests={}, started_s=NOW_S - day * DAY_S,
        )
        for day in range(5, 0, -1)
    ]  # fmt: skip
    assert words(judged(results, "nccl_loop")) == [word]


@pytest.mark.parametrize("part", [0.955, 0.945, 0.94, 0.935, 0.92, 0.9])
def test_what_gate_fabric_validation_passes_is_not_bad_in_service(part: float) -> None:
    """domain.md T208: at 0.935 to 0.945 of its peers the gate named nobody and classification called the GPU bad."""
    gate = settings_for(GemmRateSettings, RATE, {}).peers
    draw = random.Random(208)

    def rate(node: int, gpu: int) -> float:
        return 700 * draw.gauss(1, 0.008) * (part if (node, gpu) == (3, 2) else 1)

    values = {f"n{node}/{gpu}": rate(node, gpu) for node in range(16) for gpu in range(8)}
    named = "n3/2" in compare(values, gate, None, lambda name: (name.split("/")[0],)).suspects
    results = []
    for day in range(6):
        for node in range(16):
            figures = tuple(
                Figure(
                    name=GEMM,
                    number=values[f"n{node}/{gpu}"] * draw.gauss(1, 0.002),
                    unit="TFLOP/s",
                    part=f"{node}-{gpu}",
                )
                for gpu in range(8)
            )
            parts = {f"gpu{gpu}": f"{node}-{gpu}" for gpu in range(8)}
            results.append(node_result(f"c{day}", f"n{node}", "dl_unit", figures=figures, parts=parts, digests={},
                                       started_s=NOW_S - (6 - day) * DAY_S, cohort="h100"))  # fmt: skip
    nodes = sorted({entry.node for entry in results})
    limits = ClassLimits(peers_by_test={"dl_unit": gate})
    found = classify("c", nodes, ("dl_unit",), results, NOW_S, figure_rules(), limits)
    assert ("n3" in found.nodes(Word.BAD)) is named


def test_references_are_what_was_accepted_and_else_what_is_published() -> None:
    hosts = [Host(name=name, sku="h100", node_name=name) for name in ("n0", "n1")]
    conditions = {"SKU": "dgx-h100", "driver": "580"}
    figure = AcceptedValue(
        figure=GEMM, subject="n0", node="n0", value=700.0, unit="TFLOP/s", conditions=conditions
    )  # fmt: skip
    entry = AcceptedFigure(
        figure=figure, gate="fabric_validation", run_id="r1", who="ann", accepted="2026-11-01T00:00Z"
    )
    found = class_references(hosts, load_hardware([RECIPES / "hardware"]), [entry], figure_rules())
    assert found["n0", "dl_unit", GEMM].speed == 700.0 and "accepted by ann" in found["n0", "dl_unit", GEMM].text
    published = found["n1", "dl_unit", GEMM]
    assert published.speed == pytest.approx(794.5, abs=1) and published.bad * published.speed > 0.59 * 989.5
