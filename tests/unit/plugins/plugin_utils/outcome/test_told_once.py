# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A problem of many subjects is one line with some of their names, and what is cut is cut after a whole word."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import shortened


def test_five_hundred_hosts_with_one_wrong_variable_are_one_line() -> None:
    problems = [InputError(f"host gpu{i:03}", "gpufleet_sku is 'h1000'.", "state h100") for i in range(500)]
    error = ProblemsError("inventory", (*problems, InputError("gpufleet_gates", "'x' is no gate.", "nodes")))
    assert str(error).splitlines() == [
        "inventory: 2 problems found.",
        "  1. hosts gpu000, gpu001, gpu002 and 497 more: gpufleet_sku is 'h1000'. Fix: state h100",
        "  2. gpufleet_gates: 'x' is no gate. Fix: nodes",
    ]
    assert len(error.evidence) == 2 and len(error.problems) == 501


def test_what_several_hosts_lack_is_said_of_several() -> None:
    for names, line in ((("a",), "host a: has no rack."), (("a", "b"), "hosts a, b: have no rack.")):
        error = ProblemsError("inventory", tuple(InputError(f"host {name}", "has no rack.") for name in names))
        assert str(error).endswith(f"  1. {line}")


def test_the_name_of_a_variable_stays_as_it_is_of_several() -> None:
    problems = tuple(InputError(f"gpufleet_converge of {name}", "has no driver.") for name in ("a", "b"))
    assert str(ProblemsError("inventory", problems)).endswith("  1. gpufleet_converge of a, of b: have no driver.")


def test_subjects_of_other_kinds_and_lists_of_problems_keep_their_words() -> None:
    inner = [ProblemsError(f"file {name}", (InputError("a", "is wrong."),)) for name in ("x.yaml", "y.yaml")]
    lines = str(ProblemsError("all", (*inner, InputError("rack", "is full."), InputError("row 1", "is full.")))).split(
        "\n"
    )
    assert lines[1:] == [
        "  1. files x.yaml, y.yaml: 1 problem found.", "  1. a: is wrong.", "  2. rack, row 1: is full.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("Fix: mirror the package", 40, "Fix: mirror the package"),
        ("Fix: mirror the package", 14, "Fix: mirror\u2026"),
        ("x" * 30, 10, "x" * 9 + "\u2026"),
    ],
)
def test_a_text_is_cut_after_a_whole_word(text: str, most: int, shown: str) -> None:
    assert shortened(text, most) == shown and len(shown) <= most
