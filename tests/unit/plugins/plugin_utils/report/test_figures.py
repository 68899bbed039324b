# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves: which are drawn, where the lines and ticks are, and that names do not cover each other."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_tree import parse
from report_runs import bandwidth, failed, first_tokens, passed, step_times

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Axis, Bound, Series, node_subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.html import (
    MOST_LINES,
    Figure,
    drawing,
    figures,
    spread,
    ticks,
)

GATE = "fabric_validation"
PLAIN = Axis(name="step")


def drawn(*curves: Series, bad: int = 0) -> tuple[Figure, ...]:
    outcomes = [
        (failed(GATE, "c", node_subject(f"n{i}"), "slow", series=(curve,)))
        if i < bad
        else passed(GATE, "c", node_subject(f"n{i}"), series=(curve,))
        for i, curve in enumerate(curves)
    ]
    return figures({GATE: tuple(outcomes)})


def flat(name: str, level: float, xs: range = range(5)) -> Series:
    points = tuple((float(x), level) for x in xs)
    return Series(figure="f", name=name, x=PLAIN, y=Axis(name="y"), points=points)


def test_a_few_curves_are_drawn_as_they_are_the_bad_ones_first() -> None:
    curves = [bandwidth(f"pair {i}", 400.0 + i) for i in range(MOST_LINES)]
    (figure,) = drawn(curves[1], *(c for c in curves if c is not curves[1]), bad=1)
    assert figure.lines[0].name == "pair 1" and figure.lines[0].held
    assert {line.name for line in figure.lines} == {curve.name for curve in curves} and figure.note == ""
    assert [bound.name for bound in figure.bounds] == ["ceiling (ring)", "marginal below", "bad below"]


def test_the_two_hosts_of_a_pair_share_one_curve() -> None:
    (figure,) = drawn(bandwidth("a with b", 400), bandwidth("a with b", 400))
    assert figure.curves == 1
    (figure,) = drawn(bandwidth("a", 400), bandwidth("a", 401))
    assert [line.name for line in figure.lines] == ["a", "a (2)"]


def test_many_curves_become_lowest_median_highest_and_the_bad_ones() -> None:
    (figure,) = drawn(*(flat(f"n{i}", float(i)) for i in range(10)), bad=2)
    told = {line.name: line.points[0][1] for line in figure.lines}
    assert told == {"n0": 0.0, "n1": 1.0, "highest of 8": 9.0, "median of 8": 5.5, "lowest of 8": 2.0}
    assert figure.note == (
        "10 curves. Drawn are the lowest, the median and the highest value at each point of 8 that passed, "
        "and the 2 that did not."
    )
    (figure,) = drawn(*(flat(f"n{i}", float(i)) for i in range(10)), bad=10)
    assert len(figure.lines) <= MOST_LINES and "the 3 lowest of 10 that did not" in figure.note


def test_curves_without_common_points_are_drawn_by_example() -> None:
    (figure,) = drawn(*(flat(f"n{i}", float(i), range(10 * i, 10 * i + 5)) for i in range(9)))
    assert [line.name for line in figure.lines] == ["n0", "n4", "n8"] and "by their mean of 9" in figure.note


def test_one_name_with_different_axes_is_two_figures_and_many_bounds_are_summed() -> None:
    other = replace(first_tokens(), figure="Step time")
    assert len(drawn(step_times(0), other)) == 2
    curves = [replace(flat(f"n{i}", 1.0), bounds=(Bound(name="ceiling", value=400.0 + i),)) for i in range(8)]
    (figure,) = drawn(*curves)
    assert [(b.name, b.value) for b in figure.bounds] == [("ceiling, lowest", 400.0), ("ceiling, highest", 407.0)]
    assert "held against 8 lines" in figure.note


def test_gates_come_in_order_and_hosts_before_the_whole() -> None:
    whole = replace(bandwidth("all", 400), figure="over all nodes")
    pairs = [bandwidth(f"p{i}", 400) for i in range(3)]
    outcomes = [passed(GATE, "c", node_subject(f"n{i}"), series=(curve,)) for i, curve in enumerate([whole, *pairs])]
    training = passed("training_acceptance", "c", node_subject("n"), series=(step_times(0),))
    found = figures({"training_acceptance": (training,), GATE: tuple(outcomes)})
    assert [f.title for f in found] == ["NCCL bus bandwidth between two nodes", "over all nodes", "Step time"]


@pytest.mark.parametrize("curve", [bandwidth("a", 470.0), step_times(3), first_tokens()])
def test_a_drawing_has_its_lines_bounds_names_and_words(curve: Series) -> None:
    (figure,) = drawn(curve)
    svg = parse(drawing(figure, "figure7")).one("svg")
    texts = [element.text for element in svg.all("text")]
    assert curve.name in texts
    for bound in curve.bounds:
        assert any(text.startswith(bound.name) for text in texts)
    # Each curve and each bound is one line of the plot.
    assert len([p for p in svg.all("path") if "reactive" in p.attributes["class"]]) == 1 + len(curve.bounds)
    assert svg.one("title", id_="figure7-title").text == curve.figure
    assert curve.x.name in svg.one("desc", id_="figure7-desc").text
    assert svg.all("script") == [] and "//" not in re.sub(r"http://www.w3.org/2000/svg", "", drawing(figure, "f"))


def test_the_same_figure_gives_the_same_drawing() -> None:
    (figure,) = drawn(bandwidth("a", 470.0), bandwidth("b", 460.0))
    assert drawing(figure, "figure1") == drawing(figure, "figure1")


@pytest.mark.parametrize(
    "points",
    [((0.0, 1.0),), ((0.0, 0.0), (1.0, 0.0)), ((1.0, -5.0), (2.0, -5.0)), ((1.0, 1e-9), (1e9, 1e12))],
)
@pytest.mark.parametrize("logarithmic", [False, True])
def test_odd_points_do_not_stop_the_page(points: tuple[tuple[float, float], ...], logarithmic: bool) -> None:
    axes = {"x": Axis(name="x", logarithmic=logarithmic), "y": Axis(name="y", logarithmic=logarithmic)}
    (figure,) = drawn(Series(figure="f", name="n", points=points, **axes))
    text = drawing(figure, "f")
    assert text == "" or parse(text).one("svg")


def test_a_bad_line_is_thicker_in_the_plot_too() -> None:
    (figure,) = drawn(bandwidth("a", 200.0), bandwidth("b", 470.0), bad=1)
    text = drawing(figure, "figure1")
    widths = dict(re.findall(r"#chart-figure1 \.series\.serie-(\d)\{stroke-width:([\d.]+)", text))
    assert [widths[str(number)] for number in range(5)] == ["1.2", "1.2", "1.2", "2.6", "1.8"]
    assert "#chart-figure1 .line.reactive{stroke-width:inherit}" in text


def test_dashes_tell_lines_apart_without_colour() -> None:
    (figure,) = drawn(*(bandwidth(f"n{i}", 400.0 + 9 * i) for i in range(MOST_LINES)))
    svg = parse(drawing(figure, "f"))
    samples = [line.attributes["style"] for line in svg.all("line") if "dasharray" in line.attributes["style"]]
    dashes = [(re.findall(r"stroke-width:([^;]+)", s)[0], re.findall(r"dasharray:(.+)", s)[0]) for s in samples]
    assert len(dashes) == MOST_LINES + 3 == len(set(dashes))


@given(st.lists(st.floats(0, 300), min_size=1, max_size=15))
def test_names_never_cover_each_other(heights: list[float]) -> None:
    moved = spread(heights, 10, 300, 14.0)
    order = sorted(moved)
    assert all(right - left >= 13.999 for left, right in pairwise(order))
    assert max(moved) <= 300 and len(moved) == len(heights)
    # In the order of the lines that they name.
    assert [moved[i] for i in sorted(range(len(heights)), key=lambda i: heights[i])] == order


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_round_and_enclose_what_they_measure(low: float, span: float) -> None:
    found = ticks([low, low + span], Axis(name="y"))
    assert 2 <= len(found) <= 12 and list(found) == sorted(set(found))
    slack = 1e-6 * max(abs(low), span)
    assert found[0] <= low + slack and found[-1] >= low + span - slack


def test_ticks_of_sizes_are_powers_of_two() -> None:
    found = ticks([65536.0, 8.0 * 2**30], Axis(name="size", unit="B", logarithmic=True))
    assert found[-1] == 8 * 2**30 and 4 <= len(found) <= 8
    assert all(float(value).is_integer() and int(value) & (int(value) - 1) == 0 for value in found)
