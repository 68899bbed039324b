# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML means what upstream's reader takes it for, and nothing brings the reader down."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import decode, positions

# Every list holds the one before it nine times: a billion values from a few lines.
BOMB = "a: &a [x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("~", None),
        ("", None),
        ("24.04", 24.04),
        ("'24.04'", "24.04"),
        ("1.32.4", "1.32.4"),
        ("0x10", 16),
        ("0644", 420),
        ("0o644", 420),
        ("1e3", 1000.0),
        ("1_000", 1000),
        ("190:20:30", "190:20:30"),
        ("2026-01-01", "2026-01-01"),
        ("!!str 5", "5"),
        ("9" * 70, "9" * 70),
        ("-", [None]),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    found = decode(f"k: {text}" if text != "-" else "k:\n  -", "x")["k"]
    assert found == value
    assert type(found) is type(value)


def test_merge_keys_and_anchors() -> None:
    data = decode("a: &a {k: 1, l: [1]}\nb: {<<: *a, k: 2}\nc: *a\nd: {<<: [*a, {m: 3}]}\n", "x")
    assert data["b"] == {"k": 2, "l": [1]}
    assert data["d"] == {"k": 1, "l": [1], "m": 3}
    assert data["c"] == data["a"]
    assert data["c"]["l"] is not data["a"]["l"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested deeper"),
        ("a: 1\nb: 1\na: 2\n", "'a' is written twice"),
        ("a: !!python/object x", "is not supported"),
        ("a: 1\n---\nb: 1\n", "second document"),
        ("a: *b", "names no finished anchor"),
        ("a: &a [*a]", "names no finished anchor"),
        ("? [a]\n: b", "used as a key"),
        ("a: \x00", "not YAML"),
        (BOMB, "more than"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        decode(text, "file.yaml")


def test_positions_name_lines_and_sources() -> None:
    lines = positions("a: 1\nb:\n  - c: 2.50\n  - d\n", "x")
    assert lines["a",] == (1, "1")
    assert lines["b", 0, "c"] == (3, "2.50")
    assert lines["b", 1] == (4, "d")
