# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expressions of health checks: examples and rules of the JMESPath specification (jmespath.org), and the forms of
upstream's health checks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.chainsaw import parse, same
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

MACHINES = {"machines": [{"name": "a", "state": "running"}, {"name": "b", "state": "stopped"}, {"name": "c"}]}
DEPLOYMENT = {
    "metadata": {"generation": 3},
    "spec": {"replicas": 2},
    "status": {
        "replicas": 2,
        "readyReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "True"}, {"type": "Available", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("a.b.c[0].d[1][0]", {"a": {"b": {"c": [{"d": [0, [1, 2]]}]}}}, 1),
        ("[-1]", [1, 2, 3], 3),
        ("[5]", [1], None),
        ("[0:2]", [1, 2, 3], [1, 2]),
        ("[::-1]", [1, 2, 3], [3, 2, 1]),
        ("machines[*].name", MACHINES, ["a", "b", "c"]),
        ("machines[*].state", MACHINES, ["running", "stopped"]),
        ("machines[?state == 'running'].name", MACHINES, ["a"]),
        ("machines[?state != 'running'] | [0].name", MACHINES, "b"),
        ("machines[?state == 'running'][0]", MACHINES, []),
        ("machines[?!state].name", MACHINES, ["c"]),
        ("*.x", {"a": {"x": 1}, "b": {"x": 2}, "c": 3}, [1, 2]),
        ("[][]", [[1, [2]], [3]], [1, 2, 3]),
        ('"with.dot"', {"with.dot": 1}, 1),
        ("a || `0`", {}, 0),
        ("a || `0`", {"a": 0}, 0),
        ("a && b", {"a": [], "b": 1}, []),
        ("!a", {"a": 0}, False),
        ("a == b || c", {"a": 1, "b": 2, "c": 3}, 3),
        ("a == `true`", {"a": 1}, False),
        ("a < b", {"a": 1, "b": "2"}, None),
        ("length(@)", [1, 2], 2),
        ("length(a) >= `2`", {"a": "ab"}, True),
        ("contains(a, 'x')", {"a": ["y", "x"]}, True),
        ("contains(a, `1`)", {"a": [True]}, False),
        ("starts_with(a, 'x') && ends_with(a, 'z')", {"a": "xyz"}, True),
        ("not_null(a, b)", {"b": 2}, 2),
        ("max(a[*].n)", {"a": [{"n": 1}, {"n": 4}]}, 4),
        ("to_number('3')", {}, 3),
        ("type(a)", {"a": None}, "null"),
        ('`"a\\`b"`', {}, "a`b"),
        ("sort_by(machines, &name)[-1].name", MACHINES, "c"),
        ("machines[].{is: state}[0].is", MACHINES, "running"),
        ("a < b", {"a": "1.10", "b": "1.9"}, None),
    ],
)
def test_examples_of_the_specification(text: str, value: Any, said: Any) -> None:
    assert same(parse(text).of(value), said), parse(text).of(value)


# Forms of NVIDIA/aicr recipes/checks/{nvcre,k8s-aibom,gcp-driver-installer,nvsentinel-preflight}/health-check.yaml.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("status.readyReplicas == spec.replicas", True),
        ("(status.updatedReplicas || `0`) < (spec.replicas || `1`)", True),
        ("(status.replicas || `0`) == spec.replicas", True),
        ("(status.observedGeneration || `0`) == metadata.generation", False),
        ("status.conditions[?type == 'Available'] | [0].status", "False"),
        ("contains((status.conditions || `[]`)[?type == 'Available' && status == 'False'].type, 'Available')", True),
        (
            "(status.containerStatuses || `[]`)[?state.waiting.reason == 'x' || ready == `false`] | length(@) > `0`",
            False,
        ),
        ("(status.conditions[?status == 'True'].type | [0]) == 'Progressing'", True),
    ],
)
def test_forms_of_the_health_checks_of_upstream(text: str, said: Any) -> None:
    assert parse(text).of(DEPLOYMENT) == said


@pytest.mark.parametrize("text", ["length(a)", "contains(b, 'x')", "max(b)", "keys(c)", "starts_with(c, 'x')"])
def test_a_function_that_does_not_take_what_is_there_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="takes"):
        parse(text).of({"b": 1, "c": ["x"]})


@pytest.mark.parametrize(
    "text",
    [
        "", "a b", "a.", "a[", "a ==", "a-b", "$namespace", "'open", "upper(a)", "length()",
        "length(a, b)", "a[?b", "a + b", "let $x = a in b",
        "(" * 3000 + "a" + ")" * 900, "a" * 4001,
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


_WORDS = ["a", "b", ".", "*", "[", "]", "[?", "[]", "(", ")", "|", "||", "&&", "!", "==", "<", "@", "`1`", "'x'", "0",
          ":", "length(", "contains(", ",", '"q"', "`[]`"]  # fmt: skip


@given(
    st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join), st.sampled_from([None, [], {"a": [{"b": 1}]}, [1]])
)
def test_nothing_that_is_written_crashes_it(text: str, value: Any) -> None:
    with suppress(InputError):
        parse(text).of(value)


@pytest.mark.parametrize(
    "text", ["(" * 140 + "a" + ")" * 140, "!" * 290 + "a", "|".join("a" * 140), ".".join("a" * 140)]
)
def test_the_longest_expressions_are_answered(text: str) -> None:
    parse(text).of({"a": 1})
