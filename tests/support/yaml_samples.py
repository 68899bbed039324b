# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of YAML and what Kubernetes reads in them, as Helm 3.21.4 says by `fromYaml | toJson`."""

from __future__ import annotations

from typing import Any


def _each(line: str, *meant: Any) -> dict[str, Any]:
    words = line.split()
    return {f"v: {word}": {"v": value} for word, value in zip(words, meant, strict=True)}


SAMPLES: dict[str, Any] = {
    **_each("= 2026-01-02 2026-01-02T03:04:05Z 22:30 190:20:30", "=", "2026-01-02", "2026-01-02T03:04:05Z", "22:30",
            "190:20:30"),
    **_each("y n yes no on off Y N YES Off true TRUE oN tRUE", True, False, True, False, True, False, True, False,
            True, False, True, True, "oN", "tRUE"),
    **_each("~ null Null NULL nUll", None, None, None, None, "nUll"),
    **_each("0755 0o755 0x1F 0X1f 0b11 089 1_000 +3 -0x10 -.5 0_7 1__0 -_1", 493, 493, 31, 31, 3, 89, 1000, 3, -16,
            -0.5, 7, 10, -1),
    **_each("1e3 1.5E3 .5 5. 1_0.5 .5_0 1e400 0x 1e .e -. 1.2.3 1-2 +", 1000, 1500, 0.5, 5, 10.5, 0.5, "1e400", "0x",
            "1e", ".e", "-.", "1.2.3", "1-2", "+"),
    "v: [=, '=', \"=\"]": {"v": ["=", "=", "="]},
    "v:\n  - =\n  - =~\n  - '!='": {"v": ["=", "=~", "!="]},
    "v: ''": {"v": ""},
    "v: '1'": {"v": "1"},
    "v: |\n  2026-01-02\n": {"v": "2026-01-02\n"},
    "y: 1\n": {"true": 1},
    "on: 1\nno: 2": {"true": 1, "false": 2},
    "1: a\n0x10: b\n1.5: c": {"1": "a", "16": "b", "1.5": "c"},
    "2026-01-02: a\n=: b": {"2026-01-02": "a", "=": "b"},
    "v: !!str 5": {"v": "5"},
    "v: !!int '3'": {"v": 3},
    "v: !!float 3": {"v": 3},
    "v: !!timestamp 2026-01-02": {"v": "2026-01-02"},
    "v: !!binary aGFsbG8=": {"v": "hallo"},
    "v: !!set {a, b}": {"v": {"a": None, "b": None}},
    "v: !mine a": {"v": "a"},
    "v: !mine {a: 1}": {"v": {"a": 1}},
    "v: 1\nv: 2": {"v": 2},
    "b: &b {q: 1, r: 2}\nv: {<<: *b, r: 3}": {"b": {"q": 1, "r": 2}, "v": {"q": 1, "r": 3}},
    "v: {<<: [{q: 1}, {q: 2, r: 2}]}": {"v": {"q": 1, "r": 2}},
}  # fmt: skip
