# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The constraint language: upstream's truth table, and what ours adds."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import (
    Constraint,
    ConstraintStatus,
    Quantifier,
    Severity,
    evaluate,
    evaluate_nodes,
    parse_version,
    satisfies,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

PASS, FAIL, ERROR, MISSING = (
    ConstraintStatus.PASS,
    ConstraintStatus.FAIL,
    ConstraintStatus.ERROR,
    ConstraintStatus.MISSING,
)


def test_truth_table(shared: Path) -> None:
    table = yaml.safe_load((shared / "vectors" / "constraints.yaml").read_text(encoding="utf-8"))
    assert len(table) > 20
    for expression, actual, wanted in table:
        found = evaluate(Constraint(name="K8s.server.version", value=expression), actual)
        assert found.status.value == wanted, (expression, actual, found.reason)


@pytest.mark.parametrize(
    ("expression", "actual", "wanted"),
    [
        (">= 1.30, < 1.36", "1.34.2", PASS),
        (">= 1.30, < 1.36", "1.36.0", FAIL),
        (">= 1.30, < 1.36", "1.29.9", FAIL),
        (">= 1.30, <", "1.34.2", ERROR),
        ("in [22.04, 24.04]", "24.04", PASS),
        ("in [22.04, 24.04]", "20.04", FAIL),
        ("not in [22.04]", "22.04", FAIL),
        ("not in [22.04]", "24.04", PASS),
        ("in []", "24.04", ERROR),
        ("a, b", "a, b", PASS),
        ("!= ubuntu", "rhel", PASS),
        ("== 1.2", "1.2.0", PASS),
        ("== 1.2", "1.2.1", FAIL),
    ],
)
def test_lists_and_ranges(expression: str, actual: str, wanted: ConstraintStatus) -> None:
    assert evaluate(Constraint(name="x", value=expression), actual).status is wanted


@pytest.mark.parametrize(
    ("expression", "unit", "actual", "wanted"),
    [
        (">= 80", "GiB", "81920 MiB", PASS),
        (">= 80", "GiB", "81559 MiB", FAIL),
        (">= 80", "GiB", 80, PASS),
        (">= 80 GB", "GiB", "75 GiB", PASS),
        ("<= 90", "C", "91", FAIL),
        (">= 80", "GiB", "400 W", ERROR),
        (">= 80", "GiB", "many", ERROR),
        ("== 1", "kW", "1000 W", PASS),
        (">= 350, < 800", "W", "700", PASS),
        (">= 1", "parsec", "1", ERROR),
    ],
)
def test_units(expression: str, unit: str, actual: str | int, wanted: ConstraintStatus) -> None:
    found = evaluate(Constraint(name="x", value=expression, unit=unit), actual)
    assert found.status is wanted, found.reason


def test_a_missing_measurement_is_never_a_pass() -> None:
    found = evaluate(Constraint(name="K8s.server.version", value="!= 1"), None)
    assert found.status is MISSING
    assert found.blocks
    assert "K8s.server.version was not measured" in found.reason


def test_a_warning_does_not_block_and_keeps_its_remediation() -> None:
    constraint = Constraint(name="x", value=">= 2", severity=Severity.WARNING, remediation="Upgrade x.")
    found = evaluate(constraint, "1")
    assert found.status is FAIL
    assert not found.blocks
    assert found.constraint.remediation == "Upgrade x."


@pytest.mark.parametrize(
    ("quantifier", "values", "wanted", "nodes"),
    [
        (Quantifier.ALL, {"a": "2", "b": "2"}, PASS, ()),
        (Quantifier.ALL, {"a": "2", "b": "1"}, FAIL, ("b",)),
        (Quantifier.ANY, {"a": "2", "b": "1"}, PASS, ("a",)),
        (Quantifier.ANY, {"a": "1", "b": "1"}, FAIL, ("a", "b")),
        (Quantifier.NONE, {"a": "1", "b": "1"}, PASS, ()),
        (Quantifier.NONE, {"a": "1", "b": "2"}, FAIL, ("b",)),
        (Quantifier.NONE_GIVEN, {"a": "1"}, FAIL, ("a",)),
        (Quantifier.ALL, {}, MISSING, ()),
        (Quantifier.ANY, {"a": "2", "b": None}, MISSING, ("b",)),
        (Quantifier.NONE, {"a": "x.y", "b": "1"}, ERROR, ("a",)),
    ],
)
def test_quantifiers(
    quantifier: Quantifier, values: dict[str, str | None], wanted: ConstraintStatus, nodes: tuple[str, ...]
) -> None:
    found = evaluate_nodes(Constraint(name="x", value=">= 2", nodes=quantifier), values)
    assert (found.status, found.nodes) == (wanted, nodes)


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_crashes_it(expression: str, actual: str) -> None:
    assert evaluate(Constraint(name="x", value=expression), actual).status is not MISSING
    evaluate(Constraint(name="x", value=expression, unit="GiB"), actual)


numbers = st.lists(st.integers(0, 99), min_size=1, max_size=3)


@given(numbers, numbers)
def test_comparison_is_antisymmetric_and_exact_on_three_numbers(left: list[int], right: list[int]) -> None:
    one, other = (parse_version(".".join(map(str, parts))) for parts in (left, right))
    assert one.compare(other) == -other.compare(one)
    if len(left) == len(right) == 3:
        assert one.compare(other) == (left > right) - (left < right)


@pytest.mark.parametrize("text", ["", "1.2.3.4", "v1.2.a", "v", "1..2", "-1", "latest", "1.2.٣"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(InputError, match="is not a version"):
        parse_version(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("v1.28.0-gke.1337000", (1, 28, 0)), ("1.29.2-hotfix.20240322", (1, 29, 2)), ("6.6.72+", (6, 6, 72))],
)
def test_extras_do_not_count(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_version(text).numbers == numbers


@pytest.mark.parametrize(
    ("kernel", "expression", "holds"),
    [
        ("6.6.57.1-7.azl3", ">= 6.6", True),
        ("6.6.57.1-7.azl3", ">= 6.6.57", True),
        ("6.6.57.1-7.azl3", ">= 6.6.58", False),
        ("6.6.57.1-7.azl3", "> 6.6.57", False),
        ("6.6.57.1-7.azl3", "< 6.8", True),
        ("6.6.135.mshv2-1.azl3", ">= 6.8", False),
        ("6.6.139.1-99.osguard1.azl3", ">= 6.6.139", True),
        ("5.15.158.1-1.cm2", ">= 6.6", False),
        # The build is a part of what is equal, so another one is not.
        ("6.6.57.1-7.azl3", "== 6.6.57.1-7.azl3", True),
        ("6.6.57.1-8.azl3", "== 6.6.57.1-7.azl3", False),
    ],
)
def test_a_kernel_of_azure_linux_is_ordered_by_its_first_three_numbers(
    kernel: str, expression: str, holds: bool
) -> None:
    assert satisfies(kernel, expression) is holds


@pytest.mark.parametrize("text", ["6.6.57.1", "6.6.57.1-7", "6.6.57.1-7.el9", "6.6.57.1.2-7.azl3", "6.6.x.1-7.azl3"])
def test_four_numbers_of_anything_else_are_no_version(text: str) -> None:
    with pytest.raises(InputError, match="is not a version"):
        satisfies(text, ">= 6.6")
